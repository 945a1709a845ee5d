-- Job search: pages of jobs by any filter, text search, and queue counts, each at a bounded cost.

-- :walk_jobs
FROM   tickwork_jobs j

-- :walk_queue
FROM   tickwork_queue q

-- :walk_running
FROM   tickwork_running r

-- :walk_finished
FROM   tickwork_finished f

-- :waiting_in
-- The waiting jobs of a queue: its own lane, the lanes of its limited jobs, and all held jobs, of any queue.
SELECT job_id FROM (
    SELECT job_id FROM tickwork_queue WHERE queue = :queue
    UNION ALL SELECT job_id FROM tickwork_queue WHERE queue >= :low AND queue < :high
    UNION ALL SELECT job_id FROM tickwork_queue WHERE queue >= ':' AND queue < ';'
) LIMIT :walk

-- :how_it_waits
CASE WHEN q.failures > 0 THEN 'retrying' WHEN q.run_at <= :now THEN 'due' ELSE 'delayed' END

-- :counted_by_word
SELECT word, count(*) FROM ({rows}) counted GROUP BY word

-- :failure_columns
SELECT j.id, j.task, f.error, f.ended_at, j.queue

-- :failed_lately
SELECT j.id, j.task, j.queue, f.state, substr(f.error, -1000), f.ended_at, j.version IS NOT NULL, f.state = 'failed' AND f.discarded_at IS NULL
FROM   (SELECT * FROM tickwork_finished INDEXED BY tickwork_finished_badly WHERE state <> 'succeeded' AND ended_at > :since
        ORDER  BY ended_at DESC, job_id DESC LIMIT :limit) f
CROSS  JOIN tickwork_jobs j ON j.id = f.job_id
ORDER  BY f.ended_at DESC

-- :retried_lately
SELECT j.id, j.task, j.queue, a.state, substr(a.error, -1000), a.ended_at, j.version IS NOT NULL, 0
FROM   (SELECT * FROM tickwork_attempts INDEXED BY tickwork_attempts_end WHERE ended_at > :since ORDER BY ended_at DESC LIMIT :limit) a
CROSS  JOIN tickwork_jobs j ON j.id = a.job_id
ORDER  BY a.ended_at DESC

-- :ended_among
SELECT f.job_id FROM json_each(?) AS n CROSS JOIN tickwork_finished f ON f.job_id = n.value

-- :tasks_from
-- From each name the next one is one index step away.
WITH RECURSIVE names (name) AS (
    SELECT min(task) FROM tickwork_jobs WHERE task >= :low AND task < :high
    UNION ALL
    SELECT (SELECT min(task) FROM tickwork_jobs WHERE task > names.name AND task < :high) FROM names WHERE names.name IS NOT NULL
)
SELECT name FROM names WHERE name IS NOT NULL LIMIT :names

-- :newest_of_task
SELECT id FROM tickwork_jobs WHERE task = :task AND id < :before ORDER BY id DESC LIMIT :limit

-- :jobs_with_key
SELECT id FROM tickwork_jobs WHERE key >= :low AND key < :high AND id < :before LIMIT :keys

-- :failed_floor
SELECT job_id FROM tickwork_finished WHERE state = 'failed' AND state <> 'succeeded' AND job_id < :before
ORDER BY job_id DESC LIMIT 1 OFFSET :walk

-- :failed_with
SELECT job_id FROM tickwork_finished
WHERE  state = 'failed' AND state <> 'succeeded' AND job_id < :before AND job_id >= :floor AND error LIKE :like ESCAPE '\'
ORDER  BY job_id DESC LIMIT :limit

-- :queue_names
-- From a queue's own lane the next one is one index step away; lanes of limited jobs, and of held jobs, are
-- skipped.
WITH RECURSIVE lanes (lane) AS (
    SELECT min(queue) FROM tickwork_queue
    UNION ALL
    SELECT CASE WHEN instr(lanes.lane, ':')
                THEN (SELECT min(queue) FROM tickwork_queue WHERE queue >= substr(lanes.lane, 1, instr(lanes.lane, ':') - 1) || ';')
                ELSE (SELECT min(queue) FROM tickwork_queue WHERE queue > lanes.lane) END
    FROM   lanes WHERE lanes.lane IS NOT NULL
)
SELECT DISTINCT substr(lane, 1, instr(lane || ':', ':') - 1) FROM lanes WHERE lane NOT LIKE ':%' LIMIT 1000

-- :in_lanes
-- Each priority of a queue's own lane is a range in the order of times. Lanes of limited jobs are read in their
-- order.
WITH priorities (priority) AS (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)),
flowing AS MATERIALIZED (SELECT run_at FROM tickwork_queue WHERE queue >= :low AND queue < :high LIMIT :most)
SELECT (SELECT count(*) FROM (
            SELECT 1 FROM priorities p CROSS JOIN tickwork_queue q ON q.queue = :queue AND q.priority = p.priority
            WHERE  q.run_at <= :now LIMIT :most))
           + (SELECT count(*) FROM flowing WHERE run_at <= :now) AS due,
       (SELECT count(*) FROM (
            SELECT 1 FROM priorities p CROSS JOIN tickwork_queue q ON q.queue = :queue AND q.priority = p.priority
            WHERE  q.run_at > :now LIMIT :most))
           + (SELECT count(*) FROM flowing WHERE run_at > :now) AS later,
       (SELECT count(*) FROM flowing) AS flowing,
       (SELECT min(first) FROM (
            SELECT (SELECT min(run_at) FROM tickwork_queue q WHERE q.queue = :queue AND q.priority = p.priority AND run_at <= :now) AS first
            FROM   priorities p
            UNION ALL SELECT min(run_at) FROM flowing WHERE run_at <= :now)) AS oldest

-- :held
-- The lane of a held job begins with a colon, and ends in char(31) and its home lane.
SELECT substr(queue, instr(queue, char(31)) + 1) AS home, sum(run_at <= :now), sum(run_at > :now), min(CASE WHEN run_at <= :now THEN run_at END)
FROM   (SELECT queue, run_at FROM tickwork_queue WHERE queue >= ':' AND queue < ';' LIMIT :most)
GROUP  BY home

-- :running_in
SELECT queue, count(*) FROM tickwork_running GROUP BY queue
