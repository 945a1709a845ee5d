"""Run verbs as transactions on PostgreSQL: connections, retries, shared transactions and work after a commit.

Most verbs are one statement: a transaction by itself, in one round trip. `now` is NULL in production, so that the
database's own clock counts; tests pass a time. Heartbeats and the reaper have connections of their own, and never wait
for connections that other work uses.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from datetime import datetime
from functools import partial
from random import Random
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from tickwork.clock import Clock, SystemClock
from tickwork.store.base import PoolSizes
from tickwork.store.postgres.connection.connection_pool import ConnectionPool, VerbPool
from tickwork.store.postgres.connection.connector import Connector
from tickwork.store.postgres.connection.error_mapping import runs_again, translate
from tickwork.store.postgres.connection.libpq_connection import PgConnection, Rows, Statement
from tickwork.store.postgres.connection.session import Session, one_row, utc
from tickwork.store.postgres.connection.wake_notify import WakeNotifier, sender
from tickwork.store.postgres.schema import Schema, statements
from tickwork.store.rows.instants import from_us
from tickwork.store.shared_transaction import SharedTransaction, ThreadTransaction

T = TypeVar("T")

RESERVED_SIZE = 2
TRIES = 6  # Attempts at a transaction that the server asks to repeat.
_NAP_S = 0.02


class PostgresTransactions:
    """Runs units of work on one schema of a database. All components of a store share one such object.

    `notifier` wakes workers. The schema is checked before the first transaction; `upgrade` migrates it there.
    """

    def __init__(
        self, server: Connector, *, schema: str, sizes: PoolSizes, clock: Clock | None = None, upgrade: bool = False
    ) -> None:
        self.server = server
        self.schema = Schema(schema, server.where)
        self.sql = statements(schema)
        self.channel = f"tickwork:{schema}"[:63]
        self.host_clock = SystemClock()
        idle_s = sizes.idle.total_seconds()
        self.connections = ConnectionPool(server, idle_s)
        self.user_connections = ConnectionPool(server, idle_s, ours=False)
        self.pool = VerbPool(self.connections, sizes.pool)
        self.reserved = VerbPool(self.connections, RESERVED_SIZE)  # For heartbeats and the reaper.
        self.user_pool = VerbPool(self.user_connections, sizes.user_pool)
        self._clock = clock
        self._random = Random()
        self._upgrade_first = upgrade
        self.is_checked = False
        self._checking = threading.Lock()
        self._shared = shared = ThreadTransaction[Session]()
        send = sender(self.pool, self.channel)
        self.notifier = WakeNotifier(send, self.host_clock.monotonic, lambda: shared.together is not None)

    # -- running work

    def perform(
        self,
        work: Callable[[Session], T],
        *,
        pool: VerbPool | None = None,
        single: bool = True,
        limit_s: float | None = None,
    ) -> T:
        """Run `work` as one transaction and return its result; run it again if the server asks to repeat it.

        A `single` statement is a transaction by itself. Behind a pooler, or with a time limit of its own (`limit_s`),
        it gets an explicit one, which sets the limits. A transaction that the server does not answer in time is not run
        again here: it may have been committed. Inside a shared transaction `work` is part of that.
        """
        if self._shared.together is not None:
            return work(self._shared.together.held)
        tries = 0
        while True:
            tries += 1
            with (pool or self.pool).lend() as connection:
                self.check_schema(connection)
                if limit_s is not None:
                    connection.answer_within(limit_s)
                begin = () if single and not self.server.pooled and limit_s is None else self.server.begin(limit_s)
                try:
                    return self.run_once(connection, work, tries > 1, begin)
                except psycopg.Error as error:
                    if not runs_again(error) or tries == TRIES:
                        raise translate(self.server.where, error, lost=connection.closed) from error
            threading.Event().wait(self._random.random() * _NAP_S * tries)

    def run(self, statement: str, /, **values: Any) -> Rows:
        """Run a named statement as a transaction by itself and return its rows."""
        return self.perform(lambda session: session.run(statement, **values))

    def run_reserved(self, statement: str, /, **values: Any) -> Rows:
        """Run a named statement on the connections reserved for heartbeats and the reaper, and return its rows."""
        return self.perform(lambda session: session.run(statement, **values), pool=self.reserved)

    def find(self, statement: str, /, **values: Any) -> Any:
        """Run a named statement as a transaction by itself; return its first row, or None."""
        return one_row(self.run(statement, **values))

    def run_together(self, *wanted: tuple[str, dict[str, Any]]) -> list[Rows]:
        """Run named statements as one transaction in one round trip; return the rows of each."""
        return self.perform(lambda session: session.run_together(self.statements(session.now, *wanted)))

    def statements(self, now: datetime | None, *wanted: tuple[str, dict[str, Any]]) -> list[Statement]:
        """Return named statements as SQL with values; `now` is the time of a test."""
        return [(self.sql[name], {"now": now, **values}) for name, values in wanted]

    def in_one_transaction(self, work: Callable[[], T]) -> T:
        """Run `work` so that its verbs share one transaction; return its result after the commit.

        `perform` runs it again if the server asks for that before the commit.
        """
        if self.is_shared:
            return work()
        result, together = self.perform(partial(self._run_shared, work), single=False)
        for later in together.after_commit:
            later()
        self.notifier.call()
        return result

    @property
    def is_shared(self) -> bool:
        """Return whether the verbs of this thread share a transaction now."""
        return self._shared.together is not None

    def after_commit(self, work: Callable[[], object]) -> None:
        """Run `work` after the shared transaction has committed; at once if there is none."""
        self._shared.after_commit(work)

    def _run_shared(self, work: Callable[[], T], session: Session) -> tuple[T, SharedTransaction[Session]]:
        """Call `work` while the verbs of this thread share a session, and commit.

        Return its result and the work to do after.
        """
        self._shared.together = together = SharedTransaction(session)
        session.is_shared = True
        try:
            result = work()
        finally:
            self._shared.together = None
            session.is_shared = False
        try:
            session.commit()
        except psycopg.Error as error:  # The transaction may have been committed, so `work` is not called again.
            raise translate(self.server.where, error, lost=True) from error
        return result, together

    def run_once(
        self, connection: PgConnection, work: Callable[[Session], T], again: bool, begin: tuple[str, ...]
    ) -> T:
        """Run `work` on a connection, commit and return its result; roll back on any exception."""
        session = Session(connection, self.sql, self.test_time(), again, begin)
        try:
            result = work(session)
            session.commit()
        except BaseException:
            _roll_back(connection)
            raise
        return result

    # -- the clock

    def now(self) -> datetime:
        """Return the time of the database's clock."""
        ((now,),) = self.run("now")
        return utc(now)

    def test_time(self) -> datetime | None:
        """Return the time that statements take in tests; None in production, where the database's clock counts."""
        return None if self._clock is None else from_us(self._clock.wall_us())

    def monotonic(self) -> float:
        """Return the seconds of a monotonic clock, to measure durations."""
        return (self._clock or self.host_clock).monotonic()

    # -- the schema

    def check_schema(self, connection: PgConnection) -> None:
        """Upgrade or check the schema on the first use of this store; later, do nothing."""
        if self.is_checked:
            return
        try:
            if self._upgrade_first:
                self.schema.upgrade(connection)
            self.schema.check(connection)
        except psycopg.Error as error:
            raise translate(self.server.where, error, lost=connection.closed) from error
        self.is_checked = True

    def check_first(self) -> None:
        """Check the schema, unless that was done. Handlers that begin at the same time use one connection for it."""
        if self.is_checked:
            return
        # A fork may have copied the lock while it was held.
        is_ours = self._checking.acquire(timeout=self.server.wait_s)
        try:
            if not self.is_checked:
                self.perform(lambda session: None)
        finally:
            if is_ours:
                self._checking.release()

    def look_at_schema(self, look: Callable[[PgConnection], T]) -> T:
        """Run a check or an upgrade on a connection whose schema was not checked, and return its result."""
        with self.pool.lend() as connection:
            try:
                return look(connection)
            except psycopg.Error as error:
                raise translate(self.server.where, error, lost=connection.closed) from error

    def close(self) -> None:
        """Send a wake-up that is pending, and close the idle connections."""
        self.notifier.flush()
        self.connections.close()
        self.user_connections.close()


def _roll_back(connection: PgConnection) -> None:
    """Roll back an open transaction; errors are ignored, because the pool closes a broken connection."""
    if connection.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
        with contextlib.suppress(psycopg.Error):
            connection.execute("ROLLBACK")
