-- claim_jobs: from the queue to running, with the next attempt number.

-- :claim_jobs
-- No row at all means that the lease is lost;
-- one row without a job means that nothing is due.
-- `picked` walks the places in the order of their urgency, first those due now, then those due within `ahead`. Each place is
-- one range of the index, and rows are locked one by one as they are taken: no more than `limit`, in whatever plan.
-- The worker's row is locked against the reaper alone, which takes it FOR UPDATE; heartbeats pass.
WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now),
holder AS MATERIALIZED (
    SELECT w.id FROM tickwork.workers w
    WHERE  w.id = %(worker)s AND w.state IN ('running', 'draining') AND w.lease_until > (SELECT now FROM clock)
    FOR KEY SHARE
),
picked AS MATERIALIZED (
    SELECT place.phase, place.rank, due.*
    FROM (
        SELECT span.phase, span.after, span.until, wanted.rank, wanted.queue, level.priority, clock.now
        FROM   holder CROSS JOIN clock
        CROSS  JOIN LATERAL (VALUES
                   (0, '-infinity'::timestamptz, clock.now),
                   (1, clock.now, clock.now + %(ahead_us)s::bigint * interval '1 microsecond')
               ) AS span (phase, after, until)
        CROSS  JOIN unnest(%(queues)s::text[]) WITH ORDINALITY AS wanted (queue, rank)
        CROSS  JOIN generate_series(0, 9) AS level (priority)
        WHERE  span.after < span.until
        ORDER  BY span.phase, wanted.rank, level.priority
    ) place
    CROSS JOIN LATERAL (
        SELECT q.job_id, q.attempt + 1 AS attempt, q.task, q.queue, q.priority, q.run_at, q.failures, q.crashes, q.alone,
               q.keyed, q.expires_at
        FROM   tickwork.queue q
        WHERE  q.queue = place.queue AND q.priority = place.priority AND q.run_at > place.after AND q.run_at <= place.until
        AND    q.task = ANY (%(tasks)s::text[]) AND (q.expires_at IS NULL OR q.expires_at > place.now)
        ORDER  BY q.run_at, q.job_id
        LIMIT  %(limit)s::bigint
        FOR UPDATE SKIP LOCKED
    ) due
    LIMIT %(limit)s::bigint
),
gone AS (
    DELETE FROM tickwork.queue q USING picked p WHERE q.job_id = p.job_id
),
started AS (
    INSERT INTO tickwork.running
           (job_id, attempt, worker, queue, priority, task, run_at, claimed_at, failures, crashes, alone, keyed, expires_at)
    SELECT p.job_id, p.attempt, %(worker)s, p.queue, p.priority, p.task, p.run_at, clock.now, p.failures, p.crashes, p.alone,
           p.keyed, p.expires_at
    FROM   picked p CROSS JOIN clock
),
later AS MATERIALIZED (
    SELECT CASE WHEN (SELECT count(*) FROM picked) < %(limit)s::bigint THEN (
        SELECT min(next.run_at)
        FROM   unnest(%(queues)s::text[]) AS wanted (queue)
        CROSS  JOIN generate_series(0, 9) AS level (priority)
        CROSS  JOIN LATERAL (
            SELECT q.run_at FROM tickwork.queue q
            WHERE  q.queue = wanted.queue AND q.priority = level.priority
            AND    q.run_at > clock.now + %(ahead_us)s::bigint * interval '1 microsecond'
            ORDER  BY q.run_at LIMIT 1
        ) next
    ) END AS run_at
    FROM clock
)
SELECT p.job_id::text, p.attempt, p.task, p.queue, p.priority, j.args, j.policy, p.run_at, clock.now, p.failures, p.crashes,
       p.alone, extract(epoch FROM later.run_at - clock.now)::float8
FROM   holder CROSS JOIN clock CROSS JOIN later
LEFT   JOIN (picked p JOIN tickwork.jobs j ON j.id = p.job_id) ON true
ORDER  BY p.phase, p.rank, p.priority, p.run_at, p.job_id

-- :due_tasks
SELECT DISTINCT first.task
FROM   json_array_elements_text(%(queues)s::json) AS wanted (queue)
CROSS  JOIN LATERAL (
    SELECT q.task, q.run_at FROM tickwork.queue q WHERE q.queue = wanted.queue
    ORDER  BY q.priority, q.run_at, q.job_id LIMIT 1000
) first
WHERE  first.run_at <= coalesce(%(now)s::timestamptz, clock_timestamp())
