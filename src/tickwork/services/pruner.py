"""Deletes what retention lets go, and blobs that nobody names."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice

from tickwork.blobs import Blobs
from tickwork.clock import Clock
from tickwork.core.retention import Retention
from tickwork.store.base import Place, Store
from tickwork.store.row_codec import from_us

BATCH = 1000
INTERVAL_S = 60.0
SHARE = 100
SWEEP_S = 6 * 3600.0
BLOB_AGE = timedelta(days=1)  # an attempt that wrote one so long ago has ended, or was taken back


class Pruner:
    """Deletes ended jobs and what else is old enough, a batch at a time, so that nobody has to wait for it.

    It walks through the jobs that are older than the shortest age, some at a time by their index, and begins again a
    minute after the end. Where many of them are kept for longer, walking takes no more than a hundredth of the time.
    Their blobs go with them. Others that no result names, of attempts that died or came too late, are looked for a few
    times a day.
    """

    def __init__(self, store: Store, retention: Retention, clock: Clock) -> None:
        self._store = store
        self._retention = retention
        self._clock = clock
        self._sweep_at = 0.0
        self._after: Place | None = None  # where its walk through the ended jobs goes on

    def tick(self, now: float) -> float:
        blobs = self._store.blobs
        pruned = self._store.prune(self._retention, BATCH, self._after)
        took = self._clock.monotonic() - now
        self._after = pruned.next
        if blobs is not None:
            if pruned.blobs:
                blobs.delete(pruned.blobs)
            if now >= self._sweep_at:
                self._sweep_at = now + SWEEP_S
                self._sweep(blobs)
        gone = self._store.prune_access(BATCH)
        if BATCH in (pruned.count, gone):
            return 0.0
        return INTERVAL_S if pruned.next is None else min(took * SHARE, INTERVAL_S)

    def _sweep(self, blobs: Blobs) -> None:
        old = iter(blobs.keys(from_us(self._clock.wall_us()) - BLOB_AGE))
        while keys := list(islice(old, BATCH)):
            unused = self._store.unused_blobs(keys)
            if unused:
                blobs.delete(unused)
