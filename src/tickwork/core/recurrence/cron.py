"""`cron(...)`: a cron expression in a time zone, with a rule for days on which clocks change.

Its wall times are searched by cronsim, with support for W, L-n and years, and described in words by cronsim, too.
cronsim gives up after 50 years without a match. No expression without a year needs more than 40 (29 February on a given
weekday, across 2100), so an expression that it cannot match is never due.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from calendar import monthrange
from copy import copy
from datetime import date, datetime, time, tzinfo
from functools import lru_cache

import msgspec
from cronsim.cronsim import CronSim, CronSimError
from cronsim.cronsim import Field as CronSimField
from cronsim.explain import Expression, join

from tickwork.core.recurrence import zones
from tickwork.core.recurrence.base_rule import NO_CALENDARS, Calendars, RuleValue
from tickwork.core.recurrence.cron_parser import CronText, Dialect, read_cron
from tickwork.core.recurrence.zones import Dst, check_dst, zone_name
from tickwork.errors import InvalidOption

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


_STAND_IN = "L"  # replaces days that cronsim does not know; it describes this one as "the last day"


def cron_in_words(text: CronText) -> str:
    """Describe when an expression is due: "At 02:30 on weekdays"."""
    fields = list(text.fields)
    special = _special_days(text)
    if special:
        fields[3] = _STAND_IN
    words = Expression(fields).explain().replace("on Monday through Friday", "on weekdays")
    if special:
        words = words.replace("the last day", join(special), 1)
    return words + _years(text.years)


def _special_days(text: CronText) -> list[str]:
    """Describe the days of the month if they include syntax that cronsim lacks; otherwise return an empty list."""
    if not (text.nearest or text.before_last):
        return []
    plain = [_PLAIN.get(term, f"day {term}") for term in text.fields[3].split(",") if term]
    nearest = [f"the weekday nearest to day {day}" for day in text.nearest]
    return plain + nearest + [f"the day {days} before the last" for days in text.before_last]


def _years(years: tuple[int, ...] | None) -> str:
    """Describe the years, abbreviated if there are many."""
    if years is None:
        return ""
    first, last = years[0], years[-1]
    if len(years) > 2 and len(years) == last - first + 1:
        return f" in {first} through {last}"
    shown = [str(year) for year in years[:5]]
    return f" in {join(shown)}" if len(years) <= 5 else f" in {', '.join(shown)} and so on until {last}"


_PLAIN = {"L": "the last day", "LW": "the last weekday"}


def cron(
    expression: str,
    *,
    tz: str | tzinfo = "UTC",
    dst: Dst = "once",
    dialect: Dialect = "standard",
    name: str | None = None,
) -> Cron:
    """Return a rule that is due when the clock of a zone matches: `cron("30 2 * * MON-FRI", tz="Europe/Berlin")`.

    5 fields, or 6 with seconds before them; "quartz" has 6 or 7, "aws" 6 with a year, in `cron(...)` or without. `H` is
    spread by the name of the schedule, so a preview of it needs `name`. Raises InvalidOption for an expression that
    cannot be parsed or is never due.
    """
    return Cron(expression=expression, tz=zone_name(tz), dst=dst, dialect=dialect, name=name)


class Cron(RuleValue, frozen=True, tag="cron", kw_only=True):
    """A cron expression. If both day fields are set, a day matches either of them, as in Debian's cron."""

    expression: str
    tz: str = "UTC"
    dst: Dst = "once"
    dialect: Dialect = "standard"
    name: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.expression, str):
            raise InvalidOption(f"cron takes an expression such as '30 2 * * *', not {self.expression!r}.")
        zone_name(self.tz)
        check_dst(self.dst)
        _walls(self.expression, self.dialect, self.name or "")

    @property
    def zone(self) -> str:
        return self.tz

    @property
    def needs_name(self) -> bool:
        return self.name is None and self._text().is_spread

    def of_schedule(self, name: str, start: datetime | None) -> Cron:
        return msgspec.structs.replace(self, name=name) if self.needs_name else self

    def first_after(self, instant: datetime, calendars: Calendars = NO_CALENDARS) -> datetime | None:
        return zones.first_after(self._walls(), self.tz, self.dst, instant)

    def last_before(self, instant: datetime, calendars: Calendars = NO_CALENDARS) -> datetime | None:
        return zones.last_before(self._walls(), self.tz, self.dst, instant)

    def explain(self) -> str:
        text = self._text()
        if self.needs_name:
            return f"{self.expression!r}, where H is spread by the name of the schedule, {self.tz}"
        return f"{cron_in_words(text)}, {self.tz}{zones.dst_in_words(self.tz, self.dst, text.follows_real_time)}"

    @property
    def idle_dst(self) -> str | None:
        return zones.idle_dst(self.tz, self.dst, self._text().follows_real_time)

    def _text(self) -> CronText:
        return read_cron(self.expression, self.dialect, self.name or "")

    def _walls(self) -> CronSearch:
        """Return the wall-time search. Raises InvalidOption if H needs the name of a schedule."""
        if self.needs_name:
            raise InvalidOption(
                f"cron {self.expression!r}: H is spread by the name of the schedule; for a preview, say name='...'."
            )
        return _walls(self.expression, self.dialect, self.name or "")


@lru_cache(maxsize=4096)
def _walls(expression: str, dialect: Dialect, name: str) -> CronSearch:
    """Return the wall-time search of an expression. Raises InvalidOption if it is never due."""
    walls = cron_walls(read_cron(expression, dialect, name))
    if walls is None:
        raise InvalidOption(f"cron {expression!r} is never due: no year has such a day. Check the day and the month.")
    return walls
