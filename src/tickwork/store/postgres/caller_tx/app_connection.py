"""The connection that `app.connection()` lends for one block."""

from __future__ import annotations

from functools import cache

from psycopg import pq

from tickwork.store.postgres.connection.connector import Connector
from tickwork.store.postgres.connection.libpq_connection import PgConnection


class LentConnection(PgConnection):
    """A pooled connection for one block. After the block this object is closed, and the pooled connection is reused.

    Each block gets an object of its own: a caller who keeps it cannot write into the transaction of the next block.
    """

    def __init__(self, pooled: PgConnection, lent_by: Connector) -> None:
        super().__init__(pooled.pgconn)
        self.lent_by = lent_by
        # psycopg numbers its prepared statements here, and the server's session keeps the statements.
        self._prepared = pooled._prepared
        self.autocommit = True

    def end(self) -> None:
        """Turn this object into a closed connection. The pooled connection stays open."""
        self.pgconn = _closed()


@cache
def _closed() -> pq.abc.PGconn:
    """Return a connection that was never open."""
    connection = pq.PGconn.connect_start(b"none")
    connection.finish()
    return connection
