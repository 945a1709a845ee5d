-- Detect and repair steps of the server's clock. All statements of a repair get the same instants: `at`, the present
-- time, `reading`, as last recorded before the clock went back, and `back`, the difference.

-- :read_clock
SELECT coalesce(%(now)s::timestamptz, clock_timestamp()), c.reading FROM (VALUES (1)) AS always LEFT JOIN tickwork.clock c ON true

-- :record_reading
INSERT INTO tickwork.clock AS c (one, reading) VALUES (1, coalesce(%(now)s::timestamptz, clock_timestamp()))
ON CONFLICT (one) DO UPDATE SET reading = excluded.reading WHERE c.reading < excluded.reading

-- :record_step
INSERT INTO tickwork.clock AS c (one, reading, stepped_at, step)
SELECT 1, clock.now, clock.now, %(step_us)s::bigint * interval '1 microsecond'
FROM   (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) clock
ON CONFLICT (one) DO UPDATE SET reading = greatest(c.reading, excluded.reading), stepped_at = excluded.stepped_at, step = excluded.step

-- :take_step_back
-- No row: another process has repaired this step.
WITH before AS MATERIALIZED (SELECT c.reading FROM tickwork.clock c FOR UPDATE)
UPDATE tickwork.clock c SET reading = clock.now, stepped_at = clock.now, step = clock.now - before.reading
FROM   before CROSS JOIN (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) clock
WHERE  before.reading > clock.now + %(noticed_us)s::bigint * interval '1 microsecond'
RETURNING clock.now, before.reading

-- :rewind_schedules
-- All schedules are evaluated again, also those that seemed to have ended. The new version rejects moves that were
-- decided before.
WITH held AS MATERIALIZED (SELECT s.name FROM tickwork.schedules s ORDER BY s.name FOR UPDATE)
UPDATE tickwork.schedules s
SET    handled_at = least(s.handled_at, %(at)s::timestamptz), active_since = least(s.active_since, %(at)s::timestamptz),
       last_ended_at = CASE WHEN s.last_ended_at IS NOT NULL THEN least(s.last_ended_at, %(at)s::timestamptz) END,
       waiting = (SELECT coalesce(json_agg(w.value), '[]')::text FROM json_array_elements(s.waiting::json) AS w (value)
                  WHERE (w.value ->> 'due_at')::timestamptz <= %(at)s::timestamptz),
       wake_at = CASE WHEN s.paused_at IS NULL THEN %(at)s::timestamptz ELSE s.paused_until END, version = s.version + 1
FROM   held h WHERE h.name = s.name

-- :forget_idle_fires
-- Occurrences in the jump that started nothing may fire when the clock gets there again.
DELETE FROM tickwork.fires WHERE fired_at > %(at)s::timestamptz AND due_at > %(at)s::timestamptz AND job_id IS NULL

-- :rewind_queue
-- A job that was due in the jump is due; a retry keeps its delay. An instant that a caller named is kept. Rows are
-- replaced, since a claim that meets an updated row could leave it in the queue (see claim_jobs.sql).
WITH late AS MATERIALIZED (
    SELECT q.job_id, CASE WHEN q.attempt > 0 THEN greatest(q.run_at - %(back)s::interval, %(at)s::timestamptz)
                          WHEN j.due_at < j.created_at THEN greatest(j.due_at, %(at)s::timestamptz)
                          ELSE %(at)s::timestamptz END AS run_at
    FROM   tickwork.queue q JOIN tickwork.jobs j ON j.id = q.job_id
    WHERE  q.run_at > %(at)s::timestamptz
    AND    ((q.attempt = 0 AND j.created_at > %(at)s::timestamptz AND q.run_at <= %(reading)s::timestamptz)
            OR EXISTS (SELECT FROM tickwork.attempts a
                       WHERE a.job_id = q.job_id AND a.attempt = q.attempt AND a.ended_at > %(at)s::timestamptz))
    ORDER  BY q.job_id
    FOR UPDATE OF q
),
gone AS (DELETE FROM tickwork.queue q USING late l WHERE l.job_id = q.job_id RETURNING q.*)
-- include insert_into_queue
SELECT g.job_id, g.queue, g.priority, l.run_at, g.task, g.attempt, g.failures, g.crashes, g.alone, g.keyed, g.expires_at, g.losses
FROM   gone g JOIN late l ON l.job_id = g.job_id

-- :rewind_leases
-- A lease that was granted or renewed since the clock went back ends within a minute, unless it is a long one over
-- REST.
UPDATE tickwork.workers
SET    lease_until = greatest(lease_until - %(back)s::interval, %(at)s::timestamptz + interval '1 minute')
WHERE  lease_until > %(at)s::timestamptz + interval '1 minute' AND %(back)s::interval >= interval '1 minute'

-- :rewind_limit_states
-- Held jobs are checked again. The state of a rate is an instant; of a breaker [failures, open until, probe, probe
-- until].
WITH held AS MATERIALIZED (
    SELECT t.name FROM tickwork.limit_states t
    WHERE  t.open_at > %(at)s::timestamptz OR t.state ~ '^[0-9]+$' OR t.state LIKE '[[%%' ORDER BY t.name FOR UPDATE
)
UPDATE tickwork.limit_states t
SET    open_at = CASE WHEN t.open_at > %(at)s::timestamptz THEN %(at)s::timestamptz ELSE t.open_at END,
       state = CASE WHEN t.state ~ '^[0-9]+$' THEN greatest(t.state::bigint - span.back_us, least(t.state::bigint, span.at_us))::text
                    WHEN t.state LIKE '[[%%' AND json_array_length(t.state::json) = 4 THEN json_build_array(
                        t.state::json -> 0,
                        CASE WHEN t.state::json ->> 1 IS NOT NULL
                             THEN greatest((t.state::json ->> 1)::bigint - span.back_us, least((t.state::json ->> 1)::bigint, span.at_us)) END,
                        t.state::json -> 2,
                        greatest((t.state::json ->> 3)::bigint - span.back_us, least((t.state::json ->> 3)::bigint, span.at_us)))::text
                    ELSE t.state END
FROM   held h CROSS JOIN (
    SELECT (extract(epoch FROM %(back)s::interval) * 1000000)::bigint AS back_us,
           (extract(epoch FROM %(at)s::timestamptz) * 1000000)::bigint AS at_us
) span
WHERE  h.name = t.name

-- :rewind_keys
UPDATE tickwork.keys k SET until = greatest(k.until - %(back)s::interval, %(at)s::timestamptz)
FROM   tickwork.finished f
WHERE  k.until > %(at)s::timestamptz AND f.job_id = k.job_id AND f.ended_at > %(at)s::timestamptz

-- :rewind_steps
UPDATE tickwork.steps SET wake_at = greatest(wake_at - %(back)s::interval, %(at)s::timestamptz)
WHERE  wake_at > %(at)s::timestamptz AND since > %(at)s::timestamptz

-- :rewind_operations
UPDATE tickwork.operations SET lease_until = %(at)s::timestamptz + interval '1 minute'
WHERE  lease_until > %(at)s::timestamptz + interval '1 minute'

-- :rewind_notifications
UPDATE tickwork.notifications SET look_at = %(at)s::timestamptz WHERE look_at > %(at)s::timestamptz

-- :rewind_rollups
-- Rows that ended in the jump are counted once more when the clock gets there; otherwise nothing would be counted until
-- then.
UPDATE tickwork.rollup_marks
SET    created = least(created, %(created)s::uuid), ended = least(ended, %(at)s::timestamptz),
       look_at = least(look_at, %(at)s::timestamptz), version = version + 1

-- :rewind_logins
UPDATE tickwork.logins SET tried_at = %(at)s::timestamptz, blocked_until = greatest(blocked_until - %(back)s::interval, %(at)s::timestamptz)
WHERE  tried_at > %(at)s::timestamptz
