"""How durations are spread: counted in steps of about an eighth, from a microsecond to centuries, read as quantiles.

A step is told by how many decimal digits a duration has in microseconds, and by the first two of them. Every database
can say that of a row, so that rows are counted where they are. Two spreads are added step by step.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

Spread = dict[int, int]
"""How many durations fell into each step."""

_LEADS = (10, 11, 12, 14, 16, 18, 20, 22, 25, 28, 32, 36, 40, 45, 50, 56, 63, 71, 80, 90)


def step_of(digits: int, lead: int) -> int:
    """The step of durations with so many digits, of which these are the first two."""
    two = lead * 10 if digits < 2 else lead
    return digits * len(_LEADS) + max(0, bisect_right(_LEADS, two) - 1)


def step_of_us(duration_us: int) -> int:
    """The step of a duration."""
    text = str(max(0, duration_us))
    return step_of(len(text), int(text[:2]))


def merge(into: Spread, other: Mapping[int, int]) -> None:
    """Add a spread to another one."""
    for step, count in other.items():
        into[step] = into.get(step, 0) + count


def quantile(spread: Mapping[int, int], share: float) -> float | None:
    """The duration in seconds that this share of all is not above, to a few percent; None: there is none at all."""
    rank = share * sum(spread.values())
    for step in sorted(spread):
        if rank <= spread[step]:
            low, high = _bounds_us(step)
            return (low + (high - low) * max(rank, 0.0) / spread[step]) / 1e6
        rank -= spread[step]
    return _bounds_us(max(spread))[1] / 1e6 if spread else None


def _bounds_us(step: int) -> tuple[float, float]:
    digits, place = divmod(step, len(_LEADS))
    if (digits, place) == (1, 0):
        return 0.0, 1.1  # nothing is less, and what took no time is here
    leads = (*_LEADS, 100)
    scale = 10.0 ** (digits - 2)
    return leads[place] * scale, leads[place + 1] * scale
