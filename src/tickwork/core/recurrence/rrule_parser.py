"""Parser for recurrence rules of RFC 5545, such as "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17"."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple, NoReturn

from tickwork.core.recurrence.zones import EPOCH, HORIZON, stretch_at, zone_name
from tickwork.errors import InvalidOption

_TEXT_LIMIT = 2000
_COUNT_LIMIT = 1000
_TIMES_LIMIT = 3600
_BEFORE_ALL, _LAST = (end.replace(tzinfo=None) - timedelta(seconds=1) for end in (EPOCH, HORIZON))
FREQS = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_DAY = re.compile(rf"([+-]?[0-9]{{1,2}})?({'|'.join(WEEKDAYS)})")
_WHEN = re.compile(r"([0-9]{8})(?:T([0-9]{6})(Z?))?")
_START = re.compile(r"DTSTART(?:;TZID=([^:;]+))?(?:;VALUE=DATE(?:-TIME)?)?:(.+)")


class Weekday(NamedTuple):
    """A day of the week, 0 is Monday.

    `nth` selects one of the month or year, counted from the end if negative; 0: all.
    """

    day: int
    nth: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RruleText:
    """The parsed parts of a rule. An empty part is not set."""

    freq: str
    interval: int = 1
    count: int | None = None
    until: datetime | None = None
    week_start: int = 0
    months: tuple[int, ...] = ()
    weeks: tuple[int, ...] = ()
    year_days: tuple[int, ...] = ()
    month_days: tuple[int, ...] = ()
    weekdays: tuple[Weekday, ...] = ()
    hours: tuple[int, ...] = ()
    minutes: tuple[int, ...] = ()
    seconds: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()


class Recurrence(NamedTuple):
    """A rule with the lines around it: `start` is a wall time in `tz`."""

    rule: str
    start: datetime | None
    tz: str


def read_recurrence(text: object, tz: str) -> Recurrence:
    """Split calendar text, `DTSTART...` and `RRULE:...`, into rule, start and zone. Raises InvalidOption."""
    if not isinstance(text, str) or len(text) > _TEXT_LIMIT:
        raise InvalidOption(f"rrule takes a text of up to {_TEXT_LIMIT:,} characters such as 'FREQ=DAILY;BYHOUR=9'.")
    rules, start = [], None
    for line in filter(None, (line.strip() for line in text.upper().replace("RRULE:", "\n").splitlines())):
        if line.startswith("FREQ=") or ";FREQ=" in line:
            rules.append(line)
        elif found := _START.fullmatch(line):
            tz = zone_name(_as_written(text, found[1])) if found[1] else tz
            start = _when(text, found[2], tz)
        else:
            hint = "use at(...), any_of(...) and except_on(...)" if line[:2] in {"RD", "EX"} else "write FREQ=..."
            _refuse(text, f"the line {line!r} is not known here; {hint}")
    if len(rules) != 1:
        _refuse(text, f"it has {len(rules)} rules, and must have one; combine several with any_of(...)")
    return Recurrence(rules[0], start, tz)


def _as_written(text: str, name: str) -> str:
    """Return a name in its original case, which was lost by converting the text to upper case."""
    at = text.upper().index(name)
    return text[at : at + len(name)]


@lru_cache(maxsize=4096)
def read_rrule(text: str, tz: str) -> RruleText:
    """Parse one rule; `tz` is the zone of its UNTIL. Raises InvalidOption, which quotes the rule."""
    said: dict[str, str] = {}
    for part in text.rstrip(";").split(";"):
        name, equals, value = part.partition("=")
        if not equals or not value or name in said:
            _refuse(text, f"{part!r} is not a new NAME=VALUE")
        said[name] = value
    freq = said.pop("FREQ", "")
    if freq not in FREQS:
        _refuse(text, f"FREQ is {freq!r}; it must be one of {', '.join(FREQS)}")
    parts = {name: _PARTS[name].read(text, name, value, tz) for name, value in _known(text, said).items()}
    rule = RruleText(freq=freq, **{_PARTS[name].field: value for name, value in parts.items()})  # type: ignore[arg-type]
    _check(text, rule)
    return rule


def _known(text: str, said: dict[str, str]) -> dict[str, str]:
    """Return the parts of a rule. Raises InvalidOption for an unknown part."""
    for name in said:
        if name not in _PARTS:
            _refuse(text, f"there is no part {name}; there are FREQ, {', '.join(_PARTS)}")
    return said


def _check(text: str, rule: RruleText) -> None:
    """Raise InvalidOption for combinations that RFC 5545 forbids, and for too many times a day."""
    rank = FREQS.index(rule.freq)
    if rule.weeks and (rule.freq != "YEARLY" or not rule.weekdays):
        _refuse(text, "BYWEEKNO needs FREQ=YEARLY and a BYDAY")
    if rule.weeks and rule.week_start:
        _refuse(text, "BYWEEKNO counts weeks as ISO 8601 does, from Monday; leave out WKST")
    if rule.year_days and rule.freq in {"MONTHLY", "WEEKLY", "DAILY"}:
        _refuse(text, f"BYYEARDAY does not go with FREQ={rule.freq}")
    if rule.month_days and rule.freq == "WEEKLY":
        _refuse(text, "BYMONTHDAY does not go with FREQ=WEEKLY")
    if any(weekday.nth for weekday in rule.weekdays) and (rank > 1 or rule.weeks):
        _refuse(text, "a numbered day such as 2MO needs FREQ=MONTHLY or FREQ=YEARLY without BYWEEKNO")
    if rule.positions and not (
        rule.months or rule.weekdays or rule.month_days or rule.year_days or rule.hours or rule.minutes or rule.seconds
    ):
        _refuse(text, "BYSETPOS chooses among what another BY... part gives; add one")
    if rule.count is not None and rule.until is not None:
        _refuse(text, "COUNT and UNTIL both say when it ends; give one of them")
    if len(rule.hours or [0]) * len(rule.minutes or [0]) * len(rule.seconds or [0]) > _TIMES_LIMIT:
        _refuse(text, f"it has over {_TIMES_LIMIT:,} times a day; use a smaller FREQ")


def _when(text: str, value: str, tz: str) -> datetime:
    """Return a date-time as a wall time of the zone. A date alone means its midnight."""
    moment = _moment(text, value)
    if not EPOCH.year <= moment.year < HORIZON.year:
        _refuse(text, f"{value!r} is not in the years {EPOCH.year} to {HORIZON.year - 1}")
    return moment if moment.tzinfo is None else stretch_at(tz, moment).wall(moment)


def _moment(text: str, value: str) -> datetime:
    found = _WHEN.fullmatch(value)
    try:
        return datetime.fromisoformat(f"{found[1]}T{found[2] or '000000'}{found[3] or ''}" if found else "")
    except ValueError:
        _refuse(text, f"{value!r} is not a date or time; write one like 20261231T235959Z")


def _until(text: str, name: str, value: str, tz: str) -> datetime:
    """Return UNTIL as a wall time of the zone. A date alone means the end of its day."""
    year = _moment(text, value).year
    if not EPOCH.year <= year < HORIZON.year:  # calendars write 99991231 for no end
        return _BEFORE_ALL if year < EPOCH.year else _LAST
    until = _when(text, value, tz)
    return until if "T" in value else until + timedelta(days=1, microseconds=-1)


def _whole(low: int, high: int) -> Callable[[str, str, str, str], int]:
    """Return a parser for a whole number from `low` to `high`."""

    def read(text: str, name: str, value: str, tz: str) -> int:
        if not (value.isdigit() and len(value) < 9 and low <= int(value) <= high):
            _refuse(text, f"{name} is {value!r}; it must be from {low} to {high:,}")
        return int(value)

    return read


def _numbers(low: int, high: int) -> Callable[[str, str, str, str], tuple[int, ...]]:
    """Return a parser for a list of numbers. If `low` is negative, numbers may count from the end, and 0 is refused."""

    def read(text: str, name: str, value: str, tz: str) -> tuple[int, ...]:
        numbers = set()
        for item in value.split(","):
            if (
                not re.fullmatch(r"[+-]?[0-9]{1,4}", item)
                or not low <= int(item) <= high
                or (low < 0 and not int(item))
            ):
                _refuse(text, f"{name} has {item!r}; it takes {low} to {high}" + (", without 0" if low < 0 else ""))
            numbers.add(int(item))
        return tuple(sorted(numbers))

    return read


def _weekdays(text: str, name: str, value: str, tz: str) -> tuple[Weekday, ...]:
    """Parse BYDAY. Raises InvalidOption."""
    days = set()
    for item in value.split(","):
        found = _DAY.fullmatch(item)
        if found is None or (found[1] and not 1 <= abs(int(found[1])) <= 53):
            _refuse(text, f"{name} has {item!r}; it takes {', '.join(WEEKDAYS)}, or one of them with a number: -1FR")
        days.add(Weekday(WEEKDAYS.index(found[2]), int(found[1] or 0)))
    return tuple(sorted(days))


def _week_start(text: str, name: str, value: str, tz: str) -> int:
    if value not in WEEKDAYS:
        _refuse(text, f"WKST is {value!r}; it must be one of {', '.join(WEEKDAYS)}")
    return WEEKDAYS.index(value)


def _refuse(text: str, reason: str) -> NoReturn:
    shown = text if len(text) <= 100 else f"{text[:97]}..."
    raise InvalidOption(f"rrule {shown!r}: {reason}.")


class _RulePart(NamedTuple):
    """A part of a rule: the field of RruleText that it sets, and its parser."""

    field: str
    read: Callable[[str, str, str, str], object]


_PARTS = {
    "INTERVAL": _RulePart("interval", _whole(1, 1_000_000)),
    "COUNT": _RulePart("count", _whole(1, _COUNT_LIMIT)),
    "UNTIL": _RulePart("until", _until),
    "WKST": _RulePart("week_start", _week_start),
    "BYMONTH": _RulePart("months", _numbers(1, 12)),
    "BYWEEKNO": _RulePart("weeks", _numbers(-53, 53)),
    "BYYEARDAY": _RulePart("year_days", _numbers(-366, 366)),
    "BYMONTHDAY": _RulePart("month_days", _numbers(-31, 31)),
    "BYDAY": _RulePart("weekdays", _weekdays),
    "BYHOUR": _RulePart("hours", _numbers(0, 23)),
    "BYMINUTE": _RulePart("minutes", _numbers(0, 59)),
    "BYSECOND": _RulePart("seconds", _numbers(0, 59)),
    "BYSETPOS": _RulePart("positions", _numbers(-366, 366)),
}
