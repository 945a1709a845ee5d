-- The stats rollup: count rows by the primary key and the indexes on ends, from one mark to the next, and add the
-- counts. A duration is given by the number of its digits in microseconds, and the first two of them (see
-- core/stats/rollups.py).

-- :created_until
SELECT j.id::text FROM tickwork.jobs j
WHERE  j.id >= %(since)s::uuid AND j.id < %(latest)s::uuid ORDER BY j.id LIMIT 1 OFFSET %(limit)s::bigint

-- :ended_until
SELECT ended_at FROM tickwork.finished
WHERE  ended_at > %(since)s AND ended_at <= %(latest)s ORDER BY ended_at LIMIT 1 OFFSET %(limit)s::bigint

-- :tried_until
SELECT ended_at FROM tickwork.attempts
WHERE  ended_at > %(since)s AND ended_at <= %(latest)s ORDER BY ended_at LIMIT 1 OFFSET %(limit)s::bigint

-- :created_counts
SELECT 'enqueued', CASE WHEN version IS NULL THEN queue ELSE '@dag' END, task, floor(date_part('epoch', created_at) / 60)::bigint, NULL,
       NULL, count(*)
FROM   tickwork.jobs WHERE id >= %(since)s::uuid AND id < %(until)s::uuid GROUP BY 2, 3, 4

-- :ended_counts
-- One snapshot of both tables: a job that is retried by hand moves from one to the other.
WITH ended AS MATERIALIZED (
    SELECT e.outcome, j.queue, j.task, floor(date_part('epoch', e.ended_at) / 60)::bigint AS minute,
           floor(date_part('epoch', e.started_at) / 60)::bigint AS start,
           greatest(0, date_part('epoch', e.ended_at - e.started_at) * 1000000)::bigint::text AS run,
           CASE WHEN e.run_at IS NOT NULL THEN greatest(0, date_part('epoch', e.started_at - e.run_at) * 1000000)::bigint::text END AS wait
    FROM   (SELECT f.job_id, f.state AS outcome, f.ended_at, f.started_at, f.run_at FROM tickwork.finished f
            WHERE  f.ended_at > %(since)s AND f.ended_at <= %(until)s
            UNION ALL
            SELECT a.job_id, CASE WHEN a.state IN ('failed', 'timed_out', 'lost') THEN 'retried' ELSE 'released' END, a.ended_at,
                   a.started_at, NULL
            FROM   tickwork.attempts a
            WHERE  a.ended_at > %(since)s AND a.ended_at <= %(until)s) e
    CROSS  JOIN LATERAL (
        SELECT CASE WHEN j.version IS NULL THEN j.queue ELSE '@dag' END AS queue, j.task FROM tickwork.jobs j WHERE j.id = e.job_id OFFSET 0
    ) j
)
SELECT outcome, queue, task, minute, NULL::integer, NULL::text, count(*) FROM ended WHERE outcome <> 'released' GROUP BY 1, 2, 3, 4
UNION ALL
SELECT 'run', queue, task, minute, length(run), left(run, 2), count(*) FROM ended WHERE start IS NOT NULL GROUP BY 2, 3, 4, 5, 6
UNION ALL
SELECT 'started', queue, task, start, length(wait), left(wait, 2), count(*) FROM ended WHERE start IS NOT NULL GROUP BY 2, 3, 4, 5, 6

-- :starting_counts
-- A lane names the queue of its jobs, except for runs and for lanes of held jobs: only for those is the job itself
-- read.
SELECT 'started', s.queue, s.task, s.minute, length(s.wait), left(s.wait, 2), count(*)
FROM   (SELECT j.queue, j.task, floor(date_part('epoch', r.claimed_at) / 60)::bigint AS minute,
               greatest(0, date_part('epoch', r.claimed_at - r.run_at) * 1000000)::bigint::text AS wait
        FROM   (SELECT * FROM tickwork.running ORDER BY job_id LIMIT %(limit)s::bigint) r
        CROSS  JOIN LATERAL (
            SELECT split_part(r.queue, ':', 1) AS queue, r.task WHERE r.task <> '@dag' AND left(r.queue, 1) <> ':'
            UNION ALL
            SELECT CASE WHEN j.version IS NULL THEN j.queue ELSE '@dag' END, j.task FROM tickwork.jobs j
            WHERE  j.id = r.job_id AND (r.task = '@dag' OR left(r.queue, 1) = ':') OFFSET 0
        ) j) s
GROUP  BY 2, 3, 4, 5, 6

-- :rollup_marks
SELECT created::text, ended, version, look_at FROM tickwork.rollup_marks

-- :move_rollup_marks
INSERT INTO tickwork.rollup_marks AS m (one, created, ended, version, look_at)
VALUES (1, %(created)s::uuid, %(ended)s, 1, %(look_at)s)
ON CONFLICT (one) DO UPDATE SET created = excluded.created, ended = excluded.ended, version = m.version + 1, look_at = excluded.look_at
WHERE m.version = %(version)s::bigint
RETURNING m.version

-- :rollups_at
SELECT f.span, f.queue, f.task, f.minute, f.enqueued, f.started, f.succeeded, f.failed, f.cancelled, f.dropped, f.expired, f.retried,
       f.waits, f.runs
FROM   json_to_recordset(%(places)s::json) AS p (span integer, queue text, task text, minute bigint)
CROSS  JOIN LATERAL (
    SELECT * FROM tickwork.rollups f WHERE f.span = p.span AND f.task = p.task AND f.queue = p.queue AND f.minute = p.minute OFFSET 0
) f

-- :put_rollups
INSERT INTO tickwork.rollups
       (span, task, queue, minute, enqueued, started, succeeded, failed, cancelled, dropped, expired, retried, waits, runs)
SELECT r.span, r.task, r.queue, r.minute, r.enqueued, r.started, r.succeeded, r.failed, r.cancelled, r.dropped, r.expired, r.retried,
       r.waits, r.runs
FROM   json_to_recordset(%(rows)s::json) AS r
       (span integer, task text, queue text, minute bigint, enqueued bigint, started bigint, succeeded bigint, failed bigint,
        cancelled bigint, dropped bigint, expired bigint, retried bigint, waits text, runs text)
ON CONFLICT (span, task, queue, minute) DO UPDATE SET
    enqueued = excluded.enqueued, started = excluded.started, succeeded = excluded.succeeded, failed = excluded.failed,
    cancelled = excluded.cancelled, dropped = excluded.dropped, expired = excluded.expired, retried = excluded.retried,
    waits = excluded.waits, runs = excluded.runs

-- :rollups
SELECT minute, enqueued, started, succeeded, failed, cancelled, dropped, expired, retried, waits, runs FROM tickwork.rollups
WHERE  span = %(span)s::integer AND task = %(task)s AND queue = %(queue)s AND minute >= %(since)s::bigint

-- :queue_rollups
-- From each queue the next one is one index step away; in each, minutes are a range of the key.
WITH RECURSIVE names (name) AS (
    (SELECT queue FROM tickwork.rollups WHERE span = %(span)s::integer AND task = '' AND queue > '' ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT further.queue FROM names CROSS JOIN LATERAL (
        SELECT f.queue FROM tickwork.rollups f
        WHERE  f.span = %(span)s::integer AND f.task = '' AND f.queue > names.name ORDER BY f.queue LIMIT 1
    ) further
)
SELECT f.queue, f.minute, f.enqueued, f.started, f.succeeded, f.failed, f.cancelled, f.dropped, f.expired, f.retried, f.waits, f.runs
FROM   (SELECT name FROM names LIMIT 1000) n
CROSS  JOIN LATERAL (
    SELECT * FROM tickwork.rollups f
    WHERE  f.span = %(span)s::integer AND f.task = '' AND f.queue = n.name AND f.minute >= %(since)s::bigint OFFSET 0
) f

-- :rollup_totals
SELECT queue, task, enqueued, started, succeeded, failed, cancelled, dropped, expired, retried, '{}', '{}' FROM tickwork.rollups
WHERE  span = 0 AND task > '' AND queue > ''

-- :prune_rollups
DELETE FROM tickwork.rollups WHERE ctid = ANY (ARRAY(
    SELECT f.ctid FROM tickwork.rollups f WHERE f.span = %(span)s::integer AND f.minute < %(before)s::bigint
    ORDER  BY f.minute LIMIT %(limit)s::bigint FOR UPDATE SKIP LOCKED
))
