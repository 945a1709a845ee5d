-- Attempts over REST: each has a lease of its own, a worker in the state 'remote'.

-- :place_tasks
SELECT DISTINCT task FROM (
    SELECT task FROM tickwork_queue WHERE queue = :lane AND priority = :priority AND run_at <= :now
    ORDER  BY run_at, job_id LIMIT :first
)

-- :hand_over
UPDATE tickwork_running SET worker = :worker, begun = 1 WHERE job_id = :job_id AND claim = :claim AND worker = :claimer
RETURNING job_id

-- :grant_lease
INSERT INTO tickwork_workers (id, host, pid, version, queues, tasks, slots, schedules, offer, state, started_at, lease_until, lessee)
VALUES (:worker, :name, 0, '', :queues, :tasks, 1, '[]', :offer, 'remote', :now, :until, :lessee)

-- :remote_attempt
-- A caller that does not name the claim must be the one to which the lease was granted.
SELECT r.job_id, r.attempt, r.claim, r.worker, r.task, j.queue, j.policy, r.failures, r.crashes, r.alone, j.job_limits, j.run, j.step, r.claimed_at,
       r.cancel_at IS NOT NULL, w.lease_until, r.losses
FROM   tickwork_running r CROSS JOIN tickwork_workers w ON w.id = r.worker CROSS JOIN tickwork_jobs j ON j.id = r.job_id
WHERE  r.job_id = :job_id AND r.attempt = :attempt AND w.state = 'remote'
AND    (r.claim = :claim OR (:claim IS NULL AND w.lessee = :lessee))

-- :renew_attempt
UPDATE tickwork_workers SET lease_until = :until
WHERE  state = 'remote' AND id = :worker

-- :lease_holders
SELECT DISTINCT w.host FROM tickwork_workers w CROSS JOIN tickwork_running r ON r.worker = w.id
WHERE  w.state = 'remote' AND w.host IN (SELECT value FROM json_each(?))

-- :logged
-- The last chunk of an attempt, and the size of all of them.
SELECT coalesce(max(seq), -1), coalesce(sum(length(text)), 0) FROM tickwork_logs WHERE job_id = :job_id AND attempt = :attempt

-- :end_leases
DELETE FROM tickwork_workers WHERE state = 'remote' AND id IN (SELECT value FROM json_each(?))
