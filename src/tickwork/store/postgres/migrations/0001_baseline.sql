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
    occurrence  text,
    lane        text COLLATE "C",
    job_limits  text,
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
    lessee       text,
    asked        text -- The request to this worker, 'quiet' or 'stop', which its heartbeat reads.
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

CREATE INDEX workers_processes ON tickwork.workers (id) WHERE state <> 'remote';

CREATE TABLE tickwork.tasks (
    name      text COLLATE "C" PRIMARY KEY,
    queue     text NOT NULL,
    priority  smallint NOT NULL,
    policy    text NOT NULL,
    schema    text NOT NULL,
    task_limits  text,
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
    edited_at      timestamptz NOT NULL,
    paused_until   timestamptz
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
CREATE TABLE tickwork.limit_states (
    name     text COLLATE "C" PRIMARY KEY,
    bound    text COLLATE "C" NOT NULL,
    state    text,
    waits    boolean NOT NULL,
    open_at  timestamptz
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX limit_states_open ON tickwork.limit_states (open_at) WHERE open_at IS NOT NULL;
CREATE INDEX limit_states_bound ON tickwork.limit_states (bound);
CREATE INDEX limit_states_waiting ON tickwork.limit_states (bound) WHERE waits;

-- The limit keys that running jobs use. A row counts while its attempt runs, even if its worker is gone. Rows are
-- numbered so that a count can skip ended ones that cannot be vacuumed yet. A hold of a sequence has `on_retry`, and
-- counts as well while its job waits for the next attempt ('pass': only once that is due).
CREATE TABLE tickwork.holds (
    limit_key  text COLLATE "C" NOT NULL,
    number     bigint GENERATED ALWAYS AS IDENTITY,
    job_id     uuid NOT NULL,
    attempt    integer NOT NULL,
    weight     integer NOT NULL,
    on_retry   text COLLATE "C",
    PRIMARY KEY (limit_key, number)
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

-- Access to the server: API keys, users and their sessions; the audit log; answers kept for repeated requests; and
-- secrets. Tokens and passwords are stored as digests only, and secrets are sealed before they are stored.

CREATE TABLE tickwork.api_keys (
    id          text COLLATE "C" PRIMARY KEY,
    name        text COLLATE "C" NOT NULL,
    digest      text COLLATE "C" NOT NULL,
    scopes      text NOT NULL,
    created_at  timestamptz NOT NULL,
    created_by  text NOT NULL,
    expires_at  timestamptz,
    used_at     timestamptz,
    revoked_at  timestamptz
);

CREATE UNIQUE INDEX api_keys_name ON tickwork.api_keys (name) WHERE revoked_at IS NULL;

CREATE TABLE tickwork.users (
    name        text COLLATE "C" PRIMARY KEY,
    role        text NOT NULL,
    password    text NOT NULL,
    created_at  timestamptz NOT NULL,
    changed_at  timestamptz NOT NULL
);

-- `kind` is the owner's: a user, an API key, or the token of `tickwork dev`. `address` and `agent` are the browser's
-- address and user agent when the session began.
CREATE TABLE tickwork.sessions (
    digest      text COLLATE "C" PRIMARY KEY,
    kind        text COLLATE "C" NOT NULL,
    subject     text COLLATE "C" NOT NULL,
    address     text NOT NULL,
    agent       text NOT NULL,
    created_at  timestamptz NOT NULL,
    used_at     timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL
);

CREATE INDEX sessions_subject ON tickwork.sessions (kind, subject);
CREATE INDEX sessions_expiry ON tickwork.sessions (expires_at);

-- Failed logins, by name and by address.
CREATE TABLE tickwork.logins (
    subject        text COLLATE "C" PRIMARY KEY,
    failures       integer NOT NULL,
    tried_at       timestamptz NOT NULL,
    blocked_until  timestamptz NOT NULL
);

CREATE INDEX logins_tried ON tickwork.logins (tried_at);

-- Users with an address that they logged in from: there, failures of others under their name do not delay them.
CREATE TABLE tickwork.known_logins (
    subject      text COLLATE "C" PRIMARY KEY,
    known_until  timestamptz NOT NULL
);

CREATE INDEX known_logins_until ON tickwork.known_logins (known_until);

CREATE TABLE tickwork.audit (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at          timestamptz NOT NULL,
    who         text COLLATE "C" NOT NULL,
    action      text COLLATE "C" NOT NULL,
    target      text COLLATE "C" NOT NULL,
    before      text,
    after       text,
    request_id  text NOT NULL,
    address     text NOT NULL
);

CREATE INDEX audit_who ON tickwork.audit (who, id);
CREATE INDEX audit_action ON tickwork.audit (action, id);
CREATE INDEX audit_target ON tickwork.audit (target, id);
CREATE INDEX audit_at ON tickwork.audit (at);

-- The chain of the audit log: see store/admin/audit.py. A table of its own, so that rows of the log never change.
CREATE TABLE tickwork.audit_links (
    number    bigint PRIMARY KEY,
    audit_id  bigint NOT NULL UNIQUE,
    at        timestamptz NOT NULL,
    digest    text COLLATE "C" NOT NULL,
    hash      text COLLATE "C" NOT NULL
);

-- The position up to which the audit log was sent elsewhere, and by which process: after `until` another may take over.
CREATE TABLE tickwork.audit_sinks (
    sink    text COLLATE "C" PRIMARY KEY,
    number  bigint NOT NULL,
    holder  text NOT NULL,
    until   timestamptz NOT NULL
);

-- The answer to a POST with an Idempotency-Key. Without a status it has been in flight since `began_at`.
CREATE TABLE tickwork.answers (
    who       text COLLATE "C" NOT NULL,
    key       text COLLATE "C" NOT NULL,
    digest    text COLLATE "C" NOT NULL,
    first_at  timestamptz NOT NULL,
    began_at  timestamptz NOT NULL,
    status    integer,
    headers   text,
    body      text,
    PRIMARY KEY (who, key)
);

CREATE INDEX answers_first ON tickwork.answers (first_at);

-- The context that secrets are bound to besides their names: a value sealed for one store does not open in another.
CREATE TABLE tickwork.store (
    id  text COLLATE "C" PRIMARY KEY
);

-- `uses` are the tasks, dags and queues that may use it; none: all of them.
CREATE TABLE tickwork.secrets (
    name    text COLLATE "C" PRIMARY KEY,
    sealed  text NOT NULL,
    uses    text NOT NULL,
    set_at  timestamptz NOT NULL,
    set_by  text NOT NULL
);

-- Bulk operations on jobs.

-- An operation goes through its jobs page by page: `phase` and `place` are its position. The holder of its lease
-- continues it. Each step names the one before: if two processes do one page, it is recorded once.
CREATE TABLE tickwork.operations (
    id           uuid PRIMARY KEY,
    what         text NOT NULL,
    by           text NOT NULL,
    state        text NOT NULL,
    phase        integer NOT NULL,
    place        text,
    step         integer NOT NULL,
    looked       bigint NOT NULL,
    changed      bigint NOT NULL,
    error        text,
    created_at   timestamptz NOT NULL,
    ended_at     timestamptz,
    lease_until  timestamptz
);

CREATE INDEX operations_open ON tickwork.operations (id) WHERE state = 'running';

-- Webhooks, which turn requests into jobs, and objects declared in files.

CREATE TABLE tickwork.hooks (
    name        text COLLATE "C" PRIMARY KEY,
    value       text NOT NULL,
    created_at  timestamptz NOT NULL,
    edited_at   timestamptz NOT NULL
);

-- Deliveries to a hook and their outcome, never their content. `genuine`: the signature was valid.
CREATE TABLE tickwork.deliveries (
    id           text COLLATE "C" PRIMARY KEY,
    hook         text COLLATE "C" NOT NULL,
    genuine      boolean NOT NULL,
    outcome      text COLLATE "C" NOT NULL,
    event        text,
    job_id       text,
    reason       text,
    size         bigint NOT NULL,
    received_at  timestamptz NOT NULL
);

CREATE INDEX deliveries_hook ON tickwork.deliveries (hook, genuine, id);

-- The objects that `tickwork apply` created, and from which files, so that it can delete those that are removed.
CREATE TABLE tickwork.declared (
    kind    text COLLATE "C" NOT NULL,
    name    text COLLATE "C" NOT NULL,
    source  text COLLATE "C" NOT NULL,
    PRIMARY KEY (kind, name)
);

CREATE INDEX declared_source ON tickwork.declared (source);

-- Notifications: alert rules, how far each was evaluated, and the channels that messages are sent to.

CREATE TABLE tickwork.channels (
    name   text COLLATE "C" PRIMARY KEY,
    value  text NOT NULL
);

-- `watch` is the state (see core/notify/state.py), `look_at` when it is evaluated next. Every write raises `version`,
-- and every move names it.
CREATE TABLE tickwork.notifications (
    name     text COLLATE "C" PRIMARY KEY,
    value    text NOT NULL,
    watch    text NOT NULL,
    version  bigint NOT NULL,
    look_at  timestamptz NOT NULL
);

-- Jobs without success, in the order in which they ended. Succeeded jobs are not in this index.
CREATE INDEX finished_badly ON tickwork.finished (ended_at, job_id) WHERE state <> 'succeeded';

-- Statistics: what happened to jobs, counted into spans of time (see core/stats/rollups.py).

-- `span` is a number of minutes from `minute` on, which is counted since the epoch; 0: since the store was created. ''
-- means all queues, or all tasks. `waits` and `runs` are histograms (see core/stats/rollups.py). The newest rows are
-- rewritten every few seconds, so vacuum runs promptly.
CREATE TABLE tickwork.rollups (
    span       integer NOT NULL,
    task       text COLLATE "C" NOT NULL,
    queue      text COLLATE "C" NOT NULL,
    minute     bigint NOT NULL,
    enqueued   bigint NOT NULL,
    started    bigint NOT NULL,
    succeeded  bigint NOT NULL,
    failed     bigint NOT NULL,
    cancelled  bigint NOT NULL,
    dropped    bigint NOT NULL,
    expired    bigint NOT NULL,
    retried    bigint NOT NULL,
    waits      text NOT NULL,
    runs       text NOT NULL,
    PRIMARY KEY (span, task, queue, minute)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

CREATE INDEX rollups_age ON tickwork.rollups (span, minute);

-- The marks up to which rows are counted: jobs by id, ends by time. Every move raises `version`, and names it.
-- `look_at` is when the next count is due.
CREATE TABLE tickwork.rollup_marks (
    one      integer PRIMARY KEY CHECK (one = 1),
    created  uuid NOT NULL,
    ended    timestamptz NOT NULL,
    version  bigint NOT NULL,
    look_at  timestamptz NOT NULL
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Attempts after which a job was retried, in the order in which they ended. Jobs that succeed at once have none.
CREATE INDEX attempts_end ON tickwork.attempts (ended_at);

-- Schedules that start nothing, for the list of findings.
CREATE INDEX schedules_paused ON tickwork.schedules (paused_at) WHERE paused_at IS NOT NULL;

-- Jobs that were tried before and wait to be retried. Other jobs are not in this index.
CREATE INDEX queue_retrying ON tickwork.queue (job_id) WHERE failures > 0;
