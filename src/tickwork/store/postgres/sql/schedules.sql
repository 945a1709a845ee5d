-- Schedules: specs, states, fires, and the calendars that they use. Locks are taken in one order everywhere: schedules
-- by name, then rows of jobs (see change_jobs.sql).

-- :put_schedules
-- A changed recurrence applies from now on; other parts of a schedule can change without losing due occurrences.
-- include inserted_schedules
ON CONFLICT (name) DO UPDATE SET
    kind = excluded.kind, target = excluded.target, spec = excluded.spec, timing = excluded.timing,
    calendars = excluded.calendars, declared = coalesce(excluded.declared, s.declared),
    handled_at = CASE WHEN s.timing <> excluded.timing THEN greatest(s.handled_at, excluded.edited_at) ELSE s.handled_at END,
    wake_at = CASE WHEN s.paused_at IS NULL THEN excluded.edited_at ELSE s.paused_until END, version = s.version + 1,
    edited_at = excluded.edited_at
WHERE  s.spec <> excluded.spec OR coalesce(excluded.declared <> s.declared, excluded.declared IS NOT NULL)

-- :new_schedules
-- include inserted_schedules
ON CONFLICT (name) DO NOTHING
RETURNING name

-- :inserted_schedules
INSERT INTO tickwork.schedules AS s
       (name, kind, target, spec, timing, calendars, declared, handled_at, active_since, run_count, waiting, paused_at, wake_at,
        version, created_at, edited_at)
SELECT g.name, g.kind, g.target, g.spec, g.timing, g.calendars, g.declared,
       least(g.start - interval '1 microsecond', clock.now), clock.now, 0, '[]',
       CASE WHEN g.paused THEN clock.now END, CASE WHEN NOT g.paused THEN clock.now END, 1, clock.now, clock.now
FROM   (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) clock
CROSS  JOIN json_to_recordset(%(schedules)s::json) AS
       g (name text, kind text, target text, spec text, timing text, calendars text, declared text, start timestamptz,
          paused boolean)
ORDER  BY g.name

-- :stored_specs
SELECT name, spec, declared FROM tickwork.schedules
WHERE  name IN (SELECT value FROM json_array_elements_text(%(names)s::json))
ORDER  BY name
FOR UPDATE

-- :schedule_columns
SELECT s.name, s.spec, s.declared IS NOT NULL AS is_declared, s.handled_at, s.active_since, s.run_count, s.last_ended_at,
       s.waiting, s.paused_at, s.paused_until, s.paused_by, s.paused_why, s.wake_at, s.created_at, s.edited_at,
       (SELECT count(*) FROM tickwork.schedule_jobs r JOIN tickwork.jobs j ON j.id = r.job_id
        LEFT JOIN tickwork.finished f ON f.job_id = r.job_id WHERE r.schedule = s.name AND f.job_id IS NULL) AS live_count
FROM   tickwork.schedules s

-- :schedules_of_these
WHERE s.name IN (SELECT value FROM json_array_elements_text(%(names)s::json))

-- :schedules_after
WHERE s.name > %(after)s::text ORDER BY s.name LIMIT %(limit)s::text::bigint

-- :schedules_waking
WHERE s.wake_at IS NOT NULL ORDER BY s.wake_at LIMIT %(limit)s::text::bigint

-- :schedules_paused
WHERE s.paused_at IS NOT NULL ORDER BY s.paused_at DESC LIMIT %(limit)s::text::bigint

-- :delete_schedules
WITH gone AS (
    DELETE FROM tickwork.schedules WHERE name IN (SELECT value FROM json_array_elements_text(%(names)s::json))
    RETURNING name
),
f AS (DELETE FROM tickwork.fires t USING gone WHERE t.schedule = gone.name),
r AS (DELETE FROM tickwork.schedule_jobs t USING gone WHERE t.schedule = gone.name)
SELECT name FROM gone

-- :pause_schedules
UPDATE tickwork.schedules
SET    paused_at = coalesce(%(now)s::timestamptz, clock_timestamp()), paused_by = %(by)s, paused_why = %(why)s,
       paused_until = %(until)s::timestamptz, wake_at = %(until)s::timestamptz, version = version + 1
WHERE  name IN (SELECT value FROM json_array_elements_text(%(names)s::json)) AND paused_at IS NULL
RETURNING name

-- :resume_schedules
UPDATE tickwork.schedules
SET    paused_at = NULL, paused_by = NULL, paused_why = NULL, paused_until = NULL, active_since = clock.now,
       wake_at = clock.now, version = version + 1
FROM   (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) clock
WHERE  name IN (SELECT value FROM json_array_elements_text(%(names)s::json)) AND paused_at IS NOT NULL
RETURNING name

-- :end_pauses
-- A schedule whose pause ends by itself is evaluated at that time.
UPDATE tickwork.schedules
SET    paused_at = NULL, paused_by = NULL, paused_why = NULL, paused_until = NULL, active_since = clock.now,
       wake_at = clock.now, version = version + 1
FROM   (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) clock
WHERE  name IN (SELECT s.name FROM tickwork.schedules s WHERE s.wake_at <= clock.now AND s.paused_until <= clock.now
                ORDER BY s.name FOR UPDATE)
RETURNING name

-- :fires
SELECT due_at, action, job_id::text, fired_at, is_catchup, reason FROM tickwork.fires
WHERE  schedule = %(name)s AND due_at < coalesce(%(before)s::timestamptz, 'infinity')
ORDER  BY due_at DESC LIMIT %(limit)s::bigint

-- :put_calendar
-- Due occurrences that are not decided yet stay due, as do those that waited for a missing calendar; otherwise the
-- calendar applies from now on. A paused schedule is evaluated when it is resumed.
WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now),
put AS (
    INSERT INTO tickwork.calendars AS c (name, value, edited_at) SELECT %(name)s, %(value)s, clock.now FROM clock
    ON CONFLICT (name) DO UPDATE SET value = excluded.value, edited_at = excluded.edited_at WHERE c.value <> excluded.value
    RETURNING c.name
)
UPDATE tickwork.schedules s
SET    handled_at = CASE WHEN s.paused_at IS NULL AND (s.wake_at IS NULL OR s.wake_at > clock.now)
                         AND EXISTS (SELECT FROM tickwork.calendars c WHERE c.name = %(name)s)
                         THEN greatest(s.handled_at, clock.now) ELSE s.handled_at END,
       wake_at = CASE WHEN s.paused_at IS NULL THEN clock.now ELSE s.paused_until END, version = s.version + 1
FROM   clock CROSS JOIN put
WHERE  put.name IN (SELECT value FROM json_array_elements_text(s.calendars::json))

-- :heeds_calendar
SELECT name FROM tickwork.schedules
WHERE  %(name)s IN (SELECT value FROM json_array_elements_text(calendars::json)) LIMIT 1

-- :delete_calendar
DELETE FROM tickwork.calendars WHERE name = %(name)s RETURNING name

-- :calendars
SELECT name, value FROM tickwork.calendars ORDER BY name

-- :calendars_of
SELECT name, value FROM tickwork.calendars WHERE name IN (SELECT value FROM json_array_elements_text(%(names)s::json))

-- :definitions_of
SELECT name, queue, priority, policy, schema, task_limits, version FROM tickwork.tasks
WHERE  name IN (SELECT value FROM json_array_elements_text(%(names)s::json))

-- :look_at_schedules
-- At least one row: the clock, and when the next of the other schedules is due for evaluation. A run that is neither
-- finished nor present was pruned: it has ended, too.
WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now),
due AS MATERIALIZED (
    (SELECT s.name FROM tickwork.schedules s WHERE s.wake_at <= (SELECT now FROM clock)
     ORDER BY s.wake_at LIMIT %(limit)s::bigint)
    UNION
    (SELECT r.schedule FROM tickwork.schedule_jobs r
     LEFT JOIN tickwork.finished f ON f.job_id = r.job_id
     LEFT JOIN tickwork.jobs j ON j.id = r.job_id
     WHERE r.awaited AND (f.job_id IS NOT NULL OR j.id IS NULL) LIMIT %(limit)s::bigint)
)
SELECT clock.now, extract(epoch FROM later.wake_at - clock.now)::float8, s.name, s.version, s.spec, s.target, s.calendars,
       s.handled_at, s.active_since, s.run_count, s.last_ended_at, s.waiting, s.paused_at IS NOT NULL, s.paused_until,
       runs.job_ids, runs.ended, runs.ends, runs.failed,
       (SELECT array_agg(f.due_at) FROM tickwork.fires f
        WHERE  f.schedule = s.name AND f.due_at > s.handled_at AND f.job_id IS NOT NULL) AS started
FROM   clock
CROSS  JOIN LATERAL (SELECT min(n.wake_at) AS wake_at FROM tickwork.schedules n WHERE n.wake_at > clock.now) later
LEFT   JOIN (due JOIN tickwork.schedules s ON s.name = due.name) ON true
LEFT   JOIN LATERAL (
    SELECT array_agg(r.job_id::text) AS job_ids, array_agg(f.job_id IS NOT NULL OR j.id IS NULL) AS ended,
           array_agg(f.ended_at) AS ends,
           array_agg(f.job_id IS NOT NULL AND f.state <> 'succeeded' AND f.discarded_at IS NULL) AS failed
    FROM   tickwork.schedule_jobs r
    LEFT   JOIN tickwork.finished f ON f.job_id = r.job_id
    LEFT   JOIN tickwork.jobs j ON j.id = r.job_id
    WHERE  r.schedule = s.name
) runs ON true

-- :move_schedules
-- A schedule that another process is moving or has moved is skipped. Returns each moved schedule, and how many of the
-- fires of all of them were recorded: fewer than given means that an occurrence was decided before. `(... IN (SELECT
-- ...)) = true` makes a hashed subplan; as a join it would compare each with each, since Tickwork's sessions have hash
-- joins off.
WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now),
given AS MATERIALIZED (
    SELECT m.* FROM json_to_recordset(%(moves)s::json) AS
    m (name text, version bigint, handled_at timestamptz, run_count bigint, last_ended_at timestamptz, waiting text,
       wake_at timestamptz, awaited boolean)
),
held AS MATERIALIZED (
    SELECT s.name FROM tickwork.schedules s JOIN given g ON g.name = s.name AND g.version = s.version
    ORDER  BY s.name
    FOR UPDATE OF s SKIP LOCKED
),
moved AS (
    UPDATE tickwork.schedules s
    SET    handled_at = g.handled_at, run_count = g.run_count, last_ended_at = g.last_ended_at, waiting = g.waiting,
           wake_at = coalesce(s.paused_until, g.wake_at), version = s.version + 1
    FROM   given g
    WHERE  s.name = g.name AND (g.name IN (SELECT h.name FROM held h)) = true
    RETURNING s.name, g.awaited
),
forgotten AS MATERIALIZED (
    SELECT e.schedule, e.job_id FROM json_to_recordset(%(ended)s::json) AS e (schedule text, job_id uuid)
    WHERE  (e.schedule IN (SELECT m.name FROM moved m)) = true
),
forgot AS (
    DELETE FROM tickwork.schedule_jobs r USING forgotten e WHERE r.schedule = e.schedule AND r.job_id = e.job_id
),
awaits AS (
    UPDATE tickwork.schedule_jobs r SET awaited = m.awaited FROM moved m
    WHERE  r.schedule = m.name AND r.awaited <> m.awaited
    AND    r.job_id NOT IN (SELECT e.job_id FROM forgotten e)
),
fired AS (
    INSERT INTO tickwork.fires AS t (schedule, due_at, action, job_id, fired_at, is_catchup, reason)
    SELECT f.schedule, f.due_at, f.action, f.job_id, clock.now, f.is_catchup, f.reason
    FROM   clock CROSS JOIN json_to_recordset(%(fires)s::json) AS
           f (schedule text, due_at timestamptz, action text, job_id uuid, is_catchup boolean, reason text)
    WHERE  (f.schedule IN (SELECT m.name FROM moved m)) = true
    ON CONFLICT (schedule, due_at) DO UPDATE SET
        action = excluded.action, job_id = excluded.job_id, fired_at = excluded.fired_at, reason = excluded.reason
    WHERE  t.action IN ('queue', 'cancel_older')
    RETURNING t.due_at
),
-- include started_jobs
SELECT m.name, (SELECT count(*) FROM fired) FROM moved m
