-- Read runs: when the jobs of their steps ran. Instances beyond `total` are of an earlier generation with a longer
-- list.

-- :step_times
-- A step of which a rerun has kept some instances started when the others did.
WITH began AS MATERIALIZED (
    SELECT coalesce((SELECT claimed_at FROM tickwork.running WHERE job_id = %(run)s::uuid),
                    (SELECT started_at FROM tickwork.finished WHERE job_id = %(run)s::uuid)) AS at
)
SELECT s.step, count(q.job_id), count(r.job_id),
       coalesce(min(coalesce(r.claimed_at, f.started_at))
                FILTER (WHERE f.started_at IS NULL OR f.started_at >= began.at), min(f.started_at)),
       max(f.ended_at), min(j.id::text) FILTER (WHERE j.idx = 0), max(coalesce(q.attempt, r.attempt, f.attempt)),
       max(greatest(s.since, r.claimed_at, f.ended_at,
                    CASE WHEN q.attempt > 0 THEN coalesce(%(now)s::timestamptz, clock_timestamp()) END)),
       count(*) FILTER (WHERE f.state = 'succeeded'), count(*) FILTER (WHERE f.state = 'failed'),
       count(*) FILTER (WHERE f.state = 'cancelled'), count(*) FILTER (WHERE f.state = 'dropped'),
       count(*) FILTER (WHERE f.state = 'expired')
FROM   began
CROSS  JOIN LATERAL (SELECT id, step, idx FROM tickwork.jobs WHERE run = %(run)s::uuid OFFSET 0) j
CROSS  JOIN LATERAL (
    SELECT s.step, s.since FROM tickwork.steps s WHERE s.run = %(run)s::uuid AND s.step = j.step AND j.idx < s.total OFFSET 0
) s
LEFT   JOIN LATERAL (SELECT * FROM tickwork.queue q WHERE q.job_id = j.id OFFSET 0) q ON true
LEFT   JOIN LATERAL (SELECT * FROM tickwork.running r WHERE r.job_id = j.id OFFSET 0) r ON true
LEFT   JOIN LATERAL (SELECT * FROM tickwork.finished f WHERE f.job_id = j.id OFFSET 0) f ON true
GROUP  BY s.step

-- :map_places
SELECT j.id::text, j.idx, s.total
FROM   unnest(%(ids)s::text::uuid[]) AS n (id)
CROSS  JOIN LATERAL (SELECT * FROM tickwork.jobs j WHERE j.id = n.id AND j.run IS NOT NULL OFFSET 0) j
CROSS  JOIN LATERAL (SELECT * FROM tickwork.steps s WHERE s.run = j.run AND s.step = j.step OFFSET 0) s
WHERE  s.mapped

-- :run_instances
SELECT j.step, j.idx, j.id::text, CASE WHEN q.job_id IS NOT NULL THEN 'queued' WHEN r.job_id IS NOT NULL THEN 'running' ELSE f.state END,
       coalesce(q.attempt, r.attempt, f.attempt), coalesce(r.claimed_at, f.started_at), f.ended_at
FROM   tickwork.jobs j
CROSS  JOIN LATERAL (SELECT FROM tickwork.steps s WHERE s.run = j.run AND s.step = j.step AND j.idx < s.total OFFSET 0) s
LEFT   JOIN LATERAL (SELECT * FROM tickwork.queue q WHERE q.job_id = j.id OFFSET 0) q ON true
LEFT   JOIN LATERAL (SELECT * FROM tickwork.running r WHERE r.job_id = j.id OFFSET 0) r ON true
LEFT   JOIN LATERAL (SELECT * FROM tickwork.finished f WHERE f.job_id = j.id OFFSET 0) f ON true
WHERE  j.run = %(run)s::uuid AND (j.step, j.idx) > (%(step)s, %(idx)s::integer)
ORDER  BY j.step, j.idx LIMIT %(limit)s::bigint

-- :waiting_approvals
-- An open step without a job is an approval.
SELECT s.run::text, s.task, s.step, s.reason, s.since
FROM   (SELECT job_id FROM tickwork.running WHERE task = '@dag' ORDER BY job_id DESC LIMIT 100) r
CROSS  JOIN LATERAL (
    SELECT s.run, j.task, s.step, s.reason, s.since FROM tickwork.steps s JOIN tickwork.jobs j ON j.id = s.run
    WHERE  s.run = r.job_id AND s.state = 'open' AND s.total = 1 AND NOT s.mapped
    AND    NOT EXISTS (SELECT FROM tickwork.jobs one WHERE one.run = s.run AND one.step = s.step AND one.idx = 0 OFFSET 0)
    OFFSET 0
) s
LIMIT  %(limit)s::bigint
