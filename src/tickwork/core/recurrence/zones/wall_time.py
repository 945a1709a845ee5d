"""Daylight saving time: convert wall times of cron and RRULE to instants, with one policy for clock changes.

Between two changes the offset of a zone is constant, so a search goes from offset period to offset period and asks the
rule only for wall times. Wall times that are skipped or repeated are handled at the start of a period:

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
from datetime import UTC, datetime, timedelta
from typing import Literal, Protocol, get_args

from tickwork.core.recurrence.zones.zone import (
    EPOCH,
    HORIZON,
    TICK,
    OffsetPeriod,
    has_changes,
    instant_of,
    stretch_at,
    wall_of,
)
from tickwork.errors import InvalidOption

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
    """Return the wall time after which this period is searched."""
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
    """Return why a `dst` other than the default has no effect; None if it has, or `dst` is the default."""
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
