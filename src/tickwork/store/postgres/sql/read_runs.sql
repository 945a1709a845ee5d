-- Reading runs: when the jobs of their steps ran. Instances beyond `total` are of an earlier generation, whose list was longer.

-- :step_times
-- A step of which a rerun has kept some instances started when the others did.
SELECT s.step, count(q.job_id), count(r.job_id),
       coalesce(min(coalesce(r.claimed_at, f.started_at))
                FILTER (WHERE f.started_at IS NULL OR f.started_at >= coalesce(ru.claimed_at, fu.started_at)), min(f.started_at)),
       max(f.ended_at), min(j.id::text) FILTER (WHERE j.idx = 0), max(coalesce(q.attempt, r.attempt, f.attempt)),
       max(greatest(s.since, r.claimed_at, f.ended_at,
                    CASE WHEN q.attempt > 0 THEN coalesce(%(now)s::timestamptz, clock_timestamp()) END)),
       count(*) FILTER (WHERE f.state = 'succeeded'), count(*) FILTER (WHERE f.state = 'failed'),
       count(*) FILTER (WHERE f.state = 'cancelled'), count(*) FILTER (WHERE f.state = 'dropped'),
       count(*) FILTER (WHERE f.state = 'expired')
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
