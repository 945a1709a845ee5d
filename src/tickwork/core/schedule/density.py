"""Occurrence density: how many occurrences fall in each minute of a day, to find crowded minutes in advance.

A rate of less than a minute is counted by arithmetic. For cron, every hour with occurrences has them in the same
minutes, and every such minute has the same number: so the search walks the hours, one hour and one minute. All other
rules are searched occurrence by occurrence. The total work is bounded for any input.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from tickwork.core.recurrence.base_rule import Calendars, RuleValue
from tickwork.core.recurrence.calendar import Calendar
from tickwork.core.recurrence.combine import AllOf
from tickwork.core.recurrence.cron import Cron
from tickwork.core.recurrence.interval import After, Every
from tickwork.core.recurrence.zones import TICK, stretch_at
from tickwork.core.schedule.decide import rule_of
from tickwork.core.schedule.spec import ScheduleSpec
from tickwork.core.schedule.state import ScheduleState
from tickwork.core.schedule.upcoming import missing_calendars, upcoming

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
MINUTES = 24 * 60
WALK = 8_000  # occurrences searched in total: less than a second

Counts = Tally[int]  # by the number of the minute; minutes without occurrences are left out


class Counter:
    """Counts the occurrences of schedules in the minutes of 24 hours. Equal rules are searched once."""

    def __init__(self, start: datetime, now: datetime, calendars: Calendars, walk: int = WALK) -> None:
        self.schedules = 0
        self.is_partial = False
        self._bounded: Counts = Tally()
        self._often: Tally[RuleValue] = Tally()
        self._start = start
        self._end = start + MINUTE * MINUTES
        self._now = now
        self._calendars = calendars
        self._left = walk
        self._known: dict[RuleValue, Counts] = {}

    @property
    def counts(self) -> list[int]:
        """The number of occurrences in each minute."""
        found = [self._bounded[place] for place in range(MINUTES)]
        for rule, often in self._often.items():
            for place, count in self._known[rule].items():
                found[place] += count * often
        return found

    def add(self, spec: ScheduleSpec, standing: ScheduleState) -> None:
        """Count a schedule, unless it is paused or a calendar is missing.

        When the work limit is reached, set `is_partial`.
        """
        if standing.paused or missing_calendars(spec, self._calendars):
            return
        rule = None if isinstance(spec.rule, After) else self._rule(spec)
        if self._left < 0:
            self.is_partial = True
            return
        self.schedules += 1
        policies = spec.policies
        if rule is None:
            self._bounded.update(self._placed(upcoming(spec, standing, 1, self._now, self._calendars)))
        elif policies.start is None and policies.end is None and policies.max_runs is None:
            self._often[rule] += 1
        else:
            self._bounded.update(self._within(self._known[rule], spec, standing))

    def _rule(self, spec: ScheduleSpec) -> RuleValue:
        """Return the rule of a schedule, and count it if it is new."""
        rule = rule_of(spec.name, spec.rule, spec.policies.start, spec.policies.calendars)
        if rule not in self._known:
            self._known[rule] = self._of_rule(rule)
        return rule

    def _within(self, counts: Counts, spec: ScheduleSpec, standing: ScheduleState) -> Counts:
        """Return the counts within the start, end and `max_runs` of a schedule."""
        found = Tally({place: count for place, count in counts.items() if self._is_within(place, spec)})
        most = spec.policies.max_runs
        return found if most is None else _first(found, max(0, most - standing.run_count - len(standing.waiting)))

    def _is_within(self, place: int, spec: ScheduleSpec) -> bool:
        minute, policies = self._start + MINUTE * place, spec.policies
        has_begun = policies.start is None or minute + MINUTE > policies.start
        return has_begun and (policies.end is None or minute <= policies.end)

    def _of_rule(self, rule: RuleValue) -> Counts:
        """Count the occurrences of a rule."""
        match rule:
            case Every(months=0, times=None, step=step) if step < MINUTE:
                return self._of_rate(rule)
            case AllOf(rules=(only,), calendars=days):
                heeded = [self._calendars[one] if isinstance(one, str) else one for one in days]
                found = self._of_rule(only)
                return Tally({place: found[place] for place in found if self._is_open(place, heeded, rule.zone)})
            case Cron() if not rule.expression.lstrip().startswith("@"):
                return self._of_cron(rule)
            case _:
                return self._placed(self._walked(rule, self._start, self._end))

    def _of_rate(self, rule: Every) -> Counts:
        """Count a rate of less than a minute by arithmetic."""
        self._left -= MINUTES // 10  # arithmetic is cheaper than a search
        before = [rule.count_before(self._start + MINUTE * place) for place in range(MINUTES + 1)]
        return Tally({place: before[place + 1] - before[place] for place in range(MINUTES)})

    def _of_cron(self, rule: Cron) -> Counts:
        """Count a cron expression from one hour and one minute of it, unless clocks change."""
        first = rule.first_after(self._start - HOUR - TICK)
        if first is None or first >= self._end:
            return Tally()
        minute = first.replace(second=0, microsecond=0)
        often = len(self._walked(rule, minute, minute + MINUTE))
        by_minutes = _beginning(rule, "0")
        stretch = stretch_at(rule.zone, first)
        if self._start - HOUR < stretch.start or stretch.end < self._end:  # clocks change, and hours differ
            dues = self._walked(by_minutes, self._start, self._end)
        else:
            hour = minute - MINUTE * stretch.wall(minute).minute
            offsets = [due - hour for due in self._walked(by_minutes, hour, hour + HOUR)]
            hours = self._walked(_beginning(rule, "0", "0"), self._start - HOUR, self._end)
            dues = [due + offset for due in hours for offset in offsets]
        return Tally({place: count * often for place, count in self._placed(dues).items()})

    def _walked(self, rule: RuleValue, since: datetime, until: datetime) -> list[datetime]:
        """Return the occurrences of a rule from `since` to `until`, as far as the work limit allows."""
        found: list[datetime] = []
        due = rule.first_after(since - TICK, self._calendars)
        while due is not None and due < until and self._left >= 0:
            found.append(due)
            self._left -= 1
            due = rule.first_after(due, self._calendars)
        return found

    def _is_open(self, place: int, heeded: Iterable[Calendar], zone: str) -> bool:
        minute = self._start + MINUTE * place
        return all(one.closed_until(minute, zone) is None for one in heeded)

    def _placed(self, dues: Iterable[datetime]) -> Counts:
        return Tally((due - self._start) // MINUTE for due in dues if self._start <= due < self._end)


def _beginning(rule: Cron, *fields: str) -> Cron:
    """Return the expression with other first fields; the very first is the seconds."""
    parts = rule.expression.split()
    whole = parts if len(parts) > 5 else ["0", *parts]
    return msgspec.structs.replace(rule, expression=" ".join([*fields, *whole[len(fields) :]]))


def _first(counts: Counts, most: int) -> Counts:
    """Return the counts of the first `most` occurrences."""
    found: Counts = Tally()
    for place in sorted(counts):
        found[place] = min(counts[place], most)
        most -= found[place]
    return found
