-- Reading runs: when the jobs of their steps ran. Instances beyond `total` are of an earlier generation, whose list was longer.

-- :step_times
-- A step of which a rerun has kept some instances started when the others did.
SELECT s.step, count(q.job_id), count(r.job_id),
       coalesce(min(coalesce(r.claimed_at, f.started_at))
                FILTER (WHERE f.started_at IS NULL OR f.started_at >= coalesce(ru.claimed_at, fu.started_at)), min(f.started_at)),
       max(f.ended_at)
FROM   tickwork.steps s
LEFT   JOIN tickwork.running ru ON ru.job_id = s.run
LEFT   JOIN tickwork.finished fu ON fu.job_id = s.run
JOIN   tickwork.jobs j ON j.run = s.run AND j.step = s.step AND j.idx < s.total
LEFT   JOIN tickwork.queue q ON q.job_id = j.id
LEFT   JOIN tickwork.running r ON r.job_id = j.id
LEFT   JOIN tickwork.finished f ON f.job_id = j.id
WHERE  s.run = %(run)s::uuid GROUP BY s.step

-- :run_instances
SELECT j.step, j.idx, j.id::text, CASE WHEN q.job_id IS NOT NULL THEN 'queued' WHEN r.job_id IS NOT NULL THEN 'running' ELSE f.state END,
       coalesce(q.attempt, r.attempt, f.attempt), coalesce(r.claimed_at, f.started_at), f.ended_at
FROM   tickwork.jobs j
JOIN   tickwork.steps s ON s.run = j.run AND s.step = j.step AND j.idx < s.total
LEFT   JOIN tickwork.queue q ON q.job_id = j.id
LEFT   JOIN tickwork.running r ON r.job_id = j.id
LEFT   JOIN tickwork.finished f ON f.job_id = j.id
WHERE  j.run = %(run)s::uuid AND (j.step, j.idx) > (%(step)s, %(idx)s::integer)
ORDER  BY j.step, j.idx LIMIT %(limit)s::bigint

-- :waiting_approvals
-- An open step that nobody runs a job for is one that asks for something.
SELECT s.run::text, s.task, s.step, s.reason, s.since
FROM   (SELECT job_id FROM tickwork.running WHERE task = '@dag' ORDER BY job_id DESC LIMIT 100) r
CROSS  JOIN LATERAL (
    SELECT s.run, j.task, s.step, s.reason, s.since FROM tickwork.steps s JOIN tickwork.jobs j ON j.id = s.run
    WHERE  s.run = r.job_id AND s.state = 'open' AND s.total = 1 AND NOT s.mapped
    AND    NOT EXISTS (SELECT FROM tickwork.jobs one WHERE one.run = s.run AND one.step = s.step AND one.idx = 0 OFFSET 0)
    OFFSET 0
) s
LIMIT  %(limit)s::bigint
