"""Wake a worker on NOTIFY, through one direct connection that listens and is opened again when it is lost.

A wake-up is only a hint: polling alone finds all work. A connection on which nothing arrives may be dead without either
side noticing. So the listener sends a query now and then, and opens another connection when no answer comes.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable
from random import Random

import psycopg

from tickwork.clock import SystemClock
from tickwork.errors import StoreError
from tickwork.store.postgres.connection.connector import CONNECT_S, behind_pooler
from tickwork.store.postgres.connection.libpq_connection import PgConnection

_log = logging.getLogger("tickwork.store")
_clock = SystemClock()
_FIRST_WAIT_S = 0.2
_LONGEST_WAIT_S = 10.0
PROBE_S = 30.0  # How often a quiet connection is probed.
ANSWER_S = 10.0  # Within which the answer must come.


class Listener:
    """A waiter that becomes readable after each NOTIFY on a channel.

    Its descriptor is the listening connection's, so that a NOTIFY wakes the worker directly. While a thread opens a
    connection, the descriptor is a socket that becomes readable once that is done.
    """

    def __init__(self, connect: Callable[[], PgConnection], channel: str) -> None:
        self._connect = connect
        self._channel = channel
        self._random = Random()
        self._connection: PgConnection | None = None
        self._news, self._teller = socket.socketpair()
        for end in (self._news, self._teller):
            end.setblocking(False)
        self._closing = threading.Event()
        self._in_vain = False  # The connection leads through a pooler.
        self._heard_at = 0.0
        self._asked_at: float | None = None
        self._begin()

    def fileno(self) -> int:
        """Return the descriptor to wait on. It is called before each wait, so it also probes a silent connection."""
        self._probe(_clock.monotonic())
        connection = self._connection
        if self._in_vain:
            return -1
        if connection is not None:
            with contextlib.suppress(psycopg.Error):  # The connection was closed just now.
                return connection.fileno()
        return self._news.fileno()

    def clear(self) -> None:
        """Discard wake-ups: read all notifications, and the answer to a probe."""
        with contextlib.suppress(BlockingIOError):
            while self._news.recv(4096):
                pass
        connection = self._connection
        if connection is None:
            return
        try:
            connection.pgconn.consume_input()
            while connection.pgconn.notifies() is not None:
                pass
            while self._asked_at is not None and not connection.pgconn.is_busy():
                if connection.pgconn.get_result() is None:
                    self._asked_at = None
            self._heard_at = _clock.monotonic()
        except psycopg.Error as error:
            self._lose(connection, str(error))

    def _probe(self, now: float) -> None:
        """Send a query on a connection that was quiet for long, and close the connection if no answer comes."""
        connection = self._connection
        if connection is None or now - self._heard_at < PROBE_S:
            return
        try:
            if self._asked_at is None:
                self._asked_at = now
                connection.pgconn.send_query(b"SELECT 1")
                connection.pgconn.flush()
            elif now - self._asked_at > ANSWER_S:
                self._lose(connection, f"no answer within {ANSWER_S:g} s")
        except psycopg.Error as error:
            self._lose(connection, str(error))

    def _lose(self, connection: PgConnection, reason: str) -> None:
        """Close a broken connection and start the thread that opens another one."""
        _log.debug("The listening connection is gone (%s); it is made again.", reason)
        self._connection = None
        connection.close()
        self._begin()

    def close(self) -> None:
        self._closing.set()
        self._thread.join(timeout=10)
        if self._connection is not None:
            self._connection.close()
        for end in (self._news, self._teller):
            end.close()

    # -- the thread

    def _begin(self) -> None:
        """Start the thread that opens a listening connection."""
        self._thread = threading.Thread(target=self._listen, name="tickwork-listener", daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        """Open a listening connection, with backoff after failures.

        Notifications may have been missed meanwhile, so success makes the waiter readable.
        """
        wait_s = _FIRST_WAIT_S
        while not self._closing.is_set():
            try:
                connection = self._connect()
                with connection.within(CONNECT_S):
                    if behind_pooler(connection):
                        _log.warning("Cannot listen through a pooler: new work is found by polling.")
                        connection.close()
                        self._in_vain = True
                        return
                    connection.execute(f'LISTEN "{self._channel}"'.encode())
            except (StoreError, psycopg.Error) as error:
                _log.debug("Cannot listen yet (%s).", error)
                wait_s = min(wait_s * 2, _LONGEST_WAIT_S)
                self._closing.wait(wait_s * (0.5 + self._random.random() / 2))
                continue
            self._heard_at, self._asked_at = _clock.monotonic(), None
            self._connection = connection
            with contextlib.suppress(OSError):
                self._teller.send(b"!")
            return
