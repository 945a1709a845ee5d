-- Changes of jobs by callers and operators: cancel, retry, discard, expire, prune. Batches are not joined with tables
-- or with each other, but looked up row by row or as an array: a join is planned by statistics, and these may say that
-- a table with a million rows is empty (see connection/connector.py). Locks are taken in one order everywhere: running,
-- then keys, then queue. `count(*) >= 0` is always true; it makes one part of a statement wait for another: rows of the
-- queue until the keys are locked, or until other rows are deleted.

-- :cancel_jobs
-- Returns for each job: 'done'; 'ended' before; 'unknown'; or 'moved' between queue and running just now. And the job_limits
-- of a job that has left its place in a sequence.
WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now),
wanted AS MATERIALIZED (SELECT DISTINCT value::uuid AS id FROM json_array_elements_text(%(ids)s::json)),
asked AS (
    UPDATE tickwork.running r SET cancel_at = coalesce(r.cancel_at, (SELECT now FROM clock))
    WHERE  r.job_id = ANY (ARRAY(SELECT id FROM wanted))
    RETURNING r.job_id
),
locked_keys AS MATERIALIZED (
    SELECT k.key FROM tickwork.keys k
    WHERE  k.job_id = ANY (ARRAY(
        SELECT q.job_id FROM tickwork.queue q WHERE q.job_id = ANY (ARRAY(SELECT id FROM wanted)) AND q.keyed))
    ORDER  BY k.key
    FOR UPDATE
),
ended AS (
    DELETE FROM tickwork.queue q
    WHERE  q.job_id = ANY (ARRAY(SELECT id FROM wanted)) AND (SELECT count(*) FROM locked_keys) >= 0
    RETURNING q.job_id, q.run_at, q.attempt, q.failures, q.crashes, q.keyed
),
finished AS (
    INSERT INTO tickwork.finished (job_id, state, ended_at, run_at, attempt, failures, crashes, error)
    SELECT e.job_id, 'cancelled', clock.now, e.run_at, e.attempt, e.failures, e.crashes, 'cancelled before it was started'
    FROM   ended e CROSS JOIN clock
),
-- include let_go_of_keys
SELECT w.id::text,
       CASE WHEN w.id IN (SELECT a.job_id FROM asked a) OR w.id IN (SELECT e.job_id FROM ended e) THEN 'done'
            WHEN EXISTS (SELECT FROM tickwork.finished f WHERE f.job_id = w.id OFFSET 0) THEN 'ended'
            WHEN EXISTS (SELECT FROM tickwork.jobs j WHERE j.id = w.id OFFSET 0) THEN 'moved' ELSE 'unknown' END,
       (SELECT j.job_limits FROM tickwork.jobs j
        WHERE  j.id = w.id AND starts_with(j.lane, j.queue || ':!') AND w.id IN (SELECT e.job_id FROM ended e))
FROM   wanted w

-- :retry_jobs
-- `over` has ended and may run again if its key is free; `early` waits for a later time. They become due one after the
-- other.
WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now),
wanted AS MATERIALIZED (
    SELECT value::uuid AS id, min(n) AS n FROM json_array_elements_text(%(ids)s::json) WITH ORDINALITY AS w (value, n)
    GROUP  BY value ORDER BY value
),
over AS MATERIALIZED (
    SELECT w.n, f.*, j.key, coalesce(j.lane, j.queue) AS queue, CASE WHEN j.version IS NULL THEN j.task ELSE '@dag' END AS task,
           CASE WHEN starts_with(j.lane, j.queue || ':!') THEN 5 ELSE j.priority END AS priority
    FROM   wanted w
    CROSS  JOIN LATERAL (
        SELECT f.job_id, f.attempt, f.attempt_state, f.worker, f.started_at, f.ended_at, f.error, f.progress, f.progress_note
        FROM   tickwork.finished f
        WHERE  f.job_id = w.id AND (%(any_end)s::boolean OR f.state <> 'succeeded')
        FOR UPDATE
    ) f
    CROSS  JOIN LATERAL (SELECT * FROM tickwork.jobs j WHERE j.id = w.id OFFSET 0) j
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
    SELECT w.n, q.* FROM wanted w
    CROSS  JOIN LATERAL (
        SELECT q.ctid AS place, q.* FROM tickwork.queue q WHERE q.job_id = w.id AND q.run_at > (SELECT now FROM clock)
        FOR UPDATE
    ) q
),
chosen AS MATERIALIZED (
    SELECT x.*, (SELECT now FROM clock)
           + (%(first_us)s::bigint + (row_number() OVER (ORDER BY x.n) - 1) * %(spacing_us)s::bigint)
               * interval '1 microsecond' AS again_at
    FROM (
        SELECT o.n, o.job_id, o.queue, o.priority, NULL::timestamptz AS run_at, o.task, o.attempt, 0 AS failures,
               0 AS crashes, false AS alone, o.key IS NOT NULL AS keyed, NULL::timestamptz AS expires_at, NULL::tid AS place,
               o.attempt_state, o.worker, o.started_at, o.ended_at, o.error, o.progress, o.progress_note, 0 AS losses
        FROM   over o WHERE o.key IS NULL OR (o.key, o.job_id) IN (SELECT t.key, t.job_id FROM taken t)
        UNION ALL
        SELECT e.n, e.job_id, e.queue, e.priority, e.run_at, e.task, e.attempt, e.failures, e.crashes, e.alone, e.keyed,
               e.expires_at, e.place, NULL, NULL, NULL, NULL, NULL, NULL, NULL, e.losses
        FROM   early e
    ) x
),
left_queue AS (
    DELETE FROM tickwork.queue q WHERE q.ctid = ANY (ARRAY(SELECT e.place FROM early e)) RETURNING 1
),
gone AS (
    DELETE FROM tickwork.finished f WHERE f.job_id = ANY (ARRAY(SELECT c.job_id FROM chosen c WHERE c.place IS NULL))
),
-- An ended job starts at the end of its sequence: the hold of its last attempt would make it the head again.
forgotten AS (
    DELETE FROM tickwork.holds h WHERE h.job_id = ANY (ARRAY(SELECT c.job_id FROM chosen c WHERE c.place IS NULL))
),
tried AS (
    INSERT INTO tickwork.attempts (job_id, attempt, state, worker, started_at, ended_at, error, progress, progress_note)
    SELECT c.job_id, c.attempt, c.attempt_state, c.worker, c.started_at, c.ended_at, c.error, c.progress, c.progress_note
    FROM   chosen c WHERE c.attempt_state IS NOT NULL
),
queued AS (
    -- include insert_into_queue
    SELECT c.job_id, c.queue, c.priority, least(c.run_at, c.again_at), c.task, c.attempt, c.failures, c.crashes, c.alone,
           c.keyed, c.expires_at, c.losses
    FROM   chosen c WHERE (SELECT count(*) FROM left_queue) >= 0
)
SELECT job_id::text FROM chosen ORDER BY n

-- :reschedule_jobs
-- The jobs leave their places, and enter the lane of jobs that are not held. Returns the job_limits of jobs in sequences.
WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now),
due AS MATERIALIZED (
    SELECT greatest(now, coalesce(%(at)s::timestamptz, now + %(delay_us)s::bigint * interval '1 microsecond')) AS at FROM clock
),
wanted AS MATERIALIZED (SELECT DISTINCT value::uuid AS id FROM json_array_elements_text(%(ids)s::json)),
waiting AS MATERIALIZED (
    SELECT q.* FROM wanted w
    CROSS  JOIN LATERAL (SELECT q.ctid AS place, q.* FROM tickwork.queue q WHERE q.job_id = w.id FOR UPDATE) q
),
moved AS MATERIALIZED (
    SELECT w.*, (SELECT at FROM due) AS again_at, w.expires_at + ((SELECT at FROM due) - w.run_at) AS deadline, j.home, j.urgency, j.job_limits
    FROM   waiting w
    CROSS  JOIN LATERAL (
        SELECT coalesce(j.lane, j.queue) AS home,
               CASE WHEN NOT is_line THEN j.priority WHEN w.attempt > 0 THEN 4 ELSE 5 END AS urgency,
               CASE WHEN is_line THEN j.job_limits END AS job_limits
        FROM   tickwork.jobs j CROSS JOIN LATERAL (SELECT coalesce(starts_with(j.lane, j.queue || ':!'), false) AS is_line) l
        WHERE  j.id = w.job_id OFFSET 0
    ) j
),
left_queue AS (
    DELETE FROM tickwork.queue q WHERE q.ctid = ANY (ARRAY(SELECT m.place FROM moved m)) RETURNING 1
),
queued AS (
    -- include insert_into_queue
    SELECT m.job_id, m.home, m.urgency, m.again_at, m.task, m.attempt, m.failures, m.crashes, m.alone, m.keyed, m.deadline,
           m.losses
    FROM   moved m WHERE (SELECT count(*) FROM left_queue) >= 0
),
deadlines AS (
    UPDATE tickwork.jobs j SET expires_at = j.expires_at + ((SELECT at FROM due) - (
        SELECT m.run_at FROM moved m WHERE m.job_id = j.id
    ))
    WHERE  j.id = ANY (ARRAY(SELECT m.job_id FROM moved m WHERE m.expires_at IS NOT NULL))
)
SELECT job_id::text, job_limits FROM moved

-- :discard_jobs
UPDATE tickwork.finished SET discarded_at = coalesce(%(now)s::timestamptz, clock_timestamp())
WHERE  job_id = ANY (ARRAY(SELECT value::uuid FROM json_array_elements_text(%(ids)s::json)))
AND    state = 'failed' AND discarded_at IS NULL
RETURNING job_id::text

-- :expire_jobs
-- Steps of runs are left out: they are ended by a transaction that locks the run first.
WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now),
doomed AS MATERIALIZED (
    SELECT q.ctid AS place, q.job_id FROM tickwork.queue q
    WHERE  q.expires_at <= (SELECT now FROM clock)
    AND    NOT EXISTS (SELECT FROM tickwork.jobs j WHERE j.id = q.job_id AND j.run IS NOT NULL OFFSET 0)
    LIMIT  %(limit)s::bigint
),
-- include end_doomed

-- :drop_jobs
-- Jobs that a gate drops, if they still wait.
WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now),
doomed AS MATERIALIZED (
    SELECT q.ctid AS place, q.job_id FROM tickwork.queue q
    WHERE  q.job_id = ANY (ARRAY(SELECT value::uuid FROM json_array_elements_text(%(ids)s::json)))
),
-- include end_doomed

-- :end_doomed
locked_keys AS MATERIALIZED (
    SELECT k.key FROM tickwork.keys k WHERE k.job_id = ANY (ARRAY(SELECT d.job_id FROM doomed d)) ORDER BY k.key FOR UPDATE
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
    SELECT e.job_id, %(state)s, clock.now, e.run_at, e.attempt, e.failures, e.crashes, %(error)s
    FROM   ended e CROSS JOIN clock
),
-- include let_go_of_keys
SELECT count(*), ARRAY(
    SELECT j.job_limits FROM ended e
    CROSS  JOIN LATERAL (SELECT * FROM tickwork.jobs j WHERE j.id = e.job_id AND starts_with(j.lane, j.queue || ':!') OFFSET 0) j)
FROM   ended

-- :prune
-- Among the ended jobs after a position that are older than the shortest age, up to a limit, delete those that are
-- older than their own age. A job whose key stays taken is kept as long as the key, and a step as long as its run. Each
-- row says how many were deleted, names one with a result in a blob, if there are any, and says where to continue.
WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now),
seen AS MATERIALIZED (
    SELECT f.job_id, f.ended_at, f.state FROM tickwork.finished f
    WHERE  f.ended_at < (SELECT now FROM clock) - %(shortest_us)s::bigint * interval '1 microsecond'
    AND    (f.ended_at, f.job_id) > (%(after)s::timestamptz, %(after_id)s::uuid)
    ORDER  BY f.ended_at, f.job_id
    LIMIT  %(limit)s::bigint
),
past AS MATERIALIZED (
    SELECT s.job_id
    FROM   seen s
    CROSS  JOIN LATERAL (SELECT j.task, j.queue, j.run FROM tickwork.jobs j WHERE j.id = s.job_id OFFSET 0) j
    WHERE  s.ended_at < (SELECT now FROM clock) - interval '1 microsecond' * coalesce(
               %(ages)s::json ->> ('task/' || j.task || '/' || s.state), %(ages)s::json ->> ('task/' || j.task),
               %(ages)s::json ->> ('queue/' || j.queue || '/' || s.state), %(ages)s::json ->> ('queue/' || j.queue),
               %(ages)s::json ->> s.state, %(ages)s::json ->> 'all')::bigint
    AND    NOT EXISTS (SELECT FROM tickwork.keys k WHERE k.job_id = s.job_id AND k.until > (SELECT now FROM clock))
    AND    (j.run IS NULL OR NOT EXISTS (SELECT FROM tickwork.jobs run WHERE run.id = j.run OFFSET 0))
),
doomed AS MATERIALIZED (
    SELECT f.job_id, CASE WHEN octet_length(f.result) < 1000 AND starts_with(f.result, %(mark)s) THEN f.result END AS blob
    FROM   tickwork.finished f
    WHERE  f.job_id = ANY (ARRAY(SELECT p.job_id FROM past p))
    ORDER  BY f.job_id
    FOR UPDATE SKIP LOCKED
),
a AS (DELETE FROM tickwork.attempts t WHERE t.job_id = ANY (ARRAY(SELECT d.job_id FROM doomed d))),
l AS (DELETE FROM tickwork.logs t WHERE t.job_id = ANY (ARRAY(SELECT d.job_id FROM doomed d))),
u AS (DELETE FROM tickwork.runs t WHERE t.id = ANY (ARRAY(SELECT d.job_id FROM doomed d))),
p AS (DELETE FROM tickwork.steps t WHERE t.run = ANY (ARRAY(SELECT d.job_id FROM doomed d))),
s AS (DELETE FROM tickwork.saved t WHERE t.job_id = ANY (ARRAY(SELECT d.job_id FROM doomed d))),
f AS (DELETE FROM tickwork.finished t WHERE t.job_id = ANY (ARRAY(SELECT d.job_id FROM doomed d))),
j AS (DELETE FROM tickwork.jobs t WHERE t.id = ANY (ARRAY(SELECT d.job_id FROM doomed d))),
k AS (
    DELETE FROM tickwork.keys t WHERE t.key IN (
        SELECT k.key FROM tickwork.keys k WHERE k.until <= (SELECT now FROM clock) LIMIT %(limit)s::bigint
        FOR UPDATE SKIP LOCKED
    )
),
w AS (
    DELETE FROM tickwork.workers t WHERE t.id = ANY (ARRAY(
        SELECT w.id FROM tickwork.workers w
        WHERE  w.lease_until < (SELECT now FROM clock)
        AND    (w.state = 'remote' OR w.lease_until < (SELECT now FROM clock) - %(lost_us)s::bigint * interval '1 microsecond')
        EXCEPT SELECT r.worker FROM tickwork.running r
    ))
),
old AS MATERIALIZED (
    SELECT t.ctid AS place FROM tickwork.fires t
    WHERE  t.fired_at < (SELECT now FROM clock) - %(ended_us)s::bigint * interval '1 microsecond' AND t.action <> 'queue'
    ORDER  BY t.fired_at
    LIMIT  %(limit)s::bigint
    FOR UPDATE SKIP LOCKED
),
o AS (DELETE FROM tickwork.fires t WHERE t.ctid = ANY (ARRAY(SELECT old.place FROM old)))
SELECT all_of_it.count, d.job_id::text, d.blob, last.ended_at::text, last.job_id::text
FROM   (SELECT greatest((SELECT count(*) FROM doomed), (SELECT count(*) FROM old)) AS count) all_of_it
LEFT   JOIN (SELECT s.ended_at, s.job_id FROM seen s ORDER BY s.ended_at DESC, s.job_id DESC LIMIT 1) last
       ON (SELECT count(*) FROM seen) = %(limit)s::bigint
LEFT   JOIN doomed d ON d.blob IS NOT NULL

-- :unused_blobs
SELECT n.key FROM unnest(%(ids)s::uuid[], %(keys)s::text[]) AS n (job_id, key)
JOIN   tickwork.jobs j ON j.id = n.job_id
LEFT   JOIN tickwork.finished f ON f.job_id = j.id
WHERE  f.result IS NULL OR strpos(f.result, n.key) = 0
