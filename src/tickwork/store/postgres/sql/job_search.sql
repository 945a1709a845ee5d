-- Job search: pages of jobs by any filter, text search, and queue counts, each at a bounded cost.

-- :walk_jobs
FROM   tickwork.jobs j

-- :walk_names
FROM   tickwork.jobs w

-- :walk_queue
FROM   tickwork.queue q

-- :walk_running
FROM   tickwork.running r

-- :walk_finished
FROM   tickwork.finished f

-- :waiting_in
-- The waiting jobs of a queue: its own lane, the lanes of its limited jobs, and all held jobs, of any queue.
SELECT job_id::text FROM (
    SELECT job_id FROM tickwork.queue WHERE queue = %(queue)s
    UNION ALL SELECT job_id FROM tickwork.queue WHERE queue >= %(low)s AND queue < %(high)s
    UNION ALL SELECT job_id FROM tickwork.queue WHERE queue >= ':' AND queue < ';'
) waiting LIMIT %(walk)s::bigint

-- :has_error
-- The last error of a job that has ended or is retrying.
coalesce(f.error, (SELECT a.error FROM tickwork.attempts a WHERE a.job_id = q.job_id AND a.attempt = q.attempt)) ILIKE {error}

-- :how_it_waits
CASE WHEN q.failures > 0 THEN 'retrying' WHEN q.run_at <= coalesce(%(now)s::timestamptz, clock_timestamp()) THEN 'due' ELSE 'delayed' END

-- :counted_by_word
SELECT word, count(*) FROM ({rows}) counted GROUP BY word

-- :failure_columns
SELECT j.id::text, j.task, f.error, f.ended_at, j.queue

-- :failed_lately
SELECT j.id::text, j.task, j.queue, f.state, right(f.error, 1000), f.ended_at, j.is_run, f.state = 'failed' AND f.discarded_at IS NULL
FROM   (SELECT * FROM tickwork.finished f WHERE f.state <> 'succeeded' AND f.ended_at > %(since)s
        ORDER  BY f.ended_at DESC, f.job_id DESC LIMIT %(limit)s::bigint) f
CROSS  JOIN LATERAL (SELECT id, task, queue, version IS NOT NULL AS is_run FROM tickwork.jobs WHERE id = f.job_id OFFSET 0) j
ORDER  BY f.ended_at DESC

-- :retried_lately
SELECT j.id::text, j.task, j.queue, a.state, right(a.error, 1000), a.ended_at, j.is_run, false
FROM   (SELECT * FROM tickwork.attempts a WHERE a.ended_at > %(since)s ORDER BY a.ended_at DESC LIMIT %(limit)s::bigint) a
CROSS  JOIN LATERAL (SELECT id, task, queue, version IS NOT NULL AS is_run FROM tickwork.jobs WHERE id = a.job_id OFFSET 0) j
ORDER  BY a.ended_at DESC

-- :ended_among
SELECT f.job_id::text FROM tickwork.finished f
WHERE  f.job_id = ANY (ARRAY(SELECT value::uuid FROM json_array_elements_text(%(ids)s::json)))

-- :tasks_from
-- From each name the next one is one index step away.
WITH RECURSIVE names (name) AS (
    (SELECT task FROM tickwork.jobs WHERE task >= %(low)s AND task < %(high)s ORDER BY task LIMIT 1)
    UNION ALL
    SELECT further.task FROM names CROSS JOIN LATERAL (
        SELECT j.task FROM tickwork.jobs j WHERE j.task > names.name AND j.task < %(high)s ORDER BY j.task LIMIT 1
    ) further
)
SELECT name FROM names LIMIT %(names)s::bigint

-- :newest_of_tasks
SELECT newest.id::text
FROM   json_array_elements_text(%(tasks)s::json) AS t (name)
CROSS  JOIN LATERAL (
    SELECT j.id FROM tickwork.jobs j WHERE j.task = t.name AND j.id < %(before)s::uuid ORDER BY j.id DESC LIMIT %(limit)s::bigint
) newest

-- :jobs_with_key
SELECT id::text FROM tickwork.jobs WHERE key >= %(low)s AND key < %(high)s AND id < %(before)s::uuid LIMIT %(keys)s::bigint

-- :failed_floor
SELECT job_id::text FROM tickwork.finished WHERE state = 'failed' AND state <> 'succeeded' AND job_id < %(before)s::uuid
ORDER  BY job_id DESC LIMIT 1 OFFSET %(walk)s::bigint

-- :failed_with
SELECT job_id::text FROM tickwork.finished
WHERE  state = 'failed' AND state <> 'succeeded' AND job_id < %(before)s::uuid AND job_id >= %(floor)s::uuid AND error ILIKE %(like)s
ORDER  BY job_id DESC LIMIT %(limit)s::bigint

-- :queue_names
-- From a queue's own lane the next one is one index step away; lanes of limited jobs, and of held jobs, are
-- skipped.
WITH RECURSIVE lanes (lane) AS (
    (SELECT queue FROM tickwork.queue ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT further.queue FROM lanes CROSS JOIN LATERAL (
        SELECT q.queue FROM tickwork.queue q
        WHERE  q.queue >= CASE WHEN strpos(lanes.lane, ':') > 0 THEN split_part(lanes.lane, ':', 1) || ';' ELSE lanes.lane || chr(1) END
        ORDER  BY q.queue LIMIT 1
    ) further
)
SELECT DISTINCT split_part(lane, ':', 1) FROM lanes WHERE NOT starts_with(lane, ':') LIMIT 1000

-- :in_lanes
-- Each priority of a queue's own lane is a range in the order of times. Lanes of limited jobs are read in their
-- order.
WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now),
named AS MATERIALIZED (SELECT * FROM json_to_recordset(%(queues)s::json) AS n (queue text, low text, high text))
SELECT n.queue, plain.due + flowing.due, plain.later + flowing.later, flowing.count, least(plain.oldest, flowing.oldest)
FROM   named n
CROSS  JOIN LATERAL (
    SELECT (SELECT count(*) FROM (
                SELECT FROM generate_series(0, 9) AS p CROSS JOIN LATERAL (
                    SELECT FROM tickwork.queue q
                    WHERE  q.queue = n.queue AND q.priority = p::smallint AND q.run_at <= (SELECT now FROM clock) LIMIT %(most)s::bigint
                ) one LIMIT %(most)s::bigint) due) AS due,
           (SELECT count(*) FROM (
                SELECT FROM generate_series(0, 9) AS p CROSS JOIN LATERAL (
                    SELECT FROM tickwork.queue q
                    WHERE  q.queue = n.queue AND q.priority = p::smallint AND q.run_at > (SELECT now FROM clock) LIMIT %(most)s::bigint
                ) one LIMIT %(most)s::bigint) later) AS later,
           (SELECT min(first.run_at) FROM generate_series(0, 9) AS p CROSS JOIN LATERAL (
                SELECT q.run_at FROM tickwork.queue q
                WHERE  q.queue = n.queue AND q.priority = p::smallint AND q.run_at <= (SELECT now FROM clock)
                ORDER  BY q.run_at LIMIT 1
            ) first) AS oldest
) plain
CROSS  JOIN LATERAL (
    SELECT count(*) FILTER (WHERE run_at <= (SELECT now FROM clock)) AS due,
           count(*) FILTER (WHERE run_at > (SELECT now FROM clock)) AS later,
           count(*) AS count, min(run_at) FILTER (WHERE run_at <= (SELECT now FROM clock)) AS oldest
    FROM   (SELECT q.run_at FROM tickwork.queue q WHERE q.queue >= n.low AND q.queue < n.high LIMIT %(most)s::bigint) walked
) flowing

-- :held
-- The lane of a held job begins with a colon, and ends in chr(31) and its home lane.
WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now)
SELECT split_part(queue, chr(31), -1), count(*) FILTER (WHERE run_at <= now), count(*) FILTER (WHERE run_at > now),
       min(run_at) FILTER (WHERE run_at <= now)
FROM   clock CROSS JOIN (SELECT queue, run_at FROM tickwork.queue WHERE queue >= ':' AND queue < ';' LIMIT %(most)s::bigint) held
GROUP  BY 1

-- :running_in
SELECT queue, count(*) FROM tickwork.running GROUP BY queue
