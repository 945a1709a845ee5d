-- Changes of jobs by callers and operators: cancel, retry, discard, expire, prune.

-- :dequeue
DELETE FROM tickwork_queue WHERE job_id = ? RETURNING run_at, attempt, failures, crashes, keyed, queue

-- :dequeue_expired
DELETE FROM tickwork_queue WHERE job_id IN (SELECT job_id FROM tickwork_queue WHERE expires_at <= ? LIMIT ?)
RETURNING job_id, run_at, attempt, failures, crashes, keyed, queue

-- :request_cancel
UPDATE tickwork_running SET cancel_at = coalesce(cancel_at, :now) WHERE job_id = :job_id RETURNING job_id

-- :finish_unstarted
INSERT INTO tickwork_finished (job_id, state, ended_at, run_at, attempt, failures, crashes, error) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- :hurry
UPDATE tickwork_queue SET run_at = min(run_at, :run_at) WHERE job_id = :job_id AND run_at > :now RETURNING job_id

-- :take_out
DELETE FROM tickwork_queue WHERE job_id = ? RETURNING run_at, task, attempt, failures, crashes, alone, keyed, expires_at, losses

-- :belongs
SELECT queue, priority, job_limits FROM tickwork_jobs WHERE id = ?

-- :set_deadline
UPDATE tickwork_jobs SET expires_at = ? WHERE id = ?

-- :ended_job
SELECT f.attempt, f.attempt_state, f.worker, f.started_at, f.ended_at, f.error,
       j.queue, j.priority, iif(j.version IS NULL, j.task, '@dag'), j.key, j.job_limits, f.progress, f.progress_note
FROM   tickwork_finished f JOIN tickwork_jobs j ON j.id = f.job_id
WHERE  f.job_id = ? AND f.state <> ?

-- :leave_finished
DELETE FROM tickwork_finished WHERE job_id = ?

-- :discard_job
UPDATE tickwork_finished SET discarded_at = :now
WHERE job_id = :job_id AND state = 'failed' AND discarded_at IS NULL
RETURNING job_id

-- :prunable
-- The ended jobs after a position that are older than the shortest age, and whether each may be deleted. A job whose
-- key stays taken is kept as long as the key, and a step as long as its run. Results in blobs are returned.
SELECT f.job_id, iif(substr(f.result, 1, length(:mark)) = :mark, f.result, NULL), f.ended_at,
       f.ended_at < :now - coalesce(:ages ->> ('task/' || j.task || '/' || f.state), :ages ->> ('task/' || j.task),
                                    :ages ->> ('queue/' || j.queue || '/' || f.state), :ages ->> ('queue/' || j.queue),
                                    :ages ->> f.state, :ages ->> 'all')
       AND NOT EXISTS (SELECT 1 FROM tickwork_keys k WHERE k.job_id = f.job_id AND k.until > :now)
       AND (j.run IS NULL OR NOT EXISTS (SELECT 1 FROM tickwork_jobs run WHERE run.id = j.run))
FROM   (SELECT job_id, ended_at, state, result FROM tickwork_finished
        WHERE  ended_at < :oldest AND (ended_at, job_id) > (:after, :after_id)
        ORDER  BY ended_at, job_id LIMIT :limit) f
CROSS  JOIN tickwork_jobs j ON j.id = f.job_id
ORDER  BY f.ended_at, f.job_id

-- :unused_blobs
SELECT json_extract(n.value, '$[1]') FROM json_each(?) AS n
CROSS  JOIN tickwork_jobs j ON j.id = json_extract(n.value, '$[0]')
LEFT   JOIN tickwork_finished f ON f.job_id = j.id
WHERE  f.result IS NULL OR instr(f.result, json_extract(n.value, '$[1]')) = 0

-- :prune_jobs
DELETE FROM tickwork_jobs WHERE id IN (SELECT value FROM json_each(?))

-- :prune_runs
DELETE FROM tickwork_runs WHERE id IN (SELECT value FROM json_each(?))

-- :prune_steps
DELETE FROM tickwork_steps WHERE run IN (SELECT value FROM json_each(?))

-- :prune_finished
DELETE FROM tickwork_finished WHERE job_id IN (SELECT value FROM json_each(?))

-- :prune_attempts
DELETE FROM tickwork_attempts WHERE job_id IN (SELECT value FROM json_each(?))

-- :prune_logs
DELETE FROM tickwork_logs WHERE job_id IN (SELECT value FROM json_each(?))

-- :prune_saved
DELETE FROM tickwork_saved WHERE job_id IN (SELECT value FROM json_each(?))

-- :prune_fires
-- A queued occurrence is not decided yet.
DELETE FROM tickwork_fires WHERE (schedule, due_at) IN (
    SELECT schedule, due_at FROM tickwork_fires WHERE fired_at < :ended AND action <> 'queue' ORDER BY fired_at LIMIT :limit
)
RETURNING due_at

-- :prune_workers
-- The lease of an attempt over REST has no use once the attempt has ended.
DELETE FROM tickwork_workers
WHERE lease_until < :now AND (lease_until < :lost OR state = 'remote') AND id NOT IN (SELECT worker FROM tickwork_running)

-- :prune_keys
DELETE FROM tickwork_keys WHERE until <= ?
