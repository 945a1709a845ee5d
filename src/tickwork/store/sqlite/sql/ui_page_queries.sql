-- Page queries: data that a page shows of many objects. Each is one statement, and costs no more on a larger store.

-- :newest_runs
SELECT j.task, j.id, j.version, CASE WHEN q.job_id IS NOT NULL THEN 'queued' WHEN r.job_id IS NOT NULL THEN 'running' ELSE f.state END,
       j.created_at, coalesce(r.claimed_at, f.started_at), f.ended_at
FROM   json_each(:dags) AS n
CROSS  JOIN tickwork_jobs j ON j.id IN (
    SELECT k.id FROM tickwork_jobs k WHERE k.task = n.value AND k.id < :before AND +k.version IS NOT NULL ORDER BY k.id DESC LIMIT :limit
)
LEFT   JOIN tickwork_queue q ON q.job_id = j.id
LEFT   JOIN tickwork_running r ON r.job_id = j.id
LEFT   JOIN tickwork_finished f ON f.job_id = j.id
ORDER  BY n.key, j.id DESC

-- :grid
-- A step of which a rerun has kept some instances started when the others did.
SELECT s.run, s.step, s.state, s.mapped, s.total, s.ended, s.bad, s.since, count(j.id), sum(r.job_id IS NOT NULL),
       max(coalesce(q.attempt, r.attempt, f.attempt)),
       coalesce(min(iif(f.started_at < coalesce(ru.claimed_at, fu.started_at), NULL, coalesce(r.claimed_at, f.started_at))), min(f.started_at))
FROM   json_each(:runs) AS n CROSS JOIN json_each(:steps) AS m
CROSS  JOIN tickwork_steps s ON s.run = n.value AND s.step = m.value
LEFT   JOIN tickwork_running ru ON ru.job_id = s.run
LEFT   JOIN tickwork_finished fu ON fu.job_id = s.run
LEFT   JOIN tickwork_jobs j ON j.run = s.run AND j.step = s.step AND j.idx < min(s.total, :looked_at)
LEFT   JOIN tickwork_queue q ON q.job_id = j.id
LEFT   JOIN tickwork_running r ON r.job_id = j.id
LEFT   JOIN tickwork_finished f ON f.job_id = j.id
GROUP  BY s.run, s.step

-- :run_events
-- Attempts that were retried are in attempts. An end without an attempt is of a job, or of a step, that never ran.
WITH parts AS MATERIALIZED (
    SELECT id, step, idx FROM tickwork_jobs WHERE run = :run
    UNION ALL SELECT id, NULL, NULL FROM tickwork_jobs WHERE id = :run AND version IS NOT NULL
),
tries AS MATERIALIZED (
    SELECT p.id, p.step, p.idx, a.attempt, a.started_at, a.ended_at, a.state, iif(a.state = 'succeeded', 'ended', 'retried') AS how, a.error
    FROM   parts p CROSS JOIN tickwork_attempts a ON a.job_id = p.id
    UNION ALL
    SELECT p.id, p.step, p.idx, f.attempt, f.started_at, f.ended_at, f.state, 'ended', f.error
    FROM   parts p CROSS JOIN tickwork_finished f ON f.job_id = p.id
    UNION ALL
    SELECT p.id, p.step, p.idx, r.attempt, r.claimed_at, NULL, 'running', NULL, NULL
    FROM   parts p CROSS JOIN tickwork_running r ON r.job_id = p.id
),
events (at, rank, attempt, name, event, step, idx, job_id, state, detail) AS (
    SELECT j.created_at, 0, 0, j.id, 'run_created', NULL, NULL, j.id, NULL, NULL
    FROM   tickwork_jobs j WHERE j.id = :run AND j.version IS NOT NULL
    UNION ALL
    SELECT started_at, iif(step IS NULL, 1, 3), attempt, id, iif(step IS NULL, 'run_started', 'step_started'), step, idx, id, NULL, NULL
    FROM   tries WHERE started_at IS NOT NULL
    UNION ALL
    SELECT ended_at, iif(step IS NULL, 5, 4), attempt, id, iif(step IS NULL, 'run_', 'step_') || how, step, idx, id, state, substr(error, -2000)
    FROM   tries WHERE ended_at IS NOT NULL
    UNION ALL
    SELECT s.since, iif(s.state = 'open', 2, 4), 0, s.step, iif(s.state = 'open', 'step_asked', 'step_ended'), s.step, NULL, NULL,
           nullif(s.state, 'open'), s.reason
    FROM   tickwork_steps s
    WHERE  s.run = :run AND s.state <> 'waiting'
    AND    NOT EXISTS (SELECT 1 FROM tickwork_jobs j WHERE j.run = s.run AND j.step = s.step AND j.idx < s.total)
)
SELECT at, rank, attempt, name, event, step, idx, job_id, state, detail FROM events
WHERE  (at, rank, attempt, name) > (:at, :rank, :attempt, :name) ORDER BY at, rank, attempt, name LIMIT :limit

-- :asked
SELECT s.run, s.step, s.since, s.wake_at, s.reason
FROM   json_each(?) AS n
CROSS  JOIN tickwork_steps s ON s.run = json_extract(n.value, '$[0]') AND s.step = json_extract(n.value, '$[1]')
WHERE  s.state = 'open'

-- :dag_at
SELECT graph, created_at FROM tickwork_dags WHERE name = ? AND version = ?

-- :dags_after
-- A dag that was deleted has no definition any more.
SELECT t.name, d.version, d.graph, d.created_at
FROM   tickwork_tasks t CROSS JOIN tickwork_dags d ON d.name = t.name AND d.version = t.version
WHERE  t.name > :after ORDER BY t.name LIMIT :limit

-- :recent_fires
SELECT x.schedule, x.due_at, x.action, x.fired_at, x.is_catchup, x.reason, x.job_id, j.version IS NOT NULL,
       CASE WHEN q.job_id IS NOT NULL THEN 'queued' WHEN r.job_id IS NOT NULL THEN 'running' ELSE f.state END,
       coalesce(r.claimed_at, f.started_at), f.ended_at
FROM   json_each(:schedules) AS n
CROSS  JOIN tickwork_fires x ON x.schedule = n.value AND x.due_at IN (
    SELECT y.due_at FROM tickwork_fires y WHERE y.schedule = n.value ORDER BY y.due_at DESC LIMIT :limit
)
LEFT   JOIN tickwork_jobs j ON j.id = x.job_id
LEFT   JOIN tickwork_queue q ON q.job_id = x.job_id
LEFT   JOIN tickwork_running r ON r.job_id = x.job_id
LEFT   JOIN tickwork_finished f ON f.job_id = x.job_id
ORDER  BY n.key, x.due_at DESC

-- :fire_counts
SELECT x.due_at / 900000000 * 900000000 AS quarter,
       CASE WHEN x.job_id IS NULL THEN iif(x.action = 'queue', 'live', 'skipped') WHEN j.id IS NULL THEN 'pruned'
            WHEN f.job_id IS NULL THEN 'live' WHEN f.state <> 'succeeded' THEN 'failed' WHEN x.is_catchup THEN 'late' ELSE 'ok' END AS outcome,
       count(*)
FROM   (SELECT * FROM tickwork_fires WHERE schedule = :name AND due_at >= :since ORDER BY due_at DESC LIMIT :most) x
LEFT   JOIN tickwork_jobs j ON j.id = x.job_id
LEFT   JOIN tickwork_finished f ON f.job_id = x.job_id
GROUP  BY quarter, outcome ORDER BY quarter, outcome

-- :schedules_of
WHERE s.target IN (SELECT value FROM json_each(:targets)) ORDER BY s.name LIMIT :limit

-- :held_by
-- Jobs of a worker over REST are under all its leases: see remote_workers.
WHERE r.worker IN (
    SELECT :worker UNION ALL
    SELECT w.id FROM tickwork_workers me CROSS JOIN tickwork_workers w
    ON     w.state = 'remote' AND w.host = me.host AND w.queues = me.queues AND w.tasks = me.tasks AND w.offer = me.offer
    WHERE  me.id = :worker AND me.state = 'remote'
) ORDER BY r.claimed_at, r.job_id LIMIT :limit

-- :sources_of
SELECT name, source FROM tickwork_declared WHERE kind = :kind AND name IN (SELECT value FROM json_each(:names))

-- :earliest_wake
SELECT min(wake_at) FROM tickwork_schedules WHERE wake_at IS NOT NULL
