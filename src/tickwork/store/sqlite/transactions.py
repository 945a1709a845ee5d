"""Transactions on the file of a SQLite store: begin, join, commit, and wake the workers that wait for what they store.

A writing verb is one `BEGIN IMMEDIATE` transaction on the one writing connection of this process; reads have
connections of their own. A writer excludes all others until its commit, so rows need no locks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any, TypeVar

import msgspec

from tickwork.errors import check
from tickwork.store.base import PollOnlyWaiter, Waiter
from tickwork.store.shared_transaction import SharedTransaction, ThreadTransaction
from tickwork.store.sql_files import load_statements
from tickwork.store.sqlite.file.clock import StoreClock
from tickwork.store.sqlite.file.connection import Connection
from tickwork.store.sqlite.file.file import SqliteFile
from tickwork.store.sqlite.file.transaction import UserConnection
from tickwork.store.sqlite.file.wake import SocketWaiter, wake_all

T = TypeVar("T")

SQL = load_statements("tickwork.store.sqlite")
AT_ONCE = 32


class Transaction:
    """Runs named statements on a connection, at one instant of the store's clock (`now`).

    `opened`: held jobs may start after the commit, so workers are to be woken.
    """

    __slots__ = ("connection", "now", "opened")

    def __init__(self, connection: Connection, now: int) -> None:
        self.connection = connection
        self.now = now
        self.opened = False

    def run(self, statement: str, values: Any = ()) -> list[Any]:
        """Run a statement and return its rows."""
        return self.connection.run(SQL[statement], values)

    def first(self, statement: str, values: Any = ()) -> Any:
        """Run a statement and return its first row; None if it has none."""
        return next(iter(self.connection.run(SQL[statement], values)), None)

    def value(self, statement: str, values: Any = ()) -> Any:
        """Run a statement of one column and return the value of its first row; None if it has none."""
        return next((value for (value,) in self.connection.run(SQL[statement], values)), None)

    def column(self, statement: str, values: Any = ()) -> list[Any]:
        """Run a statement of one column and return its values."""
        return [value for (value,) in self.connection.run(SQL[statement], values)]

    def run_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement that returns no rows, for each row of values."""
        if rows:
            self.connection.run_many(SQL[statement], rows)

    def insert_many(self, statement: str, values: Sequence[Sequence[Any]]) -> None:
        """Run an INSERT that ends with its VALUES for each row. AT_ONCE rows per statement take half the time."""
        whole = len(values) - len(values) % AT_ONCE
        if whole:
            parts = [tuple(chain.from_iterable(values[at : at + AT_ONCE])) for at in range(0, whole, AT_ONCE)]
            self.connection.run_many(_at_once(SQL[statement]), parts)
        self.run_many(statement, values[whole:] if whole else values)


@cache
def _at_once(sql: str) -> str:
    """Return the same INSERT for AT_ONCE rows."""
    what, values, row = sql.rpartition("VALUES ")
    check(row.rstrip().endswith(")"), f"This statement does not end with its VALUES: {sql}")
    return f"{what}{values}{', '.join([row] * AT_ONCE)}"


def as_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


class SqliteSharedTransaction:
    """A transaction that several verbs share.

    It begins with the first write, so that it blocks no writer before that.
    """

    def __init__(self, begin: Callable[[], UserConnection]) -> None:
        self._begin = begin
        self._tx: UserConnection | None = None

    @property
    def has_begun(self) -> bool:
        """Return whether a verb has written in the transaction."""
        return self._tx is not None

    def begin(self) -> UserConnection:
        """Begin the transaction if it has not begun; return its connection."""
        if self._tx is None:
            self._tx = self._begin()
        return self._tx


class SqliteTransactions:
    """The transactions of a store. All groups of verbs share this object."""

    def __init__(self, file: SqliteFile, clock: StoreClock) -> None:
        self.clock = clock
        self._file = file
        self._here = ThreadTransaction[SqliteSharedTransaction]()

    @contextlib.contextmanager
    def write(self, tx: Any = None) -> Iterator[Transaction]:
        """Open a write transaction, or join the transaction of the caller (`tx`) or the one that this thread's
        verbs share.
        """
        if tx is None and self._here.together is not None:
            tx = self._here.together.held.begin()
        with self._file.writing() if tx is None else self._file.borrowed(tx) as connection:
            yield Transaction(connection, self.clock.now_us(connection, may_write=True))

    @contextlib.contextmanager
    def read(self) -> Iterator[Transaction]:
        """Open a read transaction.

        If this thread's verbs share a transaction that has begun, join it to see its writes.
        """
        if self._here.together is not None and self._here.together.held.has_begun:
            with self.write() as transaction:
                yield transaction
            return
        with self._file.reading() as connection:
            yield Transaction(connection, self.clock.now_us(connection, may_write=False))

    def for_user(self) -> contextlib.AbstractContextManager[Any]:
        """Open a transaction for the caller's own statements. Its commit wakes the workers."""
        return self._file.user_transaction(self.wake)

    def in_one_transaction(self, work: Callable[[], T]) -> T:
        """Run `work` so that its verbs share one transaction, which begins with the first write; return its result.

        Work that verbs do after their commit is done after this one.
        """
        if self._here.together is not None:
            return work()
        with contextlib.ExitStack() as stack:
            shared = SqliteSharedTransaction(lambda: stack.enter_context(self.for_user()))
            self._here.together = together = SharedTransaction(shared)
            try:
                result = work()
            finally:
                self._here.together = None
        for later in together.after_commit:
            later()
        return result

    def after_commit(self, work: Callable[[], object]) -> None:
        """Run `work` after the thread's shared transaction has committed; at once if there is none."""
        self._here.after_commit(work)

    def wake(self) -> None:
        """Wake the workers of all processes that wait for work in this file."""
        if self._file.wake_folder is not None:
            wake_all(self._file.wake_folder)

    def waiter(self) -> Waiter:
        """Return a waiter that `wake` signals; where no socket can be created, one that only polls."""
        if self._file.wake_folder is None:
            return PollOnlyWaiter()
        try:
            return SocketWaiter(self._file.wake_folder)
        except OSError:
            return PollOnlyWaiter()
