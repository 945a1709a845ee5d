-- The chain of the audit log.

-- :newest_change
SELECT coalesce(max(id), 0) FROM tickwork.audit

-- :lock_chain
SELECT pg_advisory_xact_lock(hashtextextended('tickwork audit chain', 0))

-- :last_link
SELECT number, hash FROM tickwork.audit_links ORDER BY number DESC LIMIT 1

-- :to_link
-- Ids are assigned before their rows are committed: rows below the last linked id may have no link yet.
SELECT a.id, a.at, a.who, a.action, a.target, a.before, a.after, a.request_id, a.address
FROM   tickwork.audit a
WHERE  a.id > (SELECT coalesce(max(l.audit_id), 0) - %(behind)s::bigint FROM tickwork.audit_links l)
AND    NOT EXISTS (SELECT FROM tickwork.audit_links l WHERE l.audit_id = a.id OFFSET 0)
ORDER  BY a.id LIMIT %(limit)s::bigint

-- :insert_links
INSERT INTO tickwork.audit_links (number, audit_id, at, digest, hash)
SELECT n.number, n.audit_id, a.at, n.digest, n.hash
FROM   unnest(%(numbers)s::text::bigint[], %(ids)s::text::bigint[], %(digests)s::text::text[], %(hashes)s::text::text[])
       AS n (number, audit_id, digest, hash)
CROSS  JOIN LATERAL (SELECT a.at FROM tickwork.audit a WHERE a.id = n.audit_id OFFSET 0) a

-- :linked_changes
SELECT l.number, l.audit_id, l.at, l.digest, l.hash,
       a.id, a.at, a.who, a.action, a.target, a.before, a.after, a.request_id, a.address
FROM   (SELECT * FROM tickwork.audit_links WHERE number > %(after)s::bigint ORDER BY number LIMIT %(limit)s::bigint) l
LEFT   JOIN LATERAL (SELECT * FROM tickwork.audit a WHERE a.id = l.audit_id OFFSET 0) a ON true
ORDER  BY l.number

-- :unlinked_changes
SELECT a.id, a.at, a.who, a.action, a.target, a.before, a.after, a.request_id, a.address
FROM   tickwork.audit a
WHERE  NOT EXISTS (SELECT FROM tickwork.audit_links l WHERE l.audit_id = a.id OFFSET 0)
ORDER  BY a.id LIMIT %(limit)s::bigint

-- :take_audit_sink
INSERT INTO tickwork.audit_sinks AS s (sink, number, holder, until)
VALUES (%(sink)s, 0, %(holder)s, coalesce(%(now)s::timestamptz, clock_timestamp()) + %(turn)s::bigint * interval '1 microsecond')
ON CONFLICT (sink) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE  s.holder = excluded.holder OR s.until <= coalesce(%(now)s::timestamptz, clock_timestamp())
RETURNING s.number

-- :move_audit_sink
UPDATE tickwork.audit_sinks SET number = %(number)s::bigint
WHERE  sink = %(sink)s AND holder = %(holder)s AND number < %(number)s::bigint
RETURNING 1

-- :may_prune_audit
-- An operator may have revoked this privilege from the application's role.
SELECT has_table_privilege('tickwork.audit', 'DELETE') AND has_table_privilege('tickwork.audit_links', 'DELETE')

-- :prune_audit
-- Links are deleted from the beginning, up to the first one that is not old enough or still has its row. The last two
-- of these stay: the chain continues from them, and the second, whose hash can be checked, proves that the missing
-- links were old.
WITH clock AS MATERIALIZED (
    SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) - %(audited)s::bigint * interval '1 microsecond' AS oldest
),
c AS (
    DELETE FROM tickwork.audit WHERE id IN (SELECT id FROM tickwork.audit, clock WHERE at <= clock.oldest LIMIT %(limit)s::bigint)
    RETURNING id
),
k AS (
    DELETE FROM tickwork.audit_links WHERE number < (
        SELECT coalesce(
            min(l.number) FILTER (
                WHERE l.at > clock.oldest OR EXISTS (SELECT FROM tickwork.audit a WHERE a.id = l.audit_id OFFSET 0)),
            max(l.number) + 1) - 2
        FROM (SELECT number, audit_id, at FROM tickwork.audit_links ORDER BY number LIMIT %(limit)s::bigint) l, clock)
)
SELECT count(*) FROM c
