"""Deletes what retention lets go, and blobs that nobody names."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice

from tickwork.blobs import Blobs
from tickwork.clock import Clock
from tickwork.store.base import Retention, Store
from tickwork.store.codec import from_us

BATCH = 1000
INTERVAL_S = 60.0
SWEEP_S = 6 * 3600.0
BLOB_AGE = timedelta(days=1)  # an attempt that wrote one so long ago has ended, or was taken back


class Pruner:
    """Deletes ended jobs and what else is old enough, a batch at a time, so that nobody has to wait for it.

    Their blobs go with them. Others that no result names, of attempts that died or came too late, are looked for a few
    times a day.
    """

    def __init__(self, store: Store, retention: Retention, clock: Clock) -> None:
        self._store = store
        self._retention = retention
        self._clock = clock
        self._sweep_at = 0.0

    def tick(self, now: float) -> float:
        blobs = self._store.blobs
        pruned = self._store.prune(self._retention, BATCH)
        if blobs is not None:
            if pruned.blobs:
                blobs.delete(pruned.blobs)
            if now >= self._sweep_at:
                self._sweep_at = now + SWEEP_S
                self._sweep(blobs)
        gone = self._store.prune_access(BATCH)
        return 0.0 if BATCH in (pruned.count, gone) else INTERVAL_S

    def _sweep(self, blobs: Blobs) -> None:
        old = iter(blobs.keys(from_us(self._clock.wall_us()) - BLOB_AGE))
        while keys := list(islice(old, BATCH)):
            unused = self._store.unused_blobs(keys)
            if unused:
                blobs.delete(unused)
