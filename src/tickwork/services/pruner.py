"""Deletes what retention lets go."""

from __future__ import annotations

from tickwork.store.base import Retention, Store

BATCH = 1000
INTERVAL_S = 60.0


class Pruner:
    """Deletes ended jobs that are old enough, a batch at a time, so that nobody has to wait for it."""

    def __init__(self, store: Store, retention: Retention) -> None:
        self._store = store
        self._retention = retention

    def tick(self, now: float) -> float:
        return 0.0 if self._store.prune(self._retention, BATCH) == BATCH else INTERVAL_S
