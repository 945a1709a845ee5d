"""Durations in requests: texts such as "30s", or numbers of seconds."""

from __future__ import annotations

from tickwork.core.duration import format_duration, parse_duration
from tickwork.errors import InvalidOption


def read_seconds(value: str | float, what: str, low: float, high: float) -> float:
    """Return a duration in seconds. Raises InvalidOption for one that is not from `low` to `high`."""
    seconds = parse_duration(value, what=what).total_seconds() if isinstance(value, str) else float(value)
    if not low <= seconds <= high:
        raise InvalidOption(f"{what} must be from {_said(low)} to {_said(high)}, not {value!r}. Nothing was done.")
    return seconds


def _said(seconds: float) -> str:
    return format_duration(parse_duration(f"{seconds:g}s", what="a bound"))
