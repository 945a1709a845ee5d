-- Hooks, their deliveries, and the objects that files declare.

-- :put_hooks
-- include inserted_hooks
ON CONFLICT (name) DO UPDATE SET value = excluded.value, edited_at = excluded.edited_at WHERE h.value <> excluded.value

-- :new_hooks
-- include inserted_hooks
ON CONFLICT (name) DO NOTHING
RETURNING name

-- :inserted_hooks
INSERT INTO tickwork.hooks AS h (name, value, created_at, edited_at)
SELECT g.name, g.value, clock.now, clock.now
FROM   (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) clock
CROSS  JOIN json_to_recordset(%(hooks)s::json) AS g (name text, value text)
ORDER  BY g.name

-- :hook
SELECT value, created_at, edited_at FROM tickwork.hooks WHERE name = %(name)s

-- :hook_to_replace
SELECT value FROM tickwork.hooks WHERE name = %(name)s FOR UPDATE

-- :hooks
SELECT value, created_at, edited_at FROM tickwork.hooks WHERE name > %(after)s ORDER BY name LIMIT %(limit)s::bigint

-- :delete_hooks
WITH gone AS (
    DELETE FROM tickwork.hooks WHERE name IN (SELECT value FROM json_array_elements_text(%(names)s::json))
    RETURNING name
),
d AS (DELETE FROM tickwork.deliveries t USING gone WHERE t.hook = gone.name)
SELECT name FROM gone

-- :record_delivery
INSERT INTO tickwork.deliveries (id, hook, genuine, outcome, event, job_id, reason, size, received_at)
SELECT %(id)s, h.name, %(genuine)s::boolean, %(outcome)s, %(event)s, %(job_id)s, %(reason)s, %(size)s::bigint, clock.now
FROM   (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) clock
JOIN   tickwork.hooks h ON h.name = %(hook)s
WHERE  %(genuine)s::boolean
OR     NOT EXISTS (SELECT FROM tickwork.deliveries d
                   WHERE d.hook = h.name AND NOT d.genuine AND d.received_at > clock.now - interval '1 second')
ON CONFLICT (id) DO NOTHING

-- :forget_deliveries
DELETE FROM tickwork.deliveries WHERE id IN (
    SELECT id FROM tickwork.deliveries WHERE hook = %(hook)s AND genuine = %(genuine)s::boolean
    ORDER  BY id DESC OFFSET %(kept)s::bigint
)

-- :deliveries
SELECT id, hook, genuine, outcome, event, job_id, reason, size, received_at FROM tickwork.deliveries
WHERE  hook = %(hook)s ORDER BY id DESC

-- :mark_declared
INSERT INTO tickwork.declared AS d (kind, name, source)
SELECT g.kind, g.name, %(source)s FROM json_to_recordset(%(things)s::json) AS g (kind text, name text)
ORDER  BY g.kind, g.name
ON CONFLICT (kind, name) DO UPDATE SET source = excluded.source WHERE d.source <> excluded.source

-- :declared_by
SELECT kind, name FROM tickwork.declared WHERE source = %(source)s ORDER BY kind, name

-- :forget_declared
DELETE FROM tickwork.declared d USING json_to_recordset(%(things)s::json) AS g (kind text, name text)
WHERE  d.kind = g.kind AND d.name = g.name
