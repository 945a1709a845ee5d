"""Describe cron expressions in words, by cronsim and with additions for syntax that it lacks."""

from __future__ import annotations

from cronsim.explain import Expression, join

from tickwork.core.recurrence.cron_parser import CronText

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
