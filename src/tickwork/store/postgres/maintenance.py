"""Prune old rows, and detect and repair steps of PostgreSQL's clock (see `Store.prune`, `Store.check_clock`).

The last reading of the clock is a row, so any process notices a step, also after a restart or a failover to a server
whose clock is behind. The row is written when it is old, not at every check, which would serialize all processes on it.
The SQL is in sql/change_jobs.sql and sql/clock_repair.sql.
"""

from __future__ import annotations

from datetime import timedelta

from tickwork.core.ids import JobId, first_id
from tickwork.core.retention import Retention
from tickwork.store.admin.bulk_operations import KEPT
from tickwork.store.base import CLOCK_STEP, Place, Pruned
from tickwork.store.postgres import params
from tickwork.store.postgres.connection.connector import PRUNE_S
from tickwork.store.postgres.connection.session import Session, utc
from tickwork.store.postgres.reads.stats import PostgresStats
from tickwork.store.postgres.transactions import PostgresTransactions
from tickwork.store.rows.instants import duration_us
from tickwork.store.rows.jobs import BLOB_MARK, own_blobs

_LOST_WORKERS_KEPT = timedelta(hours=1)
_OLD = timedelta(seconds=5)
_REPAIRS = (
    "rewind_schedules",
    "forget_idle_fires",
    "rewind_limit_states",
    "rewind_queue",
    "rewind_leases",
    "rewind_keys",
    "rewind_steps",
    "rewind_operations",
    "rewind_notifications",
    "rewind_rollups",
    "rewind_logins",
)


def check_clock(transactions: PostgresTransactions) -> timedelta | None:
    """Compare the clock with its last recorded reading. If it went back, repair the stored times and return by how
    much.

    Otherwise record a new reading if the last one is old, and return None.
    """
    ((now, reading),) = transactions.run("read_clock")
    if reading is not None and reading > now + CLOCK_STEP:
        back = transactions.perform(_repair, single=False)
        transactions.notifier.call()
        return back
    if reading is None or reading < now - _OLD:
        transactions.run("record_reading")
    return None


def _repair(session: Session) -> timedelta | None:
    """Move back the times that were stored while the clock was ahead.

    Return by how much, None if another process did.
    """
    rows = session.run("take_step_back", noticed_us=duration_us(CLOCK_STEP))
    if not rows:
        return None
    ((at, reading),) = rows
    values = {"at": at, "reading": reading, "back": reading - at, "created": first_id(utc(at))}
    for statement in _REPAIRS:
        session.run(statement, **values)
    return utc(reading) - utc(at)


def prune(
    transactions: PostgresTransactions, stats: PostgresStats, retention: Retention, limit: int, after: Place | None
) -> Pruned:
    """Delete old jobs after a position in one transaction, then old operations and statistics in others (see
    Store.prune).
    """
    at, after_id = after or ("-infinity", JobId("00000000-0000-0000-0000-000000000000"))
    values = {
        "after": at,
        "after_id": after_id,
        "ages": params.mapping({place: duration_us(age) for place, age in retention.ages().items()}),
        "shortest_us": duration_us(retention.shortest()),
        "ended_us": duration_us(retention.ended),
        "lost_us": duration_us(_LOST_WORKERS_KEPT),
        "limit": limit,
        "mark": BLOB_MARK,
    }
    rows = transactions.perform(lambda session: session.run("prune", **values), limit_s=PRUNE_S)
    kept = {"kept_us": duration_us(KEPT)}
    transactions.perform(lambda session: session.run("prune_operations", **kept), limit_s=PRUNE_S)
    stats.prune_rollups(limit)
    blobs = own_blobs((job_id, blob) for _, job_id, blob, _, _ in rows)
    count, _, _, last_at, last_id = next(iter(rows))
    return Pruned(int(count), blobs, None if last_at is None else (last_at, JobId(last_id)))
