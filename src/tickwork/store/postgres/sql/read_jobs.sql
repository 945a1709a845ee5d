-- Read jobs in any state, their attempts and logs, and queues and workers.

-- :job_columns
SELECT j.args, f.result,
-- include job_facts

-- :light_job_columns
-- Without arguments and results, which can be large.
SELECT 'null' AS args, NULL AS result,
-- include job_facts

-- :job_facts
-- A step has the occurrence of its run, which is not copied into each of its steps.
       j.id::text, j.task, j.queue, j.priority, j.policy, j.key, j.collection, j.labels, j.parent, j.trace, j.creator,
       j.created_at,
       CASE WHEN q.job_id IS NOT NULL THEN 'queued' WHEN r.job_id IS NOT NULL THEN 'running' ELSE f.state END AS state,
       coalesce(q.run_at, r.run_at, f.run_at, j.due_at) AS run_at, j.expires_at,
       coalesce(q.attempt, r.attempt, f.attempt) AS attempt,
       coalesce(q.failures, r.failures, f.failures) AS failures,
       coalesce(q.crashes, r.crashes, f.crashes) AS crashes,
       coalesce(q.losses, r.losses, f.losses) AS losses,
       coalesce(q.alone, r.alone, false) AS alone,
       coalesce(r.worker, f.worker) AS worker,
       coalesce(r.claimed_at, f.started_at) AS started_at,
       f.ended_at, r.cancel_at IS NOT NULL AS cancel_requested, coalesce(r.progress, f.progress) AS progress,
       coalesce(r.progress_note, f.progress_note) AS progress_note, f.error,
       f.discarded_at IS NOT NULL AS discarded, j.job_limits, j.version, j.run::text, j.step, j.idx,
       CASE WHEN j.run IS NULL THEN j.occurrence ELSE (SELECT u.occurrence FROM tickwork.jobs u WHERE u.id = j.run) END AS occurrence

-- :from_jobs
-- A page of jobs in one state begins at the table of that state, else it would read all other jobs.
FROM   tickwork.jobs j
LEFT   JOIN tickwork.queue q ON q.job_id = j.id
LEFT   JOIN tickwork.running r ON r.job_id = j.id
LEFT   JOIN tickwork.finished f ON f.job_id = j.id

-- :from_queue
FROM   tickwork.queue q JOIN tickwork.jobs j ON j.id = q.job_id
LEFT   JOIN tickwork.running r ON r.job_id = q.job_id
LEFT   JOIN tickwork.finished f ON f.job_id = q.job_id

-- :from_running
FROM   tickwork.running r JOIN tickwork.jobs j ON j.id = r.job_id
LEFT   JOIN tickwork.queue q ON q.job_id = r.job_id
LEFT   JOIN tickwork.finished f ON f.job_id = r.job_id

-- :from_finished
FROM   tickwork.finished f JOIN tickwork.jobs j ON j.id = f.job_id
LEFT   JOIN tickwork.queue q ON q.job_id = f.job_id
LEFT   JOIN tickwork.running r ON r.job_id = f.job_id

-- :find_key
SELECT job_id::text FROM (
    (SELECT 0 AS rank, job_id FROM tickwork.keys WHERE key = %(key)s)
    UNION ALL
    (SELECT 1, id FROM tickwork.jobs WHERE key = %(key)s ORDER BY id DESC LIMIT 1)
) found ORDER BY rank LIMIT 1

-- :attempts
SELECT job_id::text, attempt, state, worker, started_at, ended_at, error, progress, progress_note
FROM   tickwork.attempts WHERE job_id = %(job_id)s::uuid
UNION ALL
SELECT job_id::text, attempt, attempt_state, worker, started_at, ended_at, error, progress, progress_note FROM tickwork.finished
WHERE  job_id = %(job_id)s::uuid AND attempt_state IS NOT NULL
UNION ALL
SELECT job_id::text, attempt, 'running', worker, claimed_at, NULL, NULL, progress, progress_note
FROM   tickwork.running WHERE job_id = %(job_id)s::uuid
ORDER  BY attempt

-- :logs
SELECT job_id::text, attempt, seq, at, text, shared FROM tickwork.logs
WHERE  job_id = %(job_id)s::uuid AND (attempt, seq) > (%(attempt)s::integer, %(seq)s::bigint)
ORDER  BY attempt, seq LIMIT %(limit)s::bigint

-- :durations
SELECT j.queue, avg(last.ended_at - last.started_at)
FROM   (SELECT job_id, started_at, ended_at FROM tickwork.finished ORDER BY ended_at DESC LIMIT 1000) last
JOIN   tickwork.jobs j ON j.id = last.job_id
WHERE  last.started_at IS NOT NULL GROUP BY j.queue

-- :backlog
-- Each priority of a queue's own lane is one range of the index, in the order of its times. The lanes of jobs with a
-- job_limits are read in their order, whether due or not.
WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now),
plain AS MATERIALIZED (
    SELECT first.*
    FROM   clock CROSS JOIN json_array_elements(%(places)s::json) AS place
    CROSS  JOIN LATERAL (
        SELECT q.queue, q.run_at, q.task FROM tickwork.queue q
        WHERE  q.queue = place ->> 0 AND q.priority = (place ->> 1)::smallint AND q.run_at <= clock.now
        ORDER  BY q.run_at, q.job_id LIMIT %(most)s::bigint
    ) first
    LIMIT  %(most)s::bigint
),
stamped AS MATERIALIZED (
    SELECT first.*
    FROM   json_array_elements(%(ranges)s::json) AS range
    CROSS  JOIN LATERAL (
        SELECT q.queue, q.run_at, q.task FROM tickwork.queue q
        WHERE  q.queue >= range ->> 0 AND q.queue < range ->> 1
        ORDER  BY q.queue, q.priority, q.run_at, q.job_id LIMIT %(most)s::bigint
    ) first
    LIMIT  %(most)s::bigint
)
SELECT queue, count(*), min(run_at) FROM (SELECT * FROM plain UNION ALL SELECT * FROM stamped) waiting
WHERE  run_at <= (SELECT now FROM clock) AND task = ANY (ARRAY(SELECT json_array_elements_text(%(tasks)s::json))) GROUP BY queue

-- :waiting_kinds
WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now)
SELECT w.queue, w.task, count(*) FROM (
    (SELECT first.* FROM clock CROSS JOIN generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
        SELECT q.queue, q.task FROM tickwork.queue q
        WHERE  q.queue = %(queue)s AND q.priority = p.priority AND q.run_at <= clock.now
        ORDER  BY q.run_at, q.job_id LIMIT %(most)s::bigint
     ) first LIMIT %(most)s::bigint)
    UNION ALL
    (SELECT first.queue, first.task FROM clock CROSS JOIN LATERAL (
        SELECT q.queue, q.task, q.run_at FROM tickwork.queue q WHERE q.queue >= %(low)s AND q.queue < %(high)s
        ORDER  BY q.queue, q.priority, q.run_at, q.job_id LIMIT %(most)s::bigint
     ) first WHERE first.run_at <= clock.now)
) w GROUP BY w.queue, w.task

-- :workers
SELECT w.id, w.host, w.pid, w.version, w.queues, w.tasks, w.slots, w.schedules, w.offer,
       CASE WHEN w.lease_until < coalesce(%(now)s::timestamptz, clock_timestamp()) THEN 'lost' ELSE w.state END,
       w.started_at, w.lease_until, 0, w.asked
FROM   tickwork.workers w
WHERE  w.state <> 'ended' AND w.state <> 'remote' AND w.slots > 0 ORDER BY w.started_at, w.id

-- :held_counts
-- IS TRUE keeps IN a hashed subplan. As a join it would be a nested loop, quadratic in the number of leases.
SELECT r.worker, count(*) FROM tickwork.running r
WHERE  (r.worker IN (SELECT w.id FROM tickwork.workers w WHERE w.state <> 'remote')) IS TRUE GROUP BY r.worker

-- :remote_workers
-- Leases of one name with the same queues, tasks and offer are one worker. Beyond the maximum, the others are combined
-- under one name.
WITH alike AS MATERIALIZED (
    SELECT min(w.id) AS id, w.host, w.queues, w.tasks, w.offer,
           CASE WHEN w.lease_until < coalesce(%(now)s::timestamptz, clock_timestamp()) THEN 'lost' ELSE w.state END AS state,
           min(w.started_at) AS started_at, max(w.lease_until) AS lease_until, count(*) AS held
    FROM   tickwork.workers w
    WHERE  w.state = 'remote' AND (w.id IN (SELECT r.worker FROM tickwork.running r)) IS TRUE
    GROUP  BY w.host, w.queues, w.tasks, w.offer, 6
),
ranked AS (
    SELECT a.*, row_number() OVER (ORDER BY a.held DESC, a.id) <= %(most)s::bigint AS is_shown FROM alike a
)
SELECT min(id), CASE WHEN is_shown THEN host ELSE %(others)s END, 0, '', queues, tasks, sum(held)::bigint, '[]', offer, state,
       min(started_at), max(lease_until), sum(held)::bigint, NULL
FROM   ranked GROUP BY is_shown, 2, queues, tasks, offer, state ORDER BY 11, 1

-- :worker
SELECT w.id, w.host, w.pid, w.version, w.queues, w.tasks, w.slots, w.schedules, w.offer,
       CASE WHEN w.lease_until < coalesce(%(now)s::timestamptz, clock_timestamp()) THEN 'lost' ELSE w.state END,
       w.started_at, w.lease_until, (SELECT count(*) FROM tickwork.running r WHERE r.worker = w.id), w.asked
FROM   tickwork.workers w WHERE w.id = %(id)s AND w.state <> 'ended' AND w.slots > 0
AND    (w.state <> 'remote' OR EXISTS (SELECT 1 FROM tickwork.running r WHERE r.worker = w.id))

-- :task_definition
SELECT name, queue, priority, policy, schema, task_limits, version FROM tickwork.tasks WHERE name = %(name)s

-- :task_definitions
SELECT name, queue, priority, policy, schema, task_limits, version FROM tickwork.tasks WHERE name > %(after)s
ORDER  BY name LIMIT %(limit)s::bigint

-- :now
SELECT coalesce(%(now)s::timestamptz, clock_timestamp())
