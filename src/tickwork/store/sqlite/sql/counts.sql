-- What is counted for metrics: by the primary key and the indexes on ends and fires, from one mark to the next.

-- :created_until
SELECT id FROM tickwork_jobs WHERE id >= :since AND id < :latest ORDER BY id LIMIT 1 OFFSET :limit

-- :created_counts
SELECT queue, task, count(*) FROM tickwork_jobs WHERE id >= :since AND id < :until GROUP BY queue, task

-- :ended_until
SELECT ended_at FROM tickwork_finished WHERE ended_at > :since AND ended_at <= :latest ORDER BY ended_at LIMIT 1 OFFSET :limit

-- :ended_counts
SELECT j.queue, j.task, f.state, j.version IS NOT NULL, count(*)
FROM   tickwork_finished f
CROSS  JOIN tickwork_jobs j
WHERE  f.ended_at > :since AND f.ended_at <= :until AND j.id = f.job_id
GROUP  BY 1, 2, 3, 4

-- :fired_counts
SELECT action, count(*) FROM tickwork_fires WHERE fired_at > :since AND fired_at <= :until GROUP BY action

-- :oldest_wake
SELECT min(wake_at) FROM tickwork_schedules WHERE wake_at IS NOT NULL

-- :dead_count
SELECT count(*) FROM (SELECT 1 FROM tickwork_finished WHERE state = 'failed' AND state <> 'succeeded' AND discarded_at IS NULL LIMIT :most)
