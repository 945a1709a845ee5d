"""Health checks of a PostgreSQL store for `tickwork doctor`: durability, clock, long transactions, dead rows.

A transaction held open prevents the removal of dead rows, and every claim reads past them: so the oldest one is named,
with a remedy.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg.rows import dict_row

from tickwork.core.text.duration import format_duration
from tickwork.store.base import StoreHealth
from tickwork.store.postgres.connection.session import Session
from tickwork.store.postgres.transactions import PostgresTransactions

_CLOCK_TROUBLE = timedelta(seconds=5)
_TRANSACTION_TROUBLE = timedelta(minutes=1)
_DEAD_TROUBLE = 100_000


def examine(transactions: PostgresTransactions, session: Session) -> StoreHealth:
    """Return facts and warnings about the server and the tables, for `tickwork doctor`."""
    clock, server, schema = transactions.host_clock, transactions.server, transactions.schema.name
    asked = clock.wall_us()
    (facts,) = _read(transactions, session, "health")
    ahead = timedelta(microseconds=facts["wall_us"] - (asked + clock.wall_us()) // 2)
    offset = f"{format_duration(abs(ahead))} {'ahead of' if ahead > timedelta(0) else 'behind'} this host's"
    holders = _read(transactions, session, "oldest_transactions")
    tables = _read(transactions, session, "table_sizes")
    return StoreHealth(
        facts={
            "store": f"PostgreSQL {facts['version']}, {server.where}, schema {schema}",
            "durability": _durability(facts),
            "pooler": "yes: statements are not prepared, workers poll" if server.pooled else "none",
            "clock": f"the server's, {offset}",
            "oldest transaction": next(map(_describe, holders), "none is open"),
            "dead rows": ", ".join(f"{row['name']} {row['dead']:,}" for row in tables if row["hot"]),
            "size": ", ".join(f"{row['name']} {row['size']}" for row in tables),
            "stuck leases": str(facts["stuck"]),
        },
        warnings=[*_server_warnings(facts, ahead), *_row_warnings(facts, holders, tables)],
    )


def _read(transactions: PostgresTransactions, session: Session, statement: str) -> list[dict[str, Any]]:
    with session.connection.cursor(row_factory=dict_row) as cursor:
        values = {"schema": transactions.schema.name, "now": session.now}
        return cursor.execute(transactions.sql[statement].encode(), values).fetchall()


def _durability(facts: dict[str, Any]) -> str:
    """Return whether a stored job survives a crash of the server, by the server's settings."""
    if facts["fsync"] == "off":
        return "fsync=off: a crash of the server's machine can lose or corrupt everything"
    if facts["synchronous_commit"] == "off":
        return "synchronous_commit=off: a crash of the server can lose the last enqueues that were answered"
    standbys = " and on the standbys that it waits for" if facts["standbys"] else ""
    return f"synchronous_commit={facts['synchronous_commit']}: an answered enqueue is on disk{standbys}"


def _describe(holder: dict[str, Any]) -> str:
    return f"{format_duration(holder['age'])} old, {holder['who']}"


def _server_warnings(facts: dict[str, Any], ahead: timedelta) -> list[str]:
    """Return warnings about durability, encoding and the clock of the server."""
    warnings = []
    if facts["fsync"] == "off" or facts["synchronous_commit"] == "off":
        warnings.append(f"{_durability(facts)}. Set both to on, unless that is meant.")
    if facts["encoding"] != "UTF8":
        warnings.append(
            f"The database's encoding is {facts['encoding']}: not every text can be stored. Make one with UTF8."
        )
    if abs(ahead) > _CLOCK_TROUBLE:
        warnings.append(
            f"The clocks of the server and of this host differ by {format_duration(abs(ahead))}. Jobs go by the "
            f"server's; set both by NTP."
        )
    if facts["step"] is not None:
        warnings.append(_step(facts["stepped_at"], facts["step"]))
    return warnings


def _step(found_at: datetime, step: timedelta) -> str:
    """Describe a step of the server's clock in the last day."""
    way = "forward" if step > timedelta(0) else "back"
    effect = (
        "Schedules, retries and leases went on by the new time."
        if way == "back"
        else "Leases that it ended were lost, and what it made due was started or caught up with."
    )
    return (
        f"The server's clock went {way} by {format_duration(abs(step))}; this was found at "
        f"{found_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC. {effect} Keep it in step by NTP, without jumps."
    )


def _row_warnings(facts: dict[str, Any], holders: list[dict[str, Any]], tables: list[dict[str, Any]]) -> list[str]:
    """Return warnings about long transactions, dead rows, and attempts that no reaper reclaims."""
    warnings = [
        f"{holder['who']} has been in a transaction for {format_duration(holder['age'])}: until it ends, dead rows "
        f"stay and claims get slower. {holder['cure']}"
        for holder in holders
        if holder["age"] > _TRANSACTION_TROUBLE
    ]
    for row in tables:
        if row["hot"] and row["dead"] > _DEAD_TROUBLE:
            warnings.append(
                f"Table {row['name']} has {row['dead']:,} dead rows. Is autovacuum on, and no transaction held open?"
            )
    if facts["stuck"]:
        warnings.append(
            f"{facts['stuck']} attempts belong to workers whose lease ran out over a minute ago. No reaper runs: "
            f"start a worker."
        )
    return warnings
