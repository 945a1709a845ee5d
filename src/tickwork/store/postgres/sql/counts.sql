-- What is counted for metrics: by the primary key and the indexes on ends and fires, from one mark to the next.

-- :created_until
SELECT id FROM tickwork.jobs WHERE id >= %(since)s::uuid AND id < %(latest)s::uuid ORDER BY id LIMIT 1 OFFSET %(limit)s

-- :created_counts
SELECT queue, task, count(*) FROM tickwork.jobs WHERE id >= %(since)s::uuid AND id < %(until)s::uuid GROUP BY queue, task

-- :ended_until
SELECT ended_at FROM tickwork.finished
WHERE  ended_at > %(since)s AND ended_at <= %(latest)s ORDER BY ended_at LIMIT 1 OFFSET %(limit)s

-- :ended_counts
SELECT j.queue, j.task, f.state, j.is_run, count(*)
FROM   tickwork.finished f
CROSS  JOIN LATERAL (SELECT queue, task, version IS NOT NULL AS is_run FROM tickwork.jobs WHERE id = f.job_id OFFSET 0) j
WHERE  f.ended_at > %(since)s AND f.ended_at <= %(until)s
GROUP  BY 1, 2, 3, 4

-- :fired_counts
SELECT action, count(*) FROM tickwork.fires WHERE fired_at > %(since)s AND fired_at <= %(until)s GROUP BY action

-- :oldest_wake
SELECT min(wake_at) FROM tickwork.schedules WHERE wake_at IS NOT NULL

-- :dead_count
SELECT count(*)
FROM   (SELECT 1 FROM tickwork.finished WHERE state = 'failed' AND state <> 'succeeded' AND discarded_at IS NULL LIMIT %(most)s) f
