"""Wakes a worker when PostgreSQL says that there is work.

A thread holds one direct connection that listens, and makes a socket readable for each call. It connects again by
itself; as calls may have been missed meanwhile, that counts as one. It is only a hint: polling alone finds everything.
"""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import threading
from collections.abc import Callable
from random import Random

import psycopg

from tickwork.errors import StoreError
from tickwork.store.postgres.pool import Connection, behind_pooler

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
    """A waiter that is readable after each NOTIFY on a channel."""

    def __init__(self, connect: Callable[[], Connection], channel: str) -> None:
        self._connect = connect
        self._channel = channel
        self._random = Random()
        self._calls, self._caller = socket.socketpair()
        self._closing, self._closer = socket.socketpair()
        for end in (self._calls, self._caller):
            end.setblocking(False)
        self._thread = threading.Thread(target=self._listen, name="tickwork-listener", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        return self._calls.fileno()

    def clear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._calls.recv(4096):
                pass

    def close(self) -> None:
        self._closer.close()  # its other end becomes readable
        self._thread.join(timeout=10)
        for end in (self._calls, self._caller, self._closing):
            end.close()

    # -- the thread

    def _listen(self) -> None:
        wait_s = _FIRST_WAIT_S
        while True:
            try:
                with self._connect() as connection:
                    if behind_pooler(connection):
                        _log.warning("Nobody can listen through a pooler: new work is found by polling.")
                        return
                    wait_s = _FIRST_WAIT_S
                    if self._pass_on_calls(connection):
                        return
            except (StoreError, psycopg.Error) as error:
                _log.debug("The listening connection is gone (%s); it is made again.", error)
            wait_s = min(wait_s * 2, _LONGEST_WAIT_S)
            if self._closed_within(wait_s * (0.5 + self._random.random() / 2)):
                return

    def _pass_on_calls(self, connection: Connection) -> bool:
        """Wake for every call, until the waiter is closed (True) or the connection fails."""
        connection.execute(f'LISTEN "{self._channel}"'.encode())
        self._wake()
        while True:
            readable, _, _ = select.select([connection.fileno(), self._closing.fileno()], [], [])
            if self._closing.fileno() in readable:
                return True
            connection.pgconn.consume_input()
            while connection.pgconn.notifies() is not None:
                self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):  # full: it is readable anyway
            self._caller.send(b"!")

    def _closed_within(self, wait_s: float) -> bool:
        return bool(select.select([self._closing], [], [], wait_s)[0])
