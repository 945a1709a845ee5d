"""Brings back what is held and what nothing else would bring back.

Who ends an attempt lets the next one through, and what opens by time is seen by the claims. This looks for what they
missed: a worker that died in between, a gate that ended by itself.
"""

from __future__ import annotations

from tickwork.clock import Clock
from tickwork.store.base import Store

INTERVAL_S = 1.0
SHARE = 50
LONGEST_S = 30.0


class LimitSweeper:
    """Opens turnstiles that were forgotten. It takes no more than a fiftieth of the time."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def tick(self, now: float) -> float:
        self._store.open_turnstiles()
        return max(INTERVAL_S, min((self._clock.monotonic() - now) * SHARE, LONGEST_S))
