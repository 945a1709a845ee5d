"""Describe recurrence rules in words: "Every month on the last Friday at 17:00"."""

from __future__ import annotations

from calendar import day_name, month_name
from collections.abc import Iterable
from datetime import datetime

from cronsim.explain import join, ordinal

from tickwork.core.recurrence.rrule_filters import completed, times_in
from tickwork.core.recurrence.rrule_parser import RruleText, Weekday

_PERIODS = {
    "YEARLY": "year",
    "MONTHLY": "month",
    "WEEKLY": "week",
    "DAILY": "day",
    "HOURLY": "hour",
    "MINUTELY": "minute",
    "SECONDLY": "second",
}
_TIMES_SHOWN = 6


def rrule_in_words(rule: RruleText, start: datetime) -> str:
    """Describe when a rule that begins at `start` is due."""
    whole = completed(rule, start)
    period = _PERIODS[rule.freq]
    parts = [
        f"Every {period}" if rule.interval == 1 else f"Every {rule.interval} {period}s",
        _said("in", [month_name[month] for month in whole.months]),
        _said("in week", whole.weeks),
        _said("on day", whole.year_days, " of the year"),
        _said("on", [_month_day(day) for day in whole.month_days]),
        _said("on", [_weekday(weekday) for weekday in whole.weekdays]),
        _times(whole, start),
        _said("(of these only the", [_nth(position) for position in whole.positions], ")"),
    ]
    return " ".join(filter(None, parts)) + _end(rule)


def _said(lead: str, values: Iterable[object], tail: str = "") -> str:
    """Return a list of values in words; an empty text without values."""
    shown = [str(value) for value in values]
    return f"{lead} {join(shown)}{tail}" if shown else ""


def _nth(number: int) -> str:
    if number > 0:
        return ordinal(number)
    return "last" if number == -1 else f"{ordinal(-number)} last"


def _month_day(day: int) -> str:
    return f"day {day}" if day > 0 else f"the {_nth(day)} day"


def _weekday(weekday: Weekday) -> str:
    return f"the {_nth(weekday.nth)} {day_name[weekday.day]}" if weekday.nth else day_name[weekday.day]


def _times(rule: RruleText, start: datetime) -> str:
    """Describe the times of day, abbreviated if there are more than _TIMES_SHOWN."""
    if rule.freq in {"HOURLY", "MINUTELY", "SECONDLY"}:
        parts = (("at hour", rule.hours), ("at minute", rule.minutes), ("at second", rule.seconds))
        return " ".join(filter(None, (_said(lead, values) for lead, values in parts)))
    times = times_in(rule, start)
    if len(times) > _TIMES_SHOWN:
        return f"at {len(times)} times from {times[0].isoformat()} to {times[-1].isoformat()}"
    return _said("at", [time.isoformat("seconds" if time.second else "minutes") for time in times])


def _end(rule: RruleText) -> str:
    if rule.count is not None:
        return f", {rule.count} times"
    return "" if rule.until is None else f", until {rule.until.isoformat(' ', 'seconds')}"
