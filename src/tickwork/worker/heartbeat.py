"""Keeps a worker's lease alive, from a thread of its own.

One row is renewed for each worker, however many jobs it runs. The worker counts its lease from the moment that the
request was sent, so that it stops before the store would let another one begin.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from tickwork.core.ids import WorkerId
from tickwork.store.admin.operations import Ask
from tickwork.store.base import Store


class Lease:
    """Until when a worker may believe that its attempts are its own, on its monotonic clock."""

    def __init__(self, duration: timedelta, heartbeat: timedelta | None = None) -> None:
        self.duration = duration
        self.heartbeat = duration / 3 if heartbeat is None else heartbeat
        self.worker: WorkerId | None = None
        self.until = 0.0
        self.lost = False

    def begin(self, worker: WorkerId, sent: float) -> None:
        """A new lease was granted to a newly registered worker."""
        self.worker, self.until, self.lost = worker, sent + self.duration.total_seconds(), False

    def renewed(self, worker: WorkerId, sent: float, granted: bool) -> None:
        """Take the store's answer to a renewal that was sent then; one of an earlier registration is ignored.

        Heartbeat and claims renew from threads of their own, so an older renewal may be answered last.
        """
        if self.worker != worker:
            return
        if granted:
            self.until = max(self.until, sent + self.duration.total_seconds())
        else:
            self.lost = True

    def left(self, now: float) -> float:
        """Seconds until it ends, less a margin for whatever takes long on the way."""
        return self.until - self.duration.total_seconds() / 10 - now


class Heartbeat:
    """Renews the lease in time, and tells the worker when somebody wants something else of it."""

    def __init__(self, store: Store, lease: Lease, told: Callable[[Ask | None], None] = lambda asked: None) -> None:
        self._store = store
        self._lease = lease
        self._told = told
        self._asked: Ask | None = None

    def tick(self, now: float) -> float:
        interval = self._lease.heartbeat.total_seconds()
        worker = self._lease.worker
        if worker is None:
            return interval / 10
        self._lease.renewed(worker, now, self._store.renew_lease(worker, self._lease.duration))
        asked = self._store.asked_of(worker)
        if asked != self._asked:
            self._asked = asked
            self._told(asked)
        return interval
