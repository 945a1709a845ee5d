-- insert_jobs: store job rows and their queue rows; an id that exists already changes nothing.

-- :is_current
SELECT 1 FROM tickwork_running WHERE job_id = ? AND claim = ?

-- :insert_job
INSERT INTO tickwork_jobs (id, task, queue, priority, args, policy, key, collection, labels, parent, trace, creator, occurrence, created_at, due_at, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- :insert_step_job
INSERT INTO tickwork_jobs (id, task, queue, priority, args, policy, collection, labels, parent, trace, creator, run, step, idx, inputs, created_at, due_at, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- :set_version
UPDATE tickwork_jobs SET version = ? WHERE id = ?

-- :stamp_job
UPDATE tickwork_jobs SET lane = ?, job_limits = ? WHERE id = ?

-- :insert_queue
INSERT INTO tickwork_queue (queue, priority, run_at, job_id, task, attempt, failures, crashes, alone, keyed, expires_at)
VALUES (?, ?, ?, ?, ?, 0, 0, 0, 0, ?, ?)

-- :stored_jobs
SELECT id FROM tickwork_jobs WHERE id IN (SELECT value FROM json_each(?))

-- :key_holder
-- The columns of KeyOwner.
SELECT k.job_id, j.task, j.version IS NOT NULL,
       CASE WHEN q.job_id IS NOT NULL THEN 'queued' WHEN r.job_id IS NOT NULL THEN 'running' ELSE f.state END
FROM   tickwork_keys k JOIN tickwork_jobs j ON j.id = k.job_id
LEFT   JOIN tickwork_queue q ON q.job_id = k.job_id
LEFT   JOIN tickwork_running r ON r.job_id = k.job_id
LEFT   JOIN tickwork_finished f ON f.job_id = k.job_id
WHERE  k.key = ? AND (k.until IS NULL OR k.until > ?)

-- :take_key
INSERT INTO tickwork_keys (key, job_id, until) VALUES (?, ?, NULL)
ON CONFLICT (key) DO UPDATE SET job_id = excluded.job_id, until = NULL

-- :replace_queue
-- Only a waiting job can be changed; a running one continues unchanged.
UPDATE tickwork_queue SET queue = :lane, priority = :row_priority, run_at = :run_at, task = :stands_as, expires_at = :expires_at
WHERE job_id = :job_id
RETURNING job_id

-- :replace_job
UPDATE tickwork_jobs
SET task = :task, queue = :queue, priority = :priority, args = :args, policy = :policy, due_at = :due_at, expires_at = :expires_at,
    collection = :collection, labels = :labels, parent = :parent, trace = :trace, creator = :creator, occurrence = :occurrence, version = :version,
    lane = iif(:lane = :queue, NULL, :lane), job_limits = :job_limits
WHERE id = :job_id
