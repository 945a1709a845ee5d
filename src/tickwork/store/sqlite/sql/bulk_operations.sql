-- Bulk operations, and requests to workers.

-- :operation_columns
SELECT id, what, by, state, phase, place, step, looked, changed, error, created_at, ended_at FROM tickwork_operations

-- :put_operation
INSERT INTO tickwork_operations (id, what, by, state, phase, step, looked, changed, created_at)
VALUES (:id, :what, :by, 'running', 0, 0, 0, 0, :now) ON CONFLICT DO NOTHING

-- :of_this_operation
WHERE id = :id

-- :operations_before
WHERE id < :before ORDER BY id DESC LIMIT :limit

-- :any_operation
SELECT 1 FROM tickwork_operations WHERE state = 'running' LIMIT 1

-- :lease_operation
UPDATE tickwork_operations SET lease_until = :until
WHERE  id = (SELECT min(id) FROM tickwork_operations WHERE state = 'running' AND (lease_until IS NULL OR lease_until <= :now))
RETURNING id

-- :step_operation
UPDATE tickwork_operations
SET    step = step + 1, phase = :phase, place = :place, looked = :looked, changed = :changed, state = :state, error = :error,
       ended_at = iif(:state = 'running', NULL, :now), lease_until = :until
WHERE  id = :id AND step = :number AND state = 'running'
RETURNING id

-- :cancel_operation
UPDATE tickwork_operations SET state = 'cancelled', ended_at = :now WHERE id = :id AND state = 'running' RETURNING id

-- :prune_operations
DELETE FROM tickwork_operations WHERE state <> 'running' AND ended_at < ?

-- :ask_worker
UPDATE tickwork_workers SET asked = :what WHERE id = :id AND state IN ('running', 'draining') AND lease_until > :now RETURNING id

-- :asked_of
SELECT asked FROM tickwork_workers WHERE id = ?
