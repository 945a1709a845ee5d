-- Flow control: lanes, the stored state of limit keys (limit_keys), holds, limits, gates and tenants. Limits and gates
-- are locked in the order of their names, after rows of the queue. The lane of a job that limit key T holds begins with
-- ':T' and chr(31), which sorts just before a blank: these two bound the range of the lanes of T.

-- :is_guarded
-- Whether plain claims must take nothing: a gate is in force, a held job may start, or there are limited jobs: in
-- lanes between these names, or in lanes that were read before, after the position up to which they were read.
EXISTS (SELECT FROM tickwork.gates g WHERE (g.until_at IS NULL OR g.until_at > clock.now)
        AND (g.queue IS NULL OR g.queue = ANY (%(queues)s::text[])))
OR EXISTS (SELECT FROM tickwork.limit_states t WHERE t.open_at <= clock.now)
OR EXISTS (SELECT FROM unnest(%(firsts)s::text[], %(untils)s::text[]) AS s (first, until) CROSS JOIN LATERAL (
    SELECT FROM tickwork.queue q WHERE q.queue > s.first AND q.queue < s.until
    ORDER  BY q.queue, q.priority, q.run_at, q.job_id LIMIT 1) AS lane)
OR EXISTS (
    SELECT FROM unnest(%(lanes)s::text[], %(lane_priorities)s::smallint[], %(lane_us)s::bigint[], %(lane_ids)s::uuid[])
           AS l (lane, priority, after_us, after_id)
    CROSS  JOIN LATERAL (
        SELECT FROM tickwork.queue q WHERE q.queue = l.lane AND q.priority = l.priority
        AND    (q.run_at, q.job_id) > ('epoch'::timestamptz + l.after_us * interval '1 microsecond', l.after_id)
        ORDER  BY q.run_at, q.job_id LIMIT 1
    ) AS lane)

-- :leased
-- The timeout: a worker that is stopped in the middle of a round must not keep its locks for long.
SELECT (extract(epoch FROM clock.now) * 1000000)::bigint, set_config('idle_in_transaction_session_timeout', '2s', true)
FROM   (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) clock
CROSS  JOIN LATERAL (
    SELECT FROM tickwork.workers w WHERE w.id = %(worker)s AND w.state IN ('running', 'draining') AND w.lease_until > clock.now
) held

-- :hold_worker
-- The lock keeps the reaper away until the claim is committed. It is taken with the first job: a claim that finds
-- nothing writes nothing, and waits for no disk.
SELECT 1
FROM   (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) clock
CROSS  JOIN LATERAL (
    SELECT FROM tickwork.workers w WHERE w.id = %(worker)s AND w.state IN ('running', 'draining') AND w.lease_until > clock.now
    FOR KEY SHARE
) held

-- :held_page
-- Held jobs in the order of their lanes, from just after a position on.
SELECT q.job_id::text, q.lane, q.priority, (extract(epoch FROM q.run_at) * 1000000)::bigint, j.task, j.queue, j.collection,
       j.labels, j.job_limits
FROM (
    SELECT q.job_id, q.queue AS lane, q.priority, q.run_at FROM tickwork.queue q
    WHERE  q.queue < ';' AND (q.queue, q.priority, q.run_at, q.job_id)
           > (%(lane)s, %(priority)s::smallint, 'epoch'::timestamptz + %(run_at)s::bigint * interval '1 microsecond', %(job_id)s::uuid)
    ORDER  BY q.queue, q.priority, q.run_at, q.job_id LIMIT %(limit)s::bigint
) q
CROSS  JOIN LATERAL (SELECT * FROM tickwork.jobs j WHERE j.id = q.job_id OFFSET 0) j
ORDER  BY q.lane, q.priority, q.run_at, q.job_id

-- :surroundings
-- The first data of a round: gates in force, weights of tenants, open limit keys that hold nothing, when the next one
-- opens, and whether any limit key holds a job. One statement, because each would take as long as all of them.
SELECT ARRAY(SELECT g.value FROM tickwork.gates g WHERE (g.until_at IS NULL OR g.until_at > clock.now)
             AND (g.queue IS NULL OR g.queue = ANY (%(queues)s::text[]))),
       ARRAY(SELECT t.name FROM tickwork.tenants t ORDER BY t.name), ARRAY(SELECT t.weight FROM tickwork.tenants t ORDER BY t.name),
       ARRAY(SELECT t.name FROM tickwork.limit_states t WHERE t.open_at <= clock.now AND NOT EXISTS (
                 SELECT FROM tickwork.queue q WHERE q.queue >= ':' || t.name || chr(31) AND q.queue < ':' || t.name || ' ' OFFSET 0)
             LIMIT %(limit)s::bigint),
       (SELECT (extract(epoch FROM min(t.open_at)) * 1000000)::bigint FROM tickwork.limit_states t WHERE t.open_at > clock.now),
       EXISTS (SELECT FROM tickwork.limit_states t WHERE t.waits)
FROM   (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) clock

-- :neighbours
SELECT id, queues, offer FROM tickwork.workers
WHERE  state = 'running' AND state <> 'remote' AND slots > 0 AND asked IS NULL AND lease_until > coalesce(%(now)s::timestamptz, clock_timestamp())

-- :weights
SELECT name, weight FROM tickwork.tenants

-- :heads
-- The first job of each priority of each lane between these names, and of all lanes of open limit keys. The recursion
-- steps from one lane to the next, so that the jobs in between cost nothing. Then the first job of each place of plain
-- jobs, and of lanes that were read before, after the position up to which they were read (see
-- store/postgres/claim/claim_cursor.py).
WITH RECURSIVE clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now),
open AS MATERIALIZED (
    SELECT t.name, (SELECT coalesce(l.override, l.declared) FROM tickwork.limits l WHERE l.name = t.bound) AS rule
    FROM   tickwork.limit_states t WHERE t.open_at <= (SELECT now FROM clock) ORDER BY t.open_at LIMIT %(limit)s::bigint
),
span AS MATERIALIZED (
    SELECT s.first, s.until, NULL::text AS rule FROM unnest(%(firsts)s::text[], %(untils)s::text[]) AS s (first, until)
    UNION ALL
    SELECT ':' || o.name || chr(31), ':' || o.name || ' ', o.rule FROM open o
),
-- include heads_of_spans
UNION ALL
SELECT p.queue, p.priority, (extract(epoch FROM first.run_at) * 1000000)::bigint, NULL
FROM   unnest(%(places)s::text[], %(priorities)s::smallint[], %(after_us)s::bigint[], %(after_ids)s::uuid[])
       AS p (queue, priority, after_us, after_id)
CROSS  JOIN LATERAL (
    SELECT q.run_at FROM tickwork.queue q WHERE q.queue = p.queue AND q.priority = p.priority
    AND    (q.run_at, q.job_id) > ('epoch'::timestamptz + p.after_us * interval '1 microsecond', p.after_id)
    ORDER  BY q.run_at, q.job_id LIMIT 1
) first

-- :heads_of_spans
head AS (
    SELECT s.until, s.rule, q.queue, q.priority, q.run_at
    FROM   span s
    CROSS  JOIN LATERAL (
        SELECT q.queue, q.priority, q.run_at FROM tickwork.queue q WHERE q.queue > s.first AND q.queue < s.until
        ORDER  BY q.queue, q.priority, q.run_at, q.job_id LIMIT 1
    ) q
    UNION ALL
    SELECT h.until, h.rule, q.queue, q.priority, q.run_at
    FROM   head h
    CROSS  JOIN LATERAL (
        SELECT q.queue, q.priority, q.run_at FROM tickwork.queue q
        WHERE  (q.queue, q.priority) > (h.queue, h.priority) AND q.queue < h.until
        ORDER  BY q.queue, q.priority, q.run_at, q.job_id LIMIT 1
    ) q
)
SELECT queue, priority, (extract(epoch FROM run_at) * 1000000)::bigint, rule FROM head

-- :waiting_bounds
-- The limits under which jobs are held.
SELECT n.name FROM unnest(%(limits)s::text[]) AS n (name)
WHERE  EXISTS (SELECT FROM tickwork.limit_states t WHERE t.bound = n.name AND t.waits OFFSET 0)

-- :freed_heads
-- Like heads, for limit keys that hold jobs and are not open.
WITH RECURSIVE span AS MATERIALIZED (
    SELECT ':' || t.name || chr(31) AS first, ':' || t.name || ' ' AS until,
           (SELECT coalesce(l.override, l.declared) FROM tickwork.limits l WHERE l.name = t.bound) AS rule
    FROM   tickwork.limit_states t WHERE t.name = ANY (%(names)s::text[]) AND t.waits
    AND    (t.open_at IS NULL OR t.open_at > coalesce(%(now)s::timestamptz, clock_timestamp()))
),
-- include heads_of_spans

-- :pick_places
-- Each group picks from its places in their order, until it has enough. From a lane in which order counts one claim at
-- a time picks: another would skip the rows that this one has locked. The first pick of a round has waited for its turn
-- there (see lock_lanes); a second pick must not wait, because the other round may wait for this one, and leaves such a
-- lane out. Jobs that a limit key holds are left out if another round has closed it since this one read it: its next
-- job would have to wait again.
-- include pick_requests
    WHERE  NOT w.in_order OR pg_try_advisory_xact_lock(hashtextextended(w.lane, 7))
-- include pick_due
            FOR UPDATE SKIP LOCKED
-- include pick_result

-- :forecast_places
-- Like pick_places, for a forecast, which takes no locks: it must not block claims.
-- include pick_requests
-- include pick_due
-- include pick_result

-- :pick_requests
WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now),
wish AS MATERIALIZED (
    SELECT w.* FROM unnest(%(groups)s::integer[], %(of_groups)s::bigint[], %(lanes)s::text[], %(priorities)s::smallint[],
                           %(mosts)s::bigint[], %(in_order)s::boolean[], %(graces_us)s::bigint[], %(after_us)s::bigint[],
                           %(after_ids)s::uuid[], %(limit_keys)s::text[])
           WITH ORDINALITY
           AS w (grp, of_group, lane, priority, most, in_order, grace_us, after_us, after_id, limit_key, rank)

-- :pick_due
),
picked AS MATERIALIZED (
    SELECT due.*
    FROM   (SELECT DISTINCT w.grp, w.of_group FROM wish w ORDER BY w.grp) g
    CROSS  JOIN LATERAL (
        SELECT w.rank, q.*
        FROM   (SELECT * FROM wish w WHERE w.grp = g.grp ORDER BY w.rank) w
        CROSS  JOIN LATERAL (
            SELECT WHERE w.limit_key IS NULL
            OR     (SELECT t.open_at <= (SELECT now FROM clock) FROM tickwork.limit_states t WHERE t.name = w.limit_key)
        ) open
        CROSS  JOIN LATERAL (
            SELECT q.ctid AS place, q.job_id, q.attempt + 1 AS attempt, q.task, q.queue AS lane, q.priority, q.run_at,
                   q.failures, q.crashes, q.alone, q.keyed, q.expires_at, q.losses
            FROM   tickwork.queue q
            WHERE  q.queue = w.lane AND q.priority = w.priority
            AND    (q.run_at, q.job_id) > ('epoch'::timestamptz + w.after_us * interval '1 microsecond', w.after_id)
            AND    q.run_at <= (SELECT now FROM clock) - w.grace_us * interval '1 microsecond'
            AND    q.task = ANY (%(tasks)s::text[]) AND (q.expires_at IS NULL OR q.expires_at > (SELECT now FROM clock))
            ORDER  BY q.run_at, q.job_id
            LIMIT  w.most

-- :pick_result
        ) q
        LIMIT  g.of_group
    ) due
)
SELECT
-- include picked_columns
FROM   picked p CROSS JOIN LATERAL (SELECT * FROM tickwork.jobs j WHERE j.id = p.job_id OFFSET 0) j
ORDER  BY p.rank, p.run_at, p.job_id

-- :lock_lanes
-- Wait for other claims of lanes in which order counts. All rounds lock these in one order, before limits.
SELECT pg_advisory_xact_lock(hashtextextended(n.lane, 7))
FROM   (SELECT DISTINCT l.lane COLLATE "C" AS lane FROM unnest(%(lanes)s::text[]) AS l (lane) ORDER BY 1) n

-- :picked_columns
       p.job_id::text, p.attempt, p.task, p.lane, p.priority, j.args, j.policy, (extract(epoch FROM p.run_at) * 1000000)::bigint,
       p.failures, p.crashes, p.alone,
       CASE WHEN j.run IS NULL THEN j.occurrence ELSE (SELECT u.occurrence FROM tickwork.jobs u WHERE u.id = j.run) END, p.keyed, (extract(epoch FROM p.expires_at) * 1000000)::bigint, p.losses,
       j.run::text, j.step, j.inputs, j.trace, j.queue, j.collection, j.labels, j.job_limits, j.task, p.place::text

-- :next_due
SELECT (extract(epoch FROM min(next.run_at)) * 1000000)::bigint
FROM   unnest(%(lanes)s::text[], %(priorities)s::smallint[]) AS p (lane, priority)
CROSS  JOIN LATERAL (
    SELECT q.run_at FROM tickwork.queue q WHERE q.queue = p.lane AND q.priority = p.priority
    AND    q.run_at > 'epoch'::timestamptz + %(now_us)s::bigint * interval '1 microsecond'
    ORDER  BY q.run_at, q.job_id LIMIT 1
) next

-- :scout
-- A scan step: the next due jobs of a place that are of other kinds than these and that no other claim has locked, and
-- the position up to which it has read, unless it has read all. The position is returned even without jobs. Nothing is
-- sorted: `walked` returns its rows in order, and only as many as are needed.
WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now),
walked AS MATERIALIZED (
    SELECT q.ctid AS place, q.job_id, q.task, q.run_at, q.expires_at FROM tickwork.queue q
    WHERE  q.queue = %(lane)s AND q.priority = %(priority)s::smallint
    AND    (q.run_at, q.job_id) > ('epoch'::timestamptz + %(after_us)s::bigint * interval '1 microsecond', %(after_id)s::uuid)
    AND    q.run_at <= 'epoch'::timestamptz + %(until_us)s::bigint * interval '1 microsecond'
    ORDER  BY q.run_at, q.job_id LIMIT %(walk)s::bigint
),
other AS MATERIALIZED (
    SELECT w.place, w.job_id, w.run_at
    FROM   walked w CROSS JOIN LATERAL (SELECT * FROM tickwork.jobs j WHERE j.id = w.job_id OFFSET 0) j
    WHERE  w.task = ANY (%(tasks)s::text[]) AND (w.expires_at IS NULL OR w.expires_at > (SELECT now FROM clock))
    AND    concat_ws(chr(31), j.task, j.queue, coalesce(j.collection, chr(30)), j.labels, coalesce(j.job_limits, chr(30)))
           <> ALL (%(kinds)s::text[])
),
picked AS MATERIALIZED (
    SELECT q.* FROM other o CROSS JOIN LATERAL (
        SELECT q.ctid AS place, q.job_id, q.attempt + 1 AS attempt, q.task, q.queue AS lane, q.priority, q.run_at,
               q.failures, q.crashes, q.alone, q.keyed, q.expires_at, q.losses
        FROM   tickwork.queue q WHERE q.ctid = o.place AND q.job_id = o.job_id
        FOR UPDATE SKIP LOCKED
    ) q
    LIMIT  %(most)s::bigint
),
reached AS MATERIALIZED (
    (SELECT p.run_at, p.job_id FROM picked p LIMIT 1 OFFSET %(most)s::bigint - 1)
    UNION ALL
    (SELECT w.run_at, w.job_id FROM walked w WHERE (SELECT count(*) FROM picked) < %(most)s::bigint
     LIMIT  1 OFFSET %(walk)s::bigint - 1)
)
SELECT
-- include picked_columns
       , (SELECT (extract(epoch FROM r.run_at) * 1000000)::bigint FROM reached r), (SELECT r.job_id::text FROM reached r)
FROM   clock
LEFT   JOIN (picked p CROSS JOIN LATERAL (SELECT * FROM tickwork.jobs j WHERE j.id = p.job_id OFFSET 0) j) ON true
ORDER  BY p.run_at, p.job_id

-- :lock_limits
-- A round that decides by a limit locks it alone. If a gate is lifted at this moment, its row is gone once it is
-- locked.
SELECT l.name FROM (SELECT n.name COLLATE "C" AS name FROM unnest(%(limits)s::text[]) AS n (name) ORDER BY 1) n
CROSS  JOIN LATERAL (SELECT l.name FROM tickwork.limits l WHERE l.name = n.name FOR NO KEY UPDATE) l

-- :lock_gates
SELECT g.name FROM (SELECT n.name COLLATE "C" AS name FROM unnest(%(gates)s::text[]) AS n (name) ORDER BY 1) n
CROSS  JOIN LATERAL (
    SELECT g.name FROM tickwork.gates g WHERE g.name = n.name
    AND    (g.until_at IS NULL OR g.until_at > coalesce(%(now)s::timestamptz, clock_timestamp()))
    FOR NO KEY UPDATE
) g

-- :known_limits
-- Like lock_limits, for a forecast.
SELECT l.name FROM tickwork.limits l WHERE l.name = ANY (%(limits)s::text[])

-- :known_gates
-- Like lock_gates, for a forecast.
SELECT g.name FROM tickwork.gates g
WHERE  g.name = ANY (%(gates)s::text[]) AND (g.until_at IS NULL OR g.until_at > coalesce(%(now)s::timestamptz, clock_timestamp()))

-- :rules
-- Read after the limits are locked.
SELECT l.name, coalesce(l.override, l.declared) FROM tickwork.limits l WHERE l.name = ANY (%(limits)s::text[])

-- :states
SELECT t.name, t.state FROM tickwork.limit_states t WHERE t.name = ANY (%(names)s::text[]) AND t.state IS NOT NULL

-- :live_weights
-- The live weight of each limit key, counted from running attempts, and its first live hold.
SELECT n.name, h.weight, h.first
FROM   unnest(%(names)s::text[], %(afters)s::bigint[]) AS n (name, after)
CROSS  JOIN LATERAL (
    SELECT coalesce(sum(h.weight), 0)::bigint AS weight, min(h.number) AS first
    FROM   tickwork.holds h WHERE h.limit_key = n.name AND h.number > n.after
    AND    EXISTS (SELECT FROM tickwork.running r WHERE r.job_id = h.job_id AND r.attempt = h.attempt OFFSET 0) OFFSET 0
) h

-- :returned
-- Jobs of sequences that have started and wait for another attempt, with the number of their last attempt's hold. Read
-- after live_weights, so that an attempt that ends in between appears in at least one of the two.
SELECT n.name, h.number, (extract(epoch FROM q.run_at) * 1000000)::bigint, h.job_id::text
FROM   unnest(%(names)s::text[], %(afters)s::bigint[]) AS n (name, after)
CROSS  JOIN LATERAL (
    SELECT h.number, h.job_id, h.attempt FROM tickwork.holds h
    WHERE  h.limit_key = n.name AND h.number > n.after AND h.on_retry IS NOT NULL OFFSET 0
) h
CROSS  JOIN LATERAL (SELECT q.run_at FROM tickwork.queue q WHERE q.job_id = h.job_id AND q.attempt = h.attempt OFFSET 0) q

-- :hold_counts
-- Whether a hold counts: its attempt runs, or it keeps the place of a job in a sequence that waits for another attempt.
(EXISTS (SELECT FROM tickwork.running r WHERE r.job_id = h.job_id AND r.attempt = h.attempt OFFSET 0)
 OR (h.on_retry IS NOT NULL AND EXISTS (
     SELECT FROM tickwork.queue q WHERE q.job_id = h.job_id AND q.attempt = h.attempt
     AND    (h.on_retry = 'wait' OR q.run_at <= coalesce(%(now)s::timestamptz, clock_timestamp())) OFFSET 0)))

-- :count_held
SELECT n.name, (SELECT count(*) FROM (
    SELECT FROM tickwork.queue q WHERE q.queue >= ':' || n.name || chr(31) AND q.queue < ':' || n.name || ' '
    LIMIT  n.most) AS held)
FROM   unnest(%(picked)s::text[], %(mosts)s::bigint[]) AS n (name, most)

-- :held_firsts
-- The first job, by time, that each limit key holds.
WITH RECURSIVE head AS (
    SELECT n.name, q.queue, q.priority, q.run_at, q.job_id
    FROM   unnest(%(names)s::text[]) AS n (name)
    CROSS  JOIN LATERAL (
        SELECT q.* FROM tickwork.queue q WHERE q.queue >= ':' || n.name || chr(31) AND q.queue < ':' || n.name || ' '
        ORDER  BY q.queue, q.priority, q.run_at, q.job_id LIMIT 1
    ) q
    UNION ALL
    SELECT h.name, q.queue, q.priority, q.run_at, q.job_id
    FROM   head h
    CROSS  JOIN LATERAL (
        SELECT q.* FROM tickwork.queue q WHERE (q.queue, q.priority) > (h.queue, h.priority) AND q.queue < ':' || h.name || ' '
        ORDER  BY q.queue, q.priority, q.run_at, q.job_id LIMIT 1
    ) q
)
SELECT DISTINCT ON (name) name, (extract(epoch FROM run_at) * 1000000)::bigint, job_id::text FROM head
ORDER  BY name, run_at, job_id

-- :still_waiting
-- The jobs that still wait for the same time. A job that was tried and waits again has another run_at.
SELECT n.id::text FROM unnest(%(ids)s::uuid[], %(runs_us)s::bigint[]) AS n (id, run_us)
WHERE  EXISTS (SELECT FROM tickwork.queue q WHERE q.job_id = n.id
               AND q.run_at = 'epoch'::timestamptz + n.run_us * interval '1 microsecond' OFFSET 0)

-- :start_picked
-- The lane in running is the job's home lane, to which it returns when it is queued again: the part after chr(31) for a
-- held job.
WITH gone AS (DELETE FROM tickwork.queue q WHERE q.ctid = ANY (%(places)s::text::tid[]) RETURNING q.*)
INSERT INTO tickwork.running
       (job_id, attempt, worker, queue, priority, task, run_at, claimed_at, failures, crashes, alone, keyed, expires_at,
        claim, losses)
SELECT g.job_id, g.attempt + 1, %(worker)s, split_part(g.queue, chr(31), -1), g.priority, g.task, g.run_at,
       'epoch'::timestamptz + %(now_us)s::text::bigint * interval '1 microsecond', g.failures, g.crashes, g.alone, g.keyed,
       g.expires_at, %(claim)s::text::bigint, g.losses
FROM   gone g

-- :park_picked
-- `count(*) >= 0` is always true; it makes the INSERT wait for the DELETE.
WITH gone AS (DELETE FROM tickwork.queue q WHERE q.ctid = ANY (%(places)s::text::tid[]) RETURNING 1)
-- include insert_into_queue
SELECT p.job_id, p.lane, p.priority, 'epoch'::timestamptz + p.run_at_us * interval '1 microsecond', p.task, p.attempt - 1,
       p.failures, p.crashes, p.alone, p.keyed, 'epoch'::timestamptz + p.expires_us * interval '1 microsecond', p.losses
FROM   unnest(%(ids)s::text::uuid[], %(attempts)s::text::integer[], %(lanes)s::text::text[], %(priorities)s::text::smallint[],
              %(tasks)s::text::text[], %(runs_us)s::text::bigint[], %(failures)s::text::integer[],
              %(crashes)s::text::integer[], %(alone)s::text::boolean[], %(keyed)s::text::boolean[],
              %(expires_us)s::text::bigint[], %(losses)s::text::integer[])
       AS p (job_id, attempt, lane, priority, task, run_at_us, failures, crashes, alone, keyed, expires_us, losses)
WHERE  (SELECT count(*) FROM gone) >= 0

-- :park_alike
-- Bulk park: of the due jobs behind one job in its lane, those of the same kind go to the same lane. At most `most` are
-- read; jobs that another claim has locked stay.
WITH behind AS MATERIALIZED (
    SELECT q.ctid AS place, q.job_id FROM tickwork.queue q
    WHERE  q.queue = %(place)s AND q.priority = %(priority)s::smallint
    AND    (q.run_at, q.job_id) > ('epoch'::timestamptz + %(run_us)s::bigint * interval '1 microsecond', %(job_id)s::uuid)
    AND    q.run_at <= coalesce(%(now)s::timestamptz, clock_timestamp())
    ORDER  BY q.run_at, q.job_id LIMIT %(most)s::bigint
),
alike AS MATERIALIZED (
    SELECT q.* FROM behind b
    CROSS  JOIN LATERAL (
        SELECT FROM tickwork.jobs j
        WHERE  j.id = b.job_id AND j.task = %(task)s AND j.queue = %(queue)s AND j.collection IS NOT DISTINCT FROM %(collection)s
        AND    j.labels = %(labels)s AND j.job_limits IS NOT DISTINCT FROM %(job_limits)s OFFSET 0
    ) j
    CROSS  JOIN LATERAL (
        SELECT q.ctid AS place, q.* FROM tickwork.queue q WHERE q.ctid = b.place AND q.job_id = b.job_id
        AND    (q.expires_at IS NULL OR q.expires_at > coalesce(%(now)s::timestamptz, clock_timestamp()))
        FOR UPDATE SKIP LOCKED
    ) q
),
gone AS (DELETE FROM tickwork.queue q WHERE q.ctid = ANY (ARRAY(SELECT a.place FROM alike a)) RETURNING 1),
moved AS (
    -- include insert_into_queue
    SELECT a.job_id, %(lane)s, a.priority, a.run_at, a.task, a.attempt, a.failures, a.crashes, a.alone, a.keyed, a.expires_at,
           a.losses
    FROM   alike a WHERE (SELECT count(*) FROM gone) >= 0 RETURNING 1
)
SELECT count(*) FROM moved

-- :take_holds
-- The numbers are higher than those of all earlier holds of these keys, because the limits are locked.
WITH taken AS (
    INSERT INTO tickwork.holds (limit_key, job_id, attempt, weight, on_retry)
    SELECT h.* FROM unnest(%(names)s::text[], %(ids)s::uuid[], %(attempts)s::integer[], %(weights)s::integer[],
                           %(on_retry)s::text[])
           AS h (name, id, attempt, weight, on_retry)
    RETURNING number
)
SELECT min(number) FROM taken

-- :put_states
-- The upsert finds each row by its name, whatever the table's statistics say.
INSERT INTO tickwork.limit_states (name, bound, state, waits)
SELECT n.name, n.bound, n.state, false
FROM   unnest(%(names)s::text[], %(bounds)s::text[], %(states)s::text[]) AS n (name, bound, state)
ON CONFLICT (name) DO UPDATE SET state = excluded.state

-- :put_openings
INSERT INTO tickwork.limit_states (name, bound, waits, open_at)
SELECT n.name, n.bound, n.waits, 'epoch'::timestamptz + n.open_us * interval '1 microsecond'
FROM   unnest(%(names)s::text[], %(bounds)s::text[], %(waits)s::boolean[], %(opens_us)s::bigint[])
       AS n (name, bound, waits, open_us)
ON CONFLICT (name) DO UPDATE SET waits = excluded.waits, open_at = excluded.open_at

-- :open_freed
-- Runs after the commit of a finish, so it sees every job that was parked before.
UPDATE tickwork.limit_states t SET open_at = coalesce(%(now)s::timestamptz, clock_timestamp())
WHERE  t.name = ANY (%(names)s::text[]) AND t.waits RETURNING t.name

-- :open_emptier
-- Runs after the commit of a round: opens limit keys whose live weight is lower than the round found it, because an
-- attempt has ended meanwhile.
UPDATE tickwork.limit_states t SET open_at = coalesce(%(now)s::timestamptz, clock_timestamp())
WHERE  t.waits AND t.name = ANY (ARRAY(
    SELECT n.name FROM unnest(%(names)s::text[], %(live)s::bigint[], %(afters)s::bigint[]) AS n (name, live, after)
    WHERE  n.live > coalesce((
        SELECT sum(h.weight) FROM tickwork.holds h WHERE h.limit_key = n.name AND h.number > n.after AND
        -- include hold_counts
        ), 0)))

-- :divert_job
UPDATE tickwork.jobs SET queue = %(queue)s, lane = %(lane)s, job_limits = %(job_limits)s WHERE id = %(id)s::uuid

-- :pass_on
UPDATE tickwork.gates g SET passed_on = g.passed_on + %(count)s::bigint WHERE g.name = %(name)s

-- :freed_holds
-- The holds of ended attempts are deleted. Plain jobs have no colon in their lane, and no holds. A job that is queued
-- again keeps its place in a sequence; where others may pass it meanwhile, they are released.
gone_holds AS (
    DELETE FROM tickwork.holds h
    WHERE  h.job_id = ANY (ARRAY(SELECT c.job_id FROM closed c WHERE position(':' IN c.queue) > 0))
    AND    (h.on_retry IS NULL OR h.job_id <> ALL (ARRAY(SELECT a.job_id FROM again a)))
    RETURNING h.limit_key
),
freed_holds AS (
    SELECT g.limit_key FROM gone_holds g
    UNION ALL
    SELECT h.limit_key FROM tickwork.holds h
    WHERE  h.job_id = ANY (ARRAY(SELECT a.job_id FROM again a WHERE position(':' IN a.queue) > 0)) AND h.on_retry = 'pass'
),

-- :declare_limits
INSERT INTO tickwork.limits AS l (name, declared)
SELECT d.name, d.rule FROM json_to_recordset(%(limits)s::json) AS d (name text, rule text) ORDER BY d.name
ON CONFLICT (name) DO UPDATE SET declared = excluded.declared WHERE l.declared IS DISTINCT FROM excluded.declared
RETURNING l.name

-- :override_limit
INSERT INTO tickwork.limits AS l (name, override) VALUES (%(name)s, %(rule)s)
ON CONFLICT (name) DO UPDATE SET override = excluded.override

-- :reset_limit
UPDATE tickwork.limits SET override = NULL WHERE name = %(name)s RETURNING name

-- :forget_limit
DELETE FROM tickwork.limits WHERE name = %(name)s AND declared IS NULL AND override IS NULL

-- :open_bound
-- Runs once the limit or gate is changed, and so locked: it sees every job that was parked under the old rule.
UPDATE tickwork.limit_states t SET open_at = coalesce(%(now)s::timestamptz, clock_timestamp())
WHERE  t.bound = ANY (%(bounds)s::text[]) AND t.waits

-- :open_limit_key
UPDATE tickwork.limit_states t SET open_at = 'epoch'::timestamptz + %(open_us)s::bigint * interval '1 microsecond'
WHERE  t.name = %(name)s AND t.waits

-- :limits
SELECT l.name, l.declared, l.override,
       (SELECT coalesce(sum(h.weight), 0)::bigint FROM tickwork.holds h
        WHERE h.limit_key >= l.name || chr(30) AND h.limit_key < l.name || chr(31)
        AND   EXISTS (SELECT FROM tickwork.running r WHERE r.job_id = h.job_id AND r.attempt = h.attempt OFFSET 0)),
       (SELECT count(*) FROM tickwork.limit_states t CROSS JOIN LATERAL (
            SELECT FROM tickwork.queue q WHERE q.queue >= ':' || t.name || chr(31) AND q.queue < ':' || t.name || ' ' OFFSET 0) q
        WHERE t.bound = l.name AND t.waits)
FROM   tickwork.limits l ORDER BY l.name

-- :limit_keys
-- The keys that hold jobs, that have a state, and under which jobs run; at most `most` of each are read.
SELECT n.name, (SELECT coalesce(l.override, l.declared) FROM tickwork.limits l WHERE l.name = %(limit)s), t.state, h.live, q.held,
       CASE WHEN t.waits THEN t.open_at END
FROM   (
    (SELECT name FROM tickwork.limit_states WHERE bound = %(limit)s AND waits LIMIT %(most)s::bigint)
    UNION
    (SELECT name FROM tickwork.limit_states WHERE bound = %(limit)s AND state IS NOT NULL LIMIT %(most)s::bigint)
    UNION
    (SELECT DISTINCT limit_key FROM tickwork.holds
     WHERE limit_key >= %(limit)s || chr(30) AND limit_key < %(limit)s || chr(31) LIMIT %(most)s::bigint)
) n
LEFT   JOIN LATERAL (SELECT * FROM tickwork.limit_states t WHERE t.name = n.name OFFSET 0) t ON true
CROSS  JOIN LATERAL (
    SELECT coalesce(sum(h.weight), 0)::bigint AS live FROM tickwork.holds h
    WHERE  h.limit_key = n.name
    AND    EXISTS (SELECT FROM tickwork.running r WHERE r.job_id = h.job_id AND r.attempt = h.attempt OFFSET 0) OFFSET 0) h
CROSS  JOIN LATERAL (
    SELECT count(*) AS held FROM (
        SELECT FROM tickwork.queue q
        WHERE  t.waits AND q.queue >= ':' || n.name || chr(31) AND q.queue < ':' || n.name || ' ' LIMIT %(counted)s::bigint) q OFFSET 0) q
ORDER  BY q.held DESC, h.live DESC, n.name LIMIT %(most)s::bigint

-- :put_gate
INSERT INTO tickwork.gates AS g (name, value, queue, until_at, since, passed_on)
SELECT %(name)s, %(value)s, %(queue)s, 'epoch'::timestamptz + %(until_us)s::bigint * interval '1 microsecond',
       coalesce(%(now)s::timestamptz, clock_timestamp()), 0
ON CONFLICT (name) DO UPDATE SET value = excluded.value, until_at = excluded.until_at

-- :delete_gates
DELETE FROM tickwork.gates WHERE name = ANY (%(names)s::text[])

-- :all_gates
SELECT g.value, g.since, g.passed_on,
       (SELECT count(*) FROM tickwork.queue q
        WHERE q.queue >= ':gate:' || g.name || chr(30) || chr(31) AND q.queue < ':gate:' || g.name || chr(30) || ' ')
FROM   tickwork.gates g
WHERE  g.until_at IS NULL OR g.until_at > coalesce(%(now)s::timestamptz, clock_timestamp()) ORDER BY g.since, g.name

-- :set_weight
INSERT INTO tickwork.tenants (name, weight) VALUES (%(name)s, %(weight)s::integer)
ON CONFLICT (name) DO UPDATE SET weight = excluded.weight

-- :delete_weight
DELETE FROM tickwork.tenants WHERE name = %(name)s

-- :place_of
SELECT q.queue, q.run_at <= coalesce(%(now)s::timestamptz, clock_timestamp()) FROM tickwork.queue q
WHERE  q.job_id = %(job_id)s::uuid

-- :opening
SELECT (extract(epoch FROM t.open_at) * 1000000)::bigint, t.open_at <= coalesce(%(now)s::timestamptz, clock_timestamp())
FROM   tickwork.limit_states t WHERE t.name = %(name)s

-- :rule_of
SELECT coalesce(override, declared) FROM tickwork.limits WHERE name = %(name)s

-- :standing
-- The tasks with due jobs, by queue.
SELECT DISTINCT q.task, split_part(split_part(q.queue, chr(31), -1), ':', 1) FROM tickwork.queue q
WHERE  q.run_at <= coalesce(%(now)s::timestamptz, clock_timestamp())

-- :now_us
SELECT (extract(epoch FROM coalesce(%(now)s::timestamptz, clock_timestamp())) * 1000000)::bigint

-- :holders
SELECT h.job_id::text, h.weight FROM tickwork.holds h
WHERE  h.limit_key = %(name)s
AND    EXISTS (SELECT FROM tickwork.running r WHERE r.job_id = h.job_id AND r.attempt = h.attempt OFFSET 0)
ORDER  BY h.job_id

-- :held_ahead
SELECT count(*) FROM tickwork.queue q
CROSS  JOIN (SELECT * FROM tickwork.queue o WHERE o.job_id = %(job_id)s::uuid) me
WHERE  q.queue >= %(lane)s AND q.queue < %(until)s
AND    (q.priority, q.run_at, q.job_id) < (me.priority, me.run_at, me.job_id)

-- :open_forgotten
-- Opens limit keys that wait for the end of a lease although they have capacity: their wake-up was lost.
UPDATE tickwork.limit_states t SET open_at = coalesce(%(now)s::timestamptz, clock_timestamp())
WHERE  t.waits AND t.open_at IS NULL
AND    NOT EXISTS (SELECT FROM tickwork.gates g WHERE 'gate:' || g.name = t.bound
                   AND (g.until_at IS NULL OR g.until_at > coalesce(%(now)s::timestamptz, clock_timestamp())))
AND    coalesce((SELECT sum(h.weight) FROM tickwork.holds h WHERE h.limit_key = t.name AND
                 -- include hold_counts
                 ), 0)
       < coalesce((SELECT (coalesce(l.override, l.declared)::json -> 'rule' ->> 'capacity')::bigint
                   FROM tickwork.limits l WHERE l.name = t.bound), 1)
RETURNING t.name

-- :forget_holds
DELETE FROM tickwork.holds h
WHERE  NOT EXISTS (SELECT FROM tickwork.running r WHERE r.job_id = h.job_id AND r.attempt = h.attempt OFFSET 0)
AND    NOT (h.on_retry IS NOT NULL AND EXISTS (SELECT FROM tickwork.queue q WHERE q.job_id = h.job_id AND q.attempt = h.attempt OFFSET 0))

-- :idle_limit_states
SELECT t.name, t.state, (SELECT coalesce(l.override, l.declared) FROM tickwork.limits l WHERE l.name = t.bound)
FROM   tickwork.limit_states t
WHERE  NOT t.waits AND NOT EXISTS (SELECT FROM tickwork.holds h WHERE h.limit_key = t.name OFFSET 0)
LIMIT  %(limit)s::bigint FOR UPDATE SKIP LOCKED

-- :forget_limit_states
-- The limit keys that idle_limit_states has locked.
DELETE FROM tickwork.limit_states t WHERE t.name = ANY (%(names)s::text[])

-- :forget_gates
DELETE FROM tickwork.gates WHERE until_at <= coalesce(%(now)s::timestamptz, clock_timestamp())
