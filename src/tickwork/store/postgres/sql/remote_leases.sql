-- Attempts over REST: each has a lease of its own, a worker in the state 'remote'.

-- :place_tasks
SELECT DISTINCT p.lane, first.task
FROM   unnest(%(lanes)s::text[], %(priorities)s::smallint[]) AS p (lane, priority)
CROSS  JOIN LATERAL (
    SELECT q.task FROM tickwork.queue q
    WHERE  q.queue = p.lane AND q.priority = p.priority AND q.run_at <= coalesce(%(now)s::timestamptz, clock_timestamp())
    ORDER  BY q.run_at, q.job_id LIMIT %(first)s::bigint
) first

-- :grant_leases
-- An attempt is locked when it is handed over, and its lease is counted from then.
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(grants)s::json)
           AS g (job_id uuid, claim bigint, worker text, name text, lessee text, queues text, tasks text, offer text, lease_us bigint)
),
handed_over AS (
    UPDATE tickwork.running r
    SET    worker = (SELECT g.worker FROM given g WHERE g.job_id = r.job_id), begun = true
    WHERE  r.job_id = ANY (ARRAY(SELECT g.job_id FROM given g)) AND r.worker = %(claimer)s
    AND    r.claim = (SELECT g.claim FROM given g WHERE g.job_id = r.job_id)
    RETURNING r.job_id
)
INSERT INTO tickwork.workers AS w (id, host, pid, version, queues, tasks, slots, schedules, offer, state, started_at, lease_until, lessee)
SELECT g.worker, g.name, 0, '', g.queues, g.tasks, 1, '[]', g.offer, 'remote', clock.now,
       clock.now + g.lease_us * interval '1 microsecond', g.lessee
FROM   handed_over h JOIN given g ON g.job_id = h.job_id
CROSS  JOIN LATERAL (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) clock
RETURNING w.id, w.lease_until

-- :named_by_caller
-- A caller that does not name the claim must be the one to which the lease was granted.
AND    (r.claim = %(claim)s::bigint OR (%(claim)s::bigint IS NULL AND w.lessee = %(lessee)s))

-- :remote_attempt
SELECT r.job_id::text, r.attempt, r.claim, r.worker, r.task, j.queue, j.policy, r.failures, r.crashes, r.alone, j.job_limits, j.run::text, j.step,
       r.claimed_at, r.cancel_at IS NOT NULL, w.lease_until, r.losses
FROM   (SELECT * FROM tickwork.running r WHERE r.job_id = %(job_id)s::uuid AND r.attempt = %(attempt)s::integer OFFSET 0) r
JOIN   tickwork.workers w ON w.id = r.worker AND w.state = 'remote'
-- include named_by_caller
JOIN   tickwork.jobs j ON j.id = r.job_id

-- :renew_attempt
-- The row is locked first and the lease counted from then: a wait for the lock must not shorten it.
WITH held AS MATERIALIZED (
    SELECT w.id
    FROM   (SELECT * FROM tickwork.running r WHERE r.job_id = %(job_id)s::uuid AND r.attempt = %(attempt)s::integer OFFSET 0) r
    JOIN   tickwork.workers w ON w.id = r.worker AND w.state = 'remote'
    -- include named_by_caller
    FOR NO KEY UPDATE OF w
)
UPDATE tickwork.workers w
SET    lease_until = coalesce(%(now)s::timestamptz, clock_timestamp()) + %(lease_us)s::bigint * interval '1 microsecond'
FROM   held h WHERE w.id = h.id

-- :hold_attempt
-- The lock serializes writers of an attempt's chunks, and keeps it from being reclaimed meanwhile.
SELECT r.claim FROM tickwork.running r
JOIN   tickwork.workers w ON w.id = r.worker AND w.state = 'remote'
-- include named_by_caller
WHERE  r.job_id = %(job_id)s::uuid AND r.attempt = %(attempt)s::integer
FOR NO KEY UPDATE OF r

-- :lease_holders
SELECT DISTINCT w.host FROM tickwork.workers w JOIN tickwork.running r ON r.worker = w.id
WHERE  w.state = 'remote' AND w.host = ANY (%(names)s::text[])

-- :logged
-- The last chunk of an attempt, and the size of all of them.
SELECT coalesce(max(seq), -1), coalesce(sum(length(text)), 0)::bigint FROM tickwork.logs
WHERE  job_id = %(job_id)s::uuid AND attempt = %(attempt)s::integer

-- :end_leases
DELETE FROM tickwork.workers w WHERE w.state = 'remote' AND w.id = ANY (%(ids)s::text[])
