-- finish_attempts: close attempts whose claim still holds the job. An attempt missing from the result was reclaimed.
-- Rows without a job name limit keys that were freed.

-- :finish_attempts
WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now),
ending AS MATERIALIZED (
    -- include ending
),
closed AS MATERIALIZED (
    SELECT
    -- include closed_columns
    FROM   ending e
    CROSS  JOIN LATERAL (
        SELECT * FROM tickwork.running r WHERE r.job_id = e.job_id AND r.claim = e.claim FOR UPDATE
    ) r
),
-- include left_running
-- include settled
SELECT job_id::text, NULL FROM closed
UNION ALL
SELECT NULL, f.limit_key FROM freed_holds f

-- :left_running
-- The locked rows, one for each finish, are deleted without a join. A join of the two is planned by statistics, which
-- mostly say that nothing runs: then each row is compared with all finishes, or all dead rows are read.
left_running AS (
    DELETE FROM tickwork.running r WHERE r.job_id = ANY (ARRAY(SELECT c.job_id FROM closed c))
),

-- :reclaim_attempts
-- The reaper: close attempts only while the worker's lease has expired, which is checked once it is locked. It never
-- waits: a transaction that holds a lock here is just ending, renewing or claiming. A worker that loses an attempt this
-- way is lost as a whole: its next heartbeat is refused, and its other attempts are reclaimed, too. The lease of an
-- attempt over REST is deleted with the attempt.
WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now),
ending AS MATERIALIZED (
    -- include ending
),
expired AS MATERIALIZED (
    SELECT w.id FROM tickwork.workers w
    WHERE  w.id IN (SELECT r.worker FROM tickwork.running r WHERE r.job_id = ANY (ARRAY(SELECT job_id FROM ending)))
    AND    w.lease_until < (SELECT now FROM clock)
    FOR UPDATE SKIP LOCKED
),
closed AS MATERIALIZED (
    SELECT
    -- include closed_columns
    FROM   ending e
    CROSS  JOIN LATERAL (
        SELECT * FROM tickwork.running r
        WHERE  r.job_id = e.job_id AND r.claim = e.claim AND r.worker IN (SELECT w.id FROM expired w)
        FOR UPDATE SKIP LOCKED
    ) r
),
-- include left_running
lost AS (
    UPDATE tickwork.workers w SET state = 'lost' FROM (SELECT DISTINCT c.worker FROM closed c) c
    WHERE  w.id = c.worker AND w.state NOT IN ('ended', 'remote')
),
ended_leases AS (
    DELETE FROM tickwork.workers w USING (SELECT DISTINCT c.worker FROM closed c) c WHERE w.id = c.worker AND w.state = 'remote'
),
-- include settled
SELECT job_id::text, NULL FROM closed
UNION ALL
SELECT NULL, f.limit_key FROM freed_holds f

-- :ending
    SELECT e.* FROM unnest(%(job_ids)s::text::uuid[], %(claims)s::text::bigint[], %(waits_us)s::text::bigint[], %(job_states)s::text::text[],
                           %(attempt_states)s::text::text[], %(failures)s::text::integer[], %(crashes)s::text::integer[],
                           %(delays_us)s::text::bigint[], %(alone)s::text::boolean[], %(results)s::text::text[], %(errors)s::text::text[],
                           %(progress)s::text::float8[], %(progress_notes)s::text::text[], %(losses)s::text::integer[])
           AS e (job_id, claim, waited_us, job_state, attempt_state, failures, crashes, delay_us, alone, result, error,
                 progress, progress_note, losses)

-- :closed_columns
    r.job_id, r.attempt, r.worker, r.queue, r.priority, r.task, r.run_at, r.keyed, r.expires_at,
    r.claimed_at + e.waited_us * interval '1 microsecond' AS started_at, r.cancel_at IS NOT NULL AS stopped,
    e.job_state, e.attempt_state, e.failures, e.crashes, e.delay_us, e.alone, e.result, e.error,
    coalesce(e.progress, r.progress) AS progress,
    CASE WHEN e.progress IS NULL THEN r.progress_note ELSE e.progress_note END AS progress_note, e.losses

-- :settled
-- A caller was told that a `stopped` job is cancelled; it is, whatever its attempt returned.
ended AS MATERIALIZED (SELECT c.* FROM closed c WHERE c.stopped OR c.job_state <> 'queued'),
again AS MATERIALIZED (SELECT c.* FROM closed c WHERE NOT c.stopped AND c.job_state = 'queued'),
-- include freed_holds
finished AS (
    INSERT INTO tickwork.finished
           (job_id, state, ended_at, run_at, attempt, attempt_state, worker, started_at, failures, crashes, result, error,
            progress, progress_note, losses)
    SELECT c.job_id, CASE WHEN c.stopped THEN 'cancelled' ELSE c.job_state END, clock.now, c.run_at, c.attempt,
           CASE WHEN c.stopped THEN 'cancelled' ELSE c.attempt_state END, c.worker, c.started_at, c.failures, c.crashes,
           CASE WHEN c.stopped THEN NULL ELSE c.result END,
           CASE WHEN c.stopped THEN coalesce(c.error, 'cancelled while it ran') ELSE c.error END,
           c.progress, c.progress_note, c.losses
    FROM   ended c CROSS JOIN clock
),
tried AS (
    INSERT INTO tickwork.attempts (job_id, attempt, state, worker, started_at, ended_at, error, progress, progress_note)
    SELECT c.job_id, c.attempt, c.attempt_state, c.worker, c.started_at, clock.now, c.error, c.progress, c.progress_note
    FROM   again c CROSS JOIN clock
),
queued AS (
    -- include insert_into_queue
    SELECT c.job_id, c.queue, CASE WHEN starts_with(split_part(c.queue, ':', 2), '!') THEN 4 ELSE c.priority END,
           clock.now + c.delay_us * interval '1 microsecond', c.task, c.attempt, c.failures, c.crashes, c.alone, c.keyed,
           c.expires_at, c.losses
    FROM   again c CROSS JOIN clock
),
-- include let_go_of_keys

-- :let_go_of_keys
-- The keys of `ended` jobs are free, or stay taken for the time that the job's policy says.
stays AS MATERIALIZED (
    SELECT e.job_id, j.key_for
    FROM   ended e
    CROSS  JOIN LATERAL (SELECT policy::json ->> 'key_for' AS key_for FROM tickwork.jobs WHERE id = e.job_id OFFSET 0) j
    WHERE  e.keyed
),
kept AS (
    UPDATE tickwork.keys k
    SET    until = (SELECT now FROM clock) + (SELECT j.policy::json ->> 'key_for' FROM tickwork.jobs j WHERE j.id = k.job_id)::interval
    WHERE  k.job_id = ANY (ARRAY(SELECT s.job_id FROM stays s WHERE s.key_for IS NOT NULL))
),
freed AS (
    DELETE FROM tickwork.keys k WHERE k.job_id = ANY (ARRAY(SELECT s.job_id FROM stays s WHERE s.key_for IS NULL))
)

-- :append_logs
-- The lock on the attempt makes the fence exact: it cannot be reclaimed between the check and the write.
INSERT INTO tickwork.logs (job_id, attempt, seq, at, text, shared)
SELECT w.job_id, current.attempt, w.seq, coalesce(%(now)s::timestamptz, clock_timestamp()), w.text, w.shared
FROM (
    SELECT l.* FROM json_to_recordset(%(logs)s::json) AS l (job_id uuid, claim bigint, seq bigint, text text, shared boolean)
    ORDER  BY l.job_id
) w
CROSS JOIN LATERAL (
    SELECT r.attempt FROM tickwork.running r WHERE r.job_id = w.job_id AND r.claim = w.claim FOR KEY SHARE
) current
ON CONFLICT DO NOTHING

-- :begin_alone
-- The handler of a job that runs alone in its worker begins. From here on the loss of the attempt is blamed on the job.
UPDATE tickwork.running r SET begun = true WHERE r.job_id = %(job_id)s::uuid AND r.claim = %(claim)s::bigint RETURNING r.job_id::text

-- :set_progress
-- A row that is locked at this moment is skipped: there will be another report.
WITH current AS MATERIALIZED (
    SELECT r.place, p.fraction, p.note
    FROM   json_to_recordset(%(progress)s::json) AS p (job_id uuid, claim bigint, fraction float8, note text)
    CROSS  JOIN LATERAL (
        SELECT r.ctid AS place FROM tickwork.running r WHERE r.job_id = p.job_id AND r.claim = p.claim
        FOR NO KEY UPDATE SKIP LOCKED
    ) r
)
UPDATE tickwork.running r SET progress = c.fraction, progress_note = c.note FROM current c WHERE r.ctid = c.place

-- :save_state
WITH current AS MATERIALIZED (
    SELECT r.job_id FROM tickwork.running r WHERE r.job_id = %(job_id)s::uuid AND r.claim = %(claim)s::bigint
    FOR KEY SHARE
)
INSERT INTO tickwork.saved (job_id, state) SELECT c.job_id, %(state)s FROM current c
ON CONFLICT (job_id) DO UPDATE SET state = excluded.state
RETURNING job_id::text

-- :saved_state
SELECT state FROM tickwork.saved WHERE job_id = %(job_id)s::uuid
