-- What callers and operators do to jobs: cancel, retry, discard, expire, prune.
-- Locks are taken in one order everywhere: running, then keys, then queue. `count(*) >= 0` is always true; it makes
-- the rows of the queue wait until the keys are locked.

-- :cancel_jobs
-- Says of each job what came of it: 'done'; 'ended' before; 'unknown'; or 'moved' between queue and running just now.
WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now),
wanted AS MATERIALIZED (SELECT DISTINCT value::uuid AS id FROM json_array_elements_text(%(ids)s::json)),
asked AS (
    UPDATE tickwork.running r SET cancel_at = coalesce(r.cancel_at, clock.now) FROM wanted w CROSS JOIN clock
    WHERE  r.job_id = w.id
    RETURNING r.job_id
),
locked_keys AS MATERIALIZED (
    SELECT k.key FROM tickwork.keys k
    WHERE  k.job_id IN (SELECT q.job_id FROM wanted w JOIN tickwork.queue q ON q.job_id = w.id WHERE q.keyed)
    ORDER  BY k.key
    FOR UPDATE
),
ended AS (
    DELETE FROM tickwork.queue q USING wanted w WHERE q.job_id = w.id AND (SELECT count(*) FROM locked_keys) >= 0
    RETURNING q.job_id, q.run_at, q.attempt, q.failures, q.crashes, q.keyed
),
finished AS (
    INSERT INTO tickwork.finished (job_id, state, ended_at, run_at, attempt, failures, crashes, error)
    SELECT e.job_id, 'cancelled', clock.now, e.run_at, e.attempt, e.failures, e.crashes, 'cancelled before it was started'
    FROM   ended e CROSS JOIN clock
),
-- include let_go_of_keys
SELECT w.id::text,
       CASE WHEN a.job_id IS NOT NULL OR e.job_id IS NOT NULL THEN 'done' WHEN f.job_id IS NOT NULL THEN 'ended'
            WHEN j.id IS NULL THEN 'unknown' ELSE 'moved' END
FROM   wanted w
LEFT   JOIN asked a ON a.job_id = w.id
LEFT   JOIN ended e ON e.job_id = w.id
LEFT   JOIN tickwork.finished f ON f.job_id = w.id
LEFT   JOIN tickwork.jobs j ON j.id = w.id

-- :retry_jobs
-- `over` ended and may run again if its key is free; `early` waits for a later time. They become due one after the other.
WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now),
wanted AS MATERIALIZED (
    SELECT value::uuid AS id, min(n) AS n FROM json_array_elements_text(%(ids)s::json) WITH ORDINALITY AS w (value, n)
    GROUP  BY value
),
over AS MATERIALIZED (
    SELECT w.n, j.key, j.queue, j.priority, j.task, f.job_id, f.attempt, f.attempt_state, f.worker, f.started_at, f.ended_at,
           f.error
    FROM   wanted w JOIN tickwork.finished f ON f.job_id = w.id JOIN tickwork.jobs j ON j.id = f.job_id
    WHERE  f.state <> 'succeeded'
    ORDER  BY f.job_id
    FOR UPDATE OF f
),
taken AS (
    INSERT INTO tickwork.keys AS k (key, job_id)
    SELECT DISTINCT ON (o.key) o.key, o.job_id FROM over o WHERE o.key IS NOT NULL ORDER BY o.key, o.n
    ON CONFLICT (key) DO UPDATE SET
        job_id = CASE WHEN k.until <= (SELECT now FROM clock) THEN excluded.job_id ELSE k.job_id END,
        until  = CASE WHEN k.until <= (SELECT now FROM clock) OR k.job_id = excluded.job_id THEN NULL ELSE k.until END
    RETURNING k.key, k.job_id
),
early AS MATERIALIZED (
    SELECT w.n, q.ctid AS place, q.* FROM wanted w JOIN tickwork.queue q ON q.job_id = w.id
    WHERE  q.run_at > (SELECT now FROM clock)
    ORDER  BY q.job_id
    FOR UPDATE OF q
),
chosen AS MATERIALIZED (
    SELECT x.job_id, x.n,
           clock.now + (%(first_us)s::bigint + (row_number() OVER (ORDER BY x.n) - 1) * %(spacing_us)s::bigint)
               * interval '1 microsecond' AS run_at
    FROM (
        SELECT o.job_id, o.n FROM over o LEFT JOIN taken t ON t.key = o.key WHERE o.key IS NULL OR t.job_id = o.job_id
        UNION ALL
        SELECT e.job_id, e.n FROM early e
    ) x CROSS JOIN clock
),
left_queue AS (
    DELETE FROM tickwork.queue q WHERE q.ctid = ANY (ARRAY(SELECT e.place FROM early e))
    RETURNING q.*
),
hurried AS (
    INSERT INTO tickwork.queue (job_id, queue, priority, run_at, task, attempt, failures, crashes, alone, keyed, expires_at)
    SELECT e.job_id, e.queue, e.priority, least(e.run_at, c.run_at), e.task, e.attempt, e.failures, e.crashes, e.alone,
           e.keyed, e.expires_at
    FROM   left_queue e JOIN chosen c ON c.job_id = e.job_id
),
gone AS (
    DELETE FROM tickwork.finished f USING chosen c WHERE f.job_id = c.job_id
),
tried AS (
    INSERT INTO tickwork.attempts (job_id, attempt, state, worker, started_at, ended_at, error)
    SELECT o.job_id, o.attempt, o.attempt_state, o.worker, o.started_at, o.ended_at, o.error
    FROM   over o JOIN chosen c ON c.job_id = o.job_id
    WHERE  o.attempt_state IS NOT NULL
),
queued AS (
    INSERT INTO tickwork.queue (job_id, queue, priority, run_at, task, attempt, failures, crashes, alone, keyed, expires_at)
    SELECT o.job_id, o.queue, o.priority, c.run_at, o.task, o.attempt, 0, 0, false, o.key IS NOT NULL, NULL
    FROM   over o JOIN chosen c ON c.job_id = o.job_id
)
SELECT job_id::text FROM chosen ORDER BY n

-- :discard_jobs
UPDATE tickwork.finished SET discarded_at = coalesce(%(now)s::timestamptz, clock_timestamp())
WHERE  job_id IN (SELECT value::uuid FROM json_array_elements_text(%(ids)s::json))
AND    state = 'failed' AND discarded_at IS NULL
RETURNING job_id::text

-- :expire_jobs
WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now),
doomed AS MATERIALIZED (
    SELECT q.ctid AS place, q.job_id FROM tickwork.queue q
    WHERE  q.expires_at <= (SELECT now FROM clock) LIMIT %(limit)s::bigint
),
locked_keys AS MATERIALIZED (
    SELECT k.key FROM tickwork.keys k WHERE k.job_id IN (SELECT d.job_id FROM doomed d) ORDER BY k.key FOR UPDATE
),
locked AS MATERIALIZED (
    SELECT q.ctid AS place FROM tickwork.queue q
    WHERE  q.ctid = ANY (ARRAY(SELECT d.place FROM doomed d)) AND (SELECT count(*) FROM locked_keys) >= 0
    FOR UPDATE SKIP LOCKED
),
ended AS (
    DELETE FROM tickwork.queue q WHERE q.ctid = ANY (ARRAY(SELECT l.place FROM locked l))
    RETURNING q.job_id, q.run_at, q.attempt, q.failures, q.crashes, q.keyed
),
finished AS (
    INSERT INTO tickwork.finished (job_id, state, ended_at, run_at, attempt, failures, crashes, error)
    SELECT e.job_id, 'expired', clock.now, e.run_at, e.attempt, e.failures, e.crashes, 'it was not started before its deadline'
    FROM   ended e CROSS JOIN clock
),
-- include let_go_of_keys
SELECT count(*) FROM ended

-- :prune
-- A job whose key stays taken is kept as long as the key.
WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now),
doomed AS MATERIALIZED (
    SELECT f.job_id FROM tickwork.finished f
    WHERE  f.ended_at < (SELECT now FROM clock) - %(ended_us)s::bigint * interval '1 microsecond'
    AND    (f.state <> 'failed' OR f.ended_at < (SELECT now FROM clock) - %(failed_us)s::bigint * interval '1 microsecond')
    AND    NOT EXISTS (SELECT FROM tickwork.keys k WHERE k.job_id = f.job_id AND k.until > (SELECT now FROM clock))
    ORDER  BY f.ended_at
    LIMIT  %(limit)s::bigint
    FOR UPDATE SKIP LOCKED
),
a AS (DELETE FROM tickwork.attempts t USING doomed d WHERE t.job_id = d.job_id),
l AS (DELETE FROM tickwork.logs t USING doomed d WHERE t.job_id = d.job_id),
s AS (DELETE FROM tickwork.saved t USING doomed d WHERE t.job_id = d.job_id),
f AS (DELETE FROM tickwork.finished t USING doomed d WHERE t.job_id = d.job_id),
j AS (DELETE FROM tickwork.jobs t USING doomed d WHERE t.id = d.job_id),
k AS (
    DELETE FROM tickwork.keys t WHERE t.key IN (
        SELECT k.key FROM tickwork.keys k WHERE k.until <= (SELECT now FROM clock) LIMIT %(limit)s::bigint
        FOR UPDATE SKIP LOCKED
    )
),
w AS (
    DELETE FROM tickwork.workers t
    WHERE  t.lease_until < (SELECT now FROM clock) - %(lost_us)s::bigint * interval '1 microsecond'
    AND    t.id <> ALL (ARRAY(SELECT DISTINCT r.worker FROM tickwork.running r))
),
old AS MATERIALIZED (
    SELECT t.ctid AS place FROM tickwork.fires t
    WHERE  t.fired_at < (SELECT now FROM clock) - %(ended_us)s::bigint * interval '1 microsecond' AND t.action <> 'queue'
    ORDER  BY t.fired_at
    LIMIT  %(limit)s::bigint
    FOR UPDATE SKIP LOCKED
),
o AS (DELETE FROM tickwork.fires t WHERE t.ctid = ANY (ARRAY(SELECT old.place FROM old)))
SELECT greatest((SELECT count(*) FROM doomed), (SELECT count(*) FROM old))
