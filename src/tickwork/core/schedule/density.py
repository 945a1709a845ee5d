"""How many occurrences fall in each minute of a day: what is crowded, before it comes.

Rules that are due every few seconds are counted by arithmetic, the others are walked; `Counter` walks so many in all,
whatever is asked of it, and says when that was not enough.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

import msgspec

from tickwork.core.schedule.combine import AllOf
from tickwork.core.schedule.cron import Cron
from tickwork.core.schedule.decide import rule_of
from tickwork.core.schedule.interval import After, Every
from tickwork.core.schedule.rule import Calendars, RuleValue
from tickwork.core.schedule.spec import Spec
from tickwork.core.schedule.standing import Standing
from tickwork.core.schedule.upcoming import missing_calendars, upcoming
from tickwork.core.schedule.zone import TICK

MINUTE = timedelta(minutes=1)
MINUTES = 24 * 60
WALK = 40_000  # occurrences in all: about a second

Counts = list[int]


class Counter:
    """Counts the occurrences of schedules in the minutes of 24 hours. Equal rules are walked once."""

    def __init__(self, start: datetime, now: datetime, calendars: Calendars, walk: int = WALK) -> None:
        self.counts: Counts = [0] * MINUTES
        self.schedules = 0
        self.is_partial = False
        self._start = start
        self._end = start + MINUTE * MINUTES
        self._now = now
        self._calendars = calendars
        self._left = walk
        self._known: dict[RuleValue, Counts] = {}

    def add(self, spec: Spec, standing: Standing) -> None:
        """Count a schedule; not one that is paused, or that misses a calendar."""
        if standing.paused or missing_calendars(spec, self._calendars):
            return
        found = self._of_schedule(spec, standing)
        if self._left < 0:
            self.is_partial = True
            return
        self.schedules += 1
        self.counts = [sum(both) for both in zip(self.counts, found, strict=True)]

    def _of_schedule(self, spec: Spec, standing: Standing) -> Counts:
        policies = spec.policies
        if isinstance(spec.rule, After):
            return self._placed(upcoming(spec, standing, 1, self._now, self._calendars))
        rule = rule_of(spec.name, spec.rule, policies.start, policies.calendars)
        if rule not in self._known:
            self._known[rule] = self._counts(rule)
        found = self._known[rule]
        if policies.start is not None or policies.end is not None:
            found = [0 if self._is_outside(place, spec) else count for place, count in enumerate(found)]
        if policies.max_runs is not None:
            found = _first(found, max(0, policies.max_runs - standing.run_count - len(standing.waiting)))
        return found

    def _is_outside(self, place: int, spec: Spec) -> bool:
        minute, policies = self._start + MINUTE * place, spec.policies
        begun = policies.start is None or minute + MINUTE > policies.start
        return not begun or (policies.end is not None and minute > policies.end)

    def _counts(self, rule: RuleValue) -> Counts:
        match rule:
            case Every(months=0, times=None, step=step) if step < MINUTE:
                return self._of_beat(rule)
            case AllOf(rules=(only,), calendars=days):
                open_minutes = self._open(rule, days)
                return [
                    count if is_open else 0 for count, is_open in zip(self._counts(only), open_minutes, strict=True)
                ]
            case Cron() if _has_seconds(rule):
                return self._of_seconds(rule)
            case _:
                return self._placed(self._walked(rule, self._start, self._end))

    def _of_beat(self, rule: Every) -> Counts:
        self._left -= MINUTES // 10  # arithmetic is quicker than a walk
        before = [rule.count_before(self._start + MINUTE * place) for place in range(MINUTES + 1)]
        return [after - first for first, after in pairwise(before)]

    def _of_seconds(self, rule: Cron) -> Counts:
        """Every minute that has one has as many as the first that has: seconds do not depend on the rest."""
        first = rule.first_after(self._start - TICK)
        if first is None or first >= self._end:
            return [0] * MINUTES
        minute = first.replace(second=0, microsecond=0)
        often = len(self._walked(rule, minute, minute + MINUTE))
        whole = msgspec.structs.replace(rule, expression=" ".join(["0", *rule.expression.split()[1:]]))
        return [count * often for count in self._placed(self._walked(whole, self._start, self._end))]

    def _walked(self, rule: RuleValue, since: datetime, until: datetime) -> list[datetime]:
        found: list[datetime] = []
        due = rule.first_after(since - TICK, self._calendars)
        while due is not None and due < until and self._left >= 0:
            found.append(due)
            self._left -= 1
            due = rule.first_after(due, self._calendars)
        return found

    def _open(self, rule: AllOf, days: tuple[object, ...]) -> list[bool]:
        heeded = [self._calendars[one] if isinstance(one, str) else one for one in days]
        minutes = (self._start + MINUTE * place for place in range(MINUTES))
        return [all(one.closed_until(minute, rule.zone) is None for one in heeded) for minute in minutes]  # type: ignore[attr-defined]

    def _placed(self, dues: list[datetime]) -> Counts:
        found = [0] * MINUTES
        for due in dues:
            if self._start <= due < self._end:
                found[(due - self._start) // MINUTE] += 1
        return found


def _has_seconds(rule: Cron) -> bool:
    return len(rule.expression.split()) > (5 if rule.dialect == "standard" else 0)


def _first(counts: Counts, most: int) -> Counts:
    """The counts of the first so many."""
    found: Counts = []
    for count in counts:
        found.append(min(count, most))
        most -= found[-1]
    return found
