-- Read runs: when the jobs of their steps ran. Instances beyond `total` are of an earlier generation with a longer
-- list.

-- :step_times
-- A step of which a rerun has kept some instances started when the others did.
SELECT s.step, sum(q.job_id IS NOT NULL), sum(r.job_id IS NOT NULL),
       coalesce(min(iif(f.started_at < coalesce(ru.claimed_at, fu.started_at), NULL, coalesce(r.claimed_at, f.started_at))), min(f.started_at)),
       max(f.ended_at), min(iif(j.idx = 0, j.id, NULL)), max(coalesce(q.attempt, r.attempt, f.attempt)),
       max(max(s.since, coalesce(r.claimed_at, 0), coalesce(f.ended_at, 0), iif(q.attempt > 0, :now, 0))),
       coalesce(sum(f.state = 'succeeded'), 0), coalesce(sum(f.state = 'failed'), 0), coalesce(sum(f.state = 'cancelled'), 0),
       coalesce(sum(f.state = 'dropped'), 0), coalesce(sum(f.state = 'expired'), 0)
FROM   tickwork_steps s
LEFT   JOIN tickwork_running ru ON ru.job_id = s.run
LEFT   JOIN tickwork_finished fu ON fu.job_id = s.run
CROSS  JOIN tickwork_jobs j ON j.run = s.run AND j.step = s.step AND j.idx < s.total
LEFT   JOIN tickwork_queue q ON q.job_id = j.id
LEFT   JOIN tickwork_running r ON r.job_id = j.id
LEFT   JOIN tickwork_finished f ON f.job_id = j.id
WHERE  s.run = :run GROUP BY s.step

-- :map_places
SELECT j.id, j.idx, s.total
FROM   json_each(?) AS n CROSS JOIN tickwork_jobs j ON j.id = n.value AND j.run IS NOT NULL
CROSS  JOIN tickwork_steps s ON s.run = j.run AND s.step = j.step
WHERE  s.mapped

-- :run_instances
SELECT j.step, j.idx, j.id, CASE WHEN q.job_id IS NOT NULL THEN 'queued' WHEN r.job_id IS NOT NULL THEN 'running' ELSE f.state END,
       coalesce(q.attempt, r.attempt, f.attempt), coalesce(r.claimed_at, f.started_at), f.ended_at
FROM   tickwork_jobs j
CROSS  JOIN tickwork_steps s ON s.run = j.run AND s.step = j.step AND j.idx < s.total
LEFT   JOIN tickwork_queue q ON q.job_id = j.id
LEFT   JOIN tickwork_running r ON r.job_id = j.id
LEFT   JOIN tickwork_finished f ON f.job_id = j.id
WHERE  j.run = :run AND (j.step, j.idx) > (:step, :idx) ORDER BY j.step, j.idx LIMIT :limit

-- :waiting_approvals
-- An open step without a job is an approval.
SELECT s.run, j.task, s.step, s.reason, s.since
FROM   (SELECT job_id FROM tickwork_running WHERE task = '@dag' ORDER BY job_id DESC LIMIT 100) r
CROSS  JOIN tickwork_steps s ON s.run = r.job_id
CROSS  JOIN tickwork_jobs j ON j.id = s.run
WHERE  s.state = 'open' AND s.total = 1 AND NOT s.mapped
AND    NOT EXISTS (SELECT 1 FROM tickwork_jobs one WHERE one.run = s.run AND one.step = s.step AND one.idx = 0)
LIMIT  ?
