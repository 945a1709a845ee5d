"""The connection that `app.connection()` gives for one block."""

from __future__ import annotations

from functools import cache

from psycopg import pq

from tickwork.store.postgres.connection.connector import Connector
from tickwork.store.postgres.connection.libpq_connection import PgConnection


class LentConnection(PgConnection):
    """A pooled connection for one block. After the block it is a closed connection, and the pooled one goes on.

    An object of its own for each block: a caller who keeps it cannot write into the transaction of the next block.
    """

    def __init__(self, pooled: PgConnection, lent_by: Connector) -> None:
        super().__init__(pooled.pgconn)
        self.lent_by = lent_by
        # psycopg counts the names of its prepared statements here, and the server's session keeps the statements.
        self._prepared = pooled._prepared
        self.autocommit = True

    def end(self) -> None:
        """Make it a closed connection, whatever becomes of the pooled one."""
        self.pgconn = _closed()


@cache
def _closed() -> pq.abc.PGconn:
    """A connection that was never open."""
    connection = pq.PGconn.connect_start(b"none")
    connection.finish()
    return connection
