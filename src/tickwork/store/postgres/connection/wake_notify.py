"""Send NOTIFY to wake workers, rarely enough to cost little.

NOTIFY takes a lock on the whole server from just before its transaction commits until just after. So each process
notifies at most once per GAP_S: the first call is part of the transaction that stores the work and arrives with its
commit. Later calls are late: they are combined, and a thread sends them a moment later, or the next transaction that
stores work does (they ride with it), because a NOTIFY of its own costs a disk write, for which the next transaction has
to wait. Where many processes notify at once, they wait for that lock: after a transaction with NOTIFY that took long,
the next one comes later.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable

import psycopg

from tickwork.errors import StoreError
from tickwork.store.postgres.connection.connection_pool import VerbPool

_log = logging.getLogger("tickwork.store")

GAP_S = 0.01
SLACK_S = 0.002  # How long late calls wait for a transaction once their time has come.
SHARE = 8  # Transactions with NOTIFY may take this part of the time.
_IDLE_S = 1.0
_LONGEST_S = 2.0


class WakeNotifier:
    """Notifies at once, and then at most every GAP_S. No call is lost: a thread sends late ones."""

    def __init__(
        self, send: Callable[[], None], monotonic: Callable[[], float], is_inside: Callable[[], bool] = lambda: False
    ) -> None:
        """Create a notifier. While `is_inside` returns True (in a shared transaction), calls are ignored.

        The owner of the shared transaction calls after its commit.
        """
        self._send = send
        self._is_inside = is_inside
        self._monotonic = monotonic
        self._begin()

    def _begin(self) -> None:
        """Reset all state, on creation and in a forked child."""
        self._pid = os.getpid()
        self._lock = threading.RLock()  # Reentrant, because a store may be garbage-collected here, and flush.
        self._changed = threading.Condition(self._lock)
        self._sent_at = float("-inf")
        self._ride_at = float("-inf")
        self._late = False  # A call is still to be sent.
        self._sends_late = False  # A thread that sends late calls is running.

    def _stay_in_process(self) -> None:
        if os.getpid() != self._pid:  # After a fork the thread is only in the parent.
            self._begin()

    def ride(self) -> WakeAfterCommit:
        """Return a context manager for a transaction that stores work, which wakes the workers.

        Its value tells whether the transaction has to send NOTIFY itself; if not, the exit of the block calls.
        """
        self._stay_in_process()
        return WakeAfterCommit(self)

    def board(self) -> tuple[float, bool, bool]:
        """Return the time, whether a transaction that begins now sends NOTIFY, and whether that replaces a late
        call.
        """
        with self._lock:
            began = self._monotonic()
            rides = began >= self._sent_at + GAP_S and began >= self._ride_at
            late = rides and self._late
            if rides:
                self._sent_at = began
                self._late = False
        return began, rides, late

    def leave(self, began: float) -> None:
        """Note that a transaction with NOTIFY, which began at this time, was committed."""
        self._ride_at = began + min((self._monotonic() - began) * SHARE, _LONGEST_S)

    def call(self) -> None:
        """Wake the workers: at once, or a moment later together with other calls."""
        self._stay_in_process()
        if self._is_inside():
            return
        if self._late:  # The pending call is sent after this one.
            return
        with self._lock:
            if self._monotonic() < self._due() and self._send_later():
                return
            self._sent_at = self._monotonic()
        self._send()

    def _due(self) -> float:
        """Return when the thread sends a late call, unless a transaction has sent it before."""
        return self._sent_at + GAP_S + SLACK_S

    def _send_later(self) -> bool:
        """Leave a late call to the thread; return False if no thread can be started."""
        if not self._sends_late:
            thread = threading.Thread(target=self._keep_sending, name="tickwork-notifier", daemon=True)
            with contextlib.suppress(RuntimeError):  # New threads cannot start while the interpreter exits.
                thread.start()
                self._sends_late = True
        if self._sends_late and not self._late:
            self._late = True
            self._changed.notify()
        return self._sends_late

    def _keep_sending(self) -> None:
        """Send late calls when they are due, until there was none for a while."""
        while True:
            with self._lock:
                if not self._late:
                    self._changed.wait(_IDLE_S)
                if not self._late:
                    self._sends_late = False
                    return
                sent_at, wait_s = self._sent_at, self._due() - self._monotonic()
            threading.Event().wait(max(0.0, wait_s))
            if self._sent_at == sent_at:  # Otherwise a transaction has sent it, and a later call has a later time.
                self.flush()

    def flush(self) -> None:
        """Send a late call now. Do nothing if there is none."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            late, self._late = self._late, False
            if not late:
                return
            self._sent_at = self._monotonic()
        self._send()


class WakeAfterCommit:
    """The context manager around a transaction that stores work (see WakeNotifier.ride).

    A generator would take longer than everything else that it does.
    """

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


def sender(pool: VerbPool, channel: str) -> Callable[[], None]:
    """Return a function that sends NOTIFY. A notification is a hint: it need not be durable and may fail."""
    statement = f'BEGIN; SET LOCAL synchronous_commit TO off; NOTIFY "{channel}"; COMMIT'.encode()

    def send() -> None:
        try:
            with pool.lend() as connection:
                connection.execute(statement)
        except (StoreError, psycopg.Error) as error:
            _log.debug("Workers could not be woken (%s); they will poll.", error)

    return send
