"""Parser for cron expressions in several dialects; it translates them to the syntax of cronsim.

cronsim reads Debian's syntax with seconds, `L`, `LW` and `#`. The following is translated here: aliases, ranges that
wrap around, `H` and `?` spread by a hash of the schedule's name, and Quartz and AWS EventBridge with their own numbers
for weekdays. `?` is refused in standard expressions wherever it would have another meaning in Quartz or AWS. Days such
as `15W` and `L-3`, and years, have no equivalent in cronsim and are returned separately. Error messages name the field.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, NoReturn, get_args

from tickwork.core.recurrence.base_rule import spread
from tickwork.core.text.suggestions import closest
from tickwork.errors import InvalidOption

Dialect = Literal["standard", "quartz", "aws"]

_TEXT_LIMIT = 500
_ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_VALUE = r"[A-Z]{3}|[0-9]{1,4}"
_STEP = r"(?:/([0-9]{1,4}))?"
_RANGE = re.compile(rf"(?:(\*)|({_VALUE})(?:-({_VALUE}))?){_STEP}")
_SPREAD = re.compile(rf"(?:H(?:\(({_VALUE})-({_VALUE})\))?|\?){_STEP}")
_NEAREST = re.compile(r"([0-9]{1,2})W")
_BEFORE_LAST = re.compile(r"L-([0-9]{1,2})")
_LAST_OF_KIND = re.compile(rf"({_VALUE})L")
_WILD = re.compile(r"\*|[H?]/")
_NTH_OF_KIND = re.compile(rf"({_VALUE})#([0-9])")
_AWS = re.compile(r"\s*(cron|rate|at)\s*\((.*)\)\s*", re.IGNORECASE | re.DOTALL)
_LABELS = {"quartz": "Quartz", "aws": "AWS EventBridge"}


class _Field(NamedTuple):
    """A field of a cron expression: its name in messages, its range, and its names of values."""

    label: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    spread_high: int | None = None  # H uses only days that every month has


_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_SECOND, _MINUTE, _HOUR = _Field("second", 0, 59), _Field("minute", 0, 59), _Field("hour", 0, 23)
_DAY, _MONTH = _Field("day of the month", 1, 31, (), 28), _Field("month", 1, 12, _MONTHS)
_WEEKDAY = _Field("day of the week", 0, 6, _WEEKDAYS)
_YEAR, _AWS_YEAR = _Field("year", 1970, 2099), _Field("year", 1970, 2199)
_FIELDS = (_SECOND, _MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY)


@dataclass(frozen=True, slots=True)
class CronText:
    """An expression in the syntax of cronsim, with the parts that cronsim lacks.

    `fields` are second, minute, hour, day, month and weekday. `nearest` are days of the month that are moved to the
    nearest weekday, `before_last` days counted back from the last day of the month; if these are the only days, the day
    field is "".
    """

    fields: tuple[str, ...]
    nearest: tuple[int, ...]
    before_last: tuple[int, ...]
    years: tuple[int, ...] | None
    follows_real_time: bool
    is_spread: bool


@lru_cache(maxsize=4096)
def read_cron(text: str, dialect: Dialect, name: str) -> CronText:
    """Parse an expression of the schedule of that name. Raises InvalidOption, which quotes the expression."""
    if dialect not in get_args(Dialect):
        raise InvalidOption(f"dialect must be one of {', '.join(map(repr, get_args(Dialect)))}, not {dialect!r}.")
    return _CronReader(text, dialect, name).read()


class _CronReader:
    """Parses one expression, which every error message quotes."""

    def __init__(self, text: str, dialect: Dialect, name: str) -> None:
        self._text = text
        self._dialect = dialect
        self._is_foreign = dialect != "standard"  # weekdays are 1-7 from Sunday, and one of the two day fields is ?
        self._name = name
        self._nearest: set[int] = set()
        self._before_last: set[int] = set()
        self._is_spread = False

    def read(self) -> CronText:
        """Return the parsed expression. Raises InvalidOption."""
        parts = self._parts()
        years = self._years(parts.pop()) if len(parts) == 7 else None
        if self._dialect == "standard":
            self._check_no_foreign_day(parts)
        fields = [self._field(field, part) for field, part in zip(_FIELDS, parts, strict=True)]
        if self._is_foreign and not any(fields[day].startswith("*") for day in (3, 5)):
            self._refuse(
                f"{_LABELS[self._dialect]} takes a day of the month or a day of the week; put a ? in place of the other"
            )
        return CronText(
            fields=tuple(fields),
            nearest=tuple(sorted(self._nearest)),
            before_last=tuple(sorted(self._before_last)),
            years=years,
            follows_real_time=any(_WILD.match(part) for part in parts[:3]),
            is_spread=self._is_spread,
        )

    def _refuse(self, reason: str) -> NoReturn:
        shown = self._text if len(self._text) <= 80 else f"{self._text[:77]}..."
        raise InvalidOption(f"cron {shown!r}: {reason}" + ("" if reason.endswith("?") else "."))

    def _parts(self) -> list[str]:
        """Return the fields in upper case, with a field for seconds."""
        if len(self._text) > _TEXT_LIMIT:
            self._refuse(f"it is longer than {_TEXT_LIMIT} characters; use any_of(...) of shorter ones")
        text = self._alias() if self._text.strip().startswith("@") else self._unwrapped()
        parts = text.upper().split()
        if parts and "TZ=" in parts[0]:
            self._refuse("the zone does not belong into the expression; say tz='Europe/Berlin' beside it")
        if self._dialect == "aws":
            if len(parts) != 6:
                self._refuse(f"it has {len(parts)} fields; AWS has 6: minute hour day month weekday year")
            return ["0", *parts]
        if self._dialect == "quartz":
            if len(parts) not in {6, 7}:
                self._refuse(f"it has {len(parts)} fields; Quartz has 6, the first are seconds, or 7 with a year")
            return parts
        if len(parts) == 7:
            self._refuse("it has 7 fields; if this is Quartz with a year, say dialect='quartz'")
        if len(parts) not in {5, 6}:
            self._refuse(
                f"it has {len(parts)} fields; write 5 (minute hour day month weekday), or 6 with seconds before them"
            )
        return parts if len(parts) == 6 else ["0", *parts]

    def _unwrapped(self) -> str:
        """Return the expression inside of AWS's `cron(...)`, or the text itself."""
        found = _AWS.fullmatch(self._text)
        if found is None:
            return self._text
        if found[1].lower() == "rate":
            self._refuse(f"a rate is not cron; say every({_duration(found[2])!r})")
        if found[1].lower() == "at":
            self._refuse("one instant is not cron; say at(datetime(...))")
        if self._dialect != "aws":
            self._refuse("this is the notation of AWS EventBridge; say dialect='aws'")
        return found[2]

    def _check_no_foreign_day(self, parts: list[str]) -> None:
        """Raise InvalidOption for `?` in a place where Quartz or AWS has a day: there it means any day, here a hash."""
        days = {_DAY, _WEEKDAY}
        if len(self._text.split()) == 6:  # in AWS syntax the days are at the positions of hour and month
            days |= {_HOUR, _MONTH}
        for field, part in zip(_FIELDS, parts, strict=True):
            if field in days and "?" in part:
                self._refuse(
                    f"the {field.label} {part!r} is Quartz or AWS for a day that does not matter; say "
                    f"dialect='quartz' or dialect='aws' if it comes from there. Here write * for every value, or H "
                    f"for a value that is chosen by the schedule's name"
                )

    def _alias(self) -> str:
        """Return the expression of an alias such as `@daily`. Raises InvalidOption."""
        word, *rest = self._text.lower().split()
        if word == "@reboot":
            self._refuse("a schedule fires at instants, and no instant is a reboot; enqueue the job when you start")
        if word == "@every":
            self._refuse(f"a fixed rate is not cron; say every({' '.join(rest) or '90s'!r})")
        if word not in _ALIASES or rest:
            near = closest(word, _ALIASES)
            self._refuse(f"did you mean {near}?" if near else f"the aliases are {', '.join(_ALIASES)}")
        return _ALIASES[word]

    def _field(self, field: _Field, part: str) -> str:
        """Return a field in cronsim's syntax."""
        if self._is_foreign and part == "?":
            if field not in {_DAY, _WEEKDAY}:
                self._refuse(
                    f"{_LABELS[self._dialect]} knows ? only for the day of the month and the day of the week, not the "
                    f"{field.label}"
                )
            return "*"
        return ",".join(filter(None, (self._term(field, term) for term in part.split(","))))

    def _term(self, field: _Field, term: str) -> str:
        """Translate one term of a comma-separated list."""
        if found := _RANGE.fullmatch(term):
            return self._range(field, found)
        if found := _SPREAD.fullmatch(term):
            return self._spread(field, *found.groups())
        if field is _DAY:
            return self._special_day(term)
        if field is _WEEKDAY:
            return self._special_weekday(term)
        return self._unknown(field, term)

    def _unknown(self, field: _Field, term: str) -> NoReturn:
        names = f" or {field.names[0]}-{field.names[-1]}" if field.names else ""
        self._refuse(f"the {field.label} {term!r} cannot be read; it takes *, {self._limits(field)}{names}, a-b, /n, H")

    def _range(self, field: _Field, found: re.Match[str]) -> str:
        """Translate a value, range or step. A range that wraps around is written as a list."""
        if found[1]:
            return "*" if found[4] is None else f"*/{self._step(field, found[4])}"
        low, high, step = self._bounds(field, found)
        if low <= high:
            return _plain(low, high, step)
        around = [*range(low, field.high + 1), *range(field.low, high + 1)]
        return ",".join(map(str, around[::step]))

    def _bounds(self, field: _Field, found: re.Match[str]) -> tuple[int, int, int]:
        """Return the first value, the last value, which may be less, and the step."""
        star, first, last, step = found.groups()
        if star:
            return field.low, field.high, self._step(field, step)
        low = self._value(field, first)
        high = self._value(field, last) if last else field.high if step else low
        return low % 7 if field is _WEEKDAY and high < low else low, high, self._step(field, step)

    def _step(self, field: _Field, n: str | None) -> int:
        """Return a step, by default 1. Raises InvalidOption if it exceeds the size of the field."""
        step = 1 if n is None else int(n)
        size = field.high - field.low + 1
        if not 1 <= step <= size:
            instead = "; every(...) takes any interval" if step > size else ""
            self._refuse(f"the {field.label} has a step of {step}, which must be from 1 to {size}{instead}")
        return step

    def _value(self, field: _Field, text: str) -> int:
        """Return a number or name as a value of the field. Raises InvalidOption."""
        if text in field.names:
            return field.low + field.names.index(text)
        shift = 1 if self._is_foreign and field is _WEEKDAY else 0
        # Sunday is 0 and, as in Debian's cron, also 7.
        high = 7 if field is _WEEKDAY else field.high
        value = int(text) - shift if text.isdigit() else -1
        if not field.low <= value <= high - shift:
            near = closest(text, field.names)
            hint = f"; did you mean {near}?" if near else f"; it takes {self._limits(field)}"
            self._refuse(f"the {field.label} {text!r} is not one{hint}")
        return value

    def _limits(self, field: _Field) -> str:
        if field is _WEEKDAY:
            return "1-7 (1 is Sunday)" if self._is_foreign else "0-7 (0 and 7 are Sunday)"
        return f"{field.low}-{field.high}"

    def _spread(self, field: _Field, a: str | None, b: str | None, n: str | None) -> str:
        """Choose a value by the hash; with a step, the first value of the sequence."""
        self._is_spread = True
        low = field.low if a is None else self._value(field, a)
        high = (field.spread_high or field.high) if b is None else self._value(field, b)
        if low > high:
            self._refuse(f"the {field.label} H({a}-{b}) ends before it begins")
        size = high - low + 1
        step = None if n is None else min(self._step(field, n), size)
        first = low + spread(f"{self._name}\0{field.label}", step or size)
        return _plain(first, high if step else first, step or 1)

    def _special_day(self, term: str) -> str:
        """Translate L and LW; record days such as 15W and L-3, which cronsim lacks."""
        if term in {"L", "LW"}:
            return term
        if found := _NEAREST.fullmatch(term):
            self._nearest.add(self._value(_DAY, found[1]))
            return ""
        if (found := _BEFORE_LAST.fullmatch(term)) and int(found[1]) <= 30:
            self._before_last.add(int(found[1]))
            return ""
        return self._unknown(_DAY, term)

    def _special_weekday(self, term: str) -> str:
        """Translate terms such as 5L and 2#1."""
        if found := _LAST_OF_KIND.fullmatch(term):
            return f"{self._value(_WEEKDAY, found[1])}L"
        if found := _NTH_OF_KIND.fullmatch(term):
            if not 1 <= int(found[2]) <= 5:
                self._refuse(f"the day of the week {term!r} asks for number {found[2]} in a month; there are 1 to 5")
            return f"{self._value(_WEEKDAY, found[1])}#{found[2]}"
        if term == "L" and self._is_foreign:
            return "6"
        return self._unknown(_WEEKDAY, term)

    def _years(self, part: str) -> tuple[int, ...] | None:
        """Return the years of the last field; None for all. Raises InvalidOption."""
        if part == "*":
            return None
        years: set[int] = set()
        field = _AWS_YEAR if self._dialect == "aws" else _YEAR
        for term in part.split(","):
            low, high, step = self._bounds(field, _RANGE.fullmatch(term) or self._unknown(field, term))
            if low > high:
                self._refuse(f"the year {term!r} ends before it begins")
            years.update(range(low, high + 1, step))
        return tuple(sorted(years))


def _duration(rate: str) -> str:
    """Convert an AWS rate such as "5 minutes" to "5m", to suggest it in errors; "90s" stands for other texts."""
    found = re.fullmatch(r"\s*([0-9]+)\s*(minute|hour|day)s?\s*", rate, re.IGNORECASE)
    return f"{found[1]}{found[2][0].lower()}" if found else "90s"


def _plain(low: int, high: int, step: int) -> str:
    """Return a range in cronsim's syntax."""
    if low == high:
        return str(low)  # cronsim would read 5-5/15 as 5/15
    return f"{low}-{high}" if step == 1 else f"{low}-{high}/{step}"
