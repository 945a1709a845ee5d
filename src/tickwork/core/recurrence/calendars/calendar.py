"""Calendars: days on which schedules do not fire.

A calendar is a value: dates, days of every year, days of the week. Stored under a name, it is shared by many schedules,
and editing it moves the occurrences of all of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from datetime import date, datetime, timedelta, tzinfo
from itertools import pairwise
from typing import Any

import msgspec

from tickwork.core.recurrence.calendars.ics import read_ics
from tickwork.core.recurrence.zones.zone import TICK, day_start, local_date, stretch_at, zone_name
from tickwork.errors import InvalidOption

_DATES_LIMIT = 10_000
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def calendar(
    *,
    dates: Iterable[date | str] = (),
    yearly: Iterable[str] = (),
    weekdays: Iterable[str] = (),
    ics: str | None = None,
    tz: str | tzinfo | None = None,
) -> Calendar:
    """Return a calendar of days to exclude.

    `calendar(dates=["2026-12-31"], yearly=["12-25"], weekdays=["sat", "sun"])`. `ics` is the text of an iCalendar file
    with all-day events. The days are days of `tz`, or else of the zone of the rule that uses the calendar. Raises
    InvalidOption.
    """
    listed = [_date(value) for value in dates]
    days = [*yearly]
    if ics is not None:
        if not isinstance(ics, str):
            raise InvalidOption(f"ics must be the text of an iCalendar file, not {ics!r}.")
        events = read_ics(ics)
        listed += events.dates
        days += events.yearly
    return Calendar(
        dates=tuple(sorted(set(listed))),
        yearly=tuple(sorted(set(days))),
        weekdays=tuple(sorted({str(day).lower()[:3] for day in weekdays}, key=_weekday)),
        tz=None if tz is None else zone_name(tz),
    )


def _date(value: Any) -> date:
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    elif isinstance(value, date) and not isinstance(value, datetime):
        return value
    raise InvalidOption(f"dates: {value!r} is not a date; write one like '2026-12-31'.")


def _weekday(day: str) -> int:
    if day not in _WEEKDAYS:
        raise InvalidOption(f"weekdays: {day!r} is not one; they are {', '.join(_WEEKDAYS)}.")
    return _WEEKDAYS.index(day)


class Calendar(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Days that are excluded."""

    dates: tuple[date, ...] = ()
    yearly: tuple[str, ...] = ()
    weekdays: tuple[str, ...] = ()
    tz: str | None = None

    def __post_init__(self) -> None:
        if len(self.dates) > _DATES_LIMIT:
            raise InvalidOption(f"a calendar has up to {_DATES_LIMIT:,} dates, not {len(self.dates):,}.")
        if len({_weekday(day) for day in self.weekdays}) == len(_WEEKDAYS):
            raise InvalidOption("a calendar that leaves out all seven weekdays leaves no day at all.")
        if any(one >= other for one, other in pairwise(self.dates)):
            raise InvalidOption("dates: they are not in order.")
        if len({_yearly(day) for day in self.yearly}) == 366:
            raise InvalidOption("a calendar that leaves out all days of the year leaves no day at all.")
        if self.tz is not None:
            zone_name(self.tz)

    def leaves_out(self, day: date) -> bool:
        """Return whether a day is excluded."""
        if _WEEKDAYS[day.weekday()] in self.weekdays or f"{day:%m-%d}" in self.yearly:
            return True
        at = bisect_left(self.dates, day)
        return at < len(self.dates) and self.dates[at] == day

    def closed_until(self, instant: datetime, zone: str) -> datetime | None:
        """Return the last instant of the excluded time that contains `instant`; None if `instant` is not excluded.

        It ends at a clock change, which could repeat an hour of an earlier day.
        """
        zone = self.tz or zone
        day = local_date(zone, instant)
        if not self.leaves_out(day):
            return None
        while self.leaves_out(day):
            day += timedelta(days=1)
        return min(day_start(zone, day), stretch_at(zone, instant).end) - TICK

    def closed_since(self, instant: datetime, zone: str) -> datetime | None:
        """Return the first instant of the excluded time that contains `instant`; None if `instant` is not excluded."""
        zone = self.tz or zone
        day = local_date(zone, instant)
        if not self.leaves_out(day):
            return None
        while self.leaves_out(day - timedelta(days=1)):
            day -= timedelta(days=1)
        return max(day_start(zone, day), stretch_at(zone, instant).start)

    def explain(self) -> str:
        """Describe the excluded days in words."""
        said = [*self.weekdays, *self.yearly, *(day.isoformat() for day in self.dates)]
        more = f" and {len(said) - 5} more" if len(said) > 5 else ""
        return f"{', '.join(said[:5])}{more}" if said else "no day"


def _yearly(day: str) -> date:
    """Return a day of the year, in a leap year. Raises InvalidOption."""
    try:
        return date.fromisoformat(f"2000-{day}")
    except ValueError:
        raise InvalidOption(f"yearly: {day!r} is not a day of the year; write one like '12-25'.") from None
