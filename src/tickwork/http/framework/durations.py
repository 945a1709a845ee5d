"""Durations in requests: texts such as "30s", or numbers of seconds."""

from __future__ import annotations

import re
from datetime import timedelta

from tickwork.core.text.duration import format_duration, parse_duration, parse_spacing
from tickwork.errors import InvalidOption

Span = str | float
_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,9})?", re.ASCII)


def read_seconds(value: Span, what: str, low: float, high: float) -> float:
    """Return a duration in seconds. Raises InvalidOption if it is not from `low` to `high`."""
    seconds = parse_duration(value, what=what).total_seconds() if isinstance(value, str) else float(value)
    if not low <= seconds <= high:
        raise InvalidOption(f"{what} must be from {_said(low)} to {_said(high)}, not {value!r}. Nothing was done.")
    return seconds


def _said(seconds: float) -> str:
    return format_duration(parse_duration(f"{seconds:g}s", what="a bound"))


def duration(what: str, given: Span) -> timedelta:
    """Return a duration of at least zero. A text of digits counts as seconds, as in a URL. Raises InvalidOption."""
    if isinstance(given, str) and _NUMBER.fullmatch(given) is None:
        return parse_duration(given, what=what)
    try:
        return parse_duration(timedelta(seconds=float(given)), what=what)
    except OverflowError:
        raise InvalidOption(f"{what}: {given} seconds is too long.") from None


def spacing(rate: str | None) -> timedelta:
    """Return the time between two jobs at a rate. Raises InvalidOption."""
    return timedelta(0) if rate is None else parse_spacing(rate)
