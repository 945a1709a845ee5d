"""Upcoming occurrences, previews of them in local time with clock changes, and the displayed state of a schedule."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from tickwork.core.recurrence.base_rule import NO_CALENDARS, Calendars, RuleValue
from tickwork.core.recurrence.interval import After
from tickwork.core.recurrence.zones import TICK, day_start, local_date, stretch_at
from tickwork.core.schedule.decide import next_due, rule_of
from tickwork.core.schedule.spec import ScheduleSpec
from tickwork.core.schedule.state import ScheduleState
from tickwork.core.text.duration import format_duration


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
    """Return "active", "paused", "troubled" while a calendar is missing, or "ended" if nothing is due later."""
    if standing.paused:
        return "paused"
    if missing_calendars(spec, calendars):
        return "troubled"
    lives = isinstance(spec.rule, After) and standing.live_count
    return "active" if lives or standing.waiting or upcoming(spec, standing, 1, now, calendars) else "ended"


def missing_calendars(spec: ScheduleSpec, calendars: Calendars) -> list[str]:
    """Return the names of missing calendars that the schedule uses."""
    return [name for name in spec.calendar_names if name not in calendars]


@dataclass(frozen=True, slots=True)
class PreviewedOccurrence:
    """An occurrence. `local` is its wall time, `clock_change` describes a clock change on that day."""

    due_at: datetime
    local: datetime
    clock_change: str | None


def preview(
    rule: RuleValue, n: int, *, after: datetime, zone: str | None = None, calendars: Calendars = NO_CALENDARS
) -> list[PreviewedOccurrence]:
    """Return the next `n` occurrences, in local time of a zone, by default the zone of the rule."""
    zone = zone or rule.zone
    dues = rule.next(n, after=after, calendars=calendars)
    return [PreviewedOccurrence(due, due.astimezone(ZoneInfo(zone)), clock_change(zone, due)) for due in dues]


def clock_change(zone: str, instant: datetime) -> str | None:
    """Describe the clock change on the day of an instant: "02:00 -> 03:00, 1h forward"; None if there is none."""
    day = local_date(zone, instant.astimezone(UTC))
    end = day_start(zone, day + timedelta(days=1))
    # A change exactly at midnight belongs to both days: the day that it begins, and the day that it repeats.
    stretch = stretch_at(zone, day_start(zone, day))
    while stretch.start <= end:
        if stretch.change and day in {stretch.wall(stretch.start).date(), (stretch.start + stretch.before).date()}:
            shown = (stretch.start + stretch.before).strftime("%H:%M"), stretch.wall(stretch.start).strftime("%H:%M")
            way = "forward" if stretch.change > timedelta(0) else "back"
            return f"{shown[0]} -> {shown[1]}, {format_duration(abs(stretch.change))} {way}"
        stretch = stretch_at(zone, stretch.end)
    return None
