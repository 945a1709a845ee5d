"""Upcoming occurrences and the displayed state of a schedule."""

from __future__ import annotations

from datetime import datetime

from tickwork.core.recurrence.interval import After
from tickwork.core.recurrence.rule import NO_CALENDARS, Calendars
from tickwork.core.recurrence.zones.zone import TICK
from tickwork.core.schedule.decide import next_due, rule_of
from tickwork.core.schedule.spec import ScheduleSpec
from tickwork.core.schedule.state import ScheduleState


def upcoming(
    spec: ScheduleSpec, standing: ScheduleState, n: int, now: datetime, calendars: Calendars = NO_CALENDARS
) -> list[datetime]:
    """Return the next `n` occurrences, fewer if the schedule ends. For a fixed delay only the next, once it is known.

    Empty while a calendar that the schedule uses is missing.
    """
    policies = spec.policies
    if missing_calendars(spec, calendars):
        return []
    if isinstance(spec.rule, After):
        due = next_due(spec.name, spec.rule, policies, standing, calendars)
        return [] if due is None else [due][:n]
    since = max(standing.handled_at, now)
    if policies.start is not None and policies.start > since:
        since = policies.start - TICK
    if policies.max_runs is not None:
        n = min(n, max(0, policies.max_runs - standing.run_count - len(standing.waiting)))
    rule = rule_of(spec.name, spec.rule, policies.start, policies.calendars)
    dues = rule.next(n, after=since, calendars=calendars)
    return [due for due in dues if policies.end is None or due <= policies.end]


def state_of(spec: ScheduleSpec, standing: ScheduleState, now: datetime, calendars: Calendars = NO_CALENDARS) -> str:
    """Return "active", "paused", "troubled" while a calendar is missing, or "ended" if nothing is due any more."""
    if standing.paused:
        return "paused"
    if missing_calendars(spec, calendars):
        return "troubled"
    lives = isinstance(spec.rule, After) and standing.live_count
    return "active" if lives or standing.waiting or upcoming(spec, standing, 1, now, calendars) else "ended"


def missing_calendars(spec: ScheduleSpec, calendars: Calendars) -> list[str]:
    """Return the names of missing calendars that the schedule uses."""
    return [name for name in spec.calendar_names if name not in calendars]
