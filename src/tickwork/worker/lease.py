"""The lease of a worker, the heartbeat that renews it, and the watch that stops handlers before it ends.

The heartbeat runs on a separate thread, and also reads requests to quiet or stop the worker.

The heartbeat renews one row per worker, however many jobs the worker runs. The worker counts its lease from the moment
that the request was sent, so that it stops its handlers before the store lets another worker start the jobs.

The lease watch stops handlers before the lease ends, even while the worker's other threads are blocked. The worker's
tick stops handlers, too, but it also calls the store, and a call may block until its deadline: a silent connection, a
stalled disk. The lease watch makes no store calls, waits only for time, and runs on its own thread. So no handler
outlives the lease, as long as the worker process itself is scheduled.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from tickwork.core.ids import WorkerId
from tickwork.store.admin.bulk_operations import Ask
from tickwork.store.base import Store

LOOKS = 10  # checks per lease duration
LAST_LOOKS = 40  # the same, after the handlers were told to stop
KILL_SHARE = 20  # handlers that did not stop are killed 1/20 of the lease duration before its end


class Lease:
    """The lease of a worker, on its monotonic clock. The worker owns its attempts only until the lease ends."""

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
        """Record the store's reply to a renewal that was sent at `sent`; ignore a reply for an earlier registration.

        The heartbeat and the claims renew from different threads, so the reply to an older renewal may arrive last.
        """
        if self.worker != worker:
            return
        if granted:
            self.until = max(self.until, sent + self.duration.total_seconds())
        else:
            self.lost = True

    def left(self, now: float) -> float:
        """Return the seconds until the lease ends, minus a safety margin of a tenth of its duration."""
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


_log = logging.getLogger("tickwork.worker")


class StoppableHandlers(Protocol):
    """The part of `HandlerPools` that may be called from any thread."""

    def stop_running(self) -> None: ...

    def kill_running(self) -> None: ...


class LeaseWatch:
    """The service that stops handlers when the lease runs out, and kills those that do not stop before its end."""

    def __init__(self, lease: Lease, pools: StoppableHandlers) -> None:
        self._lease = lease
        self._pools = pools
        self._kill_at: float | None = None  # set when handlers were told to stop

    def tick(self, now: float) -> float:
        """Check the lease, and stop or kill handlers if it runs out; return the seconds until the next check."""
        lease, length = self._lease, self._lease.duration.total_seconds()
        left = lease.left(now)
        if lease.worker is None or (left > 0 and not lease.lost):
            self._kill_at = None
            return max(length / LAST_LOOKS, min(left, length / LOOKS))
        if self._kill_at is None:
            _log.warning("The lease of worker %s was not renewed in time: what it runs is stopped.", lease.worker)
            self._kill_at = now if lease.lost else max(lease.until - length / KILL_SHARE, now + length / LAST_LOOKS)
        self._pools.stop_running()
        if now >= self._kill_at:
            self._pools.kill_running()
        return length / LAST_LOOKS
