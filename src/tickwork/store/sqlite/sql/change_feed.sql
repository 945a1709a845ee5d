-- The change feed: by the indexes on ids, ends and the audit log, at most `most` rows of each kind.

-- :job_changes
-- Failures are read by an index of their own, so that they are returned even beside very many successes. The plus sign
-- makes the planner use the index on ends, and not the one on states.
SELECT 'failed', f.job_id, f.attempt, f.ended_at || '', coalesce(f.started_at >= :since, 0), j.run, j.version IS NOT NULL
FROM   (SELECT job_id, attempt, ended_at, started_at FROM tickwork_finished
        WHERE  ended_at >= :since AND state <> 'succeeded' AND +state = 'failed' ORDER BY ended_at DESC, job_id DESC LIMIT :most) f
CROSS  JOIN tickwork_jobs j ON j.id = f.job_id
UNION ALL
SELECT 'ended', f.job_id, f.attempt, f.ended_at || '', coalesce(f.started_at >= :since, 0), j.run, j.version IS NOT NULL
FROM   (SELECT job_id, attempt, ended_at, started_at FROM tickwork_finished WHERE ended_at >= :since ORDER BY ended_at DESC LIMIT :most) f
CROSS  JOIN tickwork_jobs j ON j.id = f.job_id
UNION ALL
SELECT 'running', r.job_id, r.attempt,
       coalesce(r.progress, '') || ' ' || (r.cancel_at IS NOT NULL) || ' ' || coalesce(r.progress_note, ''),
       r.claimed_at >= :since, j.run, j.version IS NOT NULL
FROM   (SELECT * FROM (SELECT job_id, attempt, claimed_at, progress, progress_note, cancel_at
                       FROM tickwork_running ORDER BY job_id DESC LIMIT :walk)
        WHERE  claimed_at >= :since OR progress IS NOT NULL OR progress_note IS NOT NULL OR cancel_at IS NOT NULL LIMIT :most) r
CROSS  JOIN tickwork_jobs j ON j.id = r.job_id
UNION ALL
SELECT 'returned', a.job_id, a.attempt, a.ended_at || '', a.started_at >= :since, j.run, j.version IS NOT NULL
FROM   (SELECT job_id, attempt, started_at, ended_at FROM tickwork_attempts WHERE ended_at >= :since ORDER BY ended_at DESC LIMIT :most) a
CROSS  JOIN tickwork_jobs j ON j.id = a.job_id
UNION ALL
SELECT 'edited', j.id, 0, e.id || '', 0, j.run, j.version IS NOT NULL
FROM   (SELECT id, target FROM tickwork_audit WHERE at >= :since ORDER BY at DESC LIMIT :most) e
CROSS  JOIN tickwork_jobs j ON j.id = substr(e.target, 5)
WHERE  e.target >= 'job:' AND e.target < 'job;'
UNION ALL
SELECT * FROM (SELECT 'created', id, 0, '', 0, run, version IS NOT NULL FROM tickwork_jobs
               WHERE id >= :first AND id < :last ORDER BY id DESC LIMIT :most)

-- :topics
SELECT * FROM (SELECT iif(version IS NULL, 'tasks', 'dags'), name, coalesce(version, '') || ' ' || queue || ' ' || priority || policy || schema
               FROM tickwork_tasks ORDER BY name LIMIT :most)
UNION ALL SELECT * FROM (SELECT 'gates', name, value || ' ' || coalesce(until_at, '') FROM tickwork_gates ORDER BY name LIMIT :most)
UNION ALL SELECT * FROM (SELECT 'hooks', name, edited_at || '' FROM tickwork_hooks ORDER BY name LIMIT :most)
UNION ALL SELECT * FROM (SELECT 'hooks', '', id FROM tickwork_deliveries ORDER BY id DESC LIMIT 1)
UNION ALL SELECT * FROM (SELECT 'limits', name, coalesce(declared, '') || ' ' || coalesce(override, '') FROM tickwork_limits ORDER BY name LIMIT :most)
UNION ALL SELECT * FROM (SELECT 'notifications', 'notification ' || name, value FROM tickwork_notifications ORDER BY name LIMIT :most)
UNION ALL SELECT * FROM (SELECT 'notifications', 'channel ' || name, value FROM tickwork_channels ORDER BY name LIMIT :most)
UNION ALL SELECT * FROM (SELECT 'operations', id, state || ' ' || step FROM tickwork_operations ORDER BY id DESC LIMIT 100)
UNION ALL SELECT * FROM (SELECT 'schedules', 'schedule ' || name, version || '' FROM tickwork_schedules ORDER BY name LIMIT :most)
UNION ALL SELECT * FROM (SELECT 'schedules', 'calendar ' || name, edited_at || '' FROM tickwork_calendars ORDER BY name LIMIT :most)
UNION ALL SELECT * FROM (SELECT 'schedules', 'fired', fired_at || '' FROM tickwork_fires ORDER BY fired_at DESC LIMIT 1)
UNION ALL SELECT * FROM (SELECT 'tenants', name, weight || '' FROM tickwork_tenants ORDER BY name LIMIT :most)
UNION ALL SELECT * FROM (SELECT 'workers', id, state || ' ' || (lease_until < :now) || ' ' || slots || ' ' || coalesce(asked, '')
                         FROM tickwork_workers WHERE state NOT IN ('ended', 'remote') AND slots > 0 ORDER BY id LIMIT :most)
