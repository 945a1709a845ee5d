"""An append-only shape: a cursor for each priority reads the queued jobs, and ranges behind the cursors are deleted.

With one writer at a time and a clock that never goes back, a cursor is exact: a claim takes only jobs with keys before
its own time, and all jobs that are stored later have later keys.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.shapes.base import LEVELS, QUEUE, TASK, Claimed, NewJob
from bench.shapes.sqlite.base import INSERT_JOB, JOBS, RUNNING, SqliteShape
from bench.shapes.sqlite.split import Split, end_set

_INSERT_READY = (
    "INSERT INTO ready (queue, priority, run_at, job_id, task, attempt, failures) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_START = """
INSERT INTO running (job_id, attempt, worker, queue, priority, task, run_at, claimed_at, failures)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)
"""
_MOVE = "UPDATE lanes SET run_at = ?, job_id = ? WHERE queue = ? AND priority = ?"
_PURGE = """
DELETE FROM ready WHERE queue = :queue AND priority = :priority
AND (run_at, job_id) <= (SELECT l.run_at, l.job_id FROM lanes l WHERE l.queue = :queue AND l.priority = :priority)
"""
_LET_GO = "DELETE FROM running WHERE worker = ? RETURNING queue, priority, job_id, task, attempt, failures"
_LANES = ", ".join(f"('{QUEUE}', {level}, 0, '')" for level in LEVELS)


class Append(SqliteShape):
    """A claim writes one row for its batch instead of deleting one row per job."""

    tables = f"""
    {JOBS}
    CREATE TABLE lanes (
        queue TEXT NOT NULL, priority INTEGER NOT NULL, run_at INTEGER NOT NULL, job_id TEXT NOT NULL,
        PRIMARY KEY (queue, priority)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO lanes VALUES {_LANES};
    CREATE TABLE ready (
        queue TEXT NOT NULL, priority INTEGER NOT NULL, run_at INTEGER NOT NULL, job_id TEXT NOT NULL,
        task TEXT NOT NULL, attempt INTEGER NOT NULL, failures INTEGER NOT NULL, expires_at INTEGER,
        PRIMARY KEY (queue, priority, run_at, job_id)
    ) STRICT, WITHOUT ROWID;
    {RUNNING}
    """
    pick = """
    SELECT q.job_id, q.attempt + 1, 0, q.priority, q.run_at, j.args, j.policy
    FROM   lanes l CROSS JOIN ready q CROSS JOIN jobs j ON j.job_id = q.job_id
    WHERE  l.queue = :queue AND l.priority = :priority AND q.queue = :queue AND q.priority = :priority
    AND    (q.run_at, q.job_id) > (l.run_at, l.job_id) AND q.run_at < :now
    AND    q.task IN (SELECT value FROM json_each(:tasks)) AND (q.expires_at IS NULL OR q.expires_at > :now)
    ORDER  BY q.run_at, q.job_id
    LIMIT  :limit
    """
    successes = Split.successes
    history = Split.history
    depth = """
    SELECT count(*) FROM ready q JOIN lanes l ON l.queue = q.queue AND l.priority = q.priority
    WHERE  (q.run_at, q.job_id) > (l.run_at, l.job_id)
    """

    def enter(self, jobs: Sequence[NewJob], now: int) -> None:
        rows = [(x.job_id, x.task, x.queue, x.priority, x.args, x.policy, x.labels, now, now) for x in jobs]
        self.connection.executemany(INSERT_JOB, rows)
        self.connection.executemany(_INSERT_READY, [(x.queue, x.priority, now, x.job_id, x.task, 0, 0) for x in jobs])

    def start(self, picked: Sequence[Claimed], now: int) -> None:
        lasts = {claim.priority: claim for claim in picked}
        self.connection.executemany(_MOVE, [(x.run_at, x.job_id, QUEUE, x.priority) for x in lasts.values()])
        rows = [(x.job_id, x.attempt, self.worker, QUEUE, x.priority, TASK, x.run_at, now) for x in picked]
        self.connection.executemany(_START, rows)

    def end(self, claims: Sequence[Claimed], now: int) -> list[str]:
        return end_set(self, claims, now)

    def reclaim(self) -> int:
        with self.writing() as now:
            rows = self.connection.execute(_LET_GO, (self.worker,)).fetchall()
            again = [(queue, priority, now, id, *rest) for queue, priority, id, *rest in rows]
            self.connection.executemany(_INSERT_READY, again)
            return len(rows)

    def tend(self) -> None:
        """Delete the jobs that the cursors have passed."""
        with self.writing():
            self.connection.executemany(_PURGE, [{"queue": QUEUE, "priority": level} for level in LEVELS])
