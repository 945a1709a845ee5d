"""`rrule(...)`: recurrence rules of RFC 5545 (iCalendar) in a time zone, with the DST rules of cron.

A rule describes itself in words: "Every month on the last Friday at 17:00".
"""

from __future__ import annotations

from calendar import day_name, month_name
from collections.abc import Iterable
from datetime import datetime, tzinfo
from functools import lru_cache

import msgspec
from cronsim.explain import join, ordinal

from tickwork.core.recurrence import zones
from tickwork.core.recurrence.base_rule import NO_CALENDARS, Calendars, RuleValue, read_instant
from tickwork.core.recurrence.rrule_parser import RruleText, Weekday, read_recurrence, read_rrule
from tickwork.core.recurrence.rrule_search import RruleSearch, completed, rrule_walls, times_in
from tickwork.core.recurrence.zones import EPOCH, Dst, check_dst, stretch_at, zone_name
from tickwork.errors import InvalidOption

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


_EPOCH_WALL = EPOCH.replace(tzinfo=None)


def rrule(text: str, *, start: datetime | None = None, tz: str | tzinfo = "UTC", dst: Dst = "once") -> Rrule:
    """Return an RFC 5545 rule: `rrule("FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17", tz="Europe/Berlin")`.

    The text may contain a DTSTART line. Without it and without `start`, the rule begins at the schedule's start, or
    else at the first midnight of 1970. Raises InvalidOption for a text that cannot be parsed, and for a rule that is
    never due.
    """
    rule, said, zone = read_recurrence(text, zone_name(tz))
    if said is not None and start is not None:
        raise InvalidOption(f"rrule {text[:100]!r}: DTSTART and start= both say where it begins; give one of them.")
    return Rrule(rule=rule, start=said if start is None else _wall("start", start, zone), tz=zone, dst=dst)


def _wall(what: str, instant: datetime, zone: str) -> datetime:
    instant = read_instant(what, instant)
    return stretch_at(zone, instant).wall(instant)


class Rrule(RuleValue, frozen=True, tag="rrule", kw_only=True):
    """A recurrence rule. `start` is a wall time of its zone."""

    rule: str
    start: datetime | None = None
    tz: str = "UTC"
    dst: Dst = "once"

    def __post_init__(self) -> None:
        zone_name(self.tz)
        check_dst(self.dst)
        if self.start is not None and (self.start.tzinfo is not None or not 1970 <= self.start.year < 8000):
            raise InvalidOption(f"rrule: {self.start} is not a start in the years 1970 to 7999.")
        text = read_rrule(self.rule, self.tz)
        if self.start is None and text.count is not None:
            raise InvalidOption(f"rrule {self.rule!r}: COUNT needs a start to count from; say start=.")
        if self.start is None and text.freq == "WEEKLY" and not text.weekdays:
            raise InvalidOption(f"rrule {self.rule!r}: on which day? Say BYDAY=MO, or start=.")
        _walls(self.rule, self.start, self.tz)

    @property
    def zone(self) -> str:
        return self.tz

    def of_schedule(self, name: str, start: datetime | None) -> Rrule:
        if self.start is not None or start is None:
            return self
        return msgspec.structs.replace(self, start=_wall("start", start, self.tz))

    def first_after(self, instant: datetime, calendars: Calendars = NO_CALENDARS) -> datetime | None:
        return zones.first_after(_walls(self.rule, self.start, self.tz), self.tz, self.dst, instant)

    def last_before(self, instant: datetime, calendars: Calendars = NO_CALENDARS) -> datetime | None:
        return zones.last_before(_walls(self.rule, self.start, self.tz), self.tz, self.dst, instant)

    @property
    def idle_dst(self) -> str | None:
        return zones.idle_dst(self.tz, self.dst, _walls(self.rule, self.start, self.tz).follows_real_time)

    def explain(self) -> str:
        words = rrule_in_words(read_rrule(self.rule, self.tz), self.start or _EPOCH_WALL)
        since = "" if self.start is None else f", from {self.start.isoformat(' ', 'minutes')}"
        follows_real_time = _walls(self.rule, self.start, self.tz).follows_real_time
        return f"{words}{since}, {self.tz}{zones.dst_in_words(self.tz, self.dst, follows_real_time)}"


@lru_cache(maxsize=4096)
def _walls(rule: str, start: datetime | None, tz: str) -> RruleSearch:
    """Return the wall-time search of a rule. Raises InvalidOption if it is never due."""
    walls = rrule_walls(read_rrule(rule, tz), start or _EPOCH_WALL)
    if walls is None:
        raise InvalidOption(f"rrule {rule!r} is never due. Check the BY... parts, INTERVAL and UNTIL.")
    return walls
