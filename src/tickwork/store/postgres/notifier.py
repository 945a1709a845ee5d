"""Tells listening processes that there may be work, seldom enough to cost nothing.

NOTIFY takes a lock on the whole database when its transaction commits, so it is sent on its own, after the commit that
it tells of, and at most once in a while for each process: the first call at once, those that follow together a moment
later.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable

GAP_S = 0.01


class Notifier:
    """Calls `send` at once, and then no more often than every GAP_S. No call is lost: a timer sends late ones."""

    def __init__(self, send: Callable[[], None], monotonic: Callable[[], float]) -> None:
        self._send = send
        self._monotonic = monotonic
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._sent_at = float("-inf")
        self._timer: threading.Timer | None = None

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
