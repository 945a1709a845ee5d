-- Workers: one lease for each instance.

-- :register_worker
-- No row back: the worker was lost or has ended. Under the same id it could not tell its old attempts from new ones.
INSERT INTO tickwork_workers (id, host, pid, version, queues, tasks, slots, schedules, offer, state, started_at, lease_until)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'running', ?, ?)
ON CONFLICT (id) DO UPDATE SET queues = excluded.queues, tasks = excluded.tasks, slots = excluded.slots, schedules = excluded.schedules, offer = excluded.offer,
    lease_until = excluded.lease_until
WHERE state IN ('running', 'draining')
RETURNING id

-- :define_task
INSERT INTO tickwork_tasks (name, queue, priority, policy, schema, task_limits, version) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET queue = excluded.queue, priority = excluded.priority, policy = excluded.policy, schema = excluded.schema,
    task_limits = excluded.task_limits, version = excluded.version

-- :renew_lease
UPDATE tickwork_workers SET lease_until = ? WHERE id = ? AND state IN ('running', 'draining') RETURNING id

-- :drain_worker
UPDATE tickwork_workers SET state = 'draining' WHERE id = ? AND state = 'running'

-- :end_worker
-- The row stays until the pruner finds no reference to it; attempts left open are reclaimed at once.
UPDATE tickwork_workers SET state = 'ended', lease_until = min(lease_until, :now - 1) WHERE id = :id

-- :lose_worker
-- A worker that lost an attempt to the reaper is lost as a whole: its next heartbeat is refused.
UPDATE tickwork_workers SET state = 'lost' WHERE id = ? AND state <> 'ended'

-- :stuck_leases
SELECT count(*) FROM tickwork_running WHERE worker IN (SELECT id FROM tickwork_workers WHERE lease_until < ?)

-- :cancel_requests
SELECT job_id, claim FROM tickwork_running WHERE worker = ? AND cancel_at IS NOT NULL ORDER BY job_id

-- :open_attempts
SELECT r.job_id, r.attempt, r.claim, r.worker, j.policy, r.failures, r.crashes, r.alone, j.run, j.step, r.losses, r.begun
FROM   tickwork_running r JOIN tickwork_jobs j ON j.id = r.job_id WHERE r.worker = ? ORDER BY r.job_id

-- :expired_attempts
-- If no lease has expired, running is not read.
SELECT r.job_id, r.attempt, r.claim, r.worker, j.policy, r.failures, r.crashes, r.alone, j.run, j.step, r.losses, r.begun
FROM   tickwork_running r CROSS JOIN tickwork_jobs j ON j.id = r.job_id
WHERE  EXISTS (SELECT 1 FROM tickwork_workers WHERE lease_until < :now)
AND    r.worker IN (SELECT id FROM tickwork_workers WHERE lease_until < :now)
LIMIT  :limit
