-- Notifications and channels, and the queries that alert rules are evaluated on.

-- :put_channel
INSERT INTO tickwork.channels (name, value) VALUES (%(name)s, %(value)s)
ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- :lock_channels
-- Statements that name a channel and statements that delete it wait for each other.
SELECT value FROM tickwork.channels ORDER BY name FOR UPDATE

-- :delete_channel
DELETE FROM tickwork.channels WHERE name = %(name)s RETURNING name

-- :channels
SELECT value FROM tickwork.channels ORDER BY name

-- :put_notification
INSERT INTO tickwork.notifications AS n (name, value, watch, version, look_at)
VALUES (%(name)s, %(value)s, %(watch)s, 1, coalesce(%(now)s::timestamptz, clock_timestamp()))
ON CONFLICT (name) DO UPDATE SET value = excluded.value, watch = excluded.watch, version = n.version + 1, look_at = excluded.look_at
WHERE n.value <> excluded.value

-- :delete_notification
DELETE FROM tickwork.notifications WHERE name = %(name)s RETURNING name

-- :notifications
SELECT value, watch, version, look_at FROM tickwork.notifications ORDER BY name

-- :due_notifications
SELECT value, watch, version, look_at FROM tickwork.notifications
WHERE  look_at <= coalesce(%(now)s::timestamptz, clock_timestamp()) ORDER BY name

-- :move_notification
UPDATE tickwork.notifications SET watch = %(watch)s, look_at = %(look_at)s, version = version + 1
WHERE  name = %(name)s AND version = %(version)s
RETURNING name

-- :ended_badly
SELECT j.id::text, j.task, j.queue, f.state, j.due_at, f.run_at, f.started_at, f.ended_at, j.occurrence, j.version, j.run::text,
       j.collection, f.discarded_at
FROM   (SELECT * FROM tickwork.finished f
        WHERE  f.state <> 'succeeded' AND f.ended_at >= %(at)s AND (f.ended_at > %(at)s OR f.job_id > %(id)s::uuid)
        AND    f.ended_at <= %(until)s
        ORDER  BY f.ended_at, f.job_id LIMIT %(limit)s::bigint) f
JOIN   tickwork.jobs j ON j.id = f.job_id
ORDER  BY f.ended_at, f.job_id

-- :ended_jobs
SELECT j.id::text, j.task, j.queue, f.state, j.due_at, f.run_at, f.started_at, f.ended_at, j.occurrence, j.version, j.run::text,
       j.collection, f.discarded_at
FROM   tickwork.finished f JOIN tickwork.jobs j ON j.id = f.job_id
WHERE  f.ended_at >= %(at)s AND (f.ended_at > %(at)s OR f.job_id > %(id)s::uuid) AND f.ended_at <= %(until)s
AND    (%(task)s::text IS NULL OR j.task = %(task)s::text)
ORDER  BY f.ended_at, f.job_id LIMIT %(limit)s::bigint

-- :running_jobs
SELECT j.id::text, j.task, j.queue, NULL, j.due_at, r.run_at, r.claimed_at, NULL, j.occurrence, j.version, j.run::text, j.collection,
       NULL
FROM   (SELECT * FROM tickwork.running ORDER BY job_id LIMIT %(limit)s::bigint) r JOIN tickwork.jobs j ON j.id = r.job_id

-- :waiting_jobs
-- The lanes and their priorities are found by index steps from each to the next; in each, times are a range of the key.
WITH RECURSIVE place (queue, priority) AS (
    (SELECT queue, priority FROM tickwork.queue ORDER BY queue, priority LIMIT 1)
    UNION ALL
    SELECT n.queue, n.priority FROM place CROSS JOIN LATERAL (
        SELECT q.queue, q.priority FROM tickwork.queue q
        WHERE  (q.queue, q.priority) > (place.queue, place.priority) ORDER BY q.queue, q.priority LIMIT 1
    ) n
)
SELECT j.id::text, j.task, j.queue, NULL, j.due_at, q.run_at, NULL, NULL, j.occurrence, j.version, j.run::text, j.collection, NULL
FROM   place JOIN LATERAL (
    SELECT q.job_id, q.run_at FROM tickwork.queue q
    WHERE  q.queue = place.queue AND q.priority = place.priority AND q.run_at > %(after)s AND q.run_at <= %(until)s
    ORDER  BY q.queue, q.priority, q.run_at LIMIT %(limit)s::bigint
) q ON true
JOIN   tickwork.jobs j ON j.id = q.job_id
LIMIT  %(limit)s::bigint

-- :missed_fires
SELECT schedule, due_at, action, reason FROM tickwork.fires
WHERE  fired_at > %(after)s AND fired_at <= %(until)s AND is_catchup
ORDER  BY fired_at LIMIT %(limit)s::bigint
