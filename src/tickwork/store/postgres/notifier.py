"""Tells listening processes that there may be work, seldom enough to cost nothing.

NOTIFY takes a lock on the whole server from just before its transaction commits until just after. So each process
calls at most once in a while: the first call rides on the transaction that brings the work and arrives with its commit,
those that follow go together a moment later, on their own. Where many processes call at once, that lock is what they
wait for: a ride that took long is not repeated soon.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator

GAP_S = 0.01
SHARE = 20  # rides may take this part of the time


class Notifier:
    """Calls at once, and then no more often than every GAP_S. No call is lost: a timer sends late ones."""

    def __init__(self, send: Callable[[], None], monotonic: Callable[[], float]) -> None:
        self._send = send
        self._monotonic = monotonic
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._sent_at = float("-inf")
        self._ride_at = float("-inf")
        self._timer: threading.Timer | None = None

    @contextlib.contextmanager
    def ride(self) -> Iterator[bool]:
        """Around a transaction that brings work: whether it should call by itself. If not, a call follows it."""
        rides = self._may_ride()
        yield rides
        if rides:
            took_s = self._monotonic() - self._sent_at
            self._ride_at = self._monotonic() + max(GAP_S, took_s * SHARE)
        else:
            self.call()

    def _may_ride(self) -> bool:
        if os.getpid() != self._pid:
            self._begin()
        with self._lock:
            now = self._monotonic()
            if self._timer is not None or now < max(self._sent_at + GAP_S, self._ride_at):
                return False
            self._sent_at = now
            return True

    def call(self) -> None:
        """Somebody should look for work."""
        if os.getpid() != self._pid:  # forked: the timer stayed with the parent
            self._begin()
        with self._lock:
            if self._timer is not None:
                return
            wait_s = self._sent_at + GAP_S - self._monotonic()
            if wait_s > 0 and self._send_later(wait_s):
                return
            self._sent_at = self._monotonic()
        self._send()

    def _send_later(self, wait_s: float) -> bool:
        timer = threading.Timer(wait_s, self.flush)
        timer.daemon = True
        with contextlib.suppress(RuntimeError):  # no new threads while the interpreter ends
            timer.start()
            self._timer = timer
        return self._timer is not None

    def flush(self) -> None:
        """Send what still waits to be sent."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            timer, self._timer = self._timer, None
            if timer is None:
                return
            self._sent_at = self._monotonic()
        timer.cancel()
        self._send()
