"""A shape with the payload apart from the state: narrow rows move from `queue` to `running` to `finished`."""

from __future__ import annotations

from collections.abc import Sequence

from bench.shapes.base import QUEUE, RESULT, TASK, Claimed, NewJob
from bench.shapes.sqlite.base import INSERT_JOB, JOBS, RUNNING, SqliteShape, endings_of, ids_of

_INSERT_QUEUE = """
INSERT INTO queue (queue, priority, run_at, job_id, task, attempt, failures) VALUES (?, ?, ?, ?, ?, 0, 0)
"""
# A batch, with one statement for each step
_START_SET = """
INSERT INTO running (job_id, attempt, worker, queue, priority, task, run_at, claimed_at, failures, expires_at)
SELECT q.job_id, q.attempt + 1, :worker, q.queue, q.priority, q.task, q.run_at, :now, q.failures, q.expires_at
FROM   json_each(:ids) e CROSS JOIN queue q ON q.job_id = e.value
"""
_LEAVE_QUEUE_SET = "DELETE FROM queue WHERE job_id IN (SELECT value FROM json_each(:ids))"
END_SET = """
INSERT INTO finished (job_id, state, ended_at, run_at, attempt, worker, started_at, failures, result)
SELECT r.job_id, CASE WHEN r.cancel_at IS NULL THEN e.value ->> 2 ELSE 'cancelled' END, :now, r.run_at, r.attempt,
       r.worker, r.claimed_at + (e.value ->> 3), e.value ->> 4, e.value ->> 5
FROM   json_each(:endings) e CROSS JOIN running r ON r.job_id = e.value ->> 0 AND r.attempt = e.value ->> 1
RETURNING job_id
"""
LEAVE_RUNNING_SET = "DELETE FROM running WHERE job_id IN (SELECT value FROM json_each(:ids))"
# Row by row, as the product does today
_START = """
INSERT INTO running (job_id, attempt, worker, queue, priority, task, run_at, claimed_at, failures)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)
"""
_LEAVE_QUEUE = "DELETE FROM queue WHERE queue = ? AND priority = ? AND run_at = ? AND job_id = ?"
_LEAVE_RUNNING = """
DELETE FROM running WHERE job_id = ? AND attempt = ? RETURNING job_id, run_at, attempt, worker, claimed_at
"""
_END = """
INSERT INTO finished (job_id, state, ended_at, run_at, attempt, worker, started_at, failures, result)
VALUES (?, 'succeeded', ?, ?, ?, ?, ?, 0, ?)
"""
_LET_GO = "DELETE FROM running WHERE worker = ? RETURNING queue, priority, job_id, task, attempt, failures"
_AGAIN = "INSERT INTO queue (queue, priority, job_id, task, attempt, failures, run_at) VALUES (?, ?, ?, ?, ?, ?, ?)"


class Split(SqliteShape):
    """The queue is stored in the order of claims, so the due jobs are at its beginning. The product's shape."""

    tables = f"""
    {JOBS}
    CREATE TABLE queue (
        queue TEXT NOT NULL, priority INTEGER NOT NULL, run_at INTEGER NOT NULL, job_id TEXT NOT NULL,
        task TEXT NOT NULL, attempt INTEGER NOT NULL, failures INTEGER NOT NULL, expires_at INTEGER,
        PRIMARY KEY (queue, priority, run_at, job_id)
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX queue_job ON queue (job_id);
    {RUNNING}
    """
    pick = """
    SELECT q.job_id, q.attempt + 1, 0, q.priority, q.run_at, j.args, j.policy
    FROM   queue q JOIN jobs j ON j.job_id = q.job_id
    WHERE  q.queue = :queue AND q.priority = :priority AND q.run_at <= :now
    AND    q.task IN (SELECT value FROM json_each(:tasks)) AND (q.expires_at IS NULL OR q.expires_at > :now)
    ORDER  BY q.run_at, q.job_id
    LIMIT  :limit
    """
    successes = "SELECT job_id FROM finished WHERE state = 'succeeded'"
    history = """
    SELECT coalesce(sum(length(j.args) + length(f.result)), 0) FROM finished f JOIN jobs j ON j.job_id = f.job_id
    """
    depth = "SELECT count(*) FROM queue"

    def enter(self, jobs: Sequence[NewJob], now: int) -> None:
        rows = [(x.job_id, x.task, x.queue, x.priority, x.args, x.policy, x.labels, now, now) for x in jobs]
        self.connection.executemany(INSERT_JOB, rows)
        self.connection.executemany(_INSERT_QUEUE, [(x.queue, x.priority, now, x.job_id, x.task) for x in jobs])

    def start(self, picked: Sequence[Claimed], now: int) -> None:
        if self.variant.passing == "set":
            values = {"worker": self.worker, "now": now, "ids": ids_of(picked)}
            self.connection.execute(_START_SET, values)
            self.connection.execute(_LEAVE_QUEUE_SET, values)
            return
        self.connection.executemany(_LEAVE_QUEUE, [(QUEUE, x.priority, x.run_at, x.job_id) for x in picked])
        rows = [(x.job_id, x.attempt, self.worker, QUEUE, x.priority, TASK, x.run_at, now) for x in picked]
        self.connection.executemany(_START, rows)

    def end(self, claims: Sequence[Claimed], now: int) -> list[str]:
        if self.variant.passing == "set":
            return end_set(self, claims, now)
        keys = [(claim.job_id, claim.attempt) for claim in claims]
        left = list(self.connection.executemany(_LEAVE_RUNNING, keys))
        rows = [(id, now, run_at, attempt, worker, began, RESULT) for id, run_at, attempt, worker, began in left]
        self.connection.executemany(_END, rows)
        return [row[0] for row in rows]

    def reclaim(self) -> int:
        with self.writing() as now:
            rows = self.connection.execute(_LET_GO, (self.worker,)).fetchall()
            self.connection.executemany(_AGAIN, [(*row, now) for row in rows])
            return len(rows)


def end_set(shape: SqliteShape, claims: Sequence[Claimed], now: int) -> list[str]:
    """Move a batch from `running` to `finished` with two statements."""
    values = {"endings": endings_of(claims), "now": now, "ids": ids_of(claims)}
    closed = [id for (id,) in shape.connection.execute(END_SET, values)]
    if len(closed) < len(claims):
        values["ids"] = ids_of([claim for claim in claims if claim.job_id in set(closed)])
    shape.connection.execute(LEAVE_RUNNING_SET, values)
    return closed
