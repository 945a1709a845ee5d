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
from collections.abc import Callable, Iterator

GAP_S = 0.01
SLACK_S = 0.002  # how long late calls wait for a ride once their time has come
SHARE = 8  # rides may take this part of the time
_IDLE_S = 1.0
_LONGEST_S = 2.0


class Notifier:
    """Calls at once, and then no more often than every GAP_S. No call is lost: a thread sends late ones."""

    def __init__(self, send: Callable[[], None], monotonic: Callable[[], float]) -> None:
        self._send = send
        self._monotonic = monotonic
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._sent_at = float("-inf")
        self._ride_at = float("-inf")
        self._late = False  # a call is still to be sent
        self._sends_late = False  # there is a thread that does so

    def _stay_in_process(self) -> None:
        if os.getpid() != self._pid:  # forked: the thread stayed with the parent
            self._begin()

    @contextlib.contextmanager
    def ride(self) -> Iterator[bool]:
        """Around a transaction that brings work: whether it should call by itself. If not, a call follows it."""
        self._stay_in_process()
        with self._changed:
            began = self._monotonic()
            rides = began >= max(self._sent_at + GAP_S, self._ride_at)
            if rides:
                self._sent_at = began
                late, self._late = self._late, False
        try:
            yield rides
        except BaseException:
            if rides and late:
                self.call()
            raise
        if rides:
            self._ride_at = began + min((self._monotonic() - began) * SHARE, _LONGEST_S)
        else:
            self.call()

    def call(self) -> None:
        """Somebody should look for work."""
        self._stay_in_process()
        if self._late:  # what is sent then is sent after this
            return
        with self._changed:
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
            with self._changed:
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
        with self._changed:
            late, self._late = self._late, False
            if not late:
                return
            self._sent_at = self._monotonic()
        self._send()
