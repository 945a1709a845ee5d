"""Connection pool of one process: connections to one server, opened on demand, reused, and closed when idle.

A server has few connections and many processes need some. So a process that does little holds one: a call that finds
all its connections in use waits a moment before it opens another, unless that happens often. A connection that was not
used for a while is closed. When the server has no connection left, a call waits for one, of its own process or of the
server, and fails only after a time. Verbs of one kind (`VerbPool`) get a bounded number of these connections.
"""

from __future__ import annotations

import contextlib
import os
import threading
from queue import Empty, SimpleQueue
from random import Random

from tickwork.clock import SystemClock
from tickwork.errors import StoreUnreachable
from tickwork.store.postgres.connection.connector import Connector
from tickwork.store.postgres.connection.error_mapping import TooManyConnections
from tickwork.store.postgres.connection.libpq_connection import PgConnection

_clock = SystemClock()
_random = Random()
PATIENCE_S = 0.05  # How long a call waits for a connection that is in use, rather than open another.
PATIENT_CALLS = 10  # Calls in a second that wait before the pool opens another connection.
_AGAIN_S = 0.5  # At most, until a server that refused a connection is asked again.

# Connections of the parent, in a forked child. They are kept open: closing one would end the parent's session.
_inherited: list[PgConnection] = []


class ConnectionPool:
    """Open connections to one server, for Tickwork's own statements or, without `ours`, for the caller's.

    Safe to use from many threads.
    """

    def __init__(self, server: Connector, idle_s: float, *, ours: bool = True) -> None:
        self.server = server
        self._idle_s = idle_s
        self._ours = ours
        self._begin()

    def _begin(self) -> None:
        """Reset all state, on creation and in a forked child."""
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._freed = threading.Condition(self._lock)
        self.idle: list[PgConnection] = []  # The connection that was used last is at the end.
        self.open = 0  # Idle, in use, or being opened.
        self._waiting = 0
        self._patient_since = 0.0
        self._patient_calls = 0
        self._closes = False  # A thread closes idle connections.

    def take(self) -> PgConnection:
        """Return a connection outside of any transaction: an idle one that still works, else a new one.

        For Tickwork's own transactions the deadline begins here.
        """
        if os.getpid() != self._pid:
            _inherited.extend(self.idle)
            self._begin()
        connection = self._pop() or self._pop_soon() or self._connect()
        if self._ours:
            connection.answer_within(self.server.answer_s)
        return connection

    def give_back(self, connection: PgConnection) -> None:
        """Keep a connection for the next call; close it if it is broken or busy."""
        if not connection.is_idle():
            self._discard(connection)
            return
        connection.idle_since = _clock.monotonic()
        self.idle.append(connection)
        if self._waiting:
            with self._lock:
                self._freed.notify()
        if not self._closes:
            self._start_closing()

    def close(self) -> None:
        """Close the idle connections."""
        while os.getpid() == self._pid and (connection := self._popped(-1)) is not None:
            self._discard(connection)

    # -- getting a connection

    def _popped(self, place: int) -> PgConnection | None:
        """Remove an idle connection from the list and return it; None if there is none."""
        try:
            return self.idle.pop(place)
        except IndexError:
            return None

    def _pop(self) -> PgConnection | None:
        """Return the idle connection that was used last and still works; None if there is none."""
        while (connection := self._popped(-1)) is not None:
            if connection.is_quiet():
                return connection
            self._discard(connection)
        return None

    def _pop_soon(self) -> PgConnection | None:
        """Wait a moment for a connection that is in use, and return it; None if none was given back.

        If calls wait often, there are too few connections, and this returns None at once.
        """
        if not self._ours or not self.open:
            return None
        now = _clock.monotonic()
        if now - self._patient_since > 1.0:
            self._patient_since, self._patient_calls = now, 0
        self._patient_calls += 1
        return self._wait(PATIENCE_S) if self._patient_calls <= PATIENT_CALLS else None

    def _wait(self, seconds: float) -> PgConnection | None:
        """Wait up to this time for a connection to be given back; return it, or None."""
        with self._lock:
            self._waiting += 1
            if not self.idle:
                self._freed.wait(seconds)
            self._waiting -= 1
        return self._pop()

    def _connect(self) -> PgConnection:
        """Open a connection and return it.

        While the server refuses, wait for the server or for a connection given back.
        """
        until: float | None = None
        while True:
            try:
                return self._opened()
            except TooManyConnections:
                now = _clock.monotonic()
                until = until or now + self.server.wait_s
                if now >= until:
                    raise
            connection = self._wait(_AGAIN_S * (0.2 + 0.8 * _random.random()))
            if connection is not None:
                return connection

    def _opened(self) -> PgConnection:
        """Open a connection, counted as open from before the attempt, and return it."""
        self._count(1)
        try:
            return self.server.connect(ours=self._ours)
        except BaseException:
            self._count(-1)
            raise

    def _discard(self, connection: PgConnection) -> None:
        connection.close()
        self._count(-1)

    def _count(self, change: int) -> None:
        with self._lock:
            self.open += change

    # -- closing idle connections

    def _start_closing(self) -> None:
        """Start the thread that closes idle connections, unless it runs."""
        with self._lock:
            if self._closes:
                return
            self._closes = True
        with contextlib.suppress(RuntimeError):  # New threads cannot start while the interpreter exits.
            threading.Thread(target=self._keep_closing, name="tickwork-connections", daemon=True).start()

    def _keep_closing(self) -> None:
        """Close connections that were not used for a while, until none is open."""
        while True:
            threading.Event().wait(self._idle_s / 4)
            self._close_unused(_clock.monotonic() - self._idle_s)
            with self._lock:
                if not self.open:
                    self._closes = False
                    return

    def _close_unused(self, before: float) -> None:
        """Close idle connections that were last used before this time, the oldest first."""
        while self.idle and (connection := self._popped(0)) is not None:
            if connection.idle_since > before:
                self.idle.insert(0, connection)
                return
            self._discard(connection)


class VerbPool:
    """Lends connections of a `ConnectionPool`, at most `size` at a time. Several verb pools may share a connection
    pool.

    Calls that must not wait for others have a verb pool of their own: they get a connection as long as the server has
    one.
    """

    def __init__(self, connections: ConnectionPool, size: int) -> None:
        self._connections = connections
        self._size = size
        self._begin()

    def _begin(self) -> None:
        """Reset all state, on creation and in a forked child."""
        self._pid = os.getpid()
        self._tickets: SimpleQueue[None] = SimpleQueue()
        for _ in range(self._size):
            self._tickets.put(None)

    def lend(self) -> LentForVerb:
        """Return a context manager that lends a connection outside of any transaction, and closes it if it comes
        back broken.
        """
        if os.getpid() != self._pid:
            self._begin()
        return LentForVerb(self, self._tickets, self._connections)

    def exhausted(self) -> StoreUnreachable:
        """Return the error for a call that has waited too long for a connection."""
        server = self._connections.server
        return StoreUnreachable(
            f"all {self._size} connections to {server.where} were busy for {server.wait_s:g} s. Nothing was done."
        )


class LentForVerb:
    """The context manager that lends a connection. A generator would take longer than everything else that it does."""

    __slots__ = ("_connection", "_connections", "_pool", "_tickets")

    def __init__(self, pool: VerbPool, tickets: SimpleQueue[None], connections: ConnectionPool) -> None:
        self._pool = pool
        self._tickets = tickets
        self._connections = connections

    def __enter__(self) -> PgConnection:
        try:
            self._tickets.get(timeout=self._connections.server.wait_s)
        except Empty:
            raise self._pool.exhausted() from None
        try:
            self._connection = self._connections.take()
        except BaseException:
            self._tickets.put(None)
            raise
        return self._connection

    def __exit__(self, *_: object) -> None:
        self._connections.give_back(self._connection)
        self._tickets.put(None)
