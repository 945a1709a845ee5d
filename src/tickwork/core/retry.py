"""Retry policy: how long to wait before a failed job is tried again.

A policy is a value stored with its job: a retry next week follows the policy that was in force when the job was made.
Randomness is passed in, so equal inputs give equal delays everywhere, the simulator included.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from random import Random


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with a cap, and with jitter so that failed jobs do not retry at the same time."""

    retries: int = 3
    base: timedelta = timedelta(seconds=1)
    factor: float = 2.0
    cap: timedelta = timedelta(hours=1)
    jitter: float = 0.5

    def delay(self, failures: int, rng: Random) -> timedelta | None:
        """Return the wait after the `failures`-th failure, or None to give up."""
        if failures > self.retries:
            return None
        # The exponent is bounded first: 2.0 ** 5000 raises before min() can help.
        grown = self.base.total_seconds() * self.factor ** min(failures - 1, 64)
        capped = min(grown, self.cap.total_seconds())
        return timedelta(seconds=capped * (1 - self.jitter * rng.random()))
