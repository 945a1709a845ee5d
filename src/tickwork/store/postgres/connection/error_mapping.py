"""Map PostgreSQL errors to Tickwork errors: which database, what happened, what becomes of the request, what to do.

No message contains a password: `where` is an address without one, and only the first line of the server's message is
used.
"""

from __future__ import annotations

import psycopg

from tickwork.errors import SchemaMismatch, StoreError, StoreFull, StoreReadOnly, StoreUnreachable

_TRANSIENT = frozenset({"40001", "40P01"})  # Serialization failure, deadlock: the whole transaction is repeated.
# libpq does not report the code of an error during the login, which is 53300.
_NO_CONNECTION_LEFT = (
    "too many clients",
    "too many connections",
    "remaining connection slots",
    "no more connections allowed",  # PgBouncer
)
_SHUTTING_DOWN = frozenset({"57P01", "57P02", "57P03", "57P05", "53300"})


def runs_again(error: psycopg.Error) -> bool:
    """Return whether to repeat the transaction.

    A serialization failure, a deadlock, or a job that an earlier try stored.
    """
    met_itself = error.sqlstate == "23505" and error.diag.constraint_name in ("jobs_pkey", "queue_pkey")
    return error.sqlstate in _TRANSIENT or met_itself


class TooManyConnections(StoreUnreachable):
    """The server has no connection left."""


def cannot_connect(where: str, error: Exception) -> StoreUnreachable:
    """Return the error for a database that cannot be reached, or that has no connection left."""
    if any(text in str(error) for text in _NO_CONNECTION_LEFT):
        return TooManyConnections(
            f"{where} has no connection left: {_reason(error)}. Nothing was done; calls wait for one and then give up. "
            f"Raise max_connections there, or lower TICKWORK_POOL_SIZE, TICKWORK_USER_POOL_SIZE or --processes."
        )
    return StoreUnreachable(
        f"{where} cannot be reached: {_reason(error)}. Nothing was done. Is PostgreSQL running there, and is "
        f"TICKWORK_URL right?"
    )


def translate(where: str, error: psycopg.Error, *, lost: bool) -> StoreError:
    """Return the error to raise for an error of the server, or for a connection that was `lost` during a request."""
    code = error.sqlstate or ""
    if lost or code in _SHUTTING_DOWN or code.startswith("08"):
        return StoreUnreachable(
            f"the connection to {where} was lost: {_reason(error)}. Whether the last request was carried out is not "
            f"known; repeating it is safe."
        )
    match code:
        case "57014" | "55P03":
            return StoreUnreachable(
                f"{where} did not answer in time: {_reason(error)}. Nothing was written. Is a transaction held open? "
                f"`tickwork doctor` names it."
            )
        case "53100":
            return StoreFull(
                f"the disk of {where} is full. Nothing was written. Free some room; work goes on by itself."
            )
        case "25006":
            return StoreReadOnly(f"{where} cannot be written: {_reason(error)}. Nothing was written. Is it a standby?")
        case "42P01" | "3F000" | "42703":
            return not_migrated(where, _reason(error))
        case _:
            return StoreError(f"PostgreSQL refused on {where}: {_reason(error)} ({code or type(error).__name__})")


def not_migrated(where: str, reason: str) -> SchemaMismatch:
    """Return the error for tables that are missing or of an older version."""
    return SchemaMismatch(
        f"{where} does not have Tickwork's tables in this version: {reason}. Nothing was touched. Run "
        f"`tickwork db upgrade`, or open it with Tickwork(url, upgrade=True)."
    )


def _reason(error: Exception) -> str:
    """Return the first line of the message, without the driver's prefixes."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].removeprefix("connection failed: ").removeprefix("FATAL:").strip().rstrip(".")
