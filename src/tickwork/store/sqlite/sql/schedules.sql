-- Schedules: specs, states, fires, and the calendars that they use.

-- :put_schedule
-- A changed recurrence applies from now on; other parts of a schedule can change without losing due occurrences.
INSERT INTO tickwork_schedules (name, kind, target, spec, timing, calendars, declared, handled_at, active_since, run_count, waiting, paused_at, wake_at, version, created_at, edited_at)
VALUES (:name, :kind, :target, :spec, :timing, :calendars, :declared, min(coalesce(:start - 1, :now), :now), :now, 0, '[]',
        CASE WHEN :paused THEN :now END, CASE WHEN NOT :paused THEN :now END, 1, :now, :now)
ON CONFLICT (name) DO UPDATE SET
    kind = excluded.kind, target = excluded.target, spec = excluded.spec, timing = excluded.timing,
    calendars = excluded.calendars, declared = coalesce(excluded.declared, declared),
    handled_at = CASE WHEN timing <> excluded.timing THEN max(handled_at, :now) ELSE handled_at END,
    wake_at = CASE WHEN paused_at IS NULL THEN :now ELSE paused_until END, version = version + 1, edited_at = :now
WHERE spec <> excluded.spec OR coalesce(excluded.declared <> declared, excluded.declared IS NOT NULL)

-- :stored_specs
SELECT name, spec, declared FROM tickwork_schedules WHERE name IN (SELECT value FROM json_each(?))

-- :schedule_columns
SELECT s.name, s.spec, s.declared IS NOT NULL AS is_declared, s.handled_at, s.active_since, s.run_count, s.last_ended_at,
       s.waiting, s.paused_at, s.paused_until, s.paused_by, s.paused_why, s.wake_at, s.created_at, s.edited_at,
       (SELECT count(*) FROM tickwork_schedule_jobs r JOIN tickwork_jobs j ON j.id = r.job_id
        LEFT JOIN tickwork_finished f ON f.job_id = r.job_id WHERE r.schedule = s.name AND f.job_id IS NULL) AS live_count
FROM   tickwork_schedules s

-- :schedules_of_these
WHERE s.name IN (SELECT value FROM json_each(?))

-- :schedules_after
WHERE s.name > :after ORDER BY s.name LIMIT :limit

-- :schedules_waking
WHERE s.wake_at IS NOT NULL ORDER BY s.wake_at LIMIT :limit

-- :schedules_paused
WHERE s.paused_at IS NOT NULL ORDER BY s.paused_at DESC LIMIT :limit

-- :delete_schedule
DELETE FROM tickwork_schedules WHERE name = ? RETURNING name

-- :delete_fires
DELETE FROM tickwork_fires WHERE schedule = ?

-- :forget_jobs
DELETE FROM tickwork_schedule_jobs WHERE schedule = ?

-- :pause_schedule
UPDATE tickwork_schedules
SET    paused_at = :now, paused_by = :by, paused_why = :why, paused_until = :until, wake_at = :until, version = version + 1
WHERE  name = :name AND paused_at IS NULL
RETURNING name

-- :resume_schedule
UPDATE tickwork_schedules
SET    paused_at = NULL, paused_by = NULL, paused_why = NULL, paused_until = NULL, active_since = :now, wake_at = :now,
       version = version + 1
WHERE  name = :name AND paused_at IS NOT NULL
RETURNING name

-- :overdue_pauses
-- A schedule whose pause ends by itself is evaluated at that time.
SELECT name FROM tickwork_schedules WHERE wake_at <= :now AND paused_until <= :now

-- :fires
SELECT due_at, action, job_id, fired_at, is_catchup, reason FROM tickwork_fires
WHERE  schedule = :name AND due_at < :before ORDER BY due_at DESC LIMIT :limit

-- :put_calendar
INSERT INTO tickwork_calendars (name, value, edited_at) VALUES (:name, :value, :now)
ON CONFLICT (name) DO UPDATE SET value = excluded.value, edited_at = excluded.edited_at WHERE value <> excluded.value
RETURNING name

-- :heed_calendar
-- Due occurrences that are not decided yet stay due, as do those that waited for a missing calendar; otherwise the
-- calendar applies from now on. A paused schedule is evaluated when it is resumed.
UPDATE tickwork_schedules
SET    handled_at = CASE WHEN :known AND paused_at IS NULL AND (wake_at IS NULL OR wake_at > :now) THEN max(handled_at, :now) ELSE handled_at END,
       wake_at = CASE WHEN paused_at IS NULL THEN :now ELSE paused_until END, version = version + 1
WHERE  EXISTS (SELECT 1 FROM json_each(calendars) WHERE value = :name)

-- :heeds_calendar
SELECT name FROM tickwork_schedules WHERE EXISTS (SELECT 1 FROM json_each(calendars) WHERE value = ?) LIMIT 1

-- :delete_calendar
DELETE FROM tickwork_calendars WHERE name = ? RETURNING name

-- :calendars
SELECT name, value FROM tickwork_calendars ORDER BY name

-- :calendars_of
SELECT name, value FROM tickwork_calendars WHERE name IN (SELECT value FROM json_each(?))

-- :definitions_of
SELECT name, queue, priority, policy, schema, task_limits, version FROM tickwork_tasks WHERE name IN (SELECT value FROM json_each(?))

-- :to_look_at
-- A run that is neither finished nor present was pruned: it has ended, too.
SELECT name FROM (SELECT name FROM tickwork_schedules WHERE wake_at <= :now ORDER BY wake_at LIMIT :limit)
UNION
SELECT schedule FROM (
    SELECT r.schedule FROM tickwork_schedule_jobs r
    LEFT   JOIN tickwork_finished f ON f.job_id = r.job_id
    LEFT   JOIN tickwork_jobs j ON j.id = r.job_id
    WHERE  r.awaited = 1 AND (f.job_id IS NOT NULL OR j.id IS NULL)
    LIMIT  :limit
)

-- :next_wake
SELECT min(wake_at) FROM tickwork_schedules WHERE wake_at > ?

-- :look_at
SELECT name, version, spec, target, calendars, handled_at, active_since, run_count, last_ended_at, waiting, paused_at IS NOT NULL,
       paused_until
FROM   tickwork_schedules WHERE name IN (SELECT value FROM json_each(?))

-- :runs_of
SELECT r.schedule, r.job_id, f.job_id IS NOT NULL OR j.id IS NULL, f.ended_at,
       f.job_id IS NOT NULL AND f.state <> 'succeeded' AND f.discarded_at IS NULL
FROM   tickwork_schedule_jobs r
LEFT   JOIN tickwork_finished f ON f.job_id = r.job_id
LEFT   JOIN tickwork_jobs j ON j.id = r.job_id
WHERE  r.schedule IN (SELECT value FROM json_each(?))

-- :move_schedule
UPDATE tickwork_schedules
SET    handled_at = :handled_at, run_count = :run_count, last_ended_at = :last_ended_at, waiting = :waiting,
       wake_at = coalesce(paused_until, :wake_at), version = version + 1
WHERE  name = :name AND version = :version
RETURNING name

-- :record_fire
-- A queued occurrence is decided once more. No row: it was decided before.
INSERT INTO tickwork_fires (schedule, due_at, action, job_id, fired_at, is_catchup, reason) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (schedule, due_at) DO UPDATE SET
    action = excluded.action, job_id = excluded.job_id, fired_at = excluded.fired_at, reason = excluded.reason
WHERE action IN ('queue', 'cancel_older')
RETURNING due_at

-- :forget_job
DELETE FROM tickwork_schedule_jobs WHERE schedule = ? AND job_id = ?

-- :remember_job
INSERT INTO tickwork_schedule_jobs (schedule, job_id, awaited) VALUES (?, ?, ?)

-- :await_jobs
UPDATE tickwork_schedule_jobs SET awaited = :awaited WHERE schedule = :name AND awaited <> :awaited
