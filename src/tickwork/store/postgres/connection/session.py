"""A session: the statements of one verb on one connection, with their transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tickwork.store.postgres.connection.libpq_connection import PgConnection
from tickwork.store.postgres.connection.steps import Rows, Statement, Values

_COMMIT: Statement = ("COMMIT", {})


class Session:
    """Named statements on a connection that one verb uses. `again`: an earlier try may have been committed.

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
        """The connection itself, inside the transaction."""
        if self._begin:
            self._run([])
        return self._connection

    def run(self, statement: str, **values: Any) -> Rows:
        return self.run_sql(self._sql[statement], {"now": self.now, **values})

    def run_sql(self, sql: str, values: Values) -> Rows:
        return self._run([(sql, values)])[0]

    def run_together(self, statements: Sequence[Statement]) -> list[Rows]:
        """Run statements in one round trip; outside of a transaction, they are one transaction."""
        return self._run(statements)

    def run_last(self, statements: Sequence[Statement]) -> list[Rows]:
        """Run the last statements of a transaction and its commit in one round trip."""
        if self.is_shared or (not self._begin and not self._is_open):
            return self._run(statements)
        *rows, _ = self._run([*statements, _COMMIT])
        self._is_open = False
        return rows

    def commit(self) -> None:
        """Commit, unless that is done."""
        if self._is_open:
            self.run_last([])

    def _run(self, statements: Sequence[Statement]) -> list[Rows]:
        """Run statements, preceded by the begin of the transaction if it is not open yet."""
        if not self._begin:
            return self._connection.run(statements)
        begin: list[Statement] = [(sql, {}) for sql in self._begin]
        self._begin, self._is_open = (), True
        return self._connection.run([*begin, *statements])[len(begin) :]
