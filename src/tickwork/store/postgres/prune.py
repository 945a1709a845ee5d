"""Delete ended jobs, and what else is old enough, on PostgreSQL. The SQL is in sql/change_jobs.sql."""

from __future__ import annotations

from datetime import timedelta

from tickwork.core.ids import JobId
from tickwork.core.retention import Retention
from tickwork.store.admin.operations import KEPT
from tickwork.store.base import Place, Pruned
from tickwork.store.postgres import params
from tickwork.store.postgres.connection.connector import PRUNE_S
from tickwork.store.postgres.reads.stats import PostgresStats
from tickwork.store.postgres.transactions import PostgresTransactions
from tickwork.store.rows.instants import duration_us
from tickwork.store.rows.jobs import BLOB_MARK, own_blobs

_LOST_WORKERS_KEPT = timedelta(hours=1)


def prune(
    transactions: PostgresTransactions, stats: PostgresStats, retention: Retention, limit: int, after: Place | None
) -> Pruned:
    """Delete old jobs after a position in one transaction, then old operations and statistics in others."""
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
