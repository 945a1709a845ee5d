-- claim_jobs: move due jobs from the queue to running, with the next attempt number.

-- :worker_lease
SELECT lease_until FROM tickwork_workers WHERE id = ? AND state IN ('running', 'draining')

-- :pick_due
-- `places` are queues and priorities, the most urgent first. CROSS JOIN keeps the order of the tables, so the places
-- are read one after the other, each as one range of the primary key, until there are enough jobs. A step has the
-- occurrence of its run, which is not copied into each of its steps.
SELECT q.job_id, q.attempt + 1, q.task, q.queue, q.priority, j.args, j.policy, q.run_at, q.failures, q.crashes, q.alone,
       CASE WHEN j.run IS NULL THEN j.occurrence ELSE (SELECT u.occurrence FROM tickwork_jobs u WHERE u.id = j.run) END, q.keyed, q.expires_at,
       q.losses, j.run, j.step, j.inputs, j.trace
FROM   json_each(:places) AS place
CROSS  JOIN tickwork_queue q ON q.queue = json_extract(place.value, '$[0]') AND q.priority = json_extract(place.value, '$[1]')
CROSS  JOIN tickwork_jobs j ON j.id = q.job_id
WHERE  q.run_at > :after AND q.run_at <= :until
AND    q.task IN (SELECT value FROM json_each(:tasks))
AND    (q.expires_at IS NULL OR q.expires_at > :now)
LIMIT  :limit

-- :leave_queue
DELETE FROM tickwork_queue WHERE queue = ? AND priority = ? AND run_at = ? AND job_id = ?

-- :enter_running
INSERT INTO tickwork_running (job_id, attempt, worker, queue, priority, task, run_at, claimed_at, failures, crashes, alone, keyed, expires_at, claim,
       losses)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- :next_due
-- When the next job is due, and when the next limit key with held jobs opens.
SELECT min((
    SELECT min(q.run_at) FROM tickwork_queue q
    WHERE q.queue = json_extract(place.value, '$[0]') AND q.priority = json_extract(place.value, '$[1]') AND q.run_at > :after
)), (SELECT min(open_at) FROM tickwork_limit_states WHERE open_at > :now)
FROM json_each(:places) AS place

-- :due_tasks
SELECT DISTINCT task FROM (SELECT task, run_at FROM tickwork_queue WHERE queue = ? LIMIT 1000) WHERE run_at <= ?
