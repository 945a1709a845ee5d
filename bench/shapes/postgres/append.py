"""An append-only shape: jobs and claims are only inserted, into partitions that are truncated in turn.

A job is queued while no claim has its attempt, and runs until `finished` has it. The fence is a unique key: the first
stored end of an attempt counts. A partition ("slot") is truncated once all its jobs have ended, which leaves no dead
rows, even if another session holds a snapshot. The price: a claim checks every scanned job against the claims.
"""

from __future__ import annotations

import psycopg

from bench.shapes.postgres.base import JOBS, PostgresShape

SLOTS = 4
LOCK_LIMIT = "50ms"
_PARTITIONS = "".join(
    f"""
    CREATE TABLE ready_{slot} PARTITION OF ready FOR VALUES IN ({slot});
    CREATE TABLE claims_{slot} PARTITION OF claims FOR VALUES IN ({slot});
    """
    for slot in range(SLOTS)
)
_IN_USE = "SELECT EXISTS (SELECT FROM ready_{slot})"
# Scans from the end of the slot, where the jobs that end last are, so the first row usually decides.
_OVER = """
SELECT NOT EXISTS (
    SELECT FROM (
        SELECT job_id, attempt FROM ready_{slot} ORDER BY queue DESC, priority DESC, run_at DESC, job_id DESC
    ) r
    WHERE NOT EXISTS (SELECT FROM finished f WHERE f.job_id = r.job_id AND f.attempt = r.attempt)
)"""
_EMPTY = """
SET LOCAL lock_timeout = '{limit}';
LOCK TABLE ready_{slot}, claims_{slot}
"""


class Append(PostgresShape):
    """Insert-only partitions, with separate tables for leases and results."""

    tables = f"""
    {JOBS}
    CREATE TABLE ring (slot smallint NOT NULL);
    INSERT INTO ring VALUES (0);
    CREATE TABLE ready (
        slot smallint NOT NULL, job_id uuid NOT NULL, queue text COLLATE "C" NOT NULL, priority smallint NOT NULL,
        run_at timestamptz NOT NULL, task text COLLATE "C" NOT NULL, attempt integer NOT NULL,
        failures integer NOT NULL, expires_at timestamptz
    ) PARTITION BY LIST (slot);
    CREATE INDEX ready_order ON ready (queue, priority, run_at, job_id);
    CREATE TABLE claims (
        slot smallint NOT NULL, job_id uuid NOT NULL, attempt integer NOT NULL, worker text COLLATE "C" NOT NULL,
        queue text COLLATE "C" NOT NULL, priority smallint NOT NULL, task text COLLATE "C" NOT NULL,
        run_at timestamptz NOT NULL, claimed_at timestamptz NOT NULL, failures integer NOT NULL, expires_at timestamptz,
        cancel_at timestamptz,
        PRIMARY KEY (slot, job_id, attempt)
    ) PARTITION BY LIST (slot);
    CREATE INDEX claims_worker ON claims (worker);
    {_PARTITIONS}
    CREATE TABLE finished (
        job_id uuid NOT NULL, attempt integer NOT NULL, state text COLLATE "C" NOT NULL, ended_at timestamptz NOT NULL,
        run_at timestamptz NOT NULL, worker text COLLATE "C", started_at timestamptz, failures integer NOT NULL,
        result text, error text,
        PRIMARY KEY (job_id, attempt)
    );
    CREATE INDEX finished_end ON finished (ended_at);
    """
    filled = ("jobs", "ready")
    insert_parts = """
    new AS (
        INSERT INTO jobs (job_id, task, queue, priority, args, policy, labels, created_at, due_at)
        SELECT g.job_id, g.task, g.queue, g.priority, g.args, g.policy, g.labels, clock.now, clock.now
        FROM   given g CROSS JOIN clock
        ORDER  BY g.job_id
        ON CONFLICT DO NOTHING
        RETURNING job_id, task, queue, priority, due_at
    ),
    queued AS (
        INSERT INTO ready (slot, job_id, queue, priority, run_at, task, attempt, failures)
        SELECT (SELECT slot FROM ring), job_id, queue, priority, due_at, task, 1, 0 FROM new
    )
    """
    queue = "ready"
    queued = """
    NOT EXISTS (
        SELECT FROM claims c WHERE c.slot = q.slot AND c.job_id = q.job_id AND c.attempt = q.attempt OFFSET 0
    )"""
    slot = ", q.slot"
    claim_parts = """
    started AS (
        INSERT INTO claims (slot, job_id, attempt, worker, queue, priority, task, run_at, claimed_at, failures,
                            expires_at)
        SELECT p.slot, p.job_id, p.attempt, %(worker)s, p.queue, p.priority, p.task, p.run_at, clock.now, p.failures,
               p.expires_at
        FROM   picked p CROSS JOIN clock
        ON CONFLICT DO NOTHING
        RETURNING slot, job_id, attempt, priority, run_at
    )
    """
    claimed = """
    SELECT s.job_id::text, s.attempt, s.slot, s.priority, s.run_at, j.args, j.policy, clock.now
    FROM   started s JOIN jobs j ON j.job_id = s.job_id CROSS JOIN clock
    """
    finish_parts = """
    current AS MATERIALIZED (
        SELECT c.job_id, c.attempt, c.worker, c.run_at, c.cancel_at, e.state, e.failures, e.result,
               c.claimed_at + e.waited_us * interval '1 microsecond' AS started_at
        FROM   ending e
        CROSS  JOIN LATERAL (
            SELECT c.* FROM claims c WHERE c.slot = e.slot AND c.job_id = e.job_id AND c.attempt = e.attempt LIMIT 1
        ) c
    ),
    closed AS (
        INSERT INTO finished (job_id, attempt, state, ended_at, run_at, worker, started_at, failures, result)
        SELECT c.job_id, c.attempt, CASE WHEN c.cancel_at IS NULL THEN c.state ELSE 'cancelled' END, clock.now,
               c.run_at, c.worker, c.started_at, c.failures, c.result
        FROM   current c CROSS JOIN clock
        ON CONFLICT DO NOTHING
        RETURNING job_id
    )
    """
    reclaim_parts = """
    WITH lost AS (
        INSERT INTO finished (job_id, attempt, state, ended_at, run_at, worker, started_at, failures)
        SELECT c.job_id, c.attempt, 'lost', clock_timestamp(), c.run_at, c.worker, c.claimed_at, c.failures
        FROM   claims c
        WHERE  c.worker = %(worker)s
        ON CONFLICT DO NOTHING
        RETURNING job_id, attempt, failures
    )
    INSERT INTO ready (slot, job_id, queue, priority, run_at, task, attempt, failures, expires_at)
    SELECT (SELECT slot FROM ring), l.job_id, j.queue, j.priority, clock_timestamp(), j.task, l.attempt + 1, l.failures,
           j.expires_at
    FROM   lost l JOIN jobs j ON j.job_id = l.job_id
    RETURNING job_id
    """
    successes = "SELECT job_id::text FROM finished WHERE state = 'succeeded'"
    history = """
    SELECT coalesce(sum(length(j.args) + length(f.result)), 0) FROM finished f JOIN jobs j ON j.job_id = f.job_id
    """
    depth = """
    SELECT count(*) FROM ready q
    WHERE  NOT EXISTS (SELECT FROM claims c WHERE c.slot = q.slot AND c.job_id = q.job_id AND c.attempt = q.attempt)
    """

    def tend(self) -> None:
        """Truncate the slots whose jobs have ended, and direct inserts to the next slot if it is free."""
        current = int(self.query("SELECT slot FROM ring"))
        following = (current + 1) % SLOTS
        for slot in range(SLOTS):
            if slot != current and self._is(_IN_USE, slot) and self._is(_OVER, slot):
                self._empty(slot)
        if self._is(_IN_USE, current) and not self._is(_IN_USE, following):
            moved = "UPDATE ring SET slot = %s WHERE slot = %s"
            self.connection.execute(moved, (following, current))

    def _is(self, question: str, slot: int) -> bool:
        return bool(self.query(question.format(slot=slot)))

    def _empty(self, slot: int) -> None:
        """Truncate a slot if its lock is available soon and all its jobs have still ended under the lock."""
        try:
            with self.connection.transaction():
                lock = _EMPTY.format(limit=LOCK_LIMIT, slot=slot)
                self.connection.execute(lock.encode(), prepare=False)
                if self._is(_OVER, slot):
                    self.connection.execute(f"TRUNCATE ready_{slot}, claims_{slot}".encode(), prepare=False)
        except psycopg.errors.LockNotAvailable:
            return  # another session reads it; try again later
