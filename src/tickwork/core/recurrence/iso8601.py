"""Parser for repeating intervals of ISO 8601, such as "R5/2026-01-01T00:00:00Z/PT10M": count, start, interval."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import datetime, timedelta
from typing import NamedTuple, NoReturn

from tickwork.core.duration import format_duration
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
    """A parsed repeating interval. `times` None: without end."""

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
