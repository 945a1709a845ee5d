"""A shape with one wide row per job, which is updated at each transition, as in most job queues."""

from __future__ import annotations

from bench.shapes.postgres.base import HOT, PostgresShape


class Wide(PostgresShape):
    """Every update rewrites the whole row and all its index entries, because an index condition uses the state."""

    tables = f"""
    CREATE TABLE jobs (
        job_id uuid PRIMARY KEY, state text COLLATE "C" NOT NULL, task text COLLATE "C" NOT NULL,
        queue text COLLATE "C" NOT NULL, priority smallint NOT NULL, run_at timestamptz NOT NULL,
        args text NOT NULL, policy text NOT NULL, labels text NOT NULL, created_at timestamptz NOT NULL,
        due_at timestamptz NOT NULL, expires_at timestamptz, attempt integer NOT NULL, failures integer NOT NULL,
        worker text COLLATE "C", claimed_at timestamptz, started_at timestamptz, ended_at timestamptz, result text,
        error text
    ) WITH ({HOT});
    CREATE INDEX jobs_task ON jobs (task, job_id);
    CREATE INDEX jobs_order ON jobs (queue, priority, run_at, job_id) WHERE state = 'queued';
    CREATE INDEX jobs_worker ON jobs (worker) WHERE state = 'running';
    CREATE INDEX jobs_end ON jobs (ended_at) WHERE ended_at IS NOT NULL;
    """
    filled = ("jobs",)
    insert_parts = """
    new AS (
        INSERT INTO jobs (job_id, state, task, queue, priority, run_at, args, policy, labels, created_at, due_at,
                          attempt, failures)
        SELECT g.job_id, 'queued', g.task, g.queue, g.priority, clock.now, g.args, g.policy, g.labels, clock.now,
               clock.now, 0, 0
        FROM   given g CROSS JOIN clock
        ORDER  BY g.job_id
        ON CONFLICT DO NOTHING
    )
    """
    queue = "jobs"
    queued = "q.state = 'queued'"
    claim_parts = """
    started AS (
        UPDATE jobs j SET state = 'running', attempt = j.attempt + 1, worker = %(worker)s, claimed_at = clock.now
        FROM   clock
        WHERE  j.ctid = ANY (ARRAY(SELECT p.place FROM picked p))
        RETURNING j.job_id, j.attempt, j.priority, j.run_at, j.args, j.policy, clock.now
    )
    """
    claimed = "SELECT job_id::text, attempt, 0, priority, run_at, args, policy, now FROM started"
    finish_parts = """
    held AS MATERIALIZED (
        SELECT current.place, e.state, e.failures, e.result,
               current.claimed_at + e.waited_us * interval '1 microsecond' AS started_at
        FROM   ending e
        CROSS  JOIN LATERAL (
            SELECT j.ctid AS place, j.claimed_at FROM jobs j
            WHERE  j.job_id = e.job_id AND j.attempt = e.attempt AND (j.state = 'running') IS TRUE
            LIMIT  1
            FOR UPDATE
        ) current
    ),
    closed AS (
        UPDATE jobs j
        SET    ended_at = clock.now, (state, failures, result, started_at) =
               (SELECT h.state, h.failures, h.result, h.started_at FROM held h WHERE h.place = j.ctid)
        FROM   clock
        WHERE  j.ctid = ANY (ARRAY(SELECT h.place FROM held h))
        RETURNING j.job_id
    )
    """
    reclaim_parts = """
    UPDATE jobs SET state = 'queued', run_at = clock_timestamp() WHERE state = 'running' AND worker = %(worker)s
    RETURNING job_id
    """
    successes = "SELECT job_id::text FROM jobs WHERE state = 'succeeded'"
    history = "SELECT coalesce(sum(length(args) + length(result)), 0) FROM jobs WHERE state = 'succeeded'"
    depth = "SELECT count(*) FROM jobs WHERE state = 'queued'"
