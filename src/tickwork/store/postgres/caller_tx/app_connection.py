"""The connection that `app.connection()` lends for one block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import psycopg
from psycopg import pq

from tickwork.store.postgres.connection.connector import USER_END_S, Connector
from tickwork.store.postgres.connection.error_mapping import translate
from tickwork.store.postgres.connection.libpq_connection import PgConnection
from tickwork.store.postgres.transactions import PostgresTransactions


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


@contextmanager
def lend_connection(transactions: PostgresTransactions) -> Iterator[LentConnection]:
    """Lend a connection in a transaction that commits at the end of the block, or rolls back.

    Errors of the caller's own statements are raised as they are; those of the begin and the commit are translated.
    """
    transactions.check_first()
    server = transactions.server
    with transactions.user_pool.lend() as pooled:
        raised: BaseException | None = None
        handle = LentConnection(pooled, server)
        try:
            with handle.callers_transaction(USER_END_S):
                try:
                    yield handle
                except BaseException as error:
                    raised = error
                    raise
        except psycopg.Error as error:
            if error is raised:  # The caller's own error.
                raise
            raise translate(server.where, error, lost=pooled.closed) from error
        finally:
            handle.end()
