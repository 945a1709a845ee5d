"""IANA time zones as periods of constant UTC offset, and the exact instants at which clocks change.

zoneinfo gives the offset at an instant but not when it changes, and it silently converts a wall time that was skipped.
So changes are found by probing the offset every few days, once for each zone and year. Skipped wall times, repeated
wall times and the start of a day follow exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from difflib import get_close_matches
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from tickwork.errors import InvalidOption

TICK = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HORIZON = datetime(8000, 1, 1, tzinfo=UTC)  # beyond it databases and datetime disagree; nothing is due there
_PROBE = timedelta(days=3)  # since 1970 no zone changed its clocks twice within 6 days; a test checks that
_SECOND = timedelta(seconds=1)


class OffsetPeriod(NamedTuple):
    """The time between two clock changes, or up to the end of a year: wall = instant + offset.

    `before` is the offset in force until `start`. If it is smaller than `offset`, wall times were skipped; if it is
    larger, wall times are repeated.
    """

    start: datetime
    end: datetime
    offset: timedelta
    before: timedelta

    def wall(self, instant: datetime) -> datetime:
        return wall_of(instant, self.offset)

    @property
    def change(self) -> timedelta:
        """How far the clocks were put forward at its start; negative: back."""
        return self.offset - self.before


def wall_of(instant: datetime, offset: timedelta) -> datetime:
    """Return the wall time of an instant."""
    return (instant + offset).replace(tzinfo=None)


def instant_of(wall: datetime, offset: timedelta) -> datetime:
    """Return the instant of a wall time."""
    return wall.replace(tzinfo=UTC) - offset


def zone_name(tz: str | tzinfo, *, what: str = "tz") -> str:
    """Return the name of a known zone, given as a name or a ZoneInfo. Raises InvalidOption."""
    name = "UTC" if tz is UTC else tz if isinstance(tz, str) else getattr(tz, "key", None)
    if not isinstance(name, str):
        raise InvalidOption(f"{what} must be the name of a zone, such as 'Europe/Berlin', not {tz!r}.")
    _zone(name, what)
    return name


@lru_cache(maxsize=1024)
def _zone(name: str, what: str = "tz") -> ZoneInfo:
    """Return the zone of that name. Raises InvalidOption, with the nearest known name."""
    try:
        if name in {"", "localtime"}:
            raise ValueError("it would mean another zone on another host")
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # KeyError is raised by zoneinfo
        known = {zone.lower(): zone for zone in available_timezones()}
        nearest = get_close_matches(name.lower(), known, n=1)
        hint = f"did you mean {known[nearest[0]]!r}?" if nearest else "zones are named like 'Europe/Berlin' or 'UTC'."
        raise InvalidOption(f"{what}: there is no zone {name!r}; {hint}") from None


def stretch_at(name: str, instant: datetime) -> OffsetPeriod:
    """Return the offset period that contains an instant. It may begin in the year before."""
    return next(stretch for stretch in _stretches(name, instant.year) if instant < stretch.end)


@lru_cache(maxsize=4096)
def _stretches(name: str, year: int) -> tuple[OffsetPeriod, ...]:
    """Return the offset periods of a year of UTC.

    The first begins at its true start if that is at most _PROBE (3 days) before the year: the effect of a change on
    wall times can extend into the new year.
    """
    zone, year_end = _zone(name), datetime(year + 1, 1, 1, tzinfo=UTC)
    start = datetime(year, 1, 1, tzinfo=UTC) - _PROBE
    before = offset = _offset(zone, start)
    found = []
    for changed_at, changed_to in _changes(zone, start, year_end):
        found.append(OffsetPeriod(start, changed_at, offset, before))
        start, before, offset = changed_at, offset, changed_to
    found.append(OffsetPeriod(start, year_end, offset, before))
    return tuple(found)


@lru_cache(maxsize=1024)
def has_changes(name: str) -> bool:
    """Return whether a zone's clocks change, by its rules for the years around now."""
    return any(len(_stretches(name, year)) > 1 for year in range(2015, 2038))


def _changes(zone: ZoneInfo, start: datetime, end: datetime) -> Iterator[tuple[datetime, timedelta]]:
    """Yield each instant in (start, end) at which the offset changes, with the new offset."""
    known, offset = start, _offset(zone, start)
    while known < end - _SECOND:
        probe = min(known + _PROBE, end - _SECOND)
        probed = _offset(zone, probe)
        if probed != offset:
            yield _first_with(zone, probed, known, probe), probed
        known, offset = probe, probed


def _first_with(zone: ZoneInfo, offset: timedelta, low: datetime, high: datetime) -> datetime:
    """Return the second at which `offset` came into force: not yet at `low`, but at `high`. Binary search."""
    while high - low > _SECOND:
        middle = low + (high - low) // _SECOND // 2 * _SECOND
        low, high = (low, middle) if _offset(zone, middle) == offset else (middle, high)
    return high


def _offset(zone: ZoneInfo, instant: datetime) -> timedelta:
    return instant.astimezone(zone).utcoffset() or timedelta(0)


def local_date(name: str, instant: datetime) -> date:
    """Return the date of an instant in a zone."""
    return stretch_at(name, instant).wall(instant).date()


def day_start(name: str, day: date) -> datetime:
    """Return the first instant of a day, which is not always midnight: some days begin at 01:00, some were skipped."""
    midnight = datetime.combine(day, time())
    stretch = stretch_at(name, instant_of(midnight, timedelta(0)) - timedelta(hours=26))
    while instant_of(midnight, stretch.offset) >= stretch.end:
        stretch = stretch_at(name, stretch.end)
    return max(instant_of(midnight, stretch.offset), stretch.start)
