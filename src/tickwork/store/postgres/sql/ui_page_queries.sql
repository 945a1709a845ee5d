-- Page queries: data that a page shows of many objects. Each is one statement, and costs no more on a larger store.

-- :newest_runs
-- Names and ids are compared as pairs, as in reads/job_search.py, so that the planner uses this index.
SELECT j.task, j.id::text, j.version,
       CASE WHEN q.job_id IS NOT NULL THEN 'queued' WHEN r.job_id IS NOT NULL THEN 'running' ELSE f.state END,
       j.created_at, coalesce(r.claimed_at, f.started_at), f.ended_at
FROM   unnest(%(dags)s::text::text[]) WITH ORDINALITY AS n (dag, place)
CROSS  JOIN LATERAL (
    SELECT * FROM tickwork.jobs k
    WHERE  (k.task, k.id) < (n.dag, %(before)s::uuid) AND k.task >= n.dag AND coalesce(k.version, -1) >= 0
    ORDER  BY k.task DESC, k.id DESC LIMIT %(limit)s::bigint
) j
LEFT   JOIN LATERAL (SELECT * FROM tickwork.queue q WHERE q.job_id = j.id OFFSET 0) q ON true
LEFT   JOIN LATERAL (SELECT * FROM tickwork.running r WHERE r.job_id = j.id OFFSET 0) r ON true
LEFT   JOIN LATERAL (SELECT * FROM tickwork.finished f WHERE f.job_id = j.id OFFSET 0) f ON true
ORDER  BY n.place, j.id DESC

-- :grid
-- A step of which a rerun has kept some instances started when the others did.
SELECT s.run::text, s.step, s.state, s.mapped, s.total, s.ended, s.bad, s.since, i.jobs, i.running, i.attempt, i.started_at
FROM   unnest(%(runs)s::text::uuid[]) AS n (run)
LEFT   JOIN LATERAL (SELECT claimed_at FROM tickwork.running WHERE job_id = n.run OFFSET 0) ru ON true
LEFT   JOIN LATERAL (SELECT started_at FROM tickwork.finished WHERE job_id = n.run OFFSET 0) fu ON true
CROSS  JOIN unnest(%(steps)s::text::text[]) AS m (step)
CROSS  JOIN LATERAL (SELECT * FROM tickwork.steps s WHERE s.run = n.run AND s.step = m.step OFFSET 0) s
CROSS  JOIN LATERAL (
    SELECT count(j.id) AS jobs, count(r.job_id) AS running, max(coalesce(q.attempt, r.attempt, f.attempt)) AS attempt,
           coalesce(min(coalesce(r.claimed_at, f.started_at))
                    FILTER (WHERE f.started_at IS NULL OR f.started_at >= coalesce(ru.claimed_at, fu.started_at)), min(f.started_at)) AS started_at
    FROM   tickwork.jobs j
    LEFT   JOIN LATERAL (SELECT * FROM tickwork.queue q WHERE q.job_id = j.id OFFSET 0) q ON true
    LEFT   JOIN LATERAL (SELECT * FROM tickwork.running r WHERE r.job_id = j.id OFFSET 0) r ON true
    LEFT   JOIN LATERAL (SELECT * FROM tickwork.finished f WHERE f.job_id = j.id OFFSET 0) f ON true
    WHERE  j.run = s.run AND j.step = s.step AND j.idx < least(s.total, %(looked_at)s::integer)
) i

-- :run_events
-- Attempts that were retried are in attempts. An end without an attempt is of a job, or of a step, that never ran.
WITH parts AS MATERIALIZED (
    SELECT id, step, idx FROM tickwork.jobs WHERE run = %(run)s::uuid
    UNION ALL SELECT id, NULL, NULL FROM tickwork.jobs WHERE id = %(run)s::uuid AND version IS NOT NULL
),
tries AS MATERIALIZED (
    SELECT p.id, p.step, p.idx, a.attempt, a.started_at, a.ended_at, a.state,
           CASE WHEN a.state = 'succeeded' THEN 'ended' ELSE 'retried' END AS how, a.error
    FROM   parts p CROSS JOIN LATERAL (SELECT * FROM tickwork.attempts a WHERE a.job_id = p.id OFFSET 0) a
    UNION ALL
    SELECT p.id, p.step, p.idx, f.attempt, f.started_at, f.ended_at, f.state, 'ended', f.error
    FROM   parts p CROSS JOIN LATERAL (SELECT * FROM tickwork.finished f WHERE f.job_id = p.id OFFSET 0) f
    UNION ALL
    SELECT p.id, p.step, p.idx, r.attempt, r.claimed_at, NULL, 'running', NULL, NULL
    FROM   parts p CROSS JOIN LATERAL (SELECT * FROM tickwork.running r WHERE r.job_id = p.id OFFSET 0) r
),
events (at, rank, attempt, name, event, step, idx, job_id, state, detail) AS (
    SELECT j.created_at, 0, 0, j.id::text, 'run_created', NULL, NULL::integer, j.id, NULL, NULL
    FROM   tickwork.jobs j WHERE j.id = %(run)s::uuid AND j.version IS NOT NULL
    UNION ALL
    SELECT started_at, CASE WHEN step IS NULL THEN 1 ELSE 3 END, attempt, id::text,
           CASE WHEN step IS NULL THEN 'run_started' ELSE 'step_started' END, step, idx, id, NULL, NULL
    FROM   tries WHERE started_at IS NOT NULL
    UNION ALL
    SELECT ended_at, CASE WHEN step IS NULL THEN 5 ELSE 4 END, attempt, id::text,
           CASE WHEN step IS NULL THEN 'run_' ELSE 'step_' END || how, step, idx, id, state, right(error, 2000)
    FROM   tries WHERE ended_at IS NOT NULL
    UNION ALL
    SELECT s.since, CASE WHEN s.state = 'open' THEN 2 ELSE 4 END, 0, s.step,
           CASE WHEN s.state = 'open' THEN 'step_asked' ELSE 'step_ended' END, s.step, NULL, NULL, nullif(s.state, 'open'), s.reason
    FROM   tickwork.steps s
    WHERE  s.run = %(run)s::uuid AND s.state <> 'waiting'
    AND    NOT EXISTS (SELECT FROM tickwork.jobs j WHERE j.run = s.run AND j.step = s.step AND j.idx < s.total OFFSET 0)
)
SELECT at, rank, attempt, name, event, step, idx, job_id::text, state, detail FROM events
WHERE  (at, rank, attempt, name COLLATE "C")
       > (%(at)s::timestamptz, %(rank)s::integer, %(attempt)s::integer, %(name)s::text COLLATE "C")
ORDER  BY at, rank, attempt, name COLLATE "C" LIMIT %(limit)s::bigint

-- :asked
SELECT s.run::text, s.step, s.since, s.wake_at, s.reason
FROM   unnest(%(runs)s::text::uuid[], %(steps)s::text::text[]) AS n (run, step)
CROSS  JOIN LATERAL (SELECT * FROM tickwork.steps s WHERE s.run = n.run AND s.step = n.step OFFSET 0) s
WHERE  s.state = 'open'

-- :dag_at
SELECT graph, created_at FROM tickwork.dags WHERE name = %(name)s AND version = %(version)s::integer

-- :dags_after
-- A dag that was deleted has no definition any more.
SELECT t.name, d.version, d.graph, d.created_at
FROM   tickwork.tasks t
CROSS  JOIN LATERAL (SELECT * FROM tickwork.dags d WHERE d.name = t.name AND d.version = t.version OFFSET 0) d
WHERE  t.name > %(after)s ORDER BY t.name LIMIT %(limit)s::bigint

-- :recent_fires
SELECT x.schedule, x.due_at, x.action, x.fired_at, x.is_catchup, x.reason, x.job_id::text, j.version IS NOT NULL,
       CASE WHEN q.job_id IS NOT NULL THEN 'queued' WHEN r.job_id IS NOT NULL THEN 'running' ELSE f.state END,
       coalesce(r.claimed_at, f.started_at), f.ended_at
FROM   unnest(%(schedules)s::text::text[]) WITH ORDINALITY AS n (name, place)
CROSS  JOIN LATERAL (
    SELECT * FROM tickwork.fires y WHERE y.schedule = n.name ORDER BY y.due_at DESC LIMIT %(limit)s::bigint
) x
LEFT   JOIN LATERAL (SELECT * FROM tickwork.jobs j WHERE j.id = x.job_id OFFSET 0) j ON true
LEFT   JOIN LATERAL (SELECT * FROM tickwork.queue q WHERE q.job_id = x.job_id OFFSET 0) q ON true
LEFT   JOIN LATERAL (SELECT * FROM tickwork.running r WHERE r.job_id = x.job_id OFFSET 0) r ON true
LEFT   JOIN LATERAL (SELECT * FROM tickwork.finished f WHERE f.job_id = x.job_id OFFSET 0) f ON true
ORDER  BY n.place, x.due_at DESC

-- :fire_counts
SELECT date_bin('15 minutes', x.due_at, 'epoch'::timestamptz) AS quarter,
       CASE WHEN x.job_id IS NULL THEN CASE WHEN x.action = 'queue' THEN 'live' ELSE 'skipped' END WHEN j.id IS NULL THEN 'pruned'
            WHEN f.job_id IS NULL THEN 'live' WHEN f.state <> 'succeeded' THEN 'failed' WHEN x.is_catchup THEN 'late' ELSE 'ok' END AS outcome,
       count(*)
FROM   (SELECT * FROM tickwork.fires WHERE schedule = %(name)s AND due_at >= %(since)s::timestamptz
        ORDER BY due_at DESC LIMIT %(most)s::bigint) x
LEFT   JOIN LATERAL (SELECT id FROM tickwork.jobs j WHERE j.id = x.job_id OFFSET 0) j ON true
LEFT   JOIN LATERAL (SELECT job_id, state FROM tickwork.finished f WHERE f.job_id = x.job_id OFFSET 0) f ON true
GROUP  BY quarter, outcome ORDER BY quarter, outcome

-- :schedules_of
WHERE s.target = ANY (ARRAY(SELECT json_array_elements_text(%(targets)s::json))) ORDER BY s.name LIMIT %(limit)s::text::bigint

-- :held_by
-- Jobs of a worker over REST are under all its leases: see remote_workers.
(r.worker IN (
    SELECT %(worker)s UNION ALL
    SELECT w.id FROM (SELECT * FROM tickwork.workers WHERE id = %(worker)s AND state = 'remote' OFFSET 0) me
    CROSS  JOIN LATERAL (
        SELECT w.id FROM tickwork.workers w
        WHERE  w.state = 'remote' AND w.host = me.host AND w.queues = me.queues AND w.tasks = me.tasks AND w.offer = me.offer OFFSET 0
    ) w
)) IS TRUE ORDER BY r.claimed_at, r.job_id LIMIT %(limit)s::bigint

-- :sources_of
SELECT name, source FROM tickwork.declared
WHERE  kind = %(kind)s AND name = ANY (ARRAY(SELECT json_array_elements_text(%(names)s::json)))

-- :earliest_wake
SELECT coalesce(%(now)s::timestamptz, clock_timestamp()), (SELECT min(wake_at) FROM tickwork.schedules WHERE wake_at IS NOT NULL)
