"""A session: the statements of one verb on one connection, with their transaction; and helpers that read rows."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from tickwork.store.postgres.connection.libpq_connection import PgConnection, Rows, Statement, Values

T = TypeVar("T")
Steps = Generator[Statement, Rows, T]
"""A verb as a generator that yields statements with values and receives their rows.

So one implementation runs on Tickwork's own connections and on the caller's, sync and async, with any library.
"""

_COMMIT: Statement = ("COMMIT", {})


class Session:
    """Runs the statements of one verb on a connection. `again`: an earlier try of the verb may have been committed.

    The statements in `begin` open a transaction. They are sent with the first statements, and the commit may be sent
    with the last ones: neither takes a round trip of its own. Without `begin`, the caller owns the transaction, if
    there is one. While several verbs share the session (`is_shared`), none of them commits it.
    """

    __slots__ = ("_begin", "_connection", "_is_open", "_sql", "again", "is_shared", "now")

    def __init__(
        self,
        connection: PgConnection,
        sql: dict[str, str],
        now: datetime | None,
        again: bool,
        begin: Sequence[str] = (),
    ) -> None:
        self.now = now
        self.again = again
        self.is_shared = False
        self._connection = connection
        self._sql = sql
        self._begin = begin
        self._is_open = False

    @property
    def connection(self) -> PgConnection:
        """Return the connection, inside the transaction."""
        if self._begin:
            self._run([])
        return self._connection

    def run(self, statement: str, /, **values: Any) -> Rows:
        """Run a named statement and return its rows."""
        return self.run_sql(self._sql[statement], {"now": self.now, **values})

    def find(self, statement: str, /, **values: Any) -> Any:
        """Run a named statement; return its first row, or None."""
        return one_row(self.run(statement, **values))

    def run_sql(self, sql: str, values: Values) -> Rows:
        """Run SQL text with values and return its rows."""
        return self._run([(sql, values)])[0]

    def run_steps(self, steps: Steps[T]) -> T:
        """Run the steps of a verb to their end and return their result."""
        return drive(steps, self.run_sql)

    def run_together(self, statements: Sequence[Statement]) -> list[Rows]:
        """Run statements in one round trip and return the rows of each.

        Outside of a transaction, they are one transaction.
        """
        return self._run(statements)

    def run_last(self, statements: Sequence[Statement]) -> list[Rows]:
        """Run the last statements of a transaction and its commit in one round trip; return the rows of each."""
        if self.is_shared or (not self._begin and not self._is_open):
            return self._run(statements)
        *rows, _ = self._run([*statements, _COMMIT])
        self._is_open = False
        return rows

    def commit(self) -> None:
        """Commit the transaction. Do nothing if none is open."""
        if self._is_open:
            self.run_last([])

    def _run(self, statements: Sequence[Statement]) -> list[Rows]:
        """Run statements, preceded by the begin of the transaction if it is not open yet."""
        if not self._begin:
            return self._connection.run(statements)
        begin: list[Statement] = [(sql, {}) for sql in self._begin]
        self._begin, self._is_open = (), True
        return self._connection.run([*begin, *statements])[len(begin) :]


def drive(steps: Steps[T], run: Callable[[str, Values], Rows]) -> T:
    """Run steps to their end with `run`; return their result."""
    try:
        sql, values = next(steps)
        while True:
            sql, values = steps.send(run(sql, values))
    except StopIteration as done:
        result: T = done.value
        return result


def one_row(rows: Rows) -> Any:
    """Return the first row, or None if there is none."""
    return next(iter(rows), None)


def one_column(rows: Rows) -> list[Any]:
    """Return the values of rows with one column."""
    return [value for (value,) in rows]


def utc(instant: datetime) -> datetime:
    """Return an instant in UTC. PostgreSQL returns instants in the zone of the session."""
    return instant.astimezone(UTC)


def utc_or_none(instant: datetime | None) -> datetime | None:
    return None if instant is None else utc(instant)
