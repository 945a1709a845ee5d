-- The stats rollup: count rows by the primary key and the indexes on ends, from one mark to the next, and add the
-- counts. A duration is given by the number of its digits in microseconds, and the first two of them (see
-- core/stats/rollups.py).

-- :created_until
SELECT id FROM tickwork_jobs WHERE id >= :since AND id < :latest ORDER BY id LIMIT 1 OFFSET :limit

-- :ended_until
SELECT ended_at FROM tickwork_finished WHERE ended_at > :since AND ended_at <= :latest ORDER BY ended_at LIMIT 1 OFFSET :limit

-- :tried_until
SELECT ended_at FROM tickwork_attempts WHERE ended_at > :since AND ended_at <= :latest ORDER BY ended_at LIMIT 1 OFFSET :limit

-- :created_counts
SELECT 'enqueued', iif(version IS NULL, queue, '@dag') AS queue, task, created_at / 60000000 AS minute, NULL, NULL, count(*)
FROM   tickwork_jobs WHERE id >= :since AND id < :until GROUP BY 2, 3, 4

-- :ended_counts
-- One snapshot of both tables: a job that is retried by hand moves from one to the other.
WITH ended AS MATERIALIZED (
    SELECT f.state AS outcome, iif(j.version IS NULL, j.queue, '@dag') AS queue, j.task, f.ended_at / 60000000 AS minute,
           f.started_at / 60000000 AS start, max(0, f.ended_at - f.started_at) AS run, max(0, f.started_at - f.run_at) AS wait
    FROM   tickwork_finished f INDEXED BY tickwork_finished_end CROSS JOIN tickwork_jobs j ON j.id = f.job_id
    WHERE  f.ended_at > :since AND f.ended_at <= :until
    UNION ALL
    SELECT iif(a.state IN ('failed', 'timed_out', 'lost'), 'retried', 'released'), iif(j.version IS NULL, j.queue, '@dag'), j.task,
           a.ended_at / 60000000, a.started_at / 60000000, max(0, a.ended_at - a.started_at), NULL
    FROM   tickwork_attempts a INDEXED BY tickwork_attempts_end CROSS JOIN tickwork_jobs j ON j.id = a.job_id
    WHERE  a.ended_at > :since AND a.ended_at <= :until
)
SELECT outcome, queue, task, minute, NULL, NULL, count(*) FROM ended WHERE outcome <> 'released' GROUP BY 1, 2, 3, 4
UNION ALL
SELECT 'run', queue, task, minute, length(run), substr(run, 1, 2), count(*) FROM ended WHERE start IS NOT NULL GROUP BY 2, 3, 4, 5, 6
UNION ALL
SELECT 'started', queue, task, start, length(wait), substr(wait, 1, 2), count(*) FROM ended WHERE start IS NOT NULL GROUP BY 2, 3, 4, 5, 6

-- :starting_counts
SELECT 'started', iif(j.version IS NULL, j.queue, '@dag') AS queue, j.task, r.claimed_at / 60000000 AS minute,
       length(max(0, r.claimed_at - r.run_at)) AS digits, substr(max(0, r.claimed_at - r.run_at), 1, 2) AS lead, count(*)
FROM   (SELECT * FROM tickwork_running LIMIT :limit) r CROSS JOIN tickwork_jobs j ON j.id = r.job_id
GROUP  BY 2, 3, 4, 5, 6

-- :rollup_marks
SELECT created, ended, version, look_at FROM tickwork_rollup_marks

-- :move_rollup_marks
INSERT INTO tickwork_rollup_marks (one, created, ended, version, look_at) VALUES (1, :created, :ended, 1, :look_at)
ON CONFLICT (one) DO UPDATE SET created = excluded.created, ended = excluded.ended, version = version + 1, look_at = excluded.look_at
WHERE version = :version
RETURNING version

-- :rollups_at
SELECT f.span, f.queue, f.task, f.minute, f.enqueued, f.started, f.succeeded, f.failed, f.cancelled, f.dropped, f.expired, f.retried,
       f.waits, f.runs
FROM   json_each(?) AS p
CROSS  JOIN tickwork_rollups f ON f.span = json_extract(p.value, '$[0]') AND f.task = json_extract(p.value, '$[2]')
AND    f.queue = json_extract(p.value, '$[1]') AND f.minute = json_extract(p.value, '$[3]')

-- :put_rollups
INSERT INTO tickwork_rollups (span, task, queue, minute, enqueued, started, succeeded, failed, cancelled, dropped, expired, retried, waits, runs)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (span, task, queue, minute) DO UPDATE SET
    enqueued = excluded.enqueued, started = excluded.started, succeeded = excluded.succeeded, failed = excluded.failed,
    cancelled = excluded.cancelled, dropped = excluded.dropped, expired = excluded.expired, retried = excluded.retried,
    waits = excluded.waits, runs = excluded.runs

-- :rollups
SELECT minute, enqueued, started, succeeded, failed, cancelled, dropped, expired, retried, waits, runs FROM tickwork_rollups
WHERE  span = :span AND task = :task AND queue = :queue AND minute >= :since

-- :queue_rollups
-- From each queue the next one is one index step away; in each, minutes are a range of the key.
WITH RECURSIVE names (name) AS (
    SELECT min(queue) FROM tickwork_rollups WHERE span = :span AND task = '' AND queue > ''
    UNION ALL
    SELECT (SELECT min(queue) FROM tickwork_rollups WHERE span = :span AND task = '' AND queue > names.name) FROM names WHERE names.name IS NOT NULL
    LIMIT 1000
)
SELECT f.queue, f.minute, f.enqueued, f.started, f.succeeded, f.failed, f.cancelled, f.dropped, f.expired, f.retried, f.waits, f.runs
FROM   names CROSS JOIN tickwork_rollups f ON f.span = :span AND f.task = '' AND f.queue = names.name AND f.minute >= :since

-- :rollup_totals
SELECT queue, task, enqueued, started, succeeded, failed, cancelled, dropped, expired, retried, '{}', '{}' FROM tickwork_rollups
WHERE  span = 0 AND task > '' AND queue > ''

-- :prune_rollups
DELETE FROM tickwork_rollups WHERE (span, task, queue, minute) IN (
    SELECT span, task, queue, minute FROM tickwork_rollups WHERE span = :span AND minute < :before ORDER BY minute LIMIT :limit
)
