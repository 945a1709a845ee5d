"""The state of a schedule, which the store keeps between two decisions, and the occurrences that are due by it.

An occurrence is missed if no scheduler decided about it within the grace period: all were down, or the schedule was
paused or did not exist. Missed occurrences are computed, not walked: a year of minutes costs as much as an hour of
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from tickwork.core.recurrence.base_rule import NO_CALENDARS, Calendars, RuleValue
from tickwork.core.recurrence.interval import After
from tickwork.core.recurrence.zones import TICK
from tickwork.core.schedule.policy import SchedulePolicies


class WaitingOccurrence(msgspec.Struct, frozen=True):
    """An occurrence whose run waits until an earlier run has ended."""

    due_at: datetime
    is_catchup: bool


class ScheduleState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a schedule.

    `handled_at` is the last due instant that was decided: nothing up to it is decided again, even if the rule changes.
    Occurrences due before `active_since`, when the schedule was created or resumed, count as missed. `run_count` is the
    number of runs started, `live_count` the number of these runs that have not ended. `started` are instants after
    `handled_at` that started work: the store's clock was ahead then, and they do not start it again. `is_blocked`: the
    last run did not succeed, and the next ones wait for it.
    """

    handled_at: datetime
    active_since: datetime
    run_count: int = 0
    live_count: int = 0
    last_ended_at: datetime | None = None
    waiting: tuple[WaitingOccurrence, ...] = ()
    paused: bool = False
    started: tuple[datetime, ...] = ()
    is_blocked: bool = False


GRACE = timedelta(seconds=30)  # more than the time to fire 10,000 schedules that are due in the same second
_BATCH_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class DueOccurrences:
    """The due occurrences: missed ones to run, then those on time, each in order.

    `passed_over` are the first and the last of the missed occurrences that do not run. `handled_at` is the last due
    instant that this covers, and `upcoming` the first after it, which is already due if there were too many for one
    look.
    """

    missed: tuple[datetime, ...]
    on_time: tuple[datetime, ...]
    passed_over: tuple[datetime, datetime] | None
    handled_at: datetime
    upcoming: datetime | None


def due_now(
    rule: RuleValue, policies: SchedulePolicies, standing: ScheduleState, now: datetime, calendars: Calendars
) -> DueOccurrences:
    """Return the occurrences that came due since the last look."""
    low = look_from(policies, standing)
    high = now if policies.end is None else min(now, policies.end)
    missed_until = max(low, min(high, max(standing.active_since, now - GRACE)))
    first = rule.first_after(low, calendars)
    is_missed = first is not None and first <= missed_until
    on_time, upcoming = _walk(rule, rule.first_after(missed_until, calendars) if is_missed else first, high, calendars)
    newest = rule.last_before(missed_until + TICK, calendars) if is_missed else None
    if first is None or newest is None:
        return DueOccurrences((), on_time, None, on_time[-1] if on_time else standing.handled_at, upcoming)
    missed = _to_catch_up(
        rule, policies, low=low, newest=newest, is_superseded=bool(on_time), now=now, calendars=calendars
    )
    last = rule.last_before(missed[0], calendars) if missed else newest
    while first is not None and first in standing.started:  # its record exists
        first = rule.first_after(first, calendars)
    passed_over = (first, last) if first is not None and last is not None and last >= first else None
    return DueOccurrences(missed, on_time, passed_over, on_time[-1] if on_time else newest, upcoming)


def period(rule: RuleValue, due: datetime, calendars: Calendars = NO_CALENDARS) -> tuple[datetime, datetime] | None:
    """Return the period of an occurrence: from the previous occurrence to this one. None for the first occurrence."""
    if isinstance(rule, After):
        return None
    before = rule.last_before(due, calendars)
    return None if before is None else (before, due)


def look_from(policies: SchedulePolicies, standing: ScheduleState) -> datetime:
    """Return the instant after which to look for the next occurrence: the last handled one, or the start."""
    return standing.handled_at if policies.start is None else max(standing.handled_at, policies.start - TICK)


def _walk(
    rule: RuleValue, due: datetime | None, until: datetime, calendars: Calendars
) -> tuple[tuple[datetime, ...], datetime | None]:
    """Return the occurrences from `due` to `until`, at most _BATCH_LIMIT, and the one after them."""
    found: list[datetime] = []
    while due is not None and due <= until and len(found) < _BATCH_LIMIT:
        found.append(due)
        due = rule.first_after(due, calendars)
    return tuple(found), due


def _to_catch_up(
    rule: RuleValue,
    policies: SchedulePolicies,
    *,
    low: datetime,
    newest: datetime,
    is_superseded: bool,
    now: datetime,
    calendars: Calendars,
) -> tuple[datetime, ...]:
    """Return the missed occurrences to run. The latest is not run if a newer one is on time."""
    if policies.catchup == "none" or (policies.catchup == "latest" and is_superseded):
        return ()
    limit = 1 if policies.catchup == "latest" else policies.catchup_limit
    oldest = low if policies.catchup == "latest" else max(low, now - policies.catchup_age - TICK)
    found: list[datetime] = []
    due: datetime | None = newest
    while len(found) < limit and due is not None and due > oldest:
        found.append(due)
        due = rule.last_before(due, calendars)
    return tuple(reversed(found))
