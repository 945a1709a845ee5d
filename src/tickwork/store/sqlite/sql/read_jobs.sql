-- Read jobs in any state, their attempts and logs, and queues and workers.

-- :job_columns
-- A step has the occurrence of its run, which is not copied into each of its steps.
SELECT j.id, j.task, j.queue, j.priority, j.args, j.policy, j.key, j.collection, j.labels, j.parent, j.trace, j.creator, j.created_at,
       CASE WHEN q.job_id IS NOT NULL THEN 'queued' WHEN r.job_id IS NOT NULL THEN 'running' ELSE f.state END AS state,
       coalesce(q.run_at, r.run_at, f.run_at, j.due_at) AS run_at, j.due_at, j.expires_at,
       coalesce(q.attempt, r.attempt, f.attempt) AS attempt,
       coalesce(q.failures, r.failures, f.failures) AS failures,
       coalesce(q.crashes, r.crashes, f.crashes) AS crashes,
       coalesce(q.losses, r.losses, f.losses) AS losses,
       coalesce(q.alone, r.alone, 0) AS alone,
       coalesce(r.worker, f.worker) AS worker,
       coalesce(r.claimed_at, f.started_at) AS started_at,
       f.ended_at, r.cancel_at IS NOT NULL AS cancel_requested, coalesce(r.progress, f.progress) AS progress,
       coalesce(r.progress_note, f.progress_note) AS progress_note, f.result, f.error,
       f.discarded_at IS NOT NULL AS discarded, j.job_limits, j.version, j.run, j.step, j.idx,
       CASE WHEN j.run IS NULL THEN j.occurrence ELSE (SELECT u.occurrence FROM tickwork_jobs u WHERE u.id = j.run) END AS occurrence

-- :from_jobs
-- A page of jobs in one state begins at the table of that state, else it would read all other jobs. CROSS JOIN keeps
-- that order.
FROM   tickwork_jobs j
LEFT   JOIN tickwork_queue q ON q.job_id = j.id
LEFT   JOIN tickwork_running r ON r.job_id = j.id
LEFT   JOIN tickwork_finished f ON f.job_id = j.id

-- :from_queue
FROM   tickwork_queue q CROSS JOIN tickwork_jobs j ON j.id = q.job_id
LEFT   JOIN tickwork_running r ON r.job_id = q.job_id
LEFT   JOIN tickwork_finished f ON f.job_id = q.job_id

-- :from_running
FROM   tickwork_running r CROSS JOIN tickwork_jobs j ON j.id = r.job_id
LEFT   JOIN tickwork_queue q ON q.job_id = r.job_id
LEFT   JOIN tickwork_finished f ON f.job_id = r.job_id

-- :from_finished
FROM   tickwork_finished f CROSS JOIN tickwork_jobs j ON j.id = f.job_id
LEFT   JOIN tickwork_queue q ON q.job_id = f.job_id
LEFT   JOIN tickwork_running r ON r.job_id = f.job_id

-- :of_these
WHERE j.id IN (SELECT value FROM json_each(?))

-- :holder_of_key
SELECT job_id FROM tickwork_keys WHERE key = ?

-- :newest_of_key
SELECT id FROM tickwork_jobs WHERE key = ? ORDER BY id DESC LIMIT 1

-- :attempts
SELECT job_id, attempt, state, worker, started_at, ended_at, error, progress, progress_note
FROM   tickwork_attempts WHERE job_id = :job_id
UNION ALL
SELECT job_id, attempt, attempt_state, worker, started_at, ended_at, error, progress, progress_note FROM tickwork_finished
WHERE job_id = :job_id AND attempt_state IS NOT NULL
UNION ALL
SELECT job_id, attempt, 'running', worker, claimed_at, NULL, NULL, progress, progress_note
FROM   tickwork_running WHERE job_id = :job_id
ORDER BY attempt

-- :logs
SELECT job_id, attempt, seq, at, text, shared FROM tickwork_logs
WHERE job_id = :job_id AND (attempt, seq) > (:attempt, :seq)
ORDER BY attempt, seq LIMIT :limit

-- :durations
SELECT j.queue, avg(last.ended_at - last.started_at) FROM (
    SELECT job_id, started_at, ended_at FROM tickwork_finished ORDER BY ended_at DESC LIMIT 1000
) last JOIN tickwork_jobs j ON j.id = last.job_id
WHERE last.started_at IS NOT NULL GROUP BY j.queue

-- :backlog
-- Each priority of a queue's own lane is one range of the primary key, in the order of its times. The lanes of jobs
-- with a job_limits are read in their order, whether due or not.
SELECT lane, count(*), min(run_at) FROM (
    SELECT * FROM (
        SELECT q.queue AS lane, q.run_at, q.task
        FROM   json_each(:places) AS place
        CROSS  JOIN tickwork_queue q ON q.queue = json_extract(place.value, '$[0]') AND q.priority = json_extract(place.value, '$[1]')
        WHERE  q.run_at <= :now
        LIMIT  :most
    )
    UNION ALL
    SELECT * FROM (
        SELECT q.queue, q.run_at, q.task
        FROM   json_each(:ranges) AS range
        CROSS  JOIN tickwork_queue q ON q.queue >= json_extract(range.value, '$[0]') AND q.queue < json_extract(range.value, '$[1]')
        LIMIT  :most
    )
) WHERE run_at <= :now AND task IN (SELECT value FROM json_each(:tasks)) GROUP BY lane

-- :waiting_kinds
SELECT lane, task, count(*) FROM (
    SELECT * FROM (
        SELECT q.queue AS lane, q.task
        FROM   json_each('[0,1,2,3,4,5,6,7,8,9]') AS p CROSS JOIN tickwork_queue q ON q.queue = :queue AND q.priority = p.value
        WHERE  q.run_at <= :now LIMIT :most
    )
    UNION ALL
    SELECT lane, task FROM (
        SELECT q.queue AS lane, q.task, q.run_at FROM tickwork_queue q WHERE q.queue >= :low AND q.queue < :high LIMIT :most
    ) WHERE run_at <= :now
) GROUP BY lane, task

-- :workers
SELECT w.id, w.host, w.pid, w.version, w.queues, w.tasks, w.slots, w.schedules, w.offer,
       CASE WHEN w.lease_until < :now THEN 'lost' ELSE w.state END AS state, w.started_at, w.lease_until, 0, w.asked
FROM   tickwork_workers w WHERE w.state NOT IN ('ended', 'remote') AND w.slots > 0 ORDER BY w.started_at, w.id

-- :held_counts
SELECT worker, count(*) FROM tickwork_running
WHERE  worker IN (SELECT id FROM tickwork_workers WHERE state <> 'remote') GROUP BY worker

-- :remote_workers
-- Leases of one name with the same queues, tasks and offer are one worker. Beyond the maximum, the others are combined
-- under one name.
WITH alike AS MATERIALIZED (
    SELECT min(w.id) AS id, w.host, w.queues, w.tasks, w.offer, CASE WHEN w.lease_until < :now THEN 'lost' ELSE w.state END AS stands,
           min(w.started_at) AS started_at, max(w.lease_until) AS lease_until, count(*) AS held
    FROM   tickwork_workers w
    WHERE  w.state = 'remote' AND w.id IN (SELECT worker FROM tickwork_running)
    GROUP  BY w.host, w.queues, w.tasks, w.offer, stands
),
ranked AS (SELECT alike.*, row_number() OVER (ORDER BY held DESC, id) <= :most AS is_shown FROM alike)
SELECT min(id), CASE WHEN is_shown THEN host ELSE :others END AS name, 0, '', queues, tasks, sum(held), '[]', offer, stands,
       min(started_at) AS first, max(lease_until), sum(held), NULL
FROM   ranked GROUP BY is_shown, name, queues, tasks, offer, stands ORDER BY first, min(id)

-- :worker
SELECT w.id, w.host, w.pid, w.version, w.queues, w.tasks, w.slots, w.schedules, w.offer,
       CASE WHEN w.lease_until < :now THEN 'lost' ELSE w.state END AS state, w.started_at, w.lease_until,
       (SELECT count(*) FROM tickwork_running r WHERE r.worker = w.id) AS running, w.asked
FROM   tickwork_workers w WHERE w.id = :id AND w.state <> 'ended' AND w.slots > 0
AND    (w.state <> 'remote' OR EXISTS (SELECT 1 FROM tickwork_running r WHERE r.worker = w.id))

-- :task_definition
SELECT name, queue, priority, policy, schema, task_limits, version FROM tickwork_tasks WHERE name = ?

-- :task_definitions
SELECT name, queue, priority, policy, schema, task_limits, version FROM tickwork_tasks WHERE name > :after ORDER BY name LIMIT :limit
