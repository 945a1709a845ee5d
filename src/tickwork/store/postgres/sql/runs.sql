-- Dags and their runs: definitions, states of steps, and results by run and step. The row of a run is its lock. It is
-- taken before any row of running, queue, keys or a limit.

-- :lock_dag
-- Serializes transactions that store a definition of a dag.
SELECT pg_advisory_xact_lock(hashtextextended('tickwork dag ' || %(name)s, 0))

-- :newest_dag
SELECT version, digest FROM tickwork.dags WHERE name = %(name)s ORDER BY version DESC LIMIT 1

-- :insert_dag
INSERT INTO tickwork.dags (name, version, digest, graph, created_at)
VALUES (%(name)s, %(version)s::integer, %(digest)s, %(graph)s, coalesce(%(now)s::timestamptz, clock_timestamp()))

-- :dag_graph
SELECT graph FROM tickwork.dags WHERE name = %(name)s AND version = %(version)s::integer

-- :newest_dags
-- A deleted dag has no definition any more. Its versions are kept for its runs.
SELECT d.name, d.version, d.graph, d.created_at FROM tickwork.dags d
WHERE  d.version = (SELECT max(version) FROM tickwork.dags WHERE name = d.name)
AND    EXISTS (SELECT FROM tickwork.tasks t WHERE t.name = d.name)
ORDER  BY d.name

-- :starts_dag
SELECT name FROM tickwork.schedules WHERE target = %(name)s ORDER BY name LIMIT 1

-- :undefine_dag
DELETE FROM tickwork.tasks WHERE name = %(name)s AND version IS NOT NULL RETURNING name

-- :versions_of_dag
SELECT name, version, graph, created_at FROM tickwork.dags WHERE name = %(name)s ORDER BY version DESC

-- :lock_runs
SELECT id::text, again FROM tickwork.runs WHERE id = ANY (%(ids)s::text::uuid[]) ORDER BY id FOR UPDATE

-- :lock_jobs
SELECT id FROM tickwork.jobs WHERE id = ANY (%(ids)s::text::uuid[]) ORDER BY id FOR UPDATE

-- :lock_ended
SELECT job_id FROM tickwork.finished WHERE job_id = %(id)s::uuid FOR UPDATE

-- :hold_runs
-- The attempts of runs that this worker has claimed now belong to the store itself.
UPDATE tickwork.running SET worker = '' WHERE job_id = ANY (%(ids)s::text::uuid[]) AND worker = %(worker)s
RETURNING job_id::text

-- :insert_runs
-- The runs that hold_runs has taken. A run that has begun before stays as it is.
INSERT INTO tickwork.runs (id, open, failed)
SELECT r.job_id, 0, 0 FROM tickwork.running r WHERE r.job_id = ANY (%(ids)s::text::uuid[]) AND r.worker = ''
ON CONFLICT DO NOTHING

-- :put_run
UPDATE tickwork.runs SET open = %(open)s::integer, failed = %(failed)s::integer, again = NULL WHERE id = %(id)s::uuid

-- :set_again
UPDATE tickwork.runs SET again = %(again)s WHERE id = %(id)s::uuid

-- :set_args
UPDATE tickwork.jobs SET args = %(args)s WHERE id = %(id)s::uuid

-- :going
SELECT (extract(epoch FROM coalesce(%(now)s::timestamptz, clock_timestamp())) * 1000000)::bigint,
       u.id::text, j.task, j.version, j.args, u.open, u.failed, r.cancel_at IS NOT NULL, r.attempt, j.priority, j.collection,
       j.labels, j.job_limits, j.policy, r.failures, j.trace, j.creator, r.claim,
       j.occurrence, (extract(epoch FROM j.due_at) * 1000000)::bigint
FROM   unnest(%(ids)s::text::uuid[]) AS n (id)
CROSS  JOIN LATERAL (SELECT * FROM tickwork.runs u WHERE u.id = n.id OFFSET 0) u
CROSS  JOIN LATERAL (SELECT * FROM tickwork.running r WHERE r.job_id = n.id OFFSET 0) r
CROSS  JOIN LATERAL (SELECT * FROM tickwork.jobs j WHERE j.id = n.id OFFSET 0) j
ORDER  BY u.id

-- :steps
-- NULL for names: all of them.
SELECT since, wake_at, step, state, pending, succeeded, failed, skipped, total, ended, bad, mapped, blocked, reason, result
FROM   tickwork.steps
WHERE  run = %(run)s::uuid AND (%(names)s::text IS NULL OR step = ANY (%(names)s::text::text[]))

-- :steps_of
SELECT s.run::text, s.step, s.state, s.pending, s.succeeded, s.failed, s.skipped, s.total, s.ended, s.bad, s.mapped, s.blocked,
       s.reason, s.result
FROM   unnest(%(runs)s::text::uuid[], %(steps)s::text::text[]) AS n (run, step)
CROSS  JOIN LATERAL (SELECT * FROM tickwork.steps s WHERE s.run = n.run AND s.step = n.step OFFSET 0) s

-- :put_steps
INSERT INTO tickwork.steps (run, step, state, pending, succeeded, failed, skipped, total, ended, bad, mapped, blocked, reason,
                            result, since, wake_at)
SELECT %(run)s::uuid, s.step, s.state, s.pending, s.succeeded, s.failed, s.skipped, s.total, s.ended, s.bad, s.mapped, s.blocked,
       s.reason, s.result, 'epoch'::timestamptz + %(now_us)s::text::bigint * interval '1 microsecond',
       'epoch'::timestamptz + s.wake_us * interval '1 microsecond'
FROM   unnest(%(steps)s::text::text[], %(states)s::text::text[], %(pending)s::text::integer[], %(succeeded)s::text::integer[],
              %(failed)s::text::integer[], %(skipped)s::text::integer[], %(total)s::text::integer[], %(ended)s::text::integer[],
              %(bad)s::text::integer[], %(mapped)s::text::boolean[], %(blocked)s::text::boolean[], %(reasons)s::text::text[],
              %(results)s::text::text[], %(wakes_us)s::text::bigint[])
       AS s (step, state, pending, succeeded, failed, skipped, total, ended, bad, mapped, blocked, reason, result, wake_us)
ON CONFLICT (run, step) DO UPDATE SET
    state = excluded.state, pending = excluded.pending, succeeded = excluded.succeeded, failed = excluded.failed,
    skipped = excluded.skipped, total = excluded.total, ended = excluded.ended, bad = excluded.bad, mapped = excluded.mapped,
    blocked = excluded.blocked, reason = excluded.reason, result = excluded.result, wake_at = excluded.wake_at,
    since = CASE WHEN steps.state = excluded.state THEN steps.since ELSE excluded.since END

-- :result_rows
-- Instances beyond `total` are of an earlier generation, whose list was longer.
SELECT s.run::text, s.step, s.state, s.mapped, s.result, j.idx, f.state, f.result
FROM   unnest(%(runs)s::text::uuid[], %(steps)s::text::text[]) AS n (run, step)
CROSS  JOIN LATERAL (SELECT * FROM tickwork.steps s WHERE s.run = n.run AND s.step = n.step OFFSET 0) s
LEFT   JOIN LATERAL (SELECT * FROM tickwork.jobs j WHERE j.run = s.run AND j.step = s.step AND j.idx < s.total OFFSET 0) j ON true
LEFT   JOIN LATERAL (SELECT * FROM tickwork.finished f WHERE f.job_id = j.id OFFSET 0) f ON true
ORDER  BY s.run, s.step, j.idx

-- :failed_steps
SELECT s.step, coalesce(s.reason, (
    SELECT f.error FROM tickwork.jobs j
    CROSS  JOIN LATERAL (SELECT * FROM tickwork.finished f WHERE f.job_id = j.id AND f.state <> 'succeeded' OFFSET 0) f
    WHERE  j.run = s.run AND j.step = s.step ORDER BY f.ended_at DESC LIMIT 1), s.state)
FROM   tickwork.steps s
WHERE  s.run = %(run)s::uuid AND s.state NOT IN ('succeeded', 'skipped', 'waiting', 'open') LIMIT %(limit)s::bigint

-- :instances
SELECT j.step, j.idx, j.id::text,
       coalesce((SELECT f.state FROM tickwork.finished f WHERE f.job_id = j.id), 'running')
FROM   unnest(%(steps)s::text::text[]) AS n (step)
CROSS  JOIN LATERAL (SELECT * FROM tickwork.jobs j WHERE j.run = %(run)s::uuid AND j.step = n.step OFFSET 0) j

-- :live_instances
SELECT j.id::text FROM tickwork.jobs j
WHERE  j.run = %(run)s::uuid AND NOT EXISTS (SELECT FROM tickwork.finished f WHERE f.job_id = j.id OFFSET 0)

-- :of_step
j.run = %(run)s::uuid AND j.step = %(step)s AND j.idx >= %(first)s::integer ORDER BY j.idx LIMIT %(limit)s::bigint

-- :parts
-- For each job: the run and step it belongs to, whether it is a run itself, and its end state, if any.
SELECT j.id::text, j.run::text, j.step, j.version IS NOT NULL, f.state
FROM   unnest(%(ids)s::text::uuid[]) AS n (id)
CROSS  JOIN LATERAL (
    SELECT * FROM tickwork.jobs j WHERE j.id = n.id AND (j.run IS NOT NULL OR j.version IS NOT NULL) OFFSET 0
) j
LEFT   JOIN LATERAL (SELECT * FROM tickwork.finished f WHERE f.job_id = n.id OFFSET 0) f ON true

-- :failed_parts
SELECT j.id::text, j.run::text, j.step || CASE WHEN s.mapped THEN '[' || j.idx || ']' ELSE '' END
FROM   unnest(%(ids)s::text::uuid[]) AS n (id)
CROSS  JOIN LATERAL (SELECT * FROM tickwork.jobs j WHERE j.id = n.id AND j.run IS NOT NULL OFFSET 0) j
CROSS  JOIN LATERAL (SELECT FROM tickwork.finished f WHERE f.job_id = n.id AND f.state <> 'succeeded' OFFSET 0) f
CROSS  JOIN LATERAL (SELECT * FROM tickwork.steps s WHERE s.run = j.run AND s.step = j.step OFFSET 0) s

-- :renew_step_jobs
-- Ended instances that are queued again, with new arguments. Their attempts are kept.
WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now),
wanted AS MATERIALIZED (
    SELECT a.* FROM unnest(%(ids)s::text::uuid[], %(args)s::text::text[], %(lanes)s::text::text[], %(job_limits)s::text::text[],
                           %(inputs)s::text::text[]) AS a (id, args, lane, job_limits, inputs)
),
renewed AS (
    UPDATE tickwork.jobs j
    SET    args = (SELECT w.args FROM wanted w WHERE w.id = j.id), inputs = (SELECT w.inputs FROM wanted w WHERE w.id = j.id),
           lane = (SELECT w.lane FROM wanted w WHERE w.id = j.id), job_limits = (SELECT w.job_limits FROM wanted w WHERE w.id = j.id),
           queue = %(queue)s::text, priority = %(priority)s::text::smallint, policy = %(policy)s::text
    WHERE  j.id = ANY (ARRAY(SELECT w.id FROM wanted w))
    RETURNING j.id, j.task, coalesce(j.lane, j.queue) AS queue,
              CASE WHEN starts_with(j.lane, j.queue || ':!') THEN 5 ELSE j.priority END AS priority
),
gone AS (
    DELETE FROM tickwork.finished f WHERE f.job_id = ANY (ARRAY(SELECT w.id FROM wanted w))
    RETURNING f.job_id, f.attempt, f.attempt_state, f.worker, f.started_at, f.ended_at, f.error, f.progress, f.progress_note
),
tried AS (
    INSERT INTO tickwork.attempts (job_id, attempt, state, worker, started_at, ended_at, error, progress, progress_note)
    SELECT g.job_id, g.attempt, g.attempt_state, g.worker, g.started_at, g.ended_at, g.error, g.progress, g.progress_note
    FROM   gone g WHERE g.attempt_state IS NOT NULL
)
-- include insert_into_queue
SELECT r.id, r.queue, r.priority, clock.now, r.task, (SELECT g.attempt FROM gone g WHERE g.job_id = r.id), 0, 0, false, false, NULL, 0
FROM   renewed r CROSS JOIN clock

-- :overdue_steps
SELECT run::text, step FROM tickwork.steps
WHERE  wake_at <= coalesce(%(now)s::timestamptz, clock_timestamp()) LIMIT %(limit)s::bigint

-- :expired_steps
SELECT q.job_id::text FROM tickwork.queue q
CROSS  JOIN LATERAL (SELECT FROM tickwork.jobs j WHERE j.id = q.job_id AND j.run IS NOT NULL OFFSET 0) j
WHERE  q.expires_at <= coalesce(%(now)s::timestamptz, clock_timestamp()) LIMIT %(limit)s::bigint

-- :forget_triggers
DELETE FROM tickwork.triggers WHERE dag = %(dag)s

-- :insert_triggers
INSERT INTO tickwork.triggers (asset, dag, grp, fresh)
SELECT n.asset, %(dag)s, n.grp, false FROM unnest(%(assets)s::text::text[], %(groups)s::text::integer[]) AS n (asset, grp)
ON CONFLICT DO NOTHING

-- :lock_assets
-- Serializes transactions that update assets, because groups of triggers overlap.
SELECT pg_advisory_xact_lock(hashtextextended('tickwork assets', 0))

-- :made_anew
INSERT INTO tickwork.assets (name, made_at, made_by)
VALUES (%(name)s, coalesce(%(now)s::timestamptz, clock_timestamp()), %(by)s::uuid)
ON CONFLICT (name) DO UPDATE SET made_at = excluded.made_at, made_by = excluded.made_by
RETURNING (extract(epoch FROM made_at) * 1000000)::bigint

-- :freshen
UPDATE tickwork.triggers SET fresh = true WHERE asset = %(name)s

-- :use_up_ready
-- The dags to start: those with a group in which all assets are fresh now.
WITH ready AS MATERIALIZED (
    SELECT t.dag, t.grp FROM tickwork.triggers t
    WHERE  t.asset = %(name)s
    AND    NOT EXISTS (SELECT FROM tickwork.triggers o WHERE o.dag = t.dag AND o.grp = t.grp AND NOT o.fresh OFFSET 0)
),
used AS (
    UPDATE tickwork.triggers t SET fresh = false FROM ready r WHERE t.dag = r.dag AND t.grp = r.grp
)
SELECT dag, grp FROM ready ORDER BY dag, grp

-- :assets
SELECT name, made_at, made_by::text FROM tickwork.assets ORDER BY name

-- :succeeded_of
SELECT f.job_id::text FROM unnest(%(ids)s::text::uuid[]) AS n (id)
CROSS  JOIN LATERAL (SELECT * FROM tickwork.finished f WHERE f.job_id = n.id AND f.state = 'succeeded' OFFSET 0) f
