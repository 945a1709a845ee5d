"""IANA time zones as periods of constant UTC offset, and wall times of cron and RRULE as instants.

zoneinfo gives the offset at an instant but not when it changes, and it silently converts a wall time that was skipped.
So changes are found by probing the offset every few days, once for each zone and year. Skipped wall times, repeated
wall times and the start of a day follow exactly.

Between two changes the offset of a zone is constant, so a search goes from offset period to offset period and asks the
rule only for wall times. Wall times that are skipped or repeated are handled at the start of a period, by one policy
for daylight saving time:

| dst     | a fixed time in the gap          | a fixed time that is repeated |
| ------- | -------------------------------- | ----------------------------- |
| "once"  | once, right after the gap        | the first time                |
| "skip"  | not at all                       | the first time                |
| "both"  | once, right after the gap        | both times                    |
| "shift" | later, by as much as was skipped | the first time                |

Rules with a wildcard for the hour or a smaller unit follow real time: they are due whenever the wall time matches. A
change of more than three hours is a correction, as in Debian's cron: a date that was skipped has no occurrences.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import Literal, NamedTuple, Protocol, get_args
from zoneinfo import ZoneInfo, available_timezones

from tickwork.core.text.suggestions import closest
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
        near = closest(name.lower(), known)
        hint = f"did you mean {known[near]!r}?" if near else "zones are named like 'Europe/Berlin' or 'UTC'."
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


Dst = Literal["once", "skip", "both", "shift"]

_CORRECTION = timedelta(hours=3)
_DAY = timedelta(days=1)  # no clock was ever put back by more
_FARTHEST = timedelta(hours=26)  # no offset from UTC is larger, and no gap is longer
_STRETCHES_LIMIT = 300  # at least a hundred years, for a rule whose every time is in the gap of its year


class WallTimes(Protocol):
    """A rule without a zone, as a search for its wall times. A search without a match ends after bounded work."""

    @property
    def follows_real_time(self) -> bool: ...

    def next(self, wall: datetime) -> datetime | None:
        """Return the first wall time after this one."""

    def prev(self, wall: datetime) -> datetime | None:
        """Return the last wall time before this one."""


def check_dst(value: object) -> None:
    """Raise InvalidOption for an unknown policy."""
    if value not in get_args(Dst):
        raise InvalidOption(f"dst must be one of {', '.join(map(repr, get_args(Dst)))}, not {value!r}.")


def first_after(walls: WallTimes, zone: str, dst: Dst, instant: datetime) -> datetime | None:
    """Return the first instant after this one at which the rule is due in that zone."""
    instant = max(instant.astimezone(UTC), EPOCH - TICK)
    for _ in range(_STRETCHES_LIMIT):
        if instant >= HORIZON:
            return None
        stretch = stretch_at(zone, instant + TICK)
        wall = walls.next(_search_from(walls, dst, stretch, instant))
        found = [] if wall is None else [instant_of(wall, stretch.offset)]
        found = [due for due in found if due < stretch.end]
        found += _first_of_gap(walls, dst, stretch, instant)
        if found:
            return min(found)
        if stretch.end - instant <= _DAY:
            instant = stretch.end - TICK  # the wall time may be set back to before the start of this search
        elif wall is None:
            return None
        else:
            instant = max(stretch.end - TICK, instant_of(wall, _FARTHEST))
    return None


def last_before(walls: WallTimes, zone: str, dst: Dst, instant: datetime) -> datetime | None:
    """Return the last instant before this one at which the rule was due in that zone."""
    instant = min(instant.astimezone(UTC), HORIZON)
    for _ in range(_STRETCHES_LIMIT):
        if instant <= EPOCH:
            return None
        stretch = stretch_at(zone, instant - TICK)
        wall = walls.prev(stretch.wall(instant))
        found = [] if wall is None or wall < _search_to(walls, dst, stretch) else [instant_of(wall, stretch.offset)]
        found += _last_of_gap(walls, dst, stretch, instant)
        if found:
            return max(found)
        if instant - stretch.start <= _DAY:
            instant = stretch.start  # before it, the wall time may have been ahead of the start of this search
        elif wall is None:
            return None
        else:
            instant = min(stretch.start, instant_of(wall, -_FARTHEST))
    return None


def _search_from(walls: WallTimes, dst: Dst, stretch: OffsetPeriod, instant: datetime) -> datetime:
    """Return the wall time after which `stretch` (one UTC offset) is searched for occurrences after `instant`."""
    return max(stretch.wall(instant), _search_to(walls, dst, stretch) - TICK)


def _search_to(walls: WallTimes, dst: Dst, stretch: OffsetPeriod) -> datetime:
    """Return the first wall time that counts in this period: repeated wall times mostly do not."""
    if walls.follows_real_time or dst == "both" or not -_CORRECTION <= stretch.change < timedelta(0):
        return stretch.wall(stretch.start)
    return wall_of(stretch.start, stretch.before)


def _fills_gap(walls: WallTimes, dst: Dst, stretch: OffsetPeriod) -> bool:
    """Return whether skipped wall times at the start of this period have occurrences."""
    return timedelta(0) < stretch.change <= _CORRECTION and dst != "skip" and not walls.follows_real_time


def _first_of_gap(walls: WallTimes, dst: Dst, stretch: OffsetPeriod, instant: datetime) -> Iterator[datetime]:
    """Yield the first instant after this one that replaces a wall time skipped at the start of the period."""
    if not _fills_gap(walls, dst, stretch) or (dst != "shift" and instant >= stretch.start):
        return
    gap_start = wall_of(stretch.start, stretch.before)
    wall = walls.next(max(wall_of(instant, stretch.before), gap_start - TICK))
    if wall is not None and wall < stretch.wall(stretch.start):
        yield instant_of(wall, stretch.before) if dst == "shift" else stretch.start


def _last_of_gap(walls: WallTimes, dst: Dst, stretch: OffsetPeriod, instant: datetime) -> Iterator[datetime]:
    """Yield the last instant before this one that replaces a wall time skipped at the start of the period."""
    if not _fills_gap(walls, dst, stretch):
        return
    gap_end = stretch.wall(stretch.start)
    wall = walls.prev(min(wall_of(instant, stretch.before), gap_end) if dst == "shift" else gap_end)
    if wall is not None and wall >= wall_of(stretch.start, stretch.before):
        yield instant_of(wall, stretch.before) if dst == "shift" else stretch.start


def idle_dst(zone: str, dst: Dst, follows_real_time: bool) -> str | None:
    """Return why a `dst` other than the default has no effect; None if it has an effect, or `dst` is the default."""
    if dst == "once":
        return None
    if not has_changes(zone):
        return f"dst={dst!r} has no effect: the clocks of {zone} do not change"
    if follows_real_time:
        return f"dst={dst!r} has no effect: a rule with a wildcard for the hour or less follows real time"
    return None


def dst_in_words(zone: str, dst: Dst, follows_real_time: bool) -> str:
    """Describe what happens when the clocks change, as the end of a sentence."""
    if zone == "UTC":
        return ""
    if follows_real_time:
        return "; it follows real time when clocks change"
    return f"; a time that clocks skip runs {_IN_GAP[dst]}, one that they repeat runs {_REPEATED[dst]}"


_IN_GAP = {"once": "right after", "skip": "not at all", "both": "right after", "shift": "as much later"}
_REPEATED = {"once": "once", "skip": "once", "both": "twice", "shift": "once"}
