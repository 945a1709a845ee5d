-- Bulk operations, and requests to workers.

-- :operation_columns
SELECT id::text, what, by, state, phase, place, step, looked, changed, error, created_at, ended_at FROM tickwork.operations

-- :put_operation
INSERT INTO tickwork.operations (id, what, by, state, phase, step, looked, changed, created_at)
VALUES (%(id)s::uuid, %(what)s, %(by)s, 'running', 0, 0, 0, 0, coalesce(%(now)s::timestamptz, clock_timestamp()))
ON CONFLICT DO NOTHING

-- :of_this_operation
WHERE id = %(id)s::uuid

-- :operations_before
WHERE id < %(before)s::uuid ORDER BY id DESC LIMIT %(limit)s::bigint

-- :any_operation
SELECT 1 FROM tickwork.operations WHERE state = 'running' LIMIT 1

-- :lease_operation
WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now),
free AS MATERIALIZED (
    SELECT o.id FROM tickwork.operations o
    WHERE  o.state = 'running' AND (o.lease_until IS NULL OR o.lease_until <= (SELECT now FROM clock))
    ORDER  BY o.id LIMIT 1
    FOR UPDATE SKIP LOCKED
)
UPDATE tickwork.operations o
SET    lease_until = (SELECT now FROM clock) + %(lease_us)s::bigint * interval '1 microsecond'
WHERE  o.id = ANY (ARRAY(SELECT f.id FROM free f))
RETURNING o.id::text

-- :step_operation
WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now)
UPDATE tickwork.operations
SET    step = step + 1, phase = %(phase)s::integer, place = %(place)s, looked = %(looked)s::bigint, changed = %(changed)s::bigint,
       state = %(state)s, error = %(error)s, ended_at = CASE WHEN %(state)s = 'running' THEN NULL ELSE (SELECT now FROM clock) END,
       lease_until = (SELECT now FROM clock) + %(lease_us)s::bigint * interval '1 microsecond'
WHERE  id = %(id)s::uuid AND step = %(number)s::integer AND state = 'running'
RETURNING id::text

-- :cancel_operation
UPDATE tickwork.operations SET state = 'cancelled', ended_at = coalesce(%(now)s::timestamptz, clock_timestamp())
WHERE  id = %(id)s::uuid AND state = 'running' RETURNING id::text

-- :prune_operations
DELETE FROM tickwork.operations
WHERE  state <> 'running' AND ended_at < coalesce(%(now)s::timestamptz, clock_timestamp()) - %(kept_us)s::bigint * interval '1 microsecond'

-- :ask_worker
UPDATE tickwork.workers SET asked = %(what)s
WHERE  id = %(id)s AND state IN ('running', 'draining') AND lease_until > coalesce(%(now)s::timestamptz, clock_timestamp())
RETURNING id

-- :asked_of
SELECT asked FROM tickwork.workers WHERE id = %(id)s
