"""Search the occurrences of a recurrence rule in wall time, in both directions, with bounded work.

dateutil walks every rule from its start, cannot look back, and searches a rule that never matches until the year 9999
(5 s for a daily rule on 30 February). A scheduler asks untrusted rules for one occurrence at a time. So this module
computes the period around an instant, and a search ends after a bounded number of periods. The tests compare it with
dateutil.

A period is one year, month, week, day, hour, minute or second of the rule, numbered from the start. The BY... parts
filter the days and times of a period; RFC 5545 takes their defaults from the start.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from calendar import isleap, monthrange
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from itertools import islice, product
from math import gcd

from tickwork.core.recurrence.rrule_parser import FREQS, RruleText, Weekday
from tickwork.core.recurrence.zones import TICK


def completed(rule: RruleText, start: datetime) -> RruleText:
    """Return the rule with missing parts taken from its start, as RFC 5545 defines."""
    rank = FREQS.index(rule.freq)
    rule = replace(
        rule,
        hours=rule.hours or ((start.hour,) if rank <= FREQS.index("DAILY") else ()),
        minutes=rule.minutes or ((start.minute,) if rank <= FREQS.index("HOURLY") else ()),
        seconds=rule.seconds or ((start.second,) if rank <= FREQS.index("MINUTELY") else ()),
    )
    if rule.weeks or rule.year_days or rule.month_days or rule.weekdays:
        return rule
    match rule.freq:
        case "YEARLY":
            return replace(rule, months=rule.months or (start.month,), month_days=(start.day,))
        case "MONTHLY":
            return replace(rule, month_days=(start.day,))
        case "WEEKLY":
            return replace(rule, weekdays=(Weekday(start.weekday()),))
    return rule


def is_hopeless(rule: RruleText, start: datetime) -> bool:
    """Return whether a completed rule is obviously never due, which a search would find only after long work.

    A BYSETPOS may exceed the size of any period, and the steps of an INTERVAL may always miss the values of BYDAY or
    BYHOUR.
    """
    if rule.positions and min(map(abs, rule.positions)) > _most_in_a_period(rule):
        return True
    cycles = {
        "DAILY": (7, start.weekday(), tuple(day for day, _ in rule.weekdays)),
        "HOURLY": (24, start.hour, rule.hours),
        "MINUTELY": (60, start.minute, rule.minutes),
        "SECONDLY": (60, start.second, rule.seconds),
    }
    around, first, said = cycles.get(rule.freq, (1, 0, ()))
    return bool(said) and all((value - first) % gcd(rule.interval, around) for value in said)


def _most_in_a_period(rule: RruleText) -> int:
    """Return an upper bound of the occurrences in one period."""
    days = {"YEARLY": 366, "MONTHLY": 31, "WEEKLY": 7}.get(rule.freq, 1)
    weeks = {"YEARLY": 53, "MONTHLY": 5}.get(rule.freq, 1)
    if rule.weekdays:
        days = min(days, sum(1 if nth else weeks for _, nth in rule.weekdays) * max(1, len(rule.months)))
    return days * max(1, len(rule.hours)) * max(1, len(rule.minutes)) * max(1, len(rule.seconds))


def follows_real_time(rule: RruleText) -> bool:
    """Return whether the frequency sets the hour or a smaller unit, like a star in a cron expression."""
    rank = FREQS.index(rule.freq)
    parts = (("HOURLY", rule.hours), ("MINUTELY", rule.minutes), ("SECONDLY", rule.seconds))
    return any(rank >= FREQS.index(freq) and not said for freq, said in parts)


def times_in(rule: RruleText, begin: datetime) -> Sequence[time]:
    """Return the sorted times of day of a completed rule in the period that begins at `begin`."""
    if rule.freq in {"YEARLY", "MONTHLY", "WEEKLY", "DAILY"}:
        return _times(rule.hours, rule.minutes, rule.seconds)
    hours = _within(rule.hours, begin.hour)
    minutes = rule.minutes if rule.freq == "HOURLY" else _within(rule.minutes, begin.minute)
    seconds = _within(rule.seconds, begin.second) if rule.freq == "SECONDLY" else rule.seconds
    return _times(hours, minutes, seconds)


def _within(said: tuple[int, ...], value: int) -> tuple[int, ...]:
    """Return the value if it is allowed; no values in `said` allow all."""
    return (value,) if not said or value in said else ()


@lru_cache(maxsize=1024)
def _times(hours: tuple[int, ...], minutes: tuple[int, ...], seconds: tuple[int, ...]) -> tuple[time, ...]:
    return tuple(time(*parts) for parts in product(hours, minutes, seconds))


def days_of(freq: str, begin: datetime, months: tuple[int, ...]) -> Iterator[date]:
    """Yield the days of the period that begins at `begin`; of a year only those in `months`, if there are any."""
    match freq:
        case "YEARLY":
            for month in months or range(1, 13):
                yield from _month(begin.year, month)
        case "MONTHLY":
            yield from _month(begin.year, begin.month)
        case "WEEKLY":
            yield from (begin.date() + timedelta(days=day) for day in range(7))
        case _:
            yield begin.date()


def _month(year: int, month: int) -> Iterator[date]:
    return (date(year, month, day) for day in range(1, monthrange(year, month)[1] + 1))


def day_matches(rule: RruleText, day: date) -> bool:
    """Return whether the rule allows a day."""
    if rule.months and day.month not in rule.months:
        return False
    if rule.weekdays and not _weekday_matches(rule, day):
        return False
    if rule.month_days:
        last = monthrange(day.year, day.month)[1]
        if day.day not in rule.month_days and day.day - last - 1 not in rule.month_days:
            return False
    if rule.year_days:
        of_year, days = day.timetuple().tm_yday, 366 if isleap(day.year) else 365
        if of_year not in rule.year_days and of_year - days - 1 not in rule.year_days:
            return False
    return not rule.weeks or _week_matches(rule, day)


def _weekday_matches(rule: RruleText, day: date) -> bool:
    """Return whether BYDAY allows a day, with its number in the month, or in the year for a yearly rule."""
    if (day.weekday(), 0) in rule.weekdays:
        return True
    if not any(nth for _, nth in rule.weekdays):
        return False
    if rule.freq == "YEARLY" and not rule.months:
        nth, days = day.timetuple().tm_yday, 366 if isleap(day.year) else 365
    else:
        nth, days = day.day, monthrange(day.year, day.month)[1]
    ordinals = ((nth - 1) // 7 + 1, -((days - nth) // 7 + 1))
    return any((day.weekday(), ordinal) in rule.weekdays for ordinal in ordinals)


def _week_matches(rule: RruleText, day: date) -> bool:
    """Return whether BYWEEKNO allows a day."""
    year, week, _ = day.isocalendar()
    weeks = date(year, 12, 28).isocalendar().week
    return week in rule.weeks or week - weeks - 1 in rule.weeks


_PERIODS_LIMIT = 12_000
_YEARS_LIMIT = 45  # 29 February on a given weekday is at most 40 years away
_PERIODS_AT_LEAST = 60  # farther away only for a rule that skips years: search at least this many periods
_END = datetime.combine(date(8000, 1, 3), time())
_UNITS = {
    "DAILY": timedelta(days=1),
    "HOURLY": timedelta(hours=1),
    "MINUTELY": timedelta(minutes=1),
    "SECONDLY": timedelta(seconds=1),
}


@lru_cache(maxsize=1024)
def rrule_walls(rule: RruleText, start: datetime) -> RruleSearch | None:
    """Return the search of a rule that begins at `start`; None if it is never due."""
    if is_hopeless(completed(rule, start), start):
        return None
    walls = RruleSearch(rule, start)
    return walls if walls.next(start - TICK) is not None else None


class RruleSearch:
    """The wall times of a rule."""

    def __init__(self, rule: RruleText, start: datetime) -> None:
        self.follows_real_time = follows_real_time(rule)
        self._rule = completed(rule, start)
        self._start = start
        self._until = rule.until or _END
        self._periods = _PeriodCounter(rule.freq, rule.interval, start, rule.week_start)
        self._counted: tuple[datetime, ...] | None = None
        if rule.count is not None:
            self._counted = tuple(islice(self._walk(), rule.count))

    def next(self, wall: datetime) -> datetime | None:
        """Return the first wall time after this one."""
        if self._counted is not None:
            return next(iter(self._counted[bisect_right(self._counted, wall) :]), None)
        wall = max(wall, self._start - TICK)
        for begin in self._search(wall, 1):
            walls = _walls_in(self._rule, begin)
            at = bisect_right(walls.indices, wall, key=walls.at)
            if at < len(walls.indices):
                found = walls.at(walls.indices[at])
                return found if found <= self._until else None
        return None

    def prev(self, wall: datetime) -> datetime | None:
        """Return the last wall time before this one."""
        if self._counted is not None:
            return next(reversed(self._counted[: bisect_left(self._counted, wall)]), None)
        wall = min(wall, self._until + TICK)
        for begin in self._search(wall, -1):
            walls = _walls_in(self._rule, begin)
            at = bisect_left(walls.indices, wall, key=walls.at)
            if at > 0:
                found = walls.at(walls.indices[at - 1])
                return found if found >= self._start else None
        return None

    def _walk(self) -> Iterator[datetime]:
        """Yield all wall times from the start."""
        wall: datetime | None = self._start - TICK
        while wall is not None and (wall := self.next(wall)) is not None:
            yield wall

    def _search(self, wall: datetime, direction: int) -> Iterator[datetime]:
        """Yield the start of each period that may contain occurrences, beginning at `wall`, within the bounds."""
        number = self._periods.number(max(wall, self._start) if direction > 0 else wall)
        for looked_at in range(_PERIODS_LIMIT):
            begin = self._periods.begin(number) if number >= 0 else None
            if begin is None or (direction > 0 and begin > self._until):
                return
            if looked_at > _PERIODS_AT_LEAST and abs(begin.year - wall.year) > _YEARS_LIMIT:
                return
            if (empty := self._empty_around(begin)) is None:
                yield begin
                number += direction
            else:
                number = self._periods.beyond(number, empty, direction)

    def _empty_around(self, begin: datetime) -> tuple[datetime, datetime] | None:
        """Return the month, day, hour or minute around a short period if the rule excludes all of it, else None."""
        rule = self._rule
        if rule.freq not in _UNITS:
            return None
        midnight = begin.replace(hour=0, minute=0, second=0)
        if rule.months and begin.month not in rule.months:
            first = midnight.replace(day=1)
            return first, first + timedelta(days=monthrange(begin.year, begin.month)[1])
        if not day_matches(rule, begin.date()):
            return midnight, midnight + timedelta(days=1)
        if rule.freq != "DAILY" and rule.hours and begin.hour not in rule.hours:
            hour = begin.replace(minute=0, second=0)
            return hour, hour + timedelta(hours=1)
        if rule.freq in {"MINUTELY", "SECONDLY"} and rule.minutes and begin.minute not in rule.minutes:
            minute = begin.replace(second=0)
            return minute, minute + timedelta(minutes=1)
        return None


class _DayTimes:
    """The sorted product of days and times of day, not materialized.

    `indices` are the positions that BYSETPOS selects.
    """

    def __init__(self, days: list[date], times: Sequence[time], positions: tuple[int, ...]) -> None:
        self._days = days
        self._times = times
        total = len(days) * len(times)
        chosen = {position - 1 if position > 0 else total + position for position in positions}
        self.indices: Sequence[int] = sorted(chosen & set(range(total))) if positions else range(total)

    def at(self, index: int) -> datetime:
        """Return the wall time at an index."""
        day, moment = divmod(index, len(self._times))
        return datetime.combine(self._days[day], self._times[moment])


@lru_cache(maxsize=1024)  # a request for an occurrence is often followed by one for the next in the same period
def _walls_in(rule: RruleText, begin: datetime) -> _DayTimes:
    """Return the wall times of a completed rule in the period that begins at `begin`."""
    days = [day for day in days_of(rule.freq, begin, rule.months) if day_matches(rule, day)]
    return _DayTimes(days, times_in(rule, begin), rule.positions)


class _PeriodCounter:
    """Numbers the periods of a rule; 0 is the period that contains its start."""

    def __init__(self, freq: str, interval: int, start: datetime, week_start: int) -> None:
        self._freq = freq
        self._interval = interval
        self._start = start
        self._base = _base(freq, start, week_start)
        self._stride = _UNITS.get(freq, timedelta(weeks=1)) * interval

    def number(self, wall: datetime) -> int:
        """Return the number of the period that contains a wall time, or of the last period before it."""
        if self._freq in {"YEARLY", "MONTHLY"}:
            months = (wall.year - self._base.year) * 12 + wall.month - self._base.month
            return months // (self._interval * (12 if self._freq == "YEARLY" else 1))
        return (wall - self._base) // self._stride

    def begin(self, number: int) -> datetime | None:
        """Return the start of a period; None if it is beyond the range of datetime."""
        try:
            if self._freq not in {"YEARLY", "MONTHLY"}:
                return self._base + self._stride * number
            months = self._base.month - 1 + number * self._interval * (12 if self._freq == "YEARLY" else 1)
            return self._base.replace(year=self._base.year + months // 12, month=months % 12 + 1)
        except (OverflowError, ValueError):
            return None

    def beyond(self, number: int, empty: tuple[datetime, datetime], direction: int) -> int:
        """Return the number of the nearest period in that direction that begins outside of `empty`."""
        if direction > 0:
            return max(number + 1, -((self._base - empty[1]) // self._stride))
        return min(number - 1, -((self._base - empty[0]) // self._stride) - 1)


def _base(freq: str, start: datetime, week_start: int) -> datetime:
    """Return the beginning of the period that contains the start."""
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
    match freq:
        case "YEARLY":
            return midnight.replace(month=1, day=1)
        case "MONTHLY":
            return midnight.replace(day=1)
        case "WEEKLY":
            return midnight - timedelta(days=(start.weekday() - week_start) % 7)
        case "DAILY":
            return midnight
        case "HOURLY":
            return start.replace(minute=0, second=0, microsecond=0)
        case "MINUTELY":
            return start.replace(second=0, microsecond=0)
        case _:
            return start.replace(microsecond=0)
