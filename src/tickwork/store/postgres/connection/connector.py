"""Open connections to PostgreSQL, with their settings and time limits.

No session state is relied on, so a pooler in transaction mode may be used. Without one, each connection gets its limits
and planner settings once, and prepares its statements; behind a pooler every transaction sets its own limits.
Connections are opened by the thread that needs one, so that its error reaches the caller, and a forked process opens
its own.

Every wait has a deadline (docs/adr/0017-deadlines.md). A connection that misses one is closed and never lent again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import conninfo

from tickwork.clock import SystemClock
from tickwork.errors import InvalidInput, StoreNotOurs
from tickwork.store.postgres.connection.error_mapping import TooManyConnections, cannot_connect
from tickwork.store.postgres.connection.libpq_connection import PgConnection

_log = logging.getLogger("tickwork.store")
_clock = SystemClock()

OLDEST_VERSION = 140000
WAIT_S = 10.0  # For a free connection, of the pool or of the server.
HANDLER_WAIT_S = 30.0  # The same for handlers in a child process, which can wait longer.
CONNECT_S = 5.0  # For the first answers of a new connection; `connect_timeout` is the time before.
ANSWER_S = 10.0  # For one of Tickwork's transactions, from when it has its connection: a third of the default lease.
LEAST_ANSWER_S = 2.0  # The minimum, however short a lease is.
STATEMENT_SHARE = 0.8  # The server cancels one statement before the transaction's deadline.
USER_END_S = 30.0  # For the begin and the end of a transaction whose statements are the caller's.
PRUNE_S = 60.0
TELL_S = 60.0  # Between two log lines about refused connections.
UPGRADE_S = 3600.0

# Settings in the user's URL take precedence.
_REACHING = {
    "connect_timeout": "5",
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "3",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "application_name": "tickwork",
    "client_encoding": "UTF8",
}
_LIMITS = {
    "statement_timeout": f"{ANSWER_S * STATEMENT_SHARE:g}s",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "10s",
    "jit": "off",
}
# The server must also notice a client whose machine is gone: until then it keeps the client's locks.
_WATCHING = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "3",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10s",
}
# A prepared statement may be planned while its tables are empty and then run on a million rows, until the next ANALYZE.
# With these settings the planner can only use nested index scans, which is right at every size. postgres/test_plans.py
# shows the need of each. A read of whole tables must not join: it groups, or asks `(x IN (SELECT ...)) IS TRUE`, which
# is a hashed subplan (tests/store/reads/test_reads_beside_leases.py).
_PLANS = {
    "default_transaction_isolation": "read committed",
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "max_parallel_workers_per_gather": "0",  # Parallel workers take longer to start than a page takes to read.
}

BEGIN = ("BEGIN ISOLATION LEVEL READ COMMITTED",)


class RefusedConnections:
    """Counts connections that the server refused to this process for lack of connections; logs it once a minute."""

    def __init__(self) -> None:
        self.count = 0
        self.tell: Callable[[], None] = lambda: None
        self._told = 0
        self._told_at = float("-inf")

    def note(self, error: TooManyConnections) -> None:
        """Count a refused connection, report it to `tell`, and log it if the last log line is old enough."""
        self.count += 1
        self.tell()
        now = _clock.monotonic()
        if now - self._told_at >= TELL_S:
            _log.warning("%s Refusals since this was last said: %d.", error, self.count - self._told)
            self._told, self._told_at = self.count, now


class Connector:
    """The address of the database, and how to connect to it."""

    def __init__(self, url: str) -> None:
        given = _parse(url)
        self._conninfo = conninfo.make_conninfo("", **{**_REACHING, **given})
        self.where = _shown(given)
        self.pooled: bool | None = None  # Known after the first connection.
        self.answer_s = ANSWER_S
        self.wait_s = WAIT_S
        self.refusals = RefusedConnections()

    def shorten(self, limit_s: float) -> None:
        """Limit waits for answers and connections to this time, if it is shorter than the default."""
        self.answer_s = max(LEAST_ANSWER_S, min(limit_s, ANSWER_S))
        self.wait_s = min(self.wait_s, self.answer_s)

    def begin(self, limit_s: float | None = None) -> tuple[str, ...]:
        """Return the statements that begin a transaction and set the limits that its session lacks."""
        limits = self._limits() if self.pooled else {}
        if limit_s is not None:
            limits = limits | {"statement_timeout": _milliseconds(limit_s * STATEMENT_SHARE)}
        return (*BEGIN, *(f"SET LOCAL {name} = '{value}'" for name, value in limits.items()))

    def _limits(self) -> dict[str, str]:
        """Return the session settings that limit statements, locks and idle transactions."""
        if self.answer_s == ANSWER_S:
            return _LIMITS
        return _LIMITS | {"statement_timeout": _milliseconds(self.answer_s * STATEMENT_SHARE)}

    def connect(self, *, ours: bool = True) -> PgConnection:
        """Open and return a connection.

        For Tickwork's own statements or, without `ours`, for the user's, which get no limits.
        """
        try:
            connection = PgConnection.connect(self._conninfo, autocommit=True)
        except psycopg.Error as error:
            raised = cannot_connect(self.where, error)
            if isinstance(raised, TooManyConnections):
                self.refusals.note(raised)
            raise raised from error
        try:
            with connection.within(CONNECT_S):
                self._prepare(connection, ours=ours)
        except psycopg.Error as error:
            connection.close()
            raise cannot_connect(self.where, error) from error
        except StoreNotOurs:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: PgConnection, *, ours: bool) -> None:
        """Check the server's version, detect a pooler, and set the session's limits and planner settings."""
        if connection.info.server_version < OLDEST_VERSION:
            raise StoreNotOurs(
                f"{self.where} is PostgreSQL {connection.info.server_version // 10000}; Tickwork needs version 14 or "
                f"newer. Nothing was touched."
            )
        is_pooled = behind_pooler(connection)
        connection.prepares = ours and not is_pooled
        if ours or is_pooled:
            connection.prepare_threshold = None  # Names of prepared statements collide behind an old PgBouncer.
        if is_pooled:
            self._note_pooler()
            return
        self.pooled = False
        settings = _WATCHING | self._limits() | _PLANS if ours else _WATCHING
        calls = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in settings.items())
        connection.execute(f"SELECT {calls}".encode())

    def _note_pooler(self) -> None:
        """Record that the server is behind a pooler; log it the first time."""
        if not self.pooled:
            _log.info("%s is behind a pooler: statements are not prepared, and workers poll.", self.where)
        self.pooled = True


def behind_pooler(connection: PgConnection) -> bool:
    """Return whether a pooler is between: the server process that answers is not the one that was connected to."""
    answered_by = connection.execute("SELECT pg_backend_pid()").fetchone()
    return answered_by != (connection.info.backend_pid,)


def _milliseconds(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"


def _parse(url: str) -> dict[str, Any]:
    """Return the parts of the URL. Raise InvalidInput, without the URL's text, if it is not valid."""
    found: dict[str, Any] | None = None
    with suppress(psycopg.Error):  # The error text may contain the password.
        found = dict(conninfo.conninfo_to_dict(url))
    # With a / in the password, the text before it is parsed as a host and a port, and would be shown as such.
    if found is None or ("://" in url and "@" in url.partition("://")[2].partition("?")[0].partition("/")[2]):
        raise InvalidInput(
            "the URL of the store is not one that PostgreSQL understands. It looks like "
            "postgresql://user:password@host:5432/database, with %XX for special characters (%2F for /, %40 for @)."
        )
    return found


def _shown(given: dict[str, Any]) -> str:
    """Return the address for display, without the password."""
    host = given.get("host") or given.get("hostaddr") or "localhost"
    port = f":{given['port']}" if given.get("port") else ""
    user = f"{given['user']}@" if given.get("user") else ""
    return f"postgresql://{user}{host}{port}/{given.get('dbname') or ''}"
