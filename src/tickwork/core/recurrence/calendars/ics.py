"""Import of days from iCalendar files: all-day events, once or every year."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta
from typing import NamedTuple, NoReturn

from tickwork.core.recurrence.zones.zone import HORIZON
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
