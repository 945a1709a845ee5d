"""Protection from starvation: every due job starts in bounded time, and urgent jobs keep at least half of the claims.

A job that has been due for longer than AGE is *aged*. While a worker finds aged jobs, every second claim of it takes
them before all others: first those of the priority whose turn it is, then those of the next priorities, each in the
order in which they were due. A job therefore waits for AGE, and then for the jobs of its own priority that were due
before it. Each priority gets at least a twentieth of the claims (half of them over ten priorities), whatever load the
others have. If no job is aged, one claim per second checks that, and nothing else changes.
"""

from __future__ import annotations

from datetime import timedelta

from tickwork.core.job import LOWEST_PRIORITY
from tickwork.core.option_parsing import to_us

AGE = timedelta(minutes=5)
LOOK_S = 1.0
_PRIORITIES = LOWEST_PRIORITY + 1


def aged_before_us(now_us: int) -> int:
    """Return the limit of age: a job that was due before this instant is aged now."""
    return now_us - to_us(AGE)


class StarvationGuard:
    """The state of ageing that a worker keeps between its claims."""

    def __init__(self) -> None:
        self._look_at = 0.0
        self._was_last = False
        self._priority = LOWEST_PRIORITY

    def turn(self, now: float) -> list[int] | None:
        """Return the priorities in the order in which this claim takes aged jobs; None: it claims by urgency."""
        if self._was_last or now < self._look_at:
            self._was_last = False
            return None
        return [(self._priority - step) % _PRIORITIES for step in range(_PRIORITIES)]

    def took(self, first: int | None, now: float) -> None:
        """Record what a claim of aged jobs found: the priority of its first job; None: there were no aged jobs."""
        self._was_last = True
        if first is None:
            self._look_at = now + LOOK_S
        else:
            self._priority = (first - 1) % _PRIORITIES
