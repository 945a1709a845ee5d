"""A shape with one wide row per job, which is updated at each transition."""

from __future__ import annotations

from collections.abc import Sequence

from bench.shapes.base import Claimed, NewJob
from bench.shapes.sqlite.base import SqliteShape, endings_of, ids_of

_INSERT = """
INSERT INTO jobs
       (job_id, state, task, queue, priority, run_at, args, policy, labels, created_at, due_at, attempt, failures)
VALUES (?, 'queued', ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0) ON CONFLICT DO NOTHING
"""
_START = """
UPDATE jobs SET state = 'running', attempt = attempt + 1, worker = :worker, claimed_at = :now
WHERE  job_id IN (SELECT value FROM json_each(:ids))
"""
_END = """
UPDATE jobs AS j
SET    state = e.value ->> 2, ended_at = :now, started_at = j.claimed_at + (e.value ->> 3), failures = e.value ->> 4,
       result = e.value ->> 5
FROM   json_each(:endings) e
WHERE  j.job_id = e.value ->> 0 AND j.attempt = e.value ->> 1 AND j.state = 'running'
RETURNING job_id
"""
_RECLAIM = "UPDATE jobs SET state = 'queued', run_at = ? WHERE state = 'running' AND worker = ? RETURNING job_id"


class Wide(SqliteShape):
    """Each update rewrites the row in place, and its entries in the indexes that use the state."""

    tables = """
    CREATE TABLE jobs (
        job_id TEXT PRIMARY KEY, state TEXT NOT NULL, task TEXT NOT NULL, queue TEXT NOT NULL,
        priority INTEGER NOT NULL, run_at INTEGER NOT NULL, args TEXT NOT NULL, policy TEXT NOT NULL,
        labels TEXT NOT NULL, created_at INTEGER NOT NULL, due_at INTEGER NOT NULL, expires_at INTEGER,
        attempt INTEGER NOT NULL, failures INTEGER NOT NULL, worker TEXT, claimed_at INTEGER, started_at INTEGER,
        ended_at INTEGER, result TEXT, error TEXT
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX jobs_task ON jobs (task, job_id);
    CREATE INDEX jobs_order ON jobs (queue, priority, run_at, job_id) WHERE state = 'queued';
    CREATE INDEX jobs_worker ON jobs (worker) WHERE state = 'running';
    CREATE INDEX jobs_end ON jobs (ended_at) WHERE ended_at IS NOT NULL;
    """
    pick = """
    SELECT job_id, attempt + 1, 0, priority, run_at, args, policy
    FROM   jobs
    WHERE  state = 'queued' AND queue = :queue AND priority = :priority AND run_at <= :now
    AND    task IN (SELECT value FROM json_each(:tasks)) AND (expires_at IS NULL OR expires_at > :now)
    ORDER  BY run_at, job_id
    LIMIT  :limit
    """
    successes = "SELECT job_id FROM jobs WHERE state = 'succeeded'"
    history = "SELECT coalesce(sum(length(args) + length(result)), 0) FROM jobs WHERE state = 'succeeded'"
    depth = "SELECT count(*) FROM jobs WHERE state = 'queued'"

    def enter(self, jobs: Sequence[NewJob], now: int) -> None:
        rows = [(x.job_id, x.task, x.queue, x.priority, now, x.args, x.policy, x.labels, now, now) for x in jobs]
        self.connection.executemany(_INSERT, rows)

    def start(self, picked: Sequence[Claimed], now: int) -> None:
        self.connection.execute(_START, {"worker": self.worker, "now": now, "ids": ids_of(picked)})

    def end(self, claims: Sequence[Claimed], now: int) -> list[str]:
        return [id for (id,) in self.connection.execute(_END, {"endings": endings_of(claims), "now": now})]

    def reclaim(self) -> int:
        with self.writing() as now:
            return len(self.connection.execute(_RECLAIM, (now, self.worker)).fetchall())
