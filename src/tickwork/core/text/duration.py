"""Parse and format durations and rates: "250ms", "1h30m", "50/s".

A bare number is refused: it is not clear whether 30 means seconds or minutes, and a wrong guess would show only in
production.
"""

from __future__ import annotations

import re
from datetime import timedelta

from tickwork.errors import InvalidOption

_UNITS = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}
_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,20})?"
_DURATION = re.compile(r"(-?)" + "".join(rf"(?:({_NUMBER}){unit}\s*)?" for unit in _UNITS))
_RATE = re.compile(rf"({_NUMBER})/(s|m|h)")


def parse_duration(value: str | timedelta, *, what: str, allow_negative: bool = False) -> timedelta:
    """Return the duration of a text such as "250ms", "30s", "1.5h" or "1h30m", to the microsecond.

    Raises InvalidOption, which names `what`, for any other value, and for negative durations unless they are allowed.
    """
    duration = value if isinstance(value, timedelta) else _read(value, what)
    if duration < timedelta(0) and not allow_negative:
        raise InvalidOption(f"{what}: {value!r} is negative; a duration here is zero or more.")
    return duration


def _read(value: object, what: str) -> timedelta:
    if _is_bare_number(value):
        raise InvalidOption(f"{what}: {value} of what? Say '{value}s' or timedelta(seconds={value}).")
    text = value.strip() if isinstance(value, str) else ""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()[1:]):
        raise InvalidOption(f"{what}: {value!r} is not a duration. Use d, h, m, s, ms in this order, such as '1h30m'.")
    sign, *numbers = found.groups(default="0")
    parts = zip(map(float, numbers), _UNITS.values(), strict=True)
    try:
        duration = sum((number * unit for number, unit in parts), timedelta(0))
    except OverflowError:
        raise InvalidOption(f"{what}: {value!r} is too long; {timedelta.max.days:,} days is the most.") from None
    return -duration if sign == "-" else duration


def _is_bare_number(value: object) -> bool:
    if isinstance(value, str):
        return re.fullmatch(rf"\s*-?{_NUMBER}\s*", value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


def format_duration(duration: timedelta) -> str:
    """Return a duration as readable text, in at most its two largest units: "3d4h", "1h30m", "1.5s", "250ms".

    The remainder is cut off, not rounded, so that a wait that is not over never reads as if it were.
    """
    if duration < timedelta(0):
        return f"-{format_duration(-duration)}"
    if duration < _UNITS["m"]:
        return _below_a_minute(duration)
    large, small = next((a, b) for a, b in (("d", "h"), ("h", "m"), ("m", "s")) if duration >= _UNITS[a])
    count, left = divmod(duration, _UNITS[large])
    less = left // _UNITS[small]
    return f"{count}{large}{less}{small}" if less else f"{count}{large}"


def _below_a_minute(duration: timedelta) -> str:
    """Return seconds to the millisecond, or milliseconds to the microsecond."""
    unit = "s" if duration >= _UNITS["s"] or not duration else "ms"
    thousandths = duration // (_UNITS[unit] / 1000)
    whole, part = divmod(thousandths, 1000)
    return f"{whole}.{part:03d}".rstrip("0").rstrip(".") + unit


def parse_spacing(rate: str) -> timedelta:
    """Return the time between two jobs at a rate. Raises InvalidOption for a rate of less than one job per day."""
    per_second = parse_rate(rate)
    if per_second * _UNITS["d"].total_seconds() < 1:
        raise InvalidOption(f"rate: {rate!r} is too slow to spread jobs out; the slowest is one job per day.")
    return timedelta(seconds=1 / per_second)


def parse_rate(value: str, *, what: str = "rate") -> float:
    """Return the rate per second of "50/s", "10/m" or "1000/h". Raises InvalidOption, which names `what`."""
    found = _RATE.fullmatch(str(value).strip())
    if found is None or float(found[1]) == 0:
        raise InvalidOption(f"{what}: {value!r} is not a rate. Say how many per s, m or h, such as '50/s' or '10/m'.")
    return float(found[1]) / _UNITS[found[2]].total_seconds()
