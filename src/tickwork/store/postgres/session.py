"""Statements on a connection that a verb has for itself."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tickwork.store.postgres.adapters import Rows, Statement, Values
from tickwork.store.postgres.wire import Connection


class Session:
    """Named statements on a connection that a verb has for itself. `again`: an earlier try may have been stored."""

    __slots__ = ("_sql", "again", "connection", "now")

    def __init__(self, connection: Connection, sql: dict[str, str], now: datetime | None, again: bool) -> None:
        self.connection = connection
        self.now = now
        self.again = again
        self._sql = sql

    def run(self, statement: str, **values: Any) -> Rows:
        return self.run_sql(self._sql[statement], {"now": self.now, **values})

    def run_sql(self, sql: str, values: Values) -> Rows:
        return self.connection.run([(sql, values)])[0]

    def run_together(self, statements: Sequence[Statement]) -> list[Rows]:
        """Run statements in one round trip, and outside of any other transaction in one of their own."""
        return self.connection.run(statements)
