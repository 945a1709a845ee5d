"""The limit sweeper: reopens limits whose wake-up was lost.

The end of an attempt admits the next held job, and claims notice limits that open by time. The sweeper finds what
both missed: a worker that died in between, a gate that ended by its `until`.
"""

from __future__ import annotations

from tickwork.clock import Clock
from tickwork.store.base import Store

INTERVAL_S = 1.0
SHARE = 50
LONGEST_S = 30.0


class LimitSweeper:
    """Reopens limits that still hold jobs they could admit. Sweeping takes at most a fiftieth of the time."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def tick(self, now: float) -> float:
        """Reopen limits that hold jobs which may start; return the seconds until the next sweep."""
        self._store.limits.open_limit_keys()
        return max(INTERVAL_S, min((self._clock.monotonic() - now) * SHARE, LONGEST_S))
