-- The change feed: by the indexes on ids, ends and the audit log, at most `most` rows of each kind.

-- :job_changes
-- Failures are read by an index of their own, so that they are returned even beside very many successes. Nothing is
-- added to `state`, so that the planner uses the index on ends and not the one on states.
SELECT 'failed', f.job_id::text, f.attempt, f.ended_at::text, coalesce(f.started_at >= %(since)s::timestamptz, false), j.run::text, j.is_run
FROM   (SELECT job_id, attempt, ended_at, started_at FROM tickwork.finished
        WHERE  ended_at >= %(since)s::timestamptz AND state <> 'succeeded' AND state || '' = 'failed'
        ORDER  BY ended_at DESC, job_id DESC LIMIT %(most)s::bigint) f
CROSS  JOIN LATERAL (SELECT run, version IS NOT NULL AS is_run FROM tickwork.jobs WHERE id = f.job_id OFFSET 0) j
UNION ALL
SELECT 'ended', f.job_id::text, f.attempt, f.ended_at::text, coalesce(f.started_at >= %(since)s::timestamptz, false), j.run::text, j.is_run
FROM   (SELECT job_id, attempt, ended_at, started_at FROM tickwork.finished
        WHERE  ended_at >= %(since)s::timestamptz ORDER BY ended_at DESC LIMIT %(most)s::bigint) f
CROSS  JOIN LATERAL (SELECT run, version IS NOT NULL AS is_run FROM tickwork.jobs WHERE id = f.job_id OFFSET 0) j
UNION ALL
SELECT 'running', r.job_id::text, r.attempt, concat(r.progress, ' ', r.cancel_at IS NOT NULL, ' ', r.progress_note),
       r.claimed_at >= %(since)s::timestamptz, j.run::text, j.is_run
FROM   (SELECT * FROM (SELECT job_id, attempt, claimed_at, progress, progress_note, cancel_at
                       FROM tickwork.running ORDER BY job_id DESC LIMIT %(walk)s::bigint) newest
        WHERE  claimed_at >= %(since)s::timestamptz OR progress IS NOT NULL OR progress_note IS NOT NULL OR cancel_at IS NOT NULL
        LIMIT  %(most)s::bigint) r
CROSS  JOIN LATERAL (SELECT run, version IS NOT NULL AS is_run FROM tickwork.jobs WHERE id = r.job_id OFFSET 0) j
UNION ALL
SELECT 'returned', a.job_id::text, a.attempt, a.ended_at::text, a.started_at >= %(since)s::timestamptz, j.run::text, j.is_run
FROM   (SELECT job_id, attempt, started_at, ended_at FROM tickwork.attempts
        WHERE  ended_at >= %(since)s::timestamptz ORDER BY ended_at DESC LIMIT %(most)s::bigint) a
CROSS  JOIN LATERAL (SELECT run, version IS NOT NULL AS is_run FROM tickwork.jobs WHERE id = a.job_id OFFSET 0) j
UNION ALL
SELECT 'edited', j.id::text, 0, e.id::text, false, j.run::text, j.is_run
FROM   (SELECT id, target FROM tickwork.audit WHERE at >= %(since)s::timestamptz ORDER BY at DESC LIMIT %(most)s::bigint) e
CROSS  JOIN LATERAL (
    SELECT id, run, version IS NOT NULL AS is_run FROM tickwork.jobs
    WHERE  id = CASE WHEN e.target ~ '^job:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN substr(e.target, 5)::uuid END OFFSET 0
) j
UNION ALL
(SELECT 'created', id::text, 0, '', false, run::text, version IS NOT NULL FROM tickwork.jobs
 WHERE  id >= %(first)s::uuid AND id < %(last)s::uuid ORDER BY id DESC LIMIT %(most)s::bigint)

-- :topics
SELECT CASE WHEN version IS NULL THEN 'tasks' ELSE 'dags' END, name, concat(version, ' ', queue, ' ', priority, policy, schema)
FROM   (SELECT * FROM tickwork.tasks ORDER BY name LIMIT %(most)s::bigint) known
UNION ALL (SELECT 'gates', name, concat(value, ' ', until_at) FROM tickwork.gates ORDER BY name LIMIT %(most)s::bigint)
UNION ALL (SELECT 'hooks', name, edited_at::text FROM tickwork.hooks ORDER BY name LIMIT %(most)s::bigint)
UNION ALL (SELECT 'hooks', '', id FROM tickwork.deliveries ORDER BY id DESC LIMIT 1)
UNION ALL (SELECT 'limits', name, concat(declared, ' ', override) FROM tickwork.limits ORDER BY name LIMIT %(most)s::bigint)
UNION ALL (SELECT 'notifications', 'notification ' || name, value FROM tickwork.notifications ORDER BY name LIMIT %(most)s::bigint)
UNION ALL (SELECT 'notifications', 'channel ' || name, value FROM tickwork.channels ORDER BY name LIMIT %(most)s::bigint)
UNION ALL (SELECT 'operations', id::text, concat(state, ' ', step) FROM tickwork.operations ORDER BY id DESC LIMIT 100)
UNION ALL (SELECT 'schedules', 'schedule ' || name, version::text FROM tickwork.schedules ORDER BY name LIMIT %(most)s::bigint)
UNION ALL (SELECT 'schedules', 'calendar ' || name, edited_at::text FROM tickwork.calendars ORDER BY name LIMIT %(most)s::bigint)
UNION ALL (SELECT 'schedules', 'fired', fired_at::text FROM tickwork.fires ORDER BY fired_at DESC LIMIT 1)
UNION ALL (SELECT 'tenants', name, weight::text FROM tickwork.tenants ORDER BY name LIMIT %(most)s::bigint)
UNION ALL (SELECT 'workers', id, concat(state, ' ', lease_until < coalesce(%(now)s::timestamptz, clock_timestamp()), ' ', slots, ' ', asked)
           FROM tickwork.workers WHERE state <> 'ended' AND state <> 'remote' AND slots > 0 ORDER BY id LIMIT %(most)s::bigint)
