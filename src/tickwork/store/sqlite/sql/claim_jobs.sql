-- claim_jobs: from the queue to running, with the next attempt number.

-- :worker_lease
SELECT lease_until FROM tickwork_workers WHERE id = ? AND state IN ('running', 'draining')

-- :pick_due
-- One range of the primary key: the due jobs of one queue and priority, the oldest first.
SELECT q.job_id, q.attempt + 1, q.task, q.queue, q.priority, j.args, j.policy, q.run_at, q.failures, q.crashes, q.alone, q.keyed, q.expires_at
FROM   tickwork_queue q JOIN tickwork_jobs j ON j.id = q.job_id
WHERE  q.queue = :queue AND q.priority = :priority AND q.run_at > :after AND q.run_at <= :until
AND    q.task IN (SELECT value FROM json_each(:tasks))
AND    (q.expires_at IS NULL OR q.expires_at > :now)
ORDER  BY q.run_at, q.job_id
LIMIT  :limit

-- :leave_queue
DELETE FROM tickwork_queue WHERE queue = ? AND priority = ? AND run_at = ? AND job_id = ?

-- :enter_running
INSERT INTO tickwork_running (job_id, attempt, worker, queue, priority, task, run_at, claimed_at, failures, crashes, alone, keyed, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- :next_due
SELECT min(run_at) FROM tickwork_queue WHERE queue = ? AND priority = ? AND run_at > ?

-- :due_tasks
SELECT DISTINCT task FROM (SELECT task, run_at FROM tickwork_queue WHERE queue = ? LIMIT 1000) WHERE run_at <= ?
