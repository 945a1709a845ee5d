-- The chain of the audit log.

-- :newest_change
SELECT coalesce(max(id), 0) FROM tickwork_audit

-- :last_link
SELECT number, hash FROM tickwork_audit_links ORDER BY number DESC LIMIT 1

-- :to_link
SELECT a.id, a.at, a.who, a.action, a.target, a.before, a.after, a.request_id, a.address
FROM   tickwork_audit a
WHERE  a.id > (SELECT coalesce(max(l.audit_id), 0) - :behind FROM tickwork_audit_links l)
AND    NOT EXISTS (SELECT 1 FROM tickwork_audit_links l WHERE l.audit_id = a.id)
ORDER  BY a.id LIMIT :limit

-- :insert_link
INSERT INTO tickwork_audit_links (number, audit_id, at, digest, hash) VALUES (?, ?, ?, ?, ?)

-- :linked_changes
SELECT l.number, l.audit_id, l.at, l.digest, l.hash,
       a.id, a.at, a.who, a.action, a.target, a.before, a.after, a.request_id, a.address
FROM   tickwork_audit_links l LEFT JOIN tickwork_audit a ON a.id = l.audit_id
WHERE  l.number > :after
ORDER  BY l.number LIMIT :limit

-- :unlinked_changes
SELECT a.id, a.at, a.who, a.action, a.target, a.before, a.after, a.request_id, a.address
FROM   tickwork_audit a
WHERE  NOT EXISTS (SELECT 1 FROM tickwork_audit_links l WHERE l.audit_id = a.id)
ORDER  BY a.id LIMIT :limit

-- :take_audit_sink
INSERT INTO tickwork_audit_sinks (sink, number, holder, until) VALUES (:sink, 0, :holder, :now + :turn)
ON CONFLICT (sink) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE  holder = excluded.holder OR until <= :now
RETURNING number

-- :move_audit_sink
UPDATE tickwork_audit_sinks SET number = :number WHERE sink = :sink AND holder = :holder AND number < :number RETURNING 1

-- :prune_links
-- Links are deleted from the beginning, up to the first one that is not old enough or still has its row. The last two
-- of these stay: the chain continues from them, and the second, whose hash can be checked, proves that the missing
-- links were old.
DELETE FROM tickwork_audit_links WHERE number < (
    SELECT coalesce(
        min(l.number) FILTER (
            WHERE l.at > :now - :audited OR EXISTS (SELECT 1 FROM tickwork_audit a WHERE a.id = l.audit_id)),
        max(l.number) + 1) - 2
    FROM (SELECT number, audit_id, at FROM tickwork_audit_links ORDER BY number LIMIT :limit) l)
