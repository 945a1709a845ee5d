"""Calendars: days on which schedules do not fire.

A calendar is a value: dates, days of every year, days of the week. Stored under a name, it is shared by many schedules,
and editing it moves the occurrences of all of them. Days are imported from iCalendar files: all-day events, once or
every year.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta, tzinfo
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

import msgspec

from tickwork.core.recurrence.zones import HORIZON, TICK, day_start, local_date, stretch_at, zone_name
from tickwork.errors import InvalidOption

_SIZE_LIMIT = 1_000_000
_LINE = re.compile(r"([A-Z-]+)(;[^:]*)?:(.*)")
_YEARLY = re.compile(r"(?:(?:FREQ=YEARLY|INTERVAL=1|BYMONTH=[0-9]+|BYMONTHDAY=[0-9]+)(?:;|$))+")
_EVENT_DAYS_LIMIT = 366


class IcsDays(NamedTuple):
    """The days of a file: single dates, and month and day of yearly events."""

    dates: list[date]
    yearly: list[str]


def read_ics(text: str) -> IcsDays:
    """Return the days of all events. Raises InvalidOption, with the line number."""
    if len(text) > _SIZE_LIMIT:
        raise InvalidOption(f"ics: the text is longer than {_SIZE_LIMIT:,} characters; keep only the events you need.")
    events = IcsDays([], [])
    event: dict[str, tuple[int, str]] | None = None
    for number, line in _unfolded(text):
        found = _LINE.fullmatch(line)
        name, value = (found[1], found[3].strip()) if found else ("", "")
        if name == "BEGIN" and value == "VEVENT":
            event = {}
        elif name == "END" and value == "VEVENT" and event is not None:
            _add(events, number, event)
            event = None
        elif event is not None and name:
            event.setdefault(name, (number, value))
    return events


def _unfolded(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines with their numbers; a line that begins with a space or tab continues the line before it."""
    number, whole = 1, ""
    for at, line in enumerate(text.splitlines(), 1):
        if line[:1] in {" ", "\t"}:
            whole += line[1:]
            continue
        yield number, whole
        number, whole = at, line
    yield number, whole


def _add(events: IcsDays, number: int, event: dict[str, tuple[int, str]]) -> None:
    """Add the days of an event. Raises InvalidOption for an event that is not all-day, or recurs other than yearly."""
    if "DTSTART" not in event:
        _refuse(number, "an event without DTSTART")
    first = _day(*event["DTSTART"])
    end = _day(*event["DTEND"]) if "DTEND" in event else first + timedelta(days=1)
    if not 0 <= (end - first).days <= _EVENT_DAYS_LIMIT:
        _refuse(event["DTEND"][0], f"an event that lasts {(end - first).days} days")
    days = [first + timedelta(days=day) for day in range(max(1, (end - first).days))]
    if "RRULE" not in event:
        events.dates.extend(days)
    elif _YEARLY.fullmatch(event["RRULE"][1]):
        events.yearly.extend(f"{day:%m-%d}" for day in days)
    else:
        _refuse(event["RRULE"][0], f"the recurrence {event['RRULE'][1][:80]!r}; only plain FREQ=YEARLY is read here")


def _day(number: int, value: str) -> date:
    """Parse a date. Raises InvalidOption for a date with a time of day."""
    if "T" in value:
        _refuse(number, f"{value!r} has a time of day; a calendar leaves out whole days, so give dates alone")
    try:
        day = date.fromisoformat(value)
    except ValueError:
        _refuse(number, f"{value!r} is not a date")
    if day.year >= HORIZON.year:
        _refuse(number, f"{value!r}, which is after the year {HORIZON.year - 1}")
    return day


def _refuse(number: int, reason: str) -> NoReturn:
    raise InvalidOption(f"ics, line {number}: {reason}. Nothing was read; mend the line or leave the event out.")


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
