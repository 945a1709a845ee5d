"""`every(...)`, `after(...)` and `at(...)`: rules based on elapsed time and instants, not on wall time.

A fixed rate is due at `start + k * step`, always computed from its start, so it never drifts. Without a start it is
counted from 1970-01-01 UTC, so that all processes agree and no deployment moves it. `every` also reads a repeating
interval of ISO 8601, such as "R5/2026-01-01T00:00:00Z/PT10M": count, start, interval.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from calendar import monthrange
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple, NoReturn

import msgspec

from tickwork.core.recurrence.base_rule import NO_CALENDARS, Calendars, RuleValue, read_instant
from tickwork.core.recurrence.zones import EPOCH, HORIZON
from tickwork.core.text.duration import format_duration, parse_duration
from tickwork.errors import InvalidOption

_NUMBER = r"([0-9]{1,9})"
_DURATION = re.compile(
    rf"P(?!$)(?:{_NUMBER}Y)?(?:{_NUMBER}M)?(?:{_NUMBER}W)?(?:{_NUMBER}D)?"
    rf"(?:T(?!$)(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:([0-9]{{1,9}}(?:[.,][0-9]{{1,6}})?)S)?)?"
)
_REPEAT = re.compile(r"R([0-9]{0,9})")


class IsoDuration(NamedTuple):
    """A duration: calendar months, followed by an exact duration."""

    months: int
    exact: timedelta

    def added(self, start: datetime, k: int) -> datetime:
        """Return `start` plus `k` durations, each counted from the start: 31 January, 28 February, 31 March.

        Raises OverflowError beyond the year 9999.
        """
        if not self.months:
            return start + self.exact * k
        years, month = divmod(start.month - 1 + self.months * k, 12)
        if start.year + years > 9999:
            raise OverflowError
        last = monthrange(start.year + years, month + 1)[1]
        moved = start.replace(year=start.year + years, month=month + 1, day=min(start.day, last))
        return moved + self.exact * k

    def __str__(self) -> str:
        months = f"{self.months} month" + ("s" if self.months > 1 else "") if self.months else ""
        exact = format_duration(self.exact) if self.exact or not self.months else ""
        return " and ".join(filter(None, (months, exact)))


class RepeatingInterval(NamedTuple):
    """A parsed repeating interval. `times` is None if it has no end."""

    step: timedelta
    months: int
    start: datetime
    times: int | None


def read_repeating(text: str) -> RepeatingInterval:
    """Parse `Rn/start/duration`, `Rn/start/end` or `Rn/duration/end`; n occurrences, or no end without n.

    Raises InvalidOption, which quotes the text.
    """
    repeat, *ends = text.split("/")
    found = _REPEAT.fullmatch(repeat)
    if found is None or len(ends) != 2:
        _refuse(text, "write R, how often, a start and a duration: R5/2026-01-01T00:00:00Z/PT10M")
    times = int(found[1]) if found[1] else None
    if times == 0:
        _refuse(text, "R0 repeats nothing; write R alone for no end, or R1 for once")
    first, second = ends
    if first.startswith("P"):
        return _ending(text, times, _duration(text, first), _instant(text, second))
    start = _instant(text, first)
    step = _duration(text, second) if second.startswith("P") else IsoDuration(0, _instant(text, second) - start)
    return _checked(text, RepeatingInterval(step.exact, step.months, start, times))


def _ending(text: str, times: int | None, step: IsoDuration, end: datetime) -> RepeatingInterval:
    """Return a repeating interval given by its end. Raises InvalidOption without a count, or with calendar months."""
    if times is None or step.months:
        _refuse(text, "with an end, say how often, and a duration without months or years; or give the start instead")
    try:
        start = end - step.exact * times
    except OverflowError:
        _refuse(text, "it would have to begin too long ago")
    return _checked(text, RepeatingInterval(step.exact, 0, start, times))


def _checked(text: str, repeating: RepeatingInterval) -> RepeatingInterval:
    if repeating.step < timedelta(milliseconds=1) and not repeating.months:
        _refuse(text, "the interval is shorter than 1 ms")
    return repeating


def _duration(text: str, part: str) -> IsoDuration:
    """Parse a duration such as PT10M. Raises InvalidOption."""
    found = _DURATION.fullmatch(part)
    if found is None:
        _refuse(text, f"{part!r} is not a duration; write one like PT10M, P1D or P1M")
    years, months, weeks, days, hours, minutes = (int(number or 0) for number in found.groups()[:6])
    seconds = float((found[7] or "0").replace(",", "."))
    try:
        exact = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        _refuse(text, f"{part!r} is too long")
    if exact > timedelta(days=365_000) or years * 12 + months > 12_000:
        _refuse(text, f"{part!r} is too long")
    return IsoDuration(years * 12 + months, exact)


def _instant(text: str, part: str) -> datetime:
    """Parse an instant with a zone. Raises InvalidOption."""
    try:
        instant = datetime.fromisoformat(part)
    except ValueError:
        _refuse(text, f"{part!r} is not an instant; write one like 2026-01-01T00:00:00Z")
    if instant.utcoffset() is None:
        _refuse(text, f"{part!r} has no zone; end it with Z, or an offset such as +02:00")
    return instant


def _refuse(text: str, reason: str) -> NoReturn:
    raise InvalidOption(f"every({text[:100]!r}): {reason}.")


_SHORTEST = timedelta(milliseconds=1)
_LONGEST = timedelta(days=365_000)
_INSTANTS_LIMIT = 1000


def every(interval: str | timedelta, *, start: datetime | None = None) -> Every:
    """Return a rule with a fixed rate: `every("200ms")`, or `every("R5/2026-01-01T00:00Z/PT10M")` (ISO 8601).

    The first occurrence is at `start`; without it, at the schedule's start, or else the interval is counted from 1970.
    Raises InvalidOption.
    """
    if isinstance(interval, str) and interval.startswith("R"):
        if start is not None:
            raise InvalidOption(f"every({interval!r}) says itself where it begins; leave out start=.")
        return Every(**read_repeating(interval)._asdict())
    return Every(step=_interval("every", interval), start=None if start is None else read_instant("start", start))


def after(delay: str | timedelta) -> After:
    """Return a rule with a delay after the end of the last run: `after("5m")`. The first run is due at once."""
    return After(delay=_interval("after", delay))


def at(*instants: datetime) -> At:
    """Return a rule for single instants: `at(datetime(2026, 12, 24, 18, tzinfo=ZoneInfo("Europe/Berlin")))`."""
    return At(instants=tuple(sorted({read_instant("at", instant) for instant in instants})))


def _interval(what: str, value: str | timedelta) -> timedelta:
    """Return a duration from 1 ms to 365,000 days. Raises InvalidOption."""
    interval = parse_duration(value, what=what)
    if not _SHORTEST <= interval <= _LONGEST:
        raise InvalidOption(f"{what}: {value!r} is not from 1 ms to {_LONGEST.days:,} days.")
    return interval


class Every(RuleValue, frozen=True, tag="every", kw_only=True):
    """A fixed rate. `months` are calendar months from `start`; the 31st becomes the last day of shorter months."""

    step: timedelta = timedelta(0)
    months: int = 0
    start: datetime | None = None
    times: int | None = None

    def __post_init__(self) -> None:
        if self.months < 0 or self.step < timedelta(0) or (not self.months and self.step < _SHORTEST):
            raise InvalidOption(f"every: an interval is 1 ms or more, not {self.months} months and {self.step}.")
        if self.times is not None and (self.times < 1 or self.start is None):
            raise InvalidOption(f"every: {self.times} repetitions need a start and must be at least 1.")
        if self.start is not None:
            read_instant("start", self.start)

    def of_schedule(self, name: str, start: datetime | None) -> Every:
        return self if self.start is not None else msgspec.structs.replace(self, start=start)

    def first_after(self, instant: datetime, calendars: Calendars = NO_CALENDARS) -> datetime | None:
        return self._occurrence(self._count_until(instant, inclusive=True))

    def last_before(self, instant: datetime, calendars: Calendars = NO_CALENDARS) -> datetime | None:
        passed = self._count_until(min(instant, HORIZON), inclusive=False)
        return self._occurrence(min(passed, passed if self.times is None else self.times) - 1)

    def count_before(self, instant: datetime) -> int:
        """Return the number of occurrences before an instant."""
        return self._count_until(instant, inclusive=False)

    def explain(self) -> str:
        interval = str(IsoDuration(self.months, self.step))
        often = "" if self.times is None else f", {self.times} times"
        since = "on the beat of 1970-01-01 00:00 UTC" if self.start is None else f"from {_shown(self.start)}"
        return f"Every {interval}{often}, {since}"

    def _count_until(self, instant: datetime, *, inclusive: bool) -> int:
        """Return the number of occurrences before an instant; with `inclusive`, also those at it."""
        start = self.start or EPOCH
        if instant < start:
            return 0
        if not self.months:
            whole, rest = divmod(instant - start, self.step)
            return whole + 1 if rest or inclusive else whole
        bisect = bisect_right if inclusive else bisect_left
        most = (instant.year - start.year + 1) * 12 // self.months + 2
        return bisect(range(most), instant, key=self._at_or_beyond)

    def _occurrence(self, k: int) -> datetime | None:
        """Return occurrence number `k`; None if the rule has none, or it is beyond HORIZON."""
        if k < 0 or (self.times is not None and k >= self.times):
            return None
        try:
            due = self._at(k)
        except OverflowError:
            return None
        return due if due < HORIZON else None

    def _at_or_beyond(self, k: int) -> datetime:
        """Return the instant of `_at`, or HORIZON if it is beyond the range of datetime."""
        try:
            return self._at(k)
        except OverflowError:
            return HORIZON

    def _at(self, k: int) -> datetime:
        return IsoDuration(self.months, self.step).added(self.start or EPOCH, k).astimezone(UTC)


class After(RuleValue, frozen=True, tag="after", kw_only=True):
    """A fixed delay. The next occurrence depends on when the last run ended; previews assume runs without duration."""

    delay: timedelta

    def __post_init__(self) -> None:
        _interval("after", self.delay)

    def first_after(self, instant: datetime, calendars: Calendars = NO_CALENDARS) -> datetime | None:
        return _within_our_years(instant.astimezone(UTC) + self.delay)

    def last_before(self, instant: datetime, calendars: Calendars = NO_CALENDARS) -> datetime | None:
        earliest = EPOCH + self.delay
        return None if instant < earliest else instant.astimezone(UTC) - self.delay

    def explain(self) -> str:
        return f"{format_duration(self.delay)} after the last run ended"


def _within_our_years(due: datetime) -> datetime | None:
    return due if due < HORIZON else None


class At(RuleValue, frozen=True, tag="at", kw_only=True):
    """Single instants, sorted."""

    instants: tuple[datetime, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.instants) <= _INSTANTS_LIMIT:
            raise InvalidOption(f"at takes 1 to {_INSTANTS_LIMIT:,} instants, not {len(self.instants)}.")
        for instant in self.instants:
            read_instant("at", instant)
        if any(one >= other for one, other in pairwise(self.instants)):
            raise InvalidOption("at: the instants are not in order.")

    def first_after(self, instant: datetime, calendars: Calendars = NO_CALENDARS) -> datetime | None:
        return next(iter(self.instants[bisect_right(self.instants, instant) :]), None)

    def last_before(self, instant: datetime, calendars: Calendars = NO_CALENDARS) -> datetime | None:
        return next(reversed(self.instants[: bisect_left(self.instants, instant)]), None)

    def explain(self) -> str:
        shown = [_shown(instant) for instant in self.instants[:3]]
        more = f" and {len(self.instants) - 3} more" if len(self.instants) > 3 else ""
        return f"At {', '.join(shown)}{more}"


def _shown(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat(" ", timespec="auto").replace("+00:00", " UTC")
