"""Lend connections to verbs, and bound how many calls of one kind have one at the same time."""

from __future__ import annotations

import os
from queue import Empty, SimpleQueue

from tickwork.errors import StoreUnreachable
from tickwork.store.postgres.connection.connection_pool import ConnectionPool
from tickwork.store.postgres.connection.libpq_connection import PgConnection


class VerbPool:
    """Lends connections of a `ConnectionPool`, at most `size` at a time. Several verb pools may share one.

    Calls that must not wait for others have a pool of their own: they get a connection as long as the server has one.
    """

    def __init__(self, stock: ConnectionPool, size: int) -> None:
        self._stock = stock
        self._size = size
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._tickets: SimpleQueue[None] = SimpleQueue()
        for _ in range(self._size):
            self._tickets.put(None)

    def lend(self) -> LentForVerb:
        """Lend a connection outside of any transaction. A connection that comes back broken or busy is closed."""
        if os.getpid() != self._pid:
            self._begin()
        return LentForVerb(self, self._tickets, self._stock)

    def exhausted(self) -> StoreUnreachable:
        server = self._stock.server
        return StoreUnreachable(
            f"all {self._size} connections to {server.where} were busy for {server.wait_s:g} s. Nothing was done."
        )


class LentForVerb:
    """The context manager that lends a connection. A generator would take longer than all the rest of it."""

    __slots__ = ("_connection", "_pool", "_stock", "_tickets")

    def __init__(self, pool: VerbPool, tickets: SimpleQueue[None], stock: ConnectionPool) -> None:
        self._pool = pool
        self._tickets = tickets
        self._stock = stock

    def __enter__(self) -> PgConnection:
        try:
            self._tickets.get(timeout=self._stock.server.wait_s)
        except Empty:
            raise self._pool.exhausted() from None
        try:
            self._connection = self._stock.take()
        except BaseException:
            self._tickets.put(None)
            raise
        return self._connection

    def __exit__(self, *_: object) -> None:
        self._stock.give_back(self._connection)
        self._tickets.put(None)
