-- The engine: jobs, their states, their attempts, and the workers that run them. A job is in exactly one of queue,
-- running and finished; the request itself stays in jobs and is not rewritten as the job moves. Hot rows are narrow.
-- Names are compared byte by byte, which is fast and the same as in SQLite.

CREATE TABLE tickwork.jobs (
    id          uuid PRIMARY KEY,
    task        text COLLATE "C" NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    priority    smallint NOT NULL CHECK (priority BETWEEN 0 AND 9),
    args        text NOT NULL,
    policy      text NOT NULL,
    key         text COLLATE "C",
    collection  text COLLATE "C",
    labels      text NOT NULL,
    parent      text COLLATE "C",
    trace       text,
    creator     text,
    tick        text,
    lane        text COLLATE "C",
    flow        text,
    version     integer,
    run         uuid,
    step        text COLLATE "C",
    idx         integer,
    inputs      text,
    created_at  timestamptz NOT NULL,
    due_at      timestamptz NOT NULL,
    expires_at  timestamptz
);

CREATE INDEX jobs_task ON tickwork.jobs (task, id);
CREATE INDEX jobs_key ON tickwork.jobs (key, id) WHERE key IS NOT NULL;
CREATE INDEX jobs_collection ON tickwork.jobs (collection, id) WHERE collection IS NOT NULL;
CREATE INDEX jobs_parent ON tickwork.jobs (parent, id) WHERE parent IS NOT NULL;
CREATE INDEX jobs_run ON tickwork.jobs (id) WHERE version IS NOT NULL;
CREATE UNIQUE INDEX jobs_step ON tickwork.jobs (run, step, idx) WHERE run IS NOT NULL;

-- Rows are inserted and deleted, and never updated: a claim deletes them by ctid. Vacuum must run often, however long
-- the queue is, because every claim reads past the dead rows at its front. `queue` is a lane: a plain job's lane has
-- the name of its queue, and the lane of a held job is one that claims do not read.
CREATE TABLE tickwork.queue (
    job_id      uuid PRIMARY KEY,
    queue       text COLLATE "C" NOT NULL,
    priority    smallint NOT NULL,
    run_at      timestamptz NOT NULL,
    task        text COLLATE "C" NOT NULL,
    attempt     integer NOT NULL,
    failures    integer NOT NULL,
    crashes     integer NOT NULL,
    alone       boolean NOT NULL,
    keyed       boolean NOT NULL,
    expires_at  timestamptz,
    losses      integer NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX queue_order ON tickwork.queue (queue, priority, run_at, job_id);
CREATE INDEX queue_expiry ON tickwork.queue (expires_at) WHERE expires_at IS NOT NULL;

-- The free space in each page lets a progress report or a cancellation update its row in place.
CREATE TABLE tickwork.running (
    job_id        uuid PRIMARY KEY,
    attempt       integer NOT NULL,
    worker        text COLLATE "C" NOT NULL,
    queue         text COLLATE "C" NOT NULL,
    priority      smallint NOT NULL,
    task          text COLLATE "C" NOT NULL,
    run_at        timestamptz NOT NULL,
    claimed_at    timestamptz NOT NULL,
    failures      integer NOT NULL,
    crashes       integer NOT NULL,
    alone         boolean NOT NULL,
    keyed         boolean NOT NULL,
    expires_at    timestamptz,
    cancel_at     timestamptz,
    progress      double precision,
    progress_note text,
    claim         bigint NOT NULL,
    losses        integer NOT NULL DEFAULT 0,
    begun         boolean NOT NULL DEFAULT false
) WITH (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);

-- There is no index on the worker: it is only needed when a worker was lost, and every job would pay for it.
CREATE INDEX running_cancelled ON tickwork.running (worker) WHERE cancel_at IS NOT NULL;

-- The last attempt of an ended job is in its row here; earlier ones are in attempts.
CREATE TABLE tickwork.finished (
    job_id        uuid PRIMARY KEY,
    state         text COLLATE "C" NOT NULL,
    ended_at      timestamptz NOT NULL,
    run_at        timestamptz NOT NULL,
    attempt       integer NOT NULL,
    attempt_state text COLLATE "C",
    worker        text COLLATE "C",
    started_at    timestamptz,
    failures      integer NOT NULL,
    crashes       integer NOT NULL,
    result        text,
    error         text,
    discarded_at  timestamptz,
    progress      double precision,
    progress_note text,
    losses        integer NOT NULL DEFAULT 0
);

CREATE INDEX finished_end ON tickwork.finished (ended_at);
CREATE INDEX finished_state ON tickwork.finished (state, job_id) WHERE state <> 'succeeded';

CREATE TABLE tickwork.attempts (
    job_id        uuid NOT NULL,
    attempt       integer NOT NULL,
    state         text COLLATE "C" NOT NULL,
    worker        text COLLATE "C",
    started_at    timestamptz NOT NULL,
    ended_at      timestamptz NOT NULL,
    error         text,
    progress      double precision,
    progress_note text,
    PRIMARY KEY (job_id, attempt)
);

-- The holder of each key. `until` is set when its job has ended and the key stays taken for a while.
CREATE TABLE tickwork.keys (
    key     text COLLATE "C" PRIMARY KEY,
    job_id  uuid NOT NULL,
    until   timestamptz
);

CREATE INDEX keys_job ON tickwork.keys (job_id);
CREATE INDEX keys_until ON tickwork.keys (until) WHERE until IS NOT NULL;

-- `seq` orders the chunks of an attempt; there are gaps. `shared`: it may be the output of other attempts.
CREATE TABLE tickwork.logs (
    job_id   uuid NOT NULL,
    attempt  integer NOT NULL,
    seq      bigint NOT NULL,
    at       timestamptz NOT NULL,
    text     text NOT NULL,
    shared   boolean NOT NULL DEFAULT false,
    PRIMARY KEY (job_id, attempt, seq)
);

CREATE TABLE tickwork.saved (
    job_id  uuid PRIMARY KEY,
    state   text NOT NULL
);

-- One lease for each worker process, and one for each attempt over REST (state 'remote'), of which there may be tens of
-- thousands. Each heartbeat updates a row: no index contains the lease, and most of each page is left free, so that the
-- update stays in its page.
CREATE TABLE tickwork.workers (
    id           text COLLATE "C" PRIMARY KEY,
    host         text COLLATE "C" NOT NULL,
    pid          integer NOT NULL,
    version      text NOT NULL,
    queues       text COLLATE "C" NOT NULL,
    tasks        text COLLATE "C" NOT NULL,
    slots        integer NOT NULL,
    schedules    text NOT NULL,
    offer        text COLLATE "C" NOT NULL,
    state        text COLLATE "C" NOT NULL,
    started_at   timestamptz NOT NULL,
    lease_until  timestamptz NOT NULL,
    lessee       text
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

CREATE INDEX workers_processes ON tickwork.workers (id) WHERE state <> 'remote';

CREATE TABLE tickwork.tasks (
    name      text COLLATE "C" PRIMARY KEY,
    queue     text NOT NULL,
    priority  smallint NOT NULL,
    policy    text NOT NULL,
    schema    text NOT NULL,
    flow      text,
    version   integer
);

-- A schedule: its definition (spec, and declared, as code last declared it) and its state. `timing` is the part of the
-- spec that decides when it is due. Every write raises `version`, and every move names it. `wake_at` is when the
-- schedule is evaluated next; NULL: not before an event. A busy schedule is rewritten at each fire, so vacuum runs
-- promptly.
CREATE TABLE tickwork.schedules (
    name           text COLLATE "C" PRIMARY KEY,
    kind           text COLLATE "C" NOT NULL,
    target         text COLLATE "C" NOT NULL,
    spec           text NOT NULL,
    timing         text NOT NULL,
    calendars      text NOT NULL,
    declared       text,
    handled_at     timestamptz NOT NULL,
    active_since   timestamptz NOT NULL,
    run_count      bigint NOT NULL,
    last_ended_at  timestamptz,
    waiting        text NOT NULL,
    paused_at      timestamptz,
    paused_by      text,
    paused_why     text,
    wake_at        timestamptz,
    version        bigint NOT NULL,
    created_at     timestamptz NOT NULL,
    edited_at      timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX schedules_wake ON tickwork.schedules (wake_at) WHERE wake_at IS NOT NULL;

-- Runs that schedules started and that no evaluation has found ended yet. The end of an `awaited` run causes another
-- evaluation.
CREATE TABLE tickwork.schedule_jobs (
    schedule  text COLLATE "C" NOT NULL,
    job_id    uuid NOT NULL,
    awaited   boolean NOT NULL,
    PRIMARY KEY (schedule, job_id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX schedule_jobs_awaited ON tickwork.schedule_jobs (job_id) WHERE awaited;

-- The outcome of every occurrence. Its key is the second protection against deciding one twice; the first is
-- handled_at.
CREATE TABLE tickwork.fires (
    schedule    text COLLATE "C" NOT NULL,
    due_at      timestamptz NOT NULL,
    action      text COLLATE "C" NOT NULL,
    job_id      uuid,
    fired_at    timestamptz NOT NULL,
    is_catchup  boolean NOT NULL,
    reason      text,
    PRIMARY KEY (schedule, due_at)
);

CREATE INDEX fires_age ON tickwork.fires (fired_at);

CREATE TABLE tickwork.calendars (
    name       text COLLATE "C" PRIMARY KEY,
    value      text NOT NULL,
    edited_at  timestamptz NOT NULL
);

-- Rules for jobs that name them: a limit or a breaker. `declared` comes from code; `override` was set at run time and
-- wins.
CREATE TABLE tickwork.limits (
    name       text COLLATE "C" PRIMARY KEY,
    declared   text,
    override   text
);

-- One key of a limit, or a gate. A round locks the limit or gate itself first. `state` is the state of a rate, a
-- breaker or a sequence. `waits`: the key holds jobs. `open_at` is when they are checked again; NULL: when a lease
-- ends.
CREATE TABLE tickwork.turnstiles (
    name     text COLLATE "C" PRIMARY KEY,
    bound    text COLLATE "C" NOT NULL,
    state    text,
    waits    boolean NOT NULL,
    open_at  timestamptz
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX turnstiles_open ON tickwork.turnstiles (open_at) WHERE open_at IS NOT NULL;
CREATE INDEX turnstiles_bound ON tickwork.turnstiles (bound);
CREATE INDEX turnstiles_waiting ON tickwork.turnstiles (bound) WHERE waits;

-- The limit keys that running jobs use. A row counts while its attempt runs, even if its worker is gone. Rows are
-- numbered so that a count can skip ended ones that cannot be vacuumed yet. A hold of a sequence has `on_retry`, and
-- counts as well while its job waits for the next attempt ('pass': only once that is due).
CREATE TABLE tickwork.holds (
    turnstile  text COLLATE "C" NOT NULL,
    number     bigint GENERATED ALWAYS AS IDENTITY,
    job_id     uuid NOT NULL,
    attempt    integer NOT NULL,
    weight     integer NOT NULL,
    on_retry   text COLLATE "C",
    PRIMARY KEY (turnstile, number)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX holds_job ON tickwork.holds (job_id);

CREATE TABLE tickwork.gates (
    name       text COLLATE "C" PRIMARY KEY,
    value      text NOT NULL,
    queue      text COLLATE "C",
    until_at   timestamptz,
    since      timestamptz NOT NULL,
    passed_on  bigint NOT NULL
);

CREATE TABLE tickwork.tenants (
    name    text COLLATE "C" PRIMARY KEY,
    weight  integer NOT NULL
);

-- A definition of a dag: each that differs from the one before is a new version.
CREATE TABLE tickwork.dags (
    name        text COLLATE "C" NOT NULL,
    version     integer NOT NULL,
    digest      text COLLATE "C" NOT NULL,
    graph       text NOT NULL,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (name, version)
);

-- A run that has begun: how many of its steps have not ended, and how many failed. `again` are the steps that a rerun
-- starts with; NULL: the failed ones. Its row is the lock of the run: a transaction that ends a step takes it first.
CREATE TABLE tickwork.runs (
    id      uuid PRIMARY KEY,
    open    integer NOT NULL,
    failed  integer NOT NULL,
    again   text
) WITH (fillfactor = 70);

-- A step of a run: see StepState in core/dag. `since` is when its state last changed, `wake_at` when an approval is
-- answered by its default.
CREATE TABLE tickwork.steps (
    run        uuid NOT NULL,
    step       text COLLATE "C" NOT NULL,
    state      text COLLATE "C" NOT NULL,
    pending    integer NOT NULL,
    succeeded  integer NOT NULL,
    failed     integer NOT NULL,
    skipped    integer NOT NULL,
    mapped     boolean NOT NULL,
    total      integer NOT NULL,
    ended      integer NOT NULL,
    bad        integer NOT NULL,
    blocked    boolean NOT NULL,
    reason     text,
    result     text,
    since      timestamptz NOT NULL,
    wake_at    timestamptz,
    PRIMARY KEY (run, step)
) WITH (fillfactor = 70);

CREATE INDEX steps_wake ON tickwork.steps (wake_at) WHERE wake_at IS NOT NULL;

-- Assets: when they were last updated, and by which job or run.
CREATE TABLE tickwork.assets (
    name     text COLLATE "C" PRIMARY KEY,
    made_at  timestamptz NOT NULL,
    made_by  uuid NOT NULL
);

-- Triggers of dags: all assets of a group must be updated. `fresh`: this asset was, since the last start.
CREATE TABLE tickwork.triggers (
    asset  text COLLATE "C" NOT NULL,
    dag    text COLLATE "C" NOT NULL,
    grp    integer NOT NULL,
    fresh  boolean NOT NULL,
    PRIMARY KEY (asset, dag, grp)
);

CREATE INDEX triggers_dag ON tickwork.triggers (dag, grp);

-- The last recorded reading of the server's clock; a later one than now means that the clock went back. `step` is the
-- size of its last step, found at `stepped_at`.
CREATE TABLE tickwork.clock (
    one         integer PRIMARY KEY CHECK (one = 1),
    reading     timestamptz NOT NULL,
    stepped_at  timestamptz,
    step        interval
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
