-- Flow control: lanes, the stored state of limit keys (limit_keys), holds, limits, gates and tenants.

-- :is_guarded
-- Whether plain claims must take nothing: a gate is in force, a held job may start, or there are limited jobs.
SELECT EXISTS (SELECT 1 FROM tickwork_gates g WHERE (g.until_at IS NULL OR g.until_at > :now)
               AND (g.queue IS NULL OR g.queue IN (SELECT value FROM json_each(:queues))))
    OR EXISTS (SELECT 1 FROM tickwork_limit_states t WHERE t.open_at <= :now)
    OR EXISTS (SELECT 1 FROM json_each(:queues) AS n CROSS JOIN tickwork_queue q ON q.queue >= n.value || ':' AND q.queue < n.value || ';')

-- :gates_in_force
SELECT g.value FROM tickwork_gates g WHERE (g.until_at IS NULL OR g.until_at > :now)
AND    (g.queue IS NULL OR g.queue IN (SELECT value FROM json_each(:queues)))

-- :held_page
-- Held jobs in the order of their lanes, from just after a position on.
SELECT q.job_id, q.queue, q.priority, q.run_at, j.task, j.queue, j.collection, j.labels, j.job_limits
FROM   tickwork_queue q CROSS JOIN tickwork_jobs j ON j.id = q.job_id
WHERE  q.queue < ';' AND (q.queue, q.priority, q.run_at, q.job_id) > (:lane, :priority, :run_at, :job_id)
ORDER  BY q.queue, q.priority, q.run_at, q.job_id LIMIT :limit

-- :neighbours
SELECT id, queues, offer FROM tickwork_workers WHERE state = 'running' AND slots > 0 AND asked IS NULL AND lease_until > ?

-- :weights
SELECT name, weight FROM tickwork_tenants

-- :open_heads
-- The first job of each priority of each lane of open limit keys, with the key and its rule: one statement for all,
-- since there may be hundreds. The last row of a key has no job.
WITH RECURSIVE open AS MATERIALIZED (
    SELECT t.name, coalesce(l.override, l.declared) AS rule, ':' || t.name || char(31) AS first, ':' || t.name || ' ' AS until
    FROM   tickwork_limit_states t LEFT JOIN tickwork_limits l ON l.name = t.bound
    WHERE  t.open_at <= :now ORDER BY t.open_at LIMIT :limit
),
head (name, rule, until, job_id) AS (
    SELECT o.name, o.rule, o.until, (SELECT q.job_id FROM tickwork_queue q WHERE q.queue >= o.first AND q.queue < o.until
                                     ORDER BY q.queue, q.priority, q.run_at, q.job_id LIMIT 1)
    FROM   open o
    UNION ALL
    SELECT h.name, h.rule, h.until, coalesce(
               (SELECT n.job_id FROM tickwork_queue n WHERE n.queue = q.queue AND n.priority > q.priority
                ORDER BY n.priority, n.run_at, n.job_id LIMIT 1),
               (SELECT n.job_id FROM tickwork_queue n WHERE n.queue > q.queue AND n.queue < h.until
                ORDER BY n.queue, n.priority, n.run_at, n.job_id LIMIT 1))
    FROM   head h CROSS JOIN tickwork_queue q ON q.job_id = h.job_id
)
SELECT h.name, h.rule, q.queue, q.priority, q.run_at FROM head h LEFT JOIN tickwork_queue q ON q.job_id = h.job_id

-- :next_opening
SELECT min(open_at) FROM tickwork_limit_states WHERE open_at > ?

-- :next_head
-- The first job of the next priority or lane, in the order of lanes. A comparison of both as a pair would read all jobs
-- of the last place.
SELECT * FROM (SELECT queue, priority, run_at, job_id FROM tickwork_queue WHERE queue = :lane AND priority > :priority
               ORDER BY queue, priority, run_at, job_id LIMIT 1)
UNION ALL
SELECT * FROM (SELECT queue, priority, run_at, job_id FROM tickwork_queue WHERE queue > :lane AND queue < :until
               ORDER BY queue, priority, run_at, job_id LIMIT 1)
LIMIT  1

-- :pick_place
SELECT q.job_id, q.attempt + 1, q.task, q.queue, q.priority, j.args, j.policy, q.run_at, q.failures, q.crashes, q.alone,
       CASE WHEN j.run IS NULL THEN j.occurrence ELSE (SELECT u.occurrence FROM tickwork_jobs u WHERE u.id = j.run) END,
       q.keyed, q.expires_at, q.losses, j.run, j.step, j.inputs, j.trace, j.queue, j.collection, j.labels, j.job_limits, j.task
FROM   tickwork_queue q CROSS JOIN tickwork_jobs j ON j.id = q.job_id
WHERE  q.queue = :lane AND q.priority = :priority AND q.run_at > :after AND q.run_at <= :until
AND    q.task IN (SELECT value FROM json_each(:tasks)) AND (q.expires_at IS NULL OR q.expires_at > :now)
ORDER  BY q.run_at, q.job_id LIMIT :limit

-- :next_in_place
SELECT min(run_at) FROM tickwork_queue WHERE queue = ? AND priority = ? AND run_at > ?

-- :scout
-- A scan step: the next due jobs of a place that are of other kinds than these, in the order in which they are read.
SELECT q.job_id, q.attempt + 1, q.task, q.queue, q.priority, j.args, j.policy, q.run_at, q.failures, q.crashes, q.alone,
       CASE WHEN j.run IS NULL THEN j.occurrence ELSE (SELECT u.occurrence FROM tickwork_jobs u WHERE u.id = j.run) END,
       q.keyed, q.expires_at, q.losses, j.run, j.step, j.inputs, j.trace, j.queue, j.collection, j.labels, j.job_limits, j.task
FROM   (
    SELECT * FROM tickwork_queue q WHERE q.queue = :lane AND q.priority = :priority
    AND    (q.run_at, q.job_id) > (:after, :after_id) AND q.run_at <= :until ORDER BY q.run_at, q.job_id LIMIT :walk
) q CROSS JOIN tickwork_jobs j ON j.id = q.job_id
WHERE  q.task IN (SELECT value FROM json_each(:tasks)) AND (q.expires_at IS NULL OR q.expires_at > :now)
AND    j.task || char(31) || j.queue || char(31) || coalesce(j.collection, char(30)) || char(31) || j.labels || char(31)
       || coalesce(j.job_limits, char(30)) NOT IN (SELECT value FROM json_each(:kinds))
LIMIT  :most

-- :scouted
-- The position up to which the step has read; no row: it has read all.
SELECT q.run_at, q.job_id FROM tickwork_queue q WHERE q.queue = :lane AND q.priority = :priority
AND    (q.run_at, q.job_id) > (:after, :after_id) AND q.run_at <= :until ORDER BY q.run_at, q.job_id LIMIT 1 OFFSET :walk - 1

-- :rules
SELECT name, coalesce(override, declared) FROM tickwork_limits WHERE name IN (SELECT value FROM json_each(?))

-- :states
SELECT name, state FROM tickwork_limit_states WHERE state IS NOT NULL AND name IN (SELECT value FROM json_each(?))

-- :live_weights
-- The live weight of each limit key, counted from running attempts.
SELECT h.limit_key, sum(h.weight)
FROM   json_each(?) AS n CROSS JOIN tickwork_holds h ON h.limit_key = n.value
WHERE  EXISTS (SELECT 1 FROM tickwork_running r WHERE r.job_id = h.job_id AND r.attempt = h.attempt)
GROUP  BY h.limit_key

-- :count_held
SELECT count(*) FROM (SELECT 1 FROM tickwork_queue WHERE queue >= :lane AND queue < :until LIMIT :limit)

-- :is_waiting
-- Whether a job still waits for the same time. A job that was tried and waits again has another run_at.
SELECT 1 FROM tickwork_queue WHERE run_at = ? AND job_id = ?

-- :divert_job
UPDATE tickwork_jobs SET queue = :queue, lane = :lane, job_limits = :job_limits WHERE id = :job_id

-- :park_alike
-- Bulk park: of the due jobs behind one job in its lane, those of the same kind go to the same lane. At most `most` are
-- read.
UPDATE tickwork_queue SET queue = :lane
WHERE  queue = :place AND priority = :priority AND (run_at, job_id) IN (
    SELECT q.run_at, q.job_id FROM (
        SELECT q.run_at, q.job_id, q.expires_at FROM tickwork_queue q
        WHERE  q.queue = :place AND q.priority = :priority AND (q.run_at, q.job_id) > (:run_at, :job_id) AND q.run_at <= :now
        ORDER  BY q.run_at, q.job_id LIMIT :most
    ) q CROSS JOIN tickwork_jobs j ON j.id = q.job_id
    WHERE  j.task = :task AND (q.expires_at IS NULL OR q.expires_at > :now) AND j.queue = :queue
    AND    j.collection IS :collection AND j.labels = :labels AND j.job_limits IS :job_limits
)
RETURNING 1

-- :take_holds
INSERT INTO tickwork_holds (limit_key, job_id, attempt, weight, on_retry) VALUES (?, ?, ?, ?, ?)

-- :returned
-- Jobs of a sequence that have started and wait for another attempt. The hold of the last attempt keeps their place.
SELECT q.run_at, q.job_id
FROM   tickwork_holds h CROSS JOIN tickwork_queue q INDEXED BY tickwork_queue_job ON q.job_id = h.job_id AND q.attempt = h.attempt
WHERE  h.limit_key = ? AND h.on_retry IS NOT NULL

-- :holds_of
SELECT h.limit_key, h.job_id, h.attempt, h.on_retry
FROM   json_each(?) AS a CROSS JOIN tickwork_holds AS h INDEXED BY tickwork_holds_job ON h.job_id = a.value

-- :free_hold
DELETE FROM tickwork_holds WHERE limit_key = ? AND job_id = ? AND attempt = ?

-- :forget_holds_of
DELETE FROM tickwork_holds WHERE job_id = ?

-- :any_waits
SELECT EXISTS (SELECT 1 FROM tickwork_limit_states WHERE waits)

-- :open_freed
UPDATE tickwork_limit_states SET open_at = min(coalesce(open_at, :now), :now)
WHERE  waits AND name IN (SELECT value FROM json_each(:names)) RETURNING name

-- :put_state
INSERT INTO tickwork_limit_states (name, bound, state, waits, open_at) VALUES (:name, :bound, :state, false, NULL)
ON CONFLICT (name) DO UPDATE SET state = excluded.state

-- :put_opening
INSERT INTO tickwork_limit_states (name, bound, state, waits, open_at) VALUES (:name, :bound, NULL, :waits, :open_at)
ON CONFLICT (name) DO UPDATE SET waits = excluded.waits, open_at = excluded.open_at

-- :pass_on
UPDATE tickwork_gates SET passed_on = passed_on + :count WHERE name = :name

-- :declare_limit
INSERT INTO tickwork_limits (name, declared, override) VALUES (:name, :rule, NULL)
ON CONFLICT (name) DO UPDATE SET declared = excluded.declared WHERE declared IS NOT excluded.declared
RETURNING name

-- :override_limit
INSERT INTO tickwork_limits (name, declared, override) VALUES (:name, NULL, :rule)
ON CONFLICT (name) DO UPDATE SET override = excluded.override

-- :reset_limit
UPDATE tickwork_limits SET override = NULL WHERE name = ? RETURNING name

-- :forget_limit
DELETE FROM tickwork_limits WHERE name = ? AND declared IS NULL AND override IS NULL

-- :open_bound
UPDATE tickwork_limit_states SET open_at = :now WHERE bound = :bound AND waits

-- :open_bound_key
UPDATE tickwork_limit_states SET open_at = :open_at WHERE name = :name AND waits

-- :limits
SELECT l.name, l.declared, l.override,
       (SELECT coalesce(sum(h.weight), 0) FROM tickwork_holds h
        WHERE h.limit_key >= l.name || char(30) AND h.limit_key < l.name || char(31) AND EXISTS (SELECT 1 FROM tickwork_running r WHERE r.job_id = h.job_id AND r.attempt = h.attempt)),
       (SELECT count(*) FROM tickwork_limit_states t
        CROSS JOIN tickwork_queue q ON q.queue >= ':' || t.name || char(31) AND q.queue < ':' || t.name || ' '
        WHERE t.bound = l.name AND t.waits)
FROM   tickwork_limits l ORDER BY l.name

-- :limit_keys
-- The keys that hold jobs, that have a state, and under which jobs run; at most `most` of each are read.
SELECT n.name, (SELECT coalesce(l.override, l.declared) FROM tickwork_limits l WHERE l.name = :limit), t.state,
       (SELECT coalesce(sum(h.weight), 0) FROM tickwork_holds h
        WHERE h.limit_key = n.name AND EXISTS (SELECT 1 FROM tickwork_running r WHERE r.job_id = h.job_id AND r.attempt = h.attempt)) AS live,
       (SELECT count(*) FROM (SELECT 1 FROM tickwork_queue q
        WHERE t.waits AND q.queue >= ':' || n.name || char(31) AND q.queue < ':' || n.name || ' ' LIMIT :counted)) AS held,
       CASE WHEN t.waits THEN t.open_at END
FROM   (
    SELECT name FROM (SELECT name FROM tickwork_limit_states WHERE bound = :limit AND waits LIMIT :most)
    UNION
    SELECT name FROM (SELECT name FROM tickwork_limit_states WHERE bound = :limit AND state IS NOT NULL LIMIT :most)
    UNION
    SELECT name FROM (SELECT DISTINCT limit_key AS name FROM tickwork_holds
                      WHERE limit_key >= :limit || char(30) AND limit_key < :limit || char(31) LIMIT :most)
) n LEFT JOIN tickwork_limit_states t ON t.name = n.name
ORDER  BY held DESC, live DESC, n.name LIMIT :most

-- :put_gate
INSERT INTO tickwork_gates (name, value, queue, until_at, since, passed_on) VALUES (:name, :value, :queue, :until, :now, 0)
ON CONFLICT (name) DO UPDATE SET value = excluded.value, until_at = excluded.until_at

-- :delete_gate
DELETE FROM tickwork_gates WHERE name = ?

-- :all_gates
SELECT g.value, g.since, g.passed_on,
       (SELECT count(*) FROM tickwork_queue q
        WHERE q.queue >= ':gate:' || g.name || char(30) || char(31) AND q.queue < ':gate:' || g.name || char(30) || ' ')
FROM   tickwork_gates g WHERE g.until_at IS NULL OR g.until_at > ? ORDER BY g.since, g.name

-- :set_weight
INSERT INTO tickwork_tenants (name, weight) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET weight = excluded.weight

-- :delete_weight
DELETE FROM tickwork_tenants WHERE name = ?

-- :place_of
SELECT queue, priority, run_at FROM tickwork_queue WHERE job_id = ?

-- :opening
SELECT open_at FROM tickwork_limit_states WHERE name = ?

-- :rule_of
SELECT coalesce(override, declared) FROM tickwork_limits WHERE name = ?

-- :standing
-- The tasks with due jobs, by queue. The lane of a held job ends in char(31) and its home lane.
SELECT DISTINCT task, substr(home, 1, instr(home || ':', ':') - 1)
FROM   (SELECT task, substr(queue, instr(queue, char(31)) + 1) AS home FROM tickwork_queue WHERE run_at <= :now)

-- :holders
SELECT h.job_id, h.weight FROM tickwork_holds h
WHERE  h.limit_key = ? AND EXISTS (SELECT 1 FROM tickwork_running r WHERE r.job_id = h.job_id AND r.attempt = h.attempt)
ORDER  BY h.job_id

-- :held_ahead
SELECT count(*) FROM tickwork_queue
WHERE  queue >= :lane AND queue < :until AND (priority, run_at, job_id) < (:priority, :run_at, :job_id)

-- :open_forgotten
-- Opens limit keys that wait for the end of a lease although they have capacity: their wake-up was lost.
UPDATE tickwork_limit_states AS t SET open_at = :now
WHERE  t.waits AND t.open_at IS NULL
AND    NOT EXISTS (SELECT 1 FROM tickwork_gates g WHERE 'gate:' || g.name = t.bound AND (g.until_at IS NULL OR g.until_at > :now))
AND    (SELECT coalesce(sum(h.weight), 0) FROM tickwork_holds h WHERE h.limit_key = t.name
        AND (EXISTS (SELECT 1 FROM tickwork_running r WHERE r.job_id = h.job_id AND r.attempt = h.attempt)
             OR EXISTS (SELECT 1 FROM tickwork_queue q WHERE h.on_retry IS NOT NULL AND q.job_id = h.job_id
                        AND q.attempt = h.attempt AND (h.on_retry = 'wait' OR q.run_at <= :now))))
       < coalesce((SELECT json_extract(coalesce(l.override, l.declared), '$.rule.capacity') FROM tickwork_limits l WHERE l.name = t.bound), 1)
RETURNING name

-- :forget_holds
DELETE FROM tickwork_holds AS h
WHERE  NOT EXISTS (SELECT 1 FROM tickwork_running r WHERE r.job_id = h.job_id AND r.attempt = h.attempt)
AND    NOT EXISTS (SELECT 1 FROM tickwork_queue q WHERE h.on_retry IS NOT NULL AND q.job_id = h.job_id AND q.attempt = h.attempt)

-- :idle_limit_states
SELECT t.name, t.state, coalesce(l.override, l.declared) FROM tickwork_limit_states t
LEFT   JOIN tickwork_limits l ON l.name = t.bound
WHERE  NOT t.waits AND NOT EXISTS (SELECT 1 FROM tickwork_holds h WHERE h.limit_key = t.name) LIMIT ?

-- :forget_limit_states
DELETE FROM tickwork_limit_states WHERE NOT waits AND name IN (SELECT value FROM json_each(?))

-- :forget_gates
DELETE FROM tickwork_gates WHERE until_at <= ?
