"""A shape with the payload apart from the state: narrow rows move from `queue` to `running` to `finished`."""

from __future__ import annotations

from bench.shapes.postgres.base import HOT, JOBS, PostgresShape


class Split(PostgresShape):
    """A transition deletes and inserts a narrow row; the payload is written once. The product's shape."""

    tables = f"""
    {JOBS}
    CREATE TABLE queue (
        job_id uuid PRIMARY KEY, queue text COLLATE "C" NOT NULL, priority smallint NOT NULL,
        run_at timestamptz NOT NULL, task text COLLATE "C" NOT NULL, attempt integer NOT NULL,
        failures integer NOT NULL, expires_at timestamptz
    ) WITH ({HOT});
    CREATE INDEX queue_order ON queue (queue, priority, run_at, job_id);
    CREATE TABLE running (
        job_id uuid PRIMARY KEY, attempt integer NOT NULL, worker text COLLATE "C" NOT NULL,
        queue text COLLATE "C" NOT NULL, priority smallint NOT NULL, task text COLLATE "C" NOT NULL,
        run_at timestamptz NOT NULL, claimed_at timestamptz NOT NULL, failures integer NOT NULL, expires_at timestamptz,
        cancel_at timestamptz
    ) WITH (fillfactor = 80, {HOT});
    CREATE INDEX running_worker ON running (worker);
    CREATE TABLE finished (
        job_id uuid PRIMARY KEY, state text COLLATE "C" NOT NULL, ended_at timestamptz NOT NULL,
        run_at timestamptz NOT NULL, attempt integer NOT NULL, worker text COLLATE "C", started_at timestamptz,
        failures integer NOT NULL, result text, error text
    );
    CREATE INDEX finished_end ON finished (ended_at);
    """
    filled = ("jobs", "queue")
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
        INSERT INTO queue (job_id, queue, priority, run_at, task, attempt, failures)
        SELECT job_id, queue, priority, due_at, task, 0, 0 FROM new
    )
    """
    queue = "queue"
    claim_parts = """
    gone AS (
        DELETE FROM queue q WHERE q.ctid = ANY (ARRAY(SELECT p.place FROM picked p))
    ),
    started AS (
        INSERT INTO running (job_id, attempt, worker, queue, priority, task, run_at, claimed_at, failures, expires_at)
        SELECT p.job_id, p.attempt + 1, %(worker)s, p.queue, p.priority, p.task, p.run_at, clock.now, p.failures,
               p.expires_at
        FROM   picked p CROSS JOIN clock
    )
    """
    claimed = """
    SELECT p.job_id::text, p.attempt + 1, 0, p.priority, p.run_at, j.args, j.policy, clock.now
    FROM   picked p JOIN jobs j ON j.job_id = p.job_id CROSS JOIN clock
    """
    finish_parts = """
    closed AS (
        DELETE FROM running r USING ending e
        WHERE  r.job_id = e.job_id AND r.attempt = e.attempt AND r.job_id = ANY (ARRAY(SELECT n.job_id FROM ending n))
        RETURNING r.job_id, r.attempt, r.worker, r.run_at, e.state, e.failures, e.result, r.cancel_at,
                  r.claimed_at + e.waited_us * interval '1 microsecond' AS started_at
    ),
    kept AS (
        INSERT INTO finished (job_id, state, ended_at, run_at, attempt, worker, started_at, failures, result)
        SELECT c.job_id, CASE WHEN c.cancel_at IS NULL THEN c.state ELSE 'cancelled' END, clock.now, c.run_at,
               c.attempt, c.worker, c.started_at, c.failures, c.result
        FROM   closed c CROSS JOIN clock
    )
    """
    reclaim_parts = """
    WITH closed AS (DELETE FROM running WHERE worker = %(worker)s RETURNING *)
    INSERT INTO queue (job_id, queue, priority, run_at, task, attempt, failures, expires_at)
    SELECT job_id, queue, priority, clock_timestamp(), task, attempt, failures, expires_at FROM closed
    RETURNING job_id
    """
    successes = "SELECT job_id::text FROM finished WHERE state = 'succeeded'"
    history = """
    SELECT coalesce(sum(length(j.args) + length(f.result)), 0) FROM finished f JOIN jobs j ON j.job_id = f.job_id
    """
    depth = "SELECT count(*) FROM queue"
