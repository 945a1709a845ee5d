"""Stop handlers before the lease of their worker ends, even while the worker's other threads are blocked.

The worker's tick stops handlers, too, but it also calls the store, and a call may block until its deadline: a silent
connection, a stalled disk. This service makes no store calls, waits only for time, and runs on its own thread. So no
handler outlives the lease, as long as the worker process itself is scheduled.
"""

from __future__ import annotations

import logging
from typing import Protocol

from tickwork.worker.heartbeat import Lease

_log = logging.getLogger("tickwork.worker")
LOOKS = 10  # checks per lease duration
LAST_LOOKS = 40  # the same, after the handlers were told to stop
KILL_SHARE = 20  # handlers that did not stop are killed 1/20 of the lease duration before its end


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
