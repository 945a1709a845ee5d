-- What callers and operators do to jobs: cancel, retry, discard, expire, prune.

-- :dequeue
DELETE FROM tickwork_queue WHERE job_id = ? RETURNING run_at, attempt, failures, crashes, keyed

-- :dequeue_expired
DELETE FROM tickwork_queue WHERE job_id IN (SELECT job_id FROM tickwork_queue WHERE expires_at <= ? LIMIT ?)
RETURNING job_id, run_at, attempt, failures, crashes, keyed

-- :request_cancel
UPDATE tickwork_running SET cancel_at = coalesce(cancel_at, :now) WHERE job_id = :job_id RETURNING job_id

-- :finish_unstarted
INSERT INTO tickwork_finished (job_id, state, ended_at, run_at, attempt, failures, crashes, error) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- :retry_now
UPDATE tickwork_queue SET run_at = :run_at WHERE job_id = :job_id AND run_at > :run_at RETURNING job_id

-- :ended_job
SELECT f.attempt, f.attempt_state, f.worker, f.started_at, f.ended_at, f.error, f.crashes,
       j.queue, j.priority, j.task, j.key, j.policy
FROM   tickwork_finished f JOIN tickwork_jobs j ON j.id = f.job_id
WHERE  f.job_id = ? AND f.state <> 'succeeded'

-- :leave_finished
DELETE FROM tickwork_finished WHERE job_id = ?

-- :discard_job
UPDATE tickwork_finished SET discarded_at = :now
WHERE job_id = :job_id AND state = 'failed' AND discarded_at IS NULL
RETURNING job_id

-- :prunable
SELECT job_id FROM tickwork_finished WHERE ended_at < :ended AND (state <> 'failed' OR ended_at < :failed)
ORDER BY ended_at LIMIT :limit

-- :prune_workers
DELETE FROM tickwork_workers
WHERE lease_until < ? AND NOT EXISTS (SELECT 1 FROM tickwork_running r WHERE r.worker = tickwork_workers.id)

-- :prune_keys
DELETE FROM tickwork_keys WHERE until <= ?
