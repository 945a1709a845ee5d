"""The pruner: deletes ended jobs whose retention is over, and orphaned blobs."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice

from tickwork.blobs import Blobs
from tickwork.clock import Clock
from tickwork.core.retention import Retention
from tickwork.store.base import Place, Store
from tickwork.store.rows.instants import from_us

BATCH = 1000
INTERVAL_S = 60.0
SHARE = 100
SWEEP_S = 6 * 3600.0
BLOB_AGE = timedelta(days=1)  # an attempt that wrote a blob this long ago has ended or was reclaimed


class Pruner:
    """Deletes expired jobs, blobs and access records in small batches, so that other transactions need not wait.

    It scans the jobs older than the shortest retention by their index, a batch per tick, and starts again a minute
    after the end of the scan. If many of these jobs are kept for longer, scanning takes at most a hundredth of the
    time. The blobs of deleted jobs are deleted with them. Every six hours it also looks for orphaned blobs: blobs
    that no result refers to, of attempts that died or finished too late.
    """

    def __init__(self, store: Store, retention: Retention, clock: Clock) -> None:
        self._store = store
        self._retention = retention
        self._clock = clock
        self._sweep_at = 0.0
        self._after: Place | None = None  # cursor of the scan through the ended jobs

    def tick(self, now: float) -> float:
        """Delete one batch; return the seconds until the next."""
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
        gone = self._store.access.prune_access(BATCH)
        if BATCH in (pruned.count, gone):
            return 0.0
        return INTERVAL_S if pruned.next is None else min(took * SHARE, INTERVAL_S)

    def _sweep(self, blobs: Blobs) -> None:
        """Delete blobs older than BLOB_AGE that no result refers to."""
        old = iter(blobs.keys(from_us(self._clock.wall_us()) - BLOB_AGE))
        while keys := list(islice(old, BATCH)):
            unused = self._store.unused_blobs(keys)
            if unused:
                blobs.delete(unused)
