"""Stops handlers before the lease of their worker ends, whatever the other threads of the worker wait for.

The worker's tick stops handlers, too, but it also calls the store, and such a call may take as long as its deadline
allows: a silent connection, a stalled disk. This service makes no call of the store, waits for nothing but time, and
runs on a thread of its own. So no handler runs on beyond the lease while its process runs at all.
"""

from __future__ import annotations

import logging
from typing import Protocol

from tickwork.worker.heartbeat import Lease

_log = logging.getLogger("tickwork.worker")
LOOKS = 10  # in the length of a lease
LAST_LOOKS = 40  # and after its handlers were told to stop
KILL_SHARE = 20  # so much of a lease before its end, whatever did not stop is killed


class StoppableHandlers(Protocol):
    """Where handlers run; a part of `Pools` that may be called from any thread."""

    def stop_running(self) -> None: ...

    def kill_running(self) -> None: ...


class LeaseWatch:
    """A service. It has handlers stopped when the lease runs out, and killed when they do not stop before its end."""

    def __init__(self, lease: Lease, pools: StoppableHandlers) -> None:
        self._lease = lease
        self._pools = pools
        self._kill_at: float | None = None  # set when handlers were told to stop

    def tick(self, now: float) -> float:
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
