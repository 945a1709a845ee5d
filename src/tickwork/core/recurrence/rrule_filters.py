"""The BY... filters of recurrence rules, and the defaults that RFC 5545 takes from their start."""

from __future__ import annotations

from calendar import isleap, monthrange
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from itertools import product
from math import gcd

from tickwork.core.recurrence.rrule_parser import FREQS, RruleText, Weekday


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
