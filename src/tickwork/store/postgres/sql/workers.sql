-- Workers: one lease for each instance.

-- :register_worker
-- No row: the worker was lost or has ended. Under the same id it could not tell its old attempts from new ones.
INSERT INTO tickwork.workers AS w (id, host, pid, version, queues, tasks, slots, schedules, offer, state,
       started_at, lease_until)
SELECT %(id)s, %(host)s, %(pid)s::integer, %(version)s, %(queues)s, %(tasks)s, %(slots)s::integer, %(schedules)s, %(offer)s, 'running', now,
       now + %(lease_us)s::bigint * interval '1 microsecond'
FROM   (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) clock
ON CONFLICT (id) DO UPDATE SET
    queues = excluded.queues, tasks = excluded.tasks, slots = excluded.slots, schedules = excluded.schedules,
    offer = excluded.offer, lease_until = excluded.lease_until
WHERE  w.state IN ('running', 'draining')
RETURNING w.id

-- :define_tasks
INSERT INTO tickwork.tasks AS t (name, queue, priority, policy, schema, task_limits, version)
SELECT d.name, d.queue, d.priority, d.policy, d.schema, d.task_limits, d.version
FROM   json_to_recordset(%(tasks)s::json)
       AS d (name text, queue text, priority smallint, policy text, schema text, task_limits text, version integer)
ORDER  BY d.name
ON CONFLICT (name) DO UPDATE SET
    queue = excluded.queue, priority = excluded.priority, policy = excluded.policy, schema = excluded.schema,
    task_limits = excluded.task_limits, version = excluded.version
WHERE  (t.queue, t.priority, t.policy, t.schema, t.task_limits, t.version) IS DISTINCT FROM
       (excluded.queue, excluded.priority, excluded.policy, excluded.schema, excluded.task_limits, excluded.version)

-- :renew_lease
-- The row is locked first and the lease counted from then: a wait for the lock must not shorten it.
WITH held AS MATERIALIZED (
    SELECT w.id FROM tickwork.workers w WHERE w.id = %(id)s AND w.state IN ('running', 'draining') FOR NO KEY UPDATE
)
UPDATE tickwork.workers w
SET    lease_until = coalesce(%(now)s::timestamptz, clock_timestamp()) + %(lease_us)s::bigint * interval '1 microsecond'
FROM   held h WHERE w.id = h.id
RETURNING w.id

-- :drain_worker
UPDATE tickwork.workers SET state = 'draining' WHERE id = %(id)s AND state = 'running'

-- :end_worker
-- The row stays until the pruner finds no reference to it; attempts left open are reclaimed at once.
UPDATE tickwork.workers
SET    state = 'ended',
       lease_until = least(lease_until, coalesce(%(now)s::timestamptz, clock_timestamp()) - interval '1 microsecond')
WHERE  id = %(id)s

-- :cancel_requests
SELECT job_id::text, claim FROM tickwork.running WHERE worker = %(worker)s AND cancel_at IS NOT NULL ORDER BY job_id

-- :open_attempts
SELECT r.job_id::text, r.attempt, r.claim, r.worker, j.policy, r.failures, r.crashes, r.alone, j.run::text, j.step, r.losses, r.begun
FROM   tickwork.running r JOIN tickwork.jobs j ON j.id = r.job_id WHERE r.worker = %(worker)s ORDER BY r.job_id

-- :expired_attempts
-- If no lease has expired, running is not read, however many dead rows it has. IS TRUE keeps IN a hashed subplan: as a
-- join it would be a nested loop, quadratic when many leases expire together.
WITH lost AS MATERIALIZED (
    SELECT w.id FROM tickwork.workers w WHERE w.lease_until < coalesce(%(now)s::timestamptz, clock_timestamp())
)
SELECT r.job_id::text, r.attempt, r.claim, r.worker, j.policy, r.failures, r.crashes, r.alone, j.run::text, j.step, r.losses, r.begun
FROM   (SELECT * FROM tickwork.running r
        WHERE  EXISTS (SELECT FROM lost) AND (r.worker IN (SELECT lost.id FROM lost)) IS TRUE LIMIT %(limit)s::bigint) r
CROSS  JOIN LATERAL (SELECT j.policy, j.run, j.step FROM tickwork.jobs j WHERE j.id = r.job_id OFFSET 0) j
