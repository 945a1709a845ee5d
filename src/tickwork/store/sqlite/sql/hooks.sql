-- Hooks, their deliveries, and the objects that files declare.

-- :put_hook
INSERT INTO tickwork_hooks (name, value, created_at, edited_at) VALUES (:name, :value, :now, :now)
ON CONFLICT (name) DO UPDATE SET value = excluded.value, edited_at = excluded.edited_at WHERE value <> excluded.value

-- :hook
SELECT value, created_at, edited_at FROM tickwork_hooks WHERE name = ?

-- :hooks
SELECT value, created_at, edited_at FROM tickwork_hooks WHERE name > :after ORDER BY name LIMIT :limit

-- :delete_hook
DELETE FROM tickwork_hooks WHERE name = ? RETURNING name

-- :delete_deliveries
DELETE FROM tickwork_deliveries WHERE hook = ?

-- :record_delivery
INSERT INTO tickwork_deliveries (id, hook, genuine, outcome, event, job_id, reason, size, received_at)
SELECT :id, :hook, :genuine, :outcome, :event, :job_id, :reason, :size, :now
WHERE  EXISTS (SELECT 1 FROM tickwork_hooks WHERE name = :hook)
AND    (:genuine OR NOT EXISTS (SELECT 1 FROM tickwork_deliveries d
                                WHERE d.hook = :hook AND d.genuine = 0 AND d.received_at > :now - 1000000))
ON CONFLICT (id) DO NOTHING

-- :forget_deliveries
DELETE FROM tickwork_deliveries WHERE id IN (
    SELECT id FROM tickwork_deliveries WHERE hook = :hook AND genuine = :genuine ORDER BY id DESC LIMIT -1 OFFSET :kept
)

-- :deliveries
SELECT id, hook, genuine, outcome, event, job_id, reason, size, received_at FROM tickwork_deliveries
WHERE  hook = ? ORDER BY id DESC

-- :mark_declared
INSERT INTO tickwork_declared (kind, name, source) VALUES (?, ?, ?)
ON CONFLICT (kind, name) DO UPDATE SET source = excluded.source WHERE source <> excluded.source

-- :declared_by
SELECT kind, name FROM tickwork_declared WHERE source = ? ORDER BY kind, name

-- :forget_declared
DELETE FROM tickwork_declared WHERE kind = ? AND name = ?
