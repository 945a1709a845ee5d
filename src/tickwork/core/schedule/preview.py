"""Previews: the next occurrences in local time, with clock changes on their days."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from tickwork.core.duration import format_duration
from tickwork.core.recurrence.rule import NO_CALENDARS, Calendars, RuleValue
from tickwork.core.recurrence.zones.zone import day_start, local_date, stretch_at


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
    """Describe the clock change on the day of an instant: "02:00 -> 03:00, 1h forward". None: there is none."""
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
