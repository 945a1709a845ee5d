"""Histograms of durations with buckets that grow by about an eighth, from a microsecond to centuries.

A bucket is identified by the number of decimal digits of a duration in microseconds and by the first two of them. Every
database can compute both from a row, so rows are counted where they are stored. Histograms are added bucket by bucket.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

Spread = dict[int, int]
"""How many durations fell into each bucket."""

_LEADS = (10, 11, 12, 14, 16, 18, 20, 22, 25, 28, 32, 36, 40, 45, 50, 56, 63, 71, 80, 90)


def step_of(digits: int, lead: int) -> int:
    """Return the bucket of durations with this many digits and these first two digits."""
    two = lead * 10 if digits < 2 else lead
    return digits * len(_LEADS) + max(0, bisect_right(_LEADS, two) - 1)


def step_of_us(duration_us: int) -> int:
    """Return the bucket of a duration in microseconds."""
    text = str(max(0, duration_us))
    return step_of(len(text), int(text[:2]))


def merge(into: Spread, other: Mapping[int, int]) -> None:
    """Add a histogram to another."""
    for step, count in other.items():
        into[step] = into.get(step, 0) + count


def quantile(spread: Mapping[int, int], share: float) -> float | None:
    """Return the quantile `share` in seconds, accurate to a few percent; None for an empty histogram."""
    rank = share * sum(spread.values())
    for step in sorted(spread):
        if rank <= spread[step]:
            low, high = _bounds_us(step)
            return (low + (high - low) * max(rank, 0.0) / spread[step]) / 1e6
        rank -= spread[step]
    return _bounds_us(max(spread))[1] / 1e6 if spread else None


def _bounds_us(step: int) -> tuple[float, float]:
    """Return the lower and upper bound of a bucket in microseconds."""
    digits, place = divmod(step, len(_LEADS))
    if (digits, place) == (1, 0):
        return 0.0, 1.1  # the lowest bucket, which includes a duration of 0
    leads = (*_LEADS, 100)
    scale = 10.0 ** (digits - 2)
    return leads[place] * scale, leads[place + 1] * scale
