"""Renew the lease of a worker from a separate thread, and read requests to quiet or stop the worker.

The heartbeat renews one row per worker, however many jobs the worker runs. The worker counts its lease from the moment
that the request was sent, so that it stops its handlers before the store lets another worker start the jobs.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from tickwork.core.ids import WorkerId
from tickwork.store.admin.operations import Ask
from tickwork.store.base import Store


class Lease:
    """The lease of a worker, on its monotonic clock. Its attempts are its own only until the lease ends."""

    def __init__(self, duration: timedelta, heartbeat: timedelta | None = None) -> None:
        self.duration = duration
        self.heartbeat = duration / 3 if heartbeat is None else heartbeat
        self.worker: WorkerId | None = None
        self.until = 0.0
        self.lost = False

    def begin(self, worker: WorkerId, sent: float) -> None:
        """Start the lease of a newly registered worker; `sent` is when the registration was sent."""
        self.worker, self.until, self.lost = worker, sent + self.duration.total_seconds(), False

    def renewed(self, worker: WorkerId, sent: float, granted: bool) -> None:
        """Record the store's reply to a renewal that was sent at `sent`; ignore it for an earlier registration.

        The heartbeat and the claims renew from different threads, so the reply to an older renewal may arrive last.
        """
        if self.worker != worker:
            return
        if granted:
            self.until = max(self.until, sent + self.duration.total_seconds())
        else:
            self.lost = True

    def left(self, now: float) -> float:
        """Return the seconds until the lease ends, less a safety margin of a tenth of its duration."""
        return self.until - self.duration.total_seconds() / 10 - now


class Heartbeat:
    """The service that renews the lease, and calls `told` when an operator's request to the worker changes."""

    def __init__(self, store: Store, lease: Lease, told: Callable[[Ask | None], None] = lambda asked: None) -> None:
        self._store = store
        self._lease = lease
        self._told = told
        self._asked: Ask | None = None

    def tick(self, now: float) -> float:
        """Renew the lease and read requests to this worker; return the seconds until the next renewal."""
        interval = self._lease.heartbeat.total_seconds()
        worker = self._lease.worker
        if worker is None:
            return interval / 10
        self._lease.renewed(worker, now, self._store.renew_lease(worker, self._lease.duration))
        asked = self._store.operations.asked_of(worker)
        if asked != self._asked:
            self._asked = asked
            self._told(asked)
        return interval
