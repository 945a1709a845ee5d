"""Transactions on a connection: those of the store, and those that a caller opens or lends."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from typing import Any

from tickwork.errors import InvalidInput
from tickwork.store.sqlite.file.connection import Connection

ENDED = "whose block has ended. Nothing was stored. Use it inside of the block."


class transaction:
    """A transaction around a block: committed at its end, rolled back when it raises.

    With a `turn` it writes, and holds the turn while it begins; without one it reads.
    """

    def __init__(self, connection: Connection, turn: AbstractContextManager[None] | None = None) -> None:
        self._connection = connection
        self._turn = turn

    def __enter__(self) -> Connection:
        if self._turn is None:
            self._connection.run("BEGIN")
        else:
            with self._turn:
                self._connection.run("BEGIN IMMEDIATE")
        return self._connection

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                self._connection.run("COMMIT")
        except BaseException:
            roll_back(self._connection)
            raise
        if error is not None:
            roll_back(self._connection)


def roll_back(connection: Connection) -> None:
    """Roll back the open transaction, if there is one; ignore errors."""
    with contextlib.suppress(Exception):
        connection.run("ROLLBACK")


def driver_connection(tx: Any) -> Any:
    """Return the driver's connection of a SQLAlchemy session or connection; return any other object unchanged.

    Asynchronous ones are returned unchanged, too, and so refused: they cannot be used from synchronous code.
    """
    if type(tx).__name__.lower().startswith("async"):
        return tx
    if hasattr(tx, "get_bind") and hasattr(tx, "connection"):  # A session.
        tx = tx.connection()
    if not hasattr(tx, "exec_driver_sql"):
        return tx
    if not tx.in_transaction():
        tx.exec_driver_sql("SELECT 1")  # SQLAlchemy begins its transaction with the first statement.
    return tx.connection.driver_connection


class UserConnection:
    """The object that `app.connection()` yields: `execute(sql, values)` with `fetchall()`, inside one transaction.

    `owner` and `path` name the file. `has_ended`: its block is over. A file in memory has only one connection, which
    may be in another transaction then.
    """

    def __init__(self, inner: Connection, owner: object, path: str) -> None:
        self.inner = inner
        self.owner = owner
        self.path = path
        self.has_ended = False

    def execute(self, sql: str, values: Any = ()) -> ResultRows:
        """Run a statement and return its rows. Raise InvalidInput after the end of the block."""
        if self.has_ended:
            raise InvalidInput(f"this is an app.connection() {ENDED}")
        return ResultRows(self.inner.run(sql, values))


class ResultRows:
    """The rows of a statement."""

    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows

    def fetchall(self) -> list[Any]:
        return self._rows

    def fetchone(self) -> Any:
        return self._rows[0] if self._rows else None
