"""Tells listening processes that there may be work, seldom enough to cost nothing.

NOTIFY takes a lock on the whole server from just before its transaction commits until just after. So each process
calls at most once in a while: the first call rides on the transaction that brings the work and arrives with its commit,
those that follow go together a moment later. They ride as well if more work comes, for a call on its own costs the disk
a write, which the next transaction has to wait for. Where many processes call at once, that lock is what they wait for:
a ride that took long is not repeated soon.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable

GAP_S = 0.01
SLACK_S = 0.002  # how long late calls wait for a ride once their time has come
SHARE = 8  # rides may take this part of the time
_IDLE_S = 1.0
_LONGEST_S = 2.0


class WakeNotifier:
    """Calls at once, and then no more often than every GAP_S. No call is lost: a thread sends late ones."""

    def __init__(
        self, send: Callable[[], None], monotonic: Callable[[], float], is_inside: Callable[[], bool] = lambda: False
    ) -> None:
        """While the caller `is_inside` a transaction of several verbs, calls are left out; one follows the commit."""
        self._send = send
        self._is_inside = is_inside
        self._monotonic = monotonic
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()  # a store may be collected, and flush, just here
        self._changed = threading.Condition(self._lock)
        self._sent_at = float("-inf")
        self._ride_at = float("-inf")
        self._late = False  # a call is still to be sent
        self._sends_late = False  # there is a thread that does so

    def _stay_in_process(self) -> None:
        if os.getpid() != self._pid:  # forked: the thread stayed with the parent
            self._begin()

    def ride(self) -> WakeAfterCommit:
        """Around a transaction that brings work: whether it should call by itself. If not, a call follows it."""
        self._stay_in_process()
        return WakeAfterCommit(self)

    def board(self) -> tuple[float, bool, bool]:
        """When a transaction begins, whether it should call, and whether late calls depend on it."""
        with self._lock:
            began = self._monotonic()
            rides = began >= self._sent_at + GAP_S and began >= self._ride_at
            late = rides and self._late
            if rides:
                self._sent_at = began
                self._late = False
        return began, rides, late

    def leave(self, began: float) -> None:
        """That transaction called, and was stored."""
        self._ride_at = began + min((self._monotonic() - began) * SHARE, _LONGEST_S)

    def call(self) -> None:
        """Somebody should look for work."""
        self._stay_in_process()
        if self._is_inside():
            return
        if self._late:  # what is sent then is sent after this
            return
        with self._lock:
            if self._monotonic() < self._due() and self._send_later():
                return
            self._sent_at = self._monotonic()
        self._send()

    def _due(self) -> float:
        """When a late call goes on its own, unless a ride came first."""
        return self._sent_at + GAP_S + SLACK_S

    def _send_later(self) -> bool:
        if not self._sends_late:
            thread = threading.Thread(target=self._keep_sending, name="tickwork-notifier", daemon=True)
            with contextlib.suppress(RuntimeError):  # no new threads while the interpreter ends
                thread.start()
                self._sends_late = True
        if self._sends_late and not self._late:
            self._late = True
            self._changed.notify()
        return self._sends_late

    def _keep_sending(self) -> None:
        """Send late calls at their time, until there was none for a while."""
        while True:
            with self._lock:
                if not self._late:
                    self._changed.wait(_IDLE_S)
                if not self._late:
                    self._sends_late = False
                    return
                sent_at, wait_s = self._sent_at, self._due() - self._monotonic()
            threading.Event().wait(max(0.0, wait_s))
            if self._sent_at == sent_at:  # else a ride came first, and what is late now has its own time
                self.flush()

    def flush(self) -> None:
        """Send what still waits to be sent."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            late, self._late = self._late, False
            if not late:
                return
            self._sent_at = self._monotonic()
        self._send()


class WakeAfterCommit:
    """The block around a transaction that brings work. (A generator would take longer than all the rest of it.)"""

    __slots__ = ("_began", "_late", "_notifier", "_rides")

    def __init__(self, notifier: WakeNotifier) -> None:
        self._notifier = notifier

    def __enter__(self) -> bool:
        self._began, self._rides, self._late = self._notifier.board()
        return self._rides

    def __exit__(self, raised: type[BaseException] | None, *_: object) -> None:
        if raised is not None:
            if self._late:
                self._notifier.call()
        elif self._rides:
            self._notifier.leave(self._began)
        else:
            self._notifier.call()
