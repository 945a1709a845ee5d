-- Notifications and channels, and the queries that alert rules are evaluated on.

-- :put_channel
INSERT INTO tickwork_channels (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- :delete_channel
DELETE FROM tickwork_channels WHERE name = ? RETURNING name

-- :channels
SELECT value FROM tickwork_channels ORDER BY name

-- :put_notification
INSERT INTO tickwork_notifications (name, value, watch, version, look_at) VALUES (:name, :value, :watch, 1, :now)
ON CONFLICT (name) DO UPDATE SET value = excluded.value, watch = excluded.watch, version = version + 1, look_at = :now
WHERE value <> excluded.value

-- :delete_notification
DELETE FROM tickwork_notifications WHERE name = ? RETURNING name

-- :notifications
SELECT value, watch, version, look_at FROM tickwork_notifications ORDER BY name

-- :due_notifications
SELECT value, watch, version, look_at FROM tickwork_notifications WHERE look_at <= ? ORDER BY name

-- :move_notification
UPDATE tickwork_notifications SET watch = :watch, look_at = :look_at, version = version + 1
WHERE  name = :name AND version = :version
RETURNING name

-- :ended_badly
SELECT j.id, j.task, j.queue, f.state, j.due_at, f.run_at, f.started_at, f.ended_at, j.occurrence, j.version, j.run, j.collection,
       f.discarded_at
FROM   tickwork_finished f INDEXED BY tickwork_finished_badly CROSS JOIN tickwork_jobs j ON j.id = f.job_id
WHERE  f.state <> 'succeeded' AND f.ended_at >= :at AND (f.ended_at > :at OR f.job_id > :id) AND f.ended_at <= :until
ORDER  BY f.ended_at, f.job_id LIMIT :limit

-- :ended_jobs
SELECT j.id, j.task, j.queue, f.state, j.due_at, f.run_at, f.started_at, f.ended_at, j.occurrence, j.version, j.run, j.collection,
       f.discarded_at
FROM   tickwork_finished f INDEXED BY tickwork_finished_end CROSS JOIN tickwork_jobs j ON j.id = f.job_id
WHERE  f.ended_at >= :at AND (f.ended_at > :at OR f.job_id > :id) AND f.ended_at <= :until
AND    (:task IS NULL OR j.task = :task)
ORDER  BY f.ended_at, f.job_id LIMIT :limit

-- :running_jobs
SELECT j.id, j.task, j.queue, NULL, j.due_at, r.run_at, r.claimed_at, NULL, j.occurrence, j.version, j.run, j.collection, NULL
FROM   tickwork_running r CROSS JOIN tickwork_jobs j ON j.id = r.job_id
ORDER  BY r.job_id LIMIT ?

-- :waiting_jobs
-- The lanes and their priorities are found by index steps from each to the next; in each, times are a range of the key.
WITH RECURSIVE place (queue, priority) AS (
    SELECT * FROM (SELECT queue, priority FROM tickwork_queue ORDER BY queue, priority LIMIT 1)
    UNION ALL
    SELECT n.queue, n.priority FROM place CROSS JOIN tickwork_queue n ON n.job_id = coalesce(
        (SELECT q.job_id FROM tickwork_queue q WHERE q.queue = place.queue AND q.priority > place.priority
         ORDER BY q.queue, q.priority LIMIT 1),
        (SELECT q.job_id FROM tickwork_queue q WHERE q.queue > place.queue ORDER BY q.queue, q.priority LIMIT 1))
)
SELECT j.id, j.task, j.queue, NULL, j.due_at, q.run_at, NULL, NULL, j.occurrence, j.version, j.run, j.collection, NULL
FROM   place CROSS JOIN tickwork_queue q ON q.queue = place.queue AND q.priority = place.priority
CROSS  JOIN tickwork_jobs j ON j.id = q.job_id
WHERE  q.run_at > :after AND q.run_at <= :until
LIMIT  :limit

-- :missed_fires
SELECT schedule, due_at, action, reason FROM tickwork_fires
WHERE  fired_at > :after AND fired_at <= :until AND is_catchup = 1
ORDER  BY fired_at LIMIT :limit
