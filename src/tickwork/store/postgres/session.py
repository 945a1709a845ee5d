"""Statements on a connection that a verb has for itself."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import psycopg
from psycopg.pq import ExecStatus

from tickwork.store.postgres.adapters import Statement
from tickwork.store.postgres.pool import Connection


class Session:
    """Named statements on a connection that a verb has for itself."""

    __slots__ = ("_sql", "connection", "now")

    def __init__(self, connection: Connection, sql: dict[str, str], now: datetime | None) -> None:
        self.connection = connection
        self.now = now
        self._sql = sql

    def run(self, statement: str, **values: Any) -> list[Any]:
        """Run a statement, which says itself of what type its values are.

        Numbers go as text, since psycopg would give them the smallest type that fits, and each combination of types
        is another prepared statement.
        """
        texts = {name: str(value) if isinstance(value, int) else value for name, value in values.items()}
        return self.run_sql(self._sql[statement], {"now": self.now, **texts})

    def run_sql(self, sql: str, values: dict[str, Any]) -> list[Any]:
        return _rows(self.connection.execute(_encoded(sql), values))

    def run_together(self, statements: Sequence[Statement]) -> list[list[Any]]:
        """Run statements in one round trip, and outside of any other transaction in one of their own."""
        if len(statements) == 1:
            return [self.run_sql(*statements[0])]
        with self.connection.pipeline():
            cursors = [self.connection.execute(_encoded(sql), values) for sql, values in statements]
        return [_rows(cursor) for cursor in cursors]


@lru_cache(maxsize=256)
def _encoded(sql: str) -> bytes:
    """A statement as psycopg takes it; the same bytes each time, since it looks its own translation up by them."""
    return sql.encode()


def _rows(cursor: psycopg.Cursor[Any]) -> list[Any]:
    """What a statement gave back. (To ask for `cursor.description` would take longer than to fetch a row.)"""
    gives_rows = cursor.pgresult is not None and cursor.pgresult.status == ExecStatus.TUPLES_OK
    return cursor.fetchall() if gives_rows else []
