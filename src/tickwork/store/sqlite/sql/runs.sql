-- Dags and their runs: definitions, states of steps, and results by run and step.

-- :newest_dag
SELECT version, digest FROM tickwork_dags WHERE name = ? ORDER BY version DESC LIMIT 1

-- :insert_dag
INSERT INTO tickwork_dags (name, version, digest, graph, created_at) VALUES (?, ?, ?, ?, ?)

-- :dag_graph
SELECT graph FROM tickwork_dags WHERE name = ? AND version = ?

-- :newest_dags
-- A deleted dag has no definition any more. Its versions are kept for its runs.
SELECT d.name, d.version, d.graph, d.created_at FROM tickwork_dags d
WHERE  d.version = (SELECT max(version) FROM tickwork_dags WHERE name = d.name)
AND    EXISTS (SELECT 1 FROM tickwork_tasks t WHERE t.name = d.name)
ORDER  BY d.name

-- :starts_dag
SELECT name FROM tickwork_schedules WHERE target = ? ORDER BY name LIMIT 1

-- :undefine_dag
DELETE FROM tickwork_tasks WHERE name = ? AND version IS NOT NULL RETURNING name

-- :versions_of_dag
SELECT name, version, graph, created_at FROM tickwork_dags WHERE name = ? ORDER BY version DESC

-- :hold_run
-- The attempt of a run now belongs to the store itself.
UPDATE tickwork_running SET worker = '' WHERE job_id = ? AND claim = ? RETURNING job_id

-- :begun_run
SELECT again FROM tickwork_runs WHERE id = ?

-- :insert_run
INSERT INTO tickwork_runs (id, open, failed, again) VALUES (?, 0, 0, NULL)

-- :put_run
UPDATE tickwork_runs SET open = ?, failed = ?, again = NULL WHERE id = ?

-- :set_again
UPDATE tickwork_runs SET again = ? WHERE id = ?

-- :set_args
UPDATE tickwork_jobs SET args = ? WHERE id = ?

-- :going
SELECT u.id, j.task, j.version, j.args, u.open, u.failed, r.cancel_at IS NOT NULL, r.attempt, j.priority, j.collection,
       j.labels, j.job_limits, j.policy, r.failures, j.trace, j.creator, r.claim,
       j.occurrence, j.due_at
FROM   json_each(?) AS n CROSS JOIN tickwork_runs u ON u.id = n.value
CROSS  JOIN tickwork_running r ON r.job_id = u.id
CROSS  JOIN tickwork_jobs j ON j.id = u.id

-- :all_steps
SELECT step, state, pending, succeeded, failed, skipped, total, ended, bad, mapped, blocked, reason, result, since, wake_at
FROM   tickwork_steps
WHERE  run = :run

-- :some_steps
SELECT step, state, pending, succeeded, failed, skipped, total, ended, bad, mapped, blocked, reason, result, since, wake_at
FROM   tickwork_steps
WHERE  run = :run AND step IN (SELECT value FROM json_each(:names))

-- :put_step
INSERT INTO tickwork_steps (run, step, state, pending, succeeded, failed, skipped, total, ended, bad, mapped, blocked, reason,
                            result, since, wake_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run, step) DO UPDATE SET
    state = excluded.state, pending = excluded.pending, succeeded = excluded.succeeded, failed = excluded.failed,
    skipped = excluded.skipped, total = excluded.total, ended = excluded.ended, bad = excluded.bad, mapped = excluded.mapped,
    blocked = excluded.blocked, reason = excluded.reason, result = excluded.result, wake_at = excluded.wake_at,
    since = iif(state = excluded.state, since, excluded.since)

-- :result_rows
-- Instances beyond `total` are of an earlier generation, whose list was longer.
SELECT s.run, s.step, s.state, s.mapped, s.result, j.idx, f.state, f.result
FROM   json_each(?) AS pair
CROSS  JOIN tickwork_steps s ON s.run = json_extract(pair.value, '$[0]') AND s.step = json_extract(pair.value, '$[1]')
LEFT   JOIN tickwork_jobs j ON j.run = s.run AND j.step = s.step AND j.idx < s.total
LEFT   JOIN tickwork_finished f ON f.job_id = j.id
ORDER  BY s.run, s.step, j.idx

-- :failed_steps
SELECT s.step, coalesce(s.reason, (
    SELECT f.error FROM tickwork_jobs j CROSS JOIN tickwork_finished f ON f.job_id = j.id
    WHERE  j.run = s.run AND j.step = s.step AND f.state <> 'succeeded' ORDER BY f.ended_at DESC LIMIT 1), s.state)
FROM   tickwork_steps s
WHERE  s.run = ? AND s.state NOT IN ('succeeded', 'skipped', 'waiting', 'open') LIMIT ?

-- :instances
SELECT j.step, j.idx, j.id, CASE WHEN q.job_id IS NOT NULL THEN 'queued' WHEN f.job_id IS NOT NULL THEN f.state ELSE 'running' END
FROM   json_each(:steps) AS n CROSS JOIN tickwork_jobs j ON j.run = :run AND j.step = n.value
LEFT   JOIN tickwork_queue q ON q.job_id = j.id
LEFT   JOIN tickwork_finished f ON f.job_id = j.id

-- :live_instances
SELECT j.id FROM tickwork_jobs j WHERE j.run = ? AND NOT EXISTS (SELECT 1 FROM tickwork_finished f WHERE f.job_id = j.id)

-- :of_step
WHERE j.run = ? AND j.step = ? AND j.idx >= ? ORDER BY j.idx LIMIT ?

-- :parts
-- For each ended job: the run and step it belongs to, and its end state.
SELECT j.run, j.step, f.state FROM json_each(?) AS n
CROSS  JOIN tickwork_jobs j ON j.id = n.value
CROSS  JOIN tickwork_finished f ON f.job_id = j.id
WHERE  j.run IS NOT NULL

-- :failed_parts
SELECT j.id, j.run, j.step || iif(s.mapped, '[' || j.idx || ']', '') FROM json_each(?) AS n
CROSS  JOIN tickwork_jobs j ON j.id = n.value
CROSS  JOIN tickwork_finished f ON f.job_id = j.id
CROSS  JOIN tickwork_steps s ON s.run = j.run AND s.step = j.step
WHERE  f.state <> 'succeeded'

-- :renew_step_job
UPDATE tickwork_jobs SET args = ?, inputs = ?, queue = ?, priority = ?, policy = ?, lane = NULL, job_limits = NULL WHERE id = ?

-- :overdue_steps
SELECT run, step FROM tickwork_steps WHERE wake_at <= ? LIMIT ?

-- :run_ids
SELECT id FROM tickwork_jobs WHERE id IN (SELECT value FROM json_each(?)) AND version IS NOT NULL

-- :forget_triggers
DELETE FROM tickwork_triggers WHERE dag = ?

-- :insert_trigger
INSERT INTO tickwork_triggers (asset, dag, grp, fresh) VALUES (?, ?, ?, 0)

-- :made_anew
INSERT INTO tickwork_assets (name, made_at, made_by) VALUES (:name, :now, :by)
ON CONFLICT (name) DO UPDATE SET made_at = excluded.made_at, made_by = excluded.made_by

-- :freshen
UPDATE tickwork_triggers SET fresh = 1 WHERE asset = ?

-- :ready_groups
SELECT t.dag, t.grp FROM tickwork_triggers t
WHERE  t.asset = ? AND NOT EXISTS (SELECT 1 FROM tickwork_triggers o WHERE o.dag = t.dag AND o.grp = t.grp AND NOT o.fresh)

-- :use_up
UPDATE tickwork_triggers SET fresh = 0 WHERE dag = ? AND grp = ?

-- :assets
SELECT name, made_at, made_by FROM tickwork_assets ORDER BY name

-- :succeeded_of
SELECT job_id FROM tickwork_finished WHERE job_id IN (SELECT value FROM json_each(?)) AND state = 'succeeded'
