"""Search the occurrences of a cron expression in wall time, by cronsim with support for W, L-n and years.

cronsim gives up after 50 years without a match. No expression without a year needs more than 40 (29 February on a given
weekday, across 2100), so an expression that it cannot match is never due.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from calendar import monthrange
from copy import copy
from datetime import date, datetime, time
from functools import lru_cache

from cronsim.cronsim import CronSim, CronSimError
from cronsim.cronsim import Field as CronSimField

from tickwork.core.recurrence.cron_parser import CronText

_FIRST = datetime.combine(date(1969, 12, 30), time())
_LAST = datetime.combine(date(8000, 1, 3), time())


class _CronSearch(CronSim):
    """CronSim with days such as 15W and L-3. It is built once per expression and copied for each search."""

    def __init__(self, text: CronText) -> None:
        self._nearest = text.nearest
        self._before_last = text.before_last
        fields = list(text.fields)
        special = (self._nearest or self._before_last) and not fields[3].startswith("*")
        if special:
            fields[3] = "1"  # a placeholder: cronsim would refuse 31 in a list with 15W
        super().__init__(" ".join(fields), _FIRST)
        if special:
            self.days = _days(text.fields[3])

    def match_dom(self, d: date) -> bool:
        """Return whether a day matches the day of the month."""
        if super().match_dom(d):
            return True
        if not (self._nearest or self._before_last):
            return False
        last = monthrange(d.year, d.month)[1]
        return last - d.day in self._before_last or any(
            d == _nearest_weekday(d.year, d.month, day) for day in self._nearest if day <= last
        )

    def search(self, wall: datetime, *, reverse: bool) -> datetime | None:
        """Return the next or previous match, by cronsim."""
        sim = copy(self)
        sim.dt = wall.replace(microsecond=0)
        sim.tick_direction = -1 if reverse else 1
        sim.skip_initial_tick = reverse and wall.microsecond > 0
        return next(sim, None)


class CronSearch:
    """The wall times of an expression."""

    def __init__(self, text: CronText) -> None:
        self._sim = _CronSearch(text)
        self._years = text.years
        self.follows_real_time = text.follows_real_time

    def next(self, wall: datetime) -> datetime | None:
        """Return the first wall time after this one."""
        while wall < _LAST:
            found = self._sim.search(max(wall, _FIRST), reverse=False)
            if found is None or self._years is None or found.year in self._years:
                return found
            later = bisect_right(self._years, found.year)
            if later == len(self._years):
                return None
            wall = datetime.combine(date(self._years[later] - 1, 12, 31), time(23, 59, 59))
        return None

    def prev(self, wall: datetime) -> datetime | None:
        """Return the last wall time before this one."""
        while wall > _FIRST:
            found = self._sim.search(min(wall, _LAST), reverse=True)
            if found is None or self._years is None or found.year in self._years:
                return found
            earlier = bisect_left(self._years, found.year)
            if earlier == 0:
                return None
            wall = datetime.combine(date(self._years[earlier - 1] + 1, 1, 1), time())
        return None


@lru_cache(maxsize=4096)
def cron_walls(text: CronText) -> CronSearch | None:
    """Return the search of an expression; None if it can never match, like 31 February."""
    try:
        walls = CronSearch(text)
    except CronSimError:
        return None
    return walls if walls.next(_FIRST) is not None else None


def _days(field: str) -> set[int]:
    days = CronSimField.DAY.parse(field) if field else set()
    return {day for day in days if isinstance(day, int)}


def _nearest_weekday(year: int, month: int, day: int) -> date:
    """Return the weekday nearest to a day within the same month."""
    given = date(year, month, day)
    match given.weekday():
        case 5:
            return given.replace(day=day - 1 if day > 1 else 3)
        case 6:
            return given.replace(day=day + 1 if day < monthrange(year, month)[1] else day - 2)
    return given
