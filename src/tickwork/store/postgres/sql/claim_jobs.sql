-- claim_jobs: move due jobs from the queue to running, with the next attempt number.

-- :claim_jobs
-- No row means that the lease is lost. One row without a job means that nothing is due, or that limits or gates are in
-- force (`guarded`): then this claim takes nothing, and the caller claims in rounds (see store/claim/limited.py). A
-- place is one priority of one queue, with the job up to which it was read before (see store/postgres/claim/claim_cursor.py):
-- claimed jobs before it are dead rows that need not be read. `picked` reads the places in the order of their urgency,
-- first jobs that are due now, then jobs that are due within `ahead`. Each place is one range of the index, and rows
-- are locked one by one as they are taken: no more than `limit`, in whatever plan.
--
-- The worker's row is locked against the reaper alone, which takes it FOR UPDATE; heartbeats do not conflict. It is
-- locked only once there is something to claim: a claim that finds nothing writes nothing, and waits for no disk.
--
-- A step has the occurrence of its run, which is not copied into each of its steps. Of the columns of a picked row, the
-- two that only rounds need (`keyed`, `expires_at`) are NULL.
--
-- Locked rows are deleted by ctid, which is safe since rows of the queue are never updated. With ids instead, a planner
-- whose statistics say that the queue is empty would read all of it.
WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now),
place AS MATERIALIZED (
    SELECT p.rank, p.queue, p.priority, 'epoch'::timestamptz + p.after_us * interval '1 microsecond' AS after, p.after_id
    FROM   unnest(%(places)s::text[], %(priorities)s::smallint[], %(after_us)s::bigint[], %(after_ids)s::uuid[])
           WITH ORDINALITY AS p (queue, priority, after_us, after_id, rank)
),
leased AS MATERIALIZED (
    SELECT w.id FROM tickwork.workers w
    WHERE  w.id = %(worker)s AND w.state IN ('running', 'draining') AND w.lease_until > (SELECT now FROM clock)
),
guarded AS MATERIALIZED (
    SELECT (
        -- include is_guarded
    ) AS now_is FROM clock
),
picked AS MATERIALIZED (
    SELECT span.phase, span.rank, due.*
    FROM (
        SELECT 0 AS phase, p.rank, p.queue, p.priority, p.after, p.after_id,
               clock.now - %(age_us)s::bigint * interval '1 microsecond' AS until, clock.now
        FROM   leased CROSS JOIN clock CROSS JOIN place p
        WHERE  NOT (SELECT now_is FROM guarded)
        UNION ALL
        SELECT 1, p.rank, p.queue, p.priority, clock.now, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid,
               clock.now + %(ahead_us)s::bigint * interval '1 microsecond', clock.now
        FROM   leased CROSS JOIN clock CROSS JOIN place p
        WHERE  %(ahead_us)s::bigint > 0 AND NOT (SELECT now_is FROM guarded)
        ORDER  BY phase, rank
    ) span
    CROSS JOIN LATERAL (
        SELECT q.ctid AS place, q.job_id, q.attempt + 1 AS attempt, q.task, q.queue, q.priority, q.run_at, q.failures,
               q.crashes, q.alone, q.keyed, q.expires_at, q.losses
        FROM   tickwork.queue q
        WHERE  q.queue = span.queue AND q.priority = span.priority
        AND    (q.run_at, q.job_id) > (span.after, span.after_id) AND q.run_at <= span.until
        AND    q.task = ANY (%(tasks)s::text[]) AND (q.expires_at IS NULL OR q.expires_at > span.now)
        ORDER  BY q.run_at, q.job_id
        LIMIT  %(limit)s::bigint
        FOR UPDATE SKIP LOCKED
    ) due
    LIMIT %(limit)s::bigint
),
holder AS MATERIALIZED (
    SELECT w.id FROM tickwork.workers w
    WHERE  w.id = %(worker)s AND w.state IN ('running', 'draining') AND w.lease_until > (SELECT now FROM clock)
    AND    EXISTS (SELECT FROM picked)
    FOR KEY SHARE
),
taken AS MATERIALIZED (SELECT p.* FROM holder CROSS JOIN picked p),
gone AS (
    DELETE FROM tickwork.queue q WHERE q.ctid = ANY (ARRAY(SELECT t.place FROM taken t))
),
started AS (
    INSERT INTO tickwork.running
           (job_id, attempt, worker, queue, priority, task, run_at, claimed_at, failures, crashes, alone, keyed, expires_at,
            claim, losses)
    SELECT t.job_id, t.attempt, %(worker)s, t.queue, t.priority, t.task, t.run_at, clock.now, t.failures, t.crashes, t.alone,
           t.keyed, t.expires_at, %(claim)s::bigint, t.losses
    FROM   taken t CROSS JOIN clock
),
later AS MATERIALIZED (
    SELECT CASE WHEN (SELECT count(*) FROM picked) < %(limit)s::bigint THEN (
        SELECT min(next.run_at)
        FROM   place p
        CROSS  JOIN LATERAL (
            SELECT q.run_at FROM tickwork.queue q
            WHERE  q.queue = p.queue AND q.priority = p.priority
            AND    q.run_at > clock.now + %(ahead_us)s::bigint * interval '1 microsecond'
            ORDER  BY q.run_at LIMIT 1
        ) next
    ) END AS run_at, (SELECT min(t.open_at) FROM tickwork.limit_states t WHERE t.open_at > clock.now) AS open_at
    FROM clock
)
SELECT (extract(epoch FROM clock.now) * 1000000)::bigint, extract(epoch FROM later.run_at - clock.now)::float8,
       extract(epoch FROM later.open_at - clock.now)::float8, guarded.now_is, t.phase,
       t.job_id::text, t.attempt, t.task, t.queue, t.priority, j.args, j.policy, (extract(epoch FROM t.run_at) * 1000000)::bigint,
       t.failures, t.crashes, t.alone,
       CASE WHEN j.run IS NULL THEN j.occurrence ELSE (SELECT u.occurrence FROM tickwork.jobs u WHERE u.id = j.run) END,
       NULL, NULL, t.losses, j.run::text, j.step, j.inputs, j.trace
FROM   leased CROSS JOIN clock CROSS JOIN later CROSS JOIN guarded
LEFT   JOIN (taken t CROSS JOIN LATERAL (SELECT * FROM tickwork.jobs j WHERE j.id = t.job_id OFFSET 0) j) ON true
WHERE  (SELECT count(*) FROM holder) > 0 OR NOT EXISTS (SELECT FROM picked)
ORDER  BY t.phase, t.rank, t.run_at, t.job_id

-- :due_tasks
SELECT DISTINCT first.task
FROM   json_array_elements_text(%(queues)s::json) AS wanted (queue)
CROSS  JOIN LATERAL (
    SELECT q.task, q.run_at FROM tickwork.queue q WHERE q.queue = wanted.queue
    ORDER  BY q.priority, q.run_at, q.job_id LIMIT 1000
) first
WHERE  first.run_at <= coalesce(%(now)s::timestamptz, clock_timestamp())
