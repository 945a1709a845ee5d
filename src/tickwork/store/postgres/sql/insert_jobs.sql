-- New jobs: a row in jobs and a row in queue; an id that exists already changes nothing. Plain jobs have statements of
-- their own, without the columns of limits, runs and steps: enqueues are the most frequent writes.

-- :insert_into_queue
-- Every row of the queue is written with these columns.
INSERT INTO tickwork.queue (job_id, queue, priority, run_at, task, attempt, failures, crashes, alone, keyed, expires_at, losses)

-- :is_current
SELECT 1 FROM tickwork.running WHERE job_id = %(job_id)s::uuid AND claim = %(claim)s::bigint

-- :hold_current
-- The lock makes the fence exact: the attempt cannot be reclaimed before the jobs that it enqueues are stored.
SELECT 1 FROM tickwork.running WHERE job_id = %(job_id)s::uuid AND claim = %(claim)s::bigint FOR KEY SHARE

-- :insert_job
-- One job without a key or an occurrence: the same as insert_jobs, in the form that takes the server least time.
WITH new AS (
    INSERT INTO tickwork.jobs
           (id, task, queue, priority, args, policy, collection, labels, parent, trace, creator, created_at, due_at, expires_at)
    SELECT %(id)s::uuid, %(task)s::text, %(queue)s::text, %(priority)s::text::smallint, %(args)s::text, %(policy)s::text,
           %(collection)s::text, %(labels)s::text, %(parent)s::text, %(trace)s::text, %(creator)s::text, now, due_at,
           -- include expiry
    FROM
    -- include due
)
-- include insert_into_queue
SELECT %(id)s::uuid, %(queue)s::text, %(priority)s::text::smallint, greatest(due_at, now), %(task)s::text, 0, 0, 0, false,
       false,
       -- include expiry
       , 0
FROM
-- include due

-- :insert_job_and_call
-- The same, and its commit wakes the workers.
-- include insert_job
CROSS JOIN (SELECT pg_notify(%(channel)s, '')) AS called

-- :due
-- When a job was stored and when it is due, by the database's clock.
(SELECT now, coalesce(%(at)s::timestamptz, now + %(delay_us)s::text::bigint * interval '1 microsecond', now) AS due_at
 FROM   (SELECT coalesce(%(now)s::timestamptz, statement_timestamp()) AS now) AS read) AS clock

-- :expiry
coalesce(%(expires_at)s::timestamptz, due_at + %(expires_us)s::text::bigint * interval '1 microsecond')

-- :insert_jobs
-- Jobs that differ only in id, arguments and key. Returns the jobs that have a key. A past time is queued as now. Ids
-- that exist already violate the primary key: then insert_missing_jobs has to be run.
-- include into_jobs
-- include into_queue

-- :insert_missing_jobs
-- Like insert_jobs, for ids that may exist already. (Looking for each costs a tenth more, ON CONFLICT half as much
-- again.)
-- include into_jobs
WHERE  NOT EXISTS (SELECT FROM tickwork.jobs j WHERE j.id = a.id OFFSET 0)
-- include into_queue

-- :insert_guarded_jobs
-- Like insert_missing_jobs, for jobs of which some have a job_limits, and for runs of dags.
WITH new AS (
    INSERT INTO tickwork.jobs
           (id, task, queue, priority, args, policy, key, collection, labels, parent, trace, creator, occurrence, lane, job_limits, version,
            created_at, due_at, expires_at)
    SELECT a.id, %(task)s::text, %(queue)s::text, %(priority)s::text::smallint, a.args, %(policy)s::text, a.key,
           %(collection)s::text, %(labels)s::text, %(parent)s::text, %(trace)s::text, %(creator)s::text, %(occurrence)s::text, a.lane, a.job_limits,
           %(version)s::text::integer, now, due_at,
           -- include expiry
    FROM   unnest(%(ids)s::text::uuid[], %(args)s::text::text[], %(keys)s::text::text[], %(lanes)s::text::text[],
                  %(job_limits)s::text::text[]) AS a (id, args, key, lane, job_limits) CROSS JOIN
    -- include due
    WHERE  NOT EXISTS (SELECT FROM tickwork.jobs j WHERE j.id = a.id OFFSET 0)
    -- include returning_places
),
-- include queued_new
SELECT id::text FROM new WHERE key IS NOT NULL

-- :into_jobs
WITH new AS (
    INSERT INTO tickwork.jobs
           (id, task, queue, priority, args, policy, key, collection, labels, parent, trace, creator, occurrence, created_at, due_at,
            expires_at)
    SELECT a.id, %(task)s::text, %(queue)s::text, %(priority)s::text::smallint, a.args, %(policy)s::text, a.key,
           %(collection)s::text, %(labels)s::text, %(parent)s::text, %(trace)s::text, %(creator)s::text, %(occurrence)s::text, now, due_at,
           -- include expiry
    FROM   unnest(%(ids)s::text::uuid[], %(args)s::text::text[], %(keys)s::text::text[]) AS a (id, args, key) CROSS JOIN
    -- include due

-- :into_queue
    RETURNING id, task, queue, priority, key, created_at, due_at, expires_at
),
-- include queued_new
SELECT id::text FROM new WHERE key IS NOT NULL

-- :queued_new
queued AS (
    -- include insert_into_queue
    SELECT id, queue, priority, greatest(due_at, created_at), task, 0, 0, 0, false, key IS NOT NULL, expires_at, 0 FROM new
)

-- :returning_places
-- The place of a new job in the queue. Every worker claims '@dag', the task of runs; jobs of sequences have a lane with
-- one priority, so that they stay in their order.
RETURNING id, CASE WHEN version IS NULL THEN task ELSE '@dag' END AS task, coalesce(lane, queue) AS queue,
          CASE WHEN starts_with(lane, queue || ':!') THEN 5 ELSE priority END AS priority, key, created_at, due_at, expires_at

-- :insert_step_jobs
-- Instances of steps that differ only in their places in the run, arguments and job_limits.
WITH new AS (
    INSERT INTO tickwork.jobs
           (id, task, queue, priority, args, policy, collection, labels, parent, trace, creator, lane, job_limits, run, step, idx, inputs,
            created_at, due_at, expires_at)
    SELECT a.id, %(task)s::text, %(queue)s::text, %(priority)s::text::smallint, a.args, %(policy)s::text, %(collection)s::text,
           %(labels)s::text, %(parent)s::text, %(trace)s::text, %(creator)s::text, a.lane, a.job_limits, %(run)s::uuid, a.step, a.idx, a.inputs,
           now, due_at,
           -- include expiry
    FROM   unnest(%(ids)s::text::uuid[], %(args)s::text::text[], %(lanes)s::text::text[], %(job_limits)s::text::text[],
                  %(steps)s::text::text[], %(idxs)s::text::integer[], %(inputs)s::text::text[])
           AS a (id, args, lane, job_limits, step, idx, inputs) CROSS JOIN
    -- include due
    -- include returning_places
),
-- include queued_new
SELECT id::text FROM new WHERE key IS NOT NULL

-- :started_jobs
-- The jobs that moved schedules start (see move_schedules), as parts of the same statement.
wanted AS MATERIALIZED (
    SELECT a.*, clock.now, coalesce(a.expires_at, a.at + a.expires_us * interval '1 microsecond') AS expiry
    FROM   clock CROSS JOIN json_to_recordset(%(jobs)s::json) AS
           a (schedule text, awaited boolean, id uuid, task text, queue text, priority smallint, args text, policy text, collection text,
              labels text, parent text, trace text, creator text, occurrence text, lane text, job_limits text, version integer, at timestamptz, expires_at timestamptz, expires_us bigint)
    WHERE  (a.schedule IN (SELECT m.name FROM moved m)) = true
),
new AS (
    INSERT INTO tickwork.jobs
           (id, task, queue, priority, args, policy, collection, labels, parent, trace, creator, occurrence, lane, job_limits, version, created_at,
            due_at, expires_at)
    SELECT id, task, queue, priority, args, policy, collection, labels, parent, trace, creator, occurrence, lane, job_limits, version, now, at, expiry
    FROM   wanted
    -- include returning_places
),
-- include queued_new
,
remembered AS (
    INSERT INTO tickwork.schedule_jobs (schedule, job_id, awaited) SELECT schedule, id, awaited FROM wanted
)

-- :take_keys
-- The holder of each key from now on: a live job, else the new one. Waits for other transactions that take the same
-- key, and then sees their result. Leaves out jobs that exist already. The lock is kept until the transaction ends.
INSERT INTO tickwork.keys AS k (key, job_id)
SELECT a.key, a.id FROM json_to_recordset(%(jobs)s::json) AS a (id uuid, key text)
WHERE  NOT EXISTS (SELECT FROM tickwork.jobs j WHERE j.id = a.id OFFSET 0)
ORDER  BY a.key
ON CONFLICT (key) DO UPDATE SET
    job_id = CASE WHEN k.until <= coalesce(%(now)s::timestamptz, clock_timestamp()) THEN excluded.job_id ELSE k.job_id END,
    until  = CASE WHEN k.until <= coalesce(%(now)s::timestamptz, clock_timestamp()) THEN NULL ELSE k.until END
RETURNING k.key, k.job_id::text

-- :key_holders
-- The jobs that hold keys, as columns of KeyOwner. A statement of its own, so that it also sees a holder that committed
-- while take_keys waited for it.
SELECT j.id::text, j.task, j.version IS NOT NULL,
       CASE WHEN q.job_id IS NOT NULL THEN 'queued' WHEN r.job_id IS NOT NULL THEN 'running' ELSE f.state END
FROM   tickwork.jobs j
LEFT   JOIN tickwork.queue q ON q.job_id = j.id
LEFT   JOIN tickwork.running r ON r.job_id = j.id
LEFT   JOIN tickwork.finished f ON f.job_id = j.id
WHERE  j.id = ANY (%(ids)s::uuid[])

-- :release_keys
-- Keys that were taken for jobs which are not stored after all. The transaction may be the caller's, and continue.
DELETE FROM tickwork.keys k
WHERE  k.job_id = ANY (%(ids)s::uuid[]) AND NOT EXISTS (SELECT FROM tickwork.jobs j WHERE j.id = k.job_id OFFSET 0)

-- :free_taken_keys
-- The same insert ran twice concurrently, and its job has ended meanwhile: the key that was taken for it has no owner.
DELETE FROM tickwork.keys k USING tickwork.finished f
WHERE  k.job_id = f.job_id AND k.until IS NULL AND f.job_id = ANY (%(ids)s::uuid[])

-- :replace_jobs
-- Only a waiting job can be changed; a running one continues unchanged. Its queue row is deleted and inserted instead
-- of updated: a concurrent claim sees either the old row with the old job, or both new. (`count(*) >= 0` is always
-- true; it makes the INSERT wait for the DELETE.) Returns the jobs that were changed.
WITH clock AS MATERIALIZED (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now),
wanted AS MATERIALIZED (
    SELECT a.*, due.at AS due_at, coalesce(a.expires_at, due.at + a.expires_us * interval '1 microsecond') AS expiry
    FROM   clock CROSS JOIN json_to_recordset(%(jobs)s::json) AS
           a (id uuid, task text, queue text, priority smallint, args text, policy text, collection text, labels text,
              parent text, trace text, creator text, occurrence text, lane text, job_limits text, version integer, at timestamptz, delay_us bigint, expires_at timestamptz, expires_us bigint)
    CROSS  JOIN LATERAL (SELECT coalesce(a.at, clock.now + a.delay_us * interval '1 microsecond', clock.now)) AS due (at)
),
waiting AS MATERIALIZED (
    SELECT w.*, q.place, q.attempt, q.failures, q.crashes, q.alone, q.keyed, q.losses
    FROM   wanted w
    CROSS  JOIN LATERAL (SELECT q.ctid AS place, q.* FROM tickwork.queue q WHERE q.job_id = w.id FOR UPDATE) q
),
left_queue AS (
    DELETE FROM tickwork.queue q WHERE q.ctid = ANY (ARRAY(SELECT w.place FROM waiting w)) RETURNING 1
),
queued AS (
    -- include insert_into_queue
    SELECT w.id, coalesce(w.lane, w.queue), CASE WHEN starts_with(w.lane, w.queue || ':!') THEN 5 ELSE w.priority END,
           greatest(w.due_at, clock.now), CASE WHEN w.version IS NULL THEN w.task ELSE '@dag' END, w.attempt, w.failures, w.crashes, w.alone, w.keyed, w.expiry,
           w.losses
    FROM   waiting w CROSS JOIN clock
    WHERE  (SELECT count(*) FROM left_queue) >= 0
)
-- The rows exist: each is found by its id, whatever the table's statistics say.
INSERT INTO tickwork.jobs
       (id, task, queue, priority, args, policy, collection, labels, parent, trace, creator, occurrence, lane, job_limits, version, created_at, due_at,
        expires_at)
SELECT w.id, w.task, w.queue, w.priority, w.args, w.policy, w.collection, w.labels, w.parent, w.trace, w.creator, w.occurrence, w.lane, w.job_limits,
       w.version, clock.now, w.due_at, w.expiry
FROM   waiting w CROSS JOIN clock
ON CONFLICT (id) DO UPDATE SET
    task = excluded.task, queue = excluded.queue, priority = excluded.priority, args = excluded.args,
    policy = excluded.policy, due_at = excluded.due_at, expires_at = excluded.expires_at, collection = excluded.collection,
    labels = excluded.labels, parent = excluded.parent, trace = excluded.trace, creator = excluded.creator, occurrence = excluded.occurrence,
    lane = excluded.lane, job_limits = excluded.job_limits, version = excluded.version
RETURNING id::text

-- :follow_keys
-- New jobs take over the keys of jobs that have started. take_keys has locked them.
UPDATE tickwork.keys k
SET    job_id = (SELECT f.id FROM unnest(%(keys)s::text[], %(ids)s::uuid[]) AS f (key, id) WHERE f.key = k.key), until = NULL
WHERE  k.key = ANY (%(keys)s::text[])
