"""Wakes a worker when PostgreSQL says that there is work.

One direct connection listens. It is made again when it is lost. It is only a hint: polling alone finds everything.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable
from random import Random

import psycopg

from tickwork.errors import StoreError
from tickwork.store.postgres.pool import behind_pooler
from tickwork.store.postgres.wire import Connection

_log = logging.getLogger("tickwork.store")
_FIRST_WAIT_S = 0.2
_LONGEST_WAIT_S = 10.0


class PollOnlyWaiter:
    """For a database that is reached through a pooler, where nobody can listen."""

    def fileno(self) -> int:
        return -1

    def clear(self) -> None: ...

    def close(self) -> None: ...


class Listener:
    """A waiter that is readable after each NOTIFY on a channel.

    Its descriptor is the listening connection's own, so that a call wakes the worker without a detour; while there is
    no connection, and a thread makes one, it is a socket that tells when there is.
    """

    def __init__(self, connect: Callable[[], Connection], channel: str) -> None:
        self._connect = connect
        self._channel = channel
        self._random = Random()
        self._connection: Connection | None = None
        self._news, self._teller = socket.socketpair()
        for end in (self._news, self._teller):
            end.setblocking(False)
        self._closing = threading.Event()
        self._in_vain = False  # the connection leads through a pooler
        self._begin()

    def fileno(self) -> int:
        connection = self._connection
        if self._in_vain:
            return -1
        if connection is not None:
            with contextlib.suppress(psycopg.Error):  # closed just now
                return connection.fileno()
        return self._news.fileno()

    def clear(self) -> None:
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
        except psycopg.Error as error:
            _log.debug("The listening connection is gone (%s); it is made again.", error)
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
        self._thread = threading.Thread(target=self._listen, name="tickwork-listener", daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        """Connect, sooner or later. Calls may have been missed meanwhile, so that counts as one."""
        wait_s = _FIRST_WAIT_S
        while not self._closing.is_set():
            try:
                connection = self._connect()
                if behind_pooler(connection):
                    _log.warning("Nobody can listen through a pooler: new work is found by polling.")
                    connection.close()
                    self._in_vain = True
                    return
                connection.execute(f'LISTEN "{self._channel}"'.encode())
            except (StoreError, psycopg.Error) as error:
                _log.debug("Nobody can listen yet (%s).", error)
                wait_s = min(wait_s * 2, _LONGEST_WAIT_S)
                self._closing.wait(wait_s * (0.5 + self._random.random() / 2))
                continue
            self._connection = connection
            with contextlib.suppress(OSError):
                self._teller.send(b"!")
            return
