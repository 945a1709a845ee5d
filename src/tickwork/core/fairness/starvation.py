"""Ageing: what is least urgent starts too, in bounded time, and what is urgent keeps at least half of the claims.

A job that has been due for longer than AGE is *aged*. While a worker finds aged jobs, every other of its claims takes
them before all others: of the priority whose turn it is, and then of the next ones, each with the job that was due
first. So a job waits for AGE, and then for what was due before it of its own priority, which gets at least a twentieth
of the claims (half of them over ten priorities), however much comes in of the others. Where nothing is aged, one claim
in a second finds that out, and nothing else changes.
"""

from __future__ import annotations

from datetime import timedelta

from tickwork.core.job import LOWEST_PRIORITY
from tickwork.core.option_parsing import to_us

AGE = timedelta(minutes=5)
LOOK_S = 1.0
_PRIORITIES = LOWEST_PRIORITY + 1


def aged_before_us(now_us: int) -> int:
    """Return the instant before which a job must have been due to be aged now."""
    return now_us - to_us(AGE)


class StarvationGuard:
    """What one worker remembers of it from one claim to the next."""

    def __init__(self) -> None:
        self._look_at = 0.0
        self._was_last = False
        self._priority = LOWEST_PRIORITY

    def turn(self, now: float) -> list[int] | None:
        """Return the priorities in the order in which a claim takes aged jobs; None: this one goes by urgency."""
        if self._was_last or now < self._look_at:
            self._was_last = False
            return None
        return [(self._priority - step) % _PRIORITIES for step in range(_PRIORITIES)]

    def took(self, first: int | None, now: float) -> None:
        """That claim took some, the first of this priority; None: there were none."""
        self._was_last = True
        if first is None:
            self._look_at = now + LOOK_S
        else:
            self._priority = (first - 1) % _PRIORITIES
