-- The engine: jobs, their states, their attempts, and the workers that run them. A job is in exactly one of
-- tickwork_queue, tickwork_running and tickwork_finished; the request itself stays in tickwork_jobs and is not
-- rewritten as the job moves. Instants are microseconds since the epoch by the store's clock.

CREATE TABLE tickwork_jobs (
    id          TEXT PRIMARY KEY,
    task        TEXT NOT NULL,
    queue       TEXT NOT NULL,
    priority    INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 9),
    args        TEXT NOT NULL,
    policy      TEXT NOT NULL,
    key         TEXT,
    collection  TEXT,
    labels      TEXT NOT NULL,
    parent      TEXT,
    trace       TEXT,
    creator     TEXT,
    occurrence  TEXT,
    lane        TEXT,
    job_limits  TEXT,
    version     INTEGER,
    run         TEXT,
    step        TEXT,
    idx         INTEGER,
    inputs      TEXT,
    created_at  INTEGER NOT NULL,
    due_at      INTEGER NOT NULL,
    expires_at  INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX tickwork_jobs_task ON tickwork_jobs (task, id);
CREATE INDEX tickwork_jobs_key ON tickwork_jobs (key, id) WHERE key IS NOT NULL;
CREATE INDEX tickwork_jobs_collection ON tickwork_jobs (collection, id) WHERE collection IS NOT NULL;
CREATE INDEX tickwork_jobs_parent ON tickwork_jobs (parent, id) WHERE parent IS NOT NULL;
CREATE INDEX tickwork_jobs_run ON tickwork_jobs (id) WHERE version IS NOT NULL;
CREATE UNIQUE INDEX tickwork_jobs_step ON tickwork_jobs (run, step, idx) WHERE run IS NOT NULL;

-- Stored in the order of claims: the most urgent due job of a queue is its first row. `queue` is a lane: a plain job's
-- lane has the name of its queue, and the lane of a held job is one that claims do not read.
CREATE TABLE tickwork_queue (
    queue       TEXT NOT NULL,
    priority    INTEGER NOT NULL,
    run_at      INTEGER NOT NULL,
    job_id      TEXT NOT NULL,
    task        TEXT NOT NULL,
    attempt     INTEGER NOT NULL,
    failures    INTEGER NOT NULL,
    crashes     INTEGER NOT NULL,
    alone       INTEGER NOT NULL,
    keyed       INTEGER NOT NULL,
    expires_at  INTEGER,
    losses      INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, priority, run_at, job_id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX tickwork_queue_job ON tickwork_queue (job_id);
CREATE INDEX tickwork_queue_expiry ON tickwork_queue (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE tickwork_running (
    job_id        TEXT PRIMARY KEY,
    attempt       INTEGER NOT NULL,
    worker        TEXT NOT NULL,
    queue         TEXT NOT NULL,
    priority      INTEGER NOT NULL,
    task          TEXT NOT NULL,
    run_at        INTEGER NOT NULL,
    claimed_at    INTEGER NOT NULL,
    failures      INTEGER NOT NULL,
    crashes       INTEGER NOT NULL,
    alone         INTEGER NOT NULL,
    keyed         INTEGER NOT NULL,
    expires_at    INTEGER,
    cancel_at     INTEGER,
    progress      REAL,
    progress_note TEXT,
    claim         INTEGER NOT NULL,
    losses        INTEGER NOT NULL DEFAULT 0,
    begun         INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- There is no index on the worker: it is only needed when a worker was lost, and every job would pay for it.
CREATE INDEX tickwork_running_cancelled ON tickwork_running (worker) WHERE cancel_at IS NOT NULL;

-- The last attempt of an ended job is in its row here; earlier ones are in tickwork_attempts.
CREATE TABLE tickwork_finished (
    job_id        TEXT PRIMARY KEY,
    state         TEXT NOT NULL,
    ended_at      INTEGER NOT NULL,
    run_at        INTEGER NOT NULL,
    attempt       INTEGER NOT NULL,
    attempt_state TEXT,
    worker        TEXT,
    started_at    INTEGER,
    failures      INTEGER NOT NULL,
    crashes       INTEGER NOT NULL,
    result        TEXT,
    error         TEXT,
    discarded_at  INTEGER,
    progress      REAL,
    progress_note TEXT,
    losses        INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE INDEX tickwork_finished_end ON tickwork_finished (ended_at);
CREATE INDEX tickwork_finished_state ON tickwork_finished (state, job_id) WHERE state <> 'succeeded';

CREATE TABLE tickwork_attempts (
    job_id        TEXT NOT NULL,
    attempt       INTEGER NOT NULL,
    state         TEXT NOT NULL,
    worker        TEXT,
    started_at    INTEGER NOT NULL,
    ended_at      INTEGER NOT NULL,
    error         TEXT,
    progress      REAL,
    progress_note TEXT,
    PRIMARY KEY (job_id, attempt)
) STRICT, WITHOUT ROWID;

-- The holder of each key. `until` is set when its job has ended and the key stays taken for a while.
CREATE TABLE tickwork_keys (
    key     TEXT PRIMARY KEY,
    job_id  TEXT NOT NULL,
    until   INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX tickwork_keys_job ON tickwork_keys (job_id);
CREATE INDEX tickwork_keys_until ON tickwork_keys (until) WHERE until IS NOT NULL;

-- `seq` orders the chunks of an attempt; there are gaps. `shared`: it may be the output of other attempts.
CREATE TABLE tickwork_logs (
    job_id   TEXT NOT NULL,
    attempt  INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    text     TEXT NOT NULL,
    shared   INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (job_id, attempt, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE tickwork_saved (
    job_id  TEXT PRIMARY KEY,
    state   TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- One lease for each worker instance; its open attempts live as long as it does.
CREATE TABLE tickwork_workers (
    id           TEXT PRIMARY KEY,
    host         TEXT NOT NULL,
    pid          INTEGER NOT NULL,
    version      TEXT NOT NULL,
    queues       TEXT NOT NULL,
    tasks        TEXT NOT NULL,
    slots        INTEGER NOT NULL,
    schedules    TEXT NOT NULL,
    offer        TEXT NOT NULL,
    state        TEXT NOT NULL,
    started_at   INTEGER NOT NULL,
    lease_until  INTEGER NOT NULL,
    lessee       TEXT,
    asked        TEXT -- The request to this worker, 'quiet' or 'stop', which its heartbeat reads.
) STRICT, WITHOUT ROWID;

CREATE INDEX tickwork_workers_lease ON tickwork_workers (lease_until);

CREATE TABLE tickwork_tasks (
    name      TEXT PRIMARY KEY,
    queue     TEXT NOT NULL,
    priority  INTEGER NOT NULL,
    policy    TEXT NOT NULL,
    schema    TEXT NOT NULL,
    task_limits  TEXT,
    version   INTEGER
) STRICT, WITHOUT ROWID;

-- The store's clock: `wall` was the time when the monotonic clock of `boot` read `steady`.
CREATE TABLE tickwork_clock (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    wall    INTEGER NOT NULL,
    steady  INTEGER NOT NULL,
    boot    TEXT NOT NULL
) STRICT;

-- A schedule: its definition (spec, and declared, as code last declared it) and its state. `timing` is the part of the
-- spec that decides when it is due. Every write raises `version`, and every move names it. `wake_at` is when the
-- schedule is evaluated next; NULL: not before an event.
CREATE TABLE tickwork_schedules (
    name           TEXT PRIMARY KEY,
    kind           TEXT NOT NULL,
    target         TEXT NOT NULL,
    spec           TEXT NOT NULL,
    timing         TEXT NOT NULL,
    calendars      TEXT NOT NULL,
    declared       TEXT,
    handled_at     INTEGER NOT NULL,
    active_since   INTEGER NOT NULL,
    run_count      INTEGER NOT NULL,
    last_ended_at  INTEGER,
    waiting        TEXT NOT NULL,
    paused_at      INTEGER,
    paused_by      TEXT,
    paused_why     TEXT,
    wake_at        INTEGER,
    version        INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    edited_at      INTEGER NOT NULL,
    paused_until   INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX tickwork_schedules_wake ON tickwork_schedules (wake_at) WHERE wake_at IS NOT NULL;

-- Runs that schedules started and that no evaluation has found ended yet. The end of an `awaited` run causes another
-- evaluation.
CREATE TABLE tickwork_schedule_jobs (
    schedule  TEXT NOT NULL,
    job_id    TEXT NOT NULL,
    awaited   INTEGER NOT NULL,
    PRIMARY KEY (schedule, job_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX tickwork_schedule_jobs_awaited ON tickwork_schedule_jobs (job_id) WHERE awaited = 1;

-- The outcome of every occurrence. Its key is the second protection against deciding one twice; the first is
-- handled_at.
CREATE TABLE tickwork_fires (
    schedule    TEXT NOT NULL,
    due_at      INTEGER NOT NULL,
    action      TEXT NOT NULL,
    job_id      TEXT,
    fired_at    INTEGER NOT NULL,
    is_catchup  INTEGER NOT NULL,
    reason      TEXT,
    PRIMARY KEY (schedule, due_at)
) STRICT, WITHOUT ROWID;

CREATE INDEX tickwork_fires_age ON tickwork_fires (fired_at);

CREATE TABLE tickwork_calendars (
    name       TEXT PRIMARY KEY,
    value      TEXT NOT NULL,
    edited_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Rules for jobs that name them: a limit or a breaker. `declared` comes from code; `override` was set at run time and
-- wins.
CREATE TABLE tickwork_limits (
    name       TEXT PRIMARY KEY,
    declared   TEXT,
    override   TEXT
) STRICT, WITHOUT ROWID;

-- One key of a limit, or a gate. `state` is the state of a rate, a breaker or a sequence. `waits`: the key holds jobs.
-- `open_at` is when they are checked again; NULL: when a lease ends.
CREATE TABLE tickwork_limit_states (
    name     TEXT PRIMARY KEY,
    bound    TEXT NOT NULL,
    state    TEXT,
    waits    INTEGER NOT NULL,
    open_at  INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX tickwork_limit_states_open ON tickwork_limit_states (open_at) WHERE open_at IS NOT NULL;
CREATE INDEX tickwork_limit_states_waiting ON tickwork_limit_states (name) WHERE waits;
CREATE INDEX tickwork_limit_states_bound ON tickwork_limit_states (bound);

-- The limit keys that running jobs use. A row counts while its attempt runs, even if its worker is gone. A hold of a
-- sequence has `on_retry`, and counts as well while its job waits for the next attempt ('pass': only once that is due).
CREATE TABLE tickwork_holds (
    limit_key  TEXT NOT NULL,
    job_id     TEXT NOT NULL,
    attempt    INTEGER NOT NULL,
    weight     INTEGER NOT NULL,
    on_retry   TEXT,
    PRIMARY KEY (limit_key, job_id, attempt)
) STRICT, WITHOUT ROWID;

CREATE INDEX tickwork_holds_job ON tickwork_holds (job_id);

CREATE TABLE tickwork_gates (
    name       TEXT PRIMARY KEY,
    value      TEXT NOT NULL,
    queue      TEXT,
    until_at   INTEGER,
    since      INTEGER NOT NULL,
    passed_on  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tickwork_tenants (
    name    TEXT PRIMARY KEY,
    weight  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A definition of a dag: each that differs from the one before is a new version.
CREATE TABLE tickwork_dags (
    name        TEXT NOT NULL,
    version     INTEGER NOT NULL,
    digest      TEXT NOT NULL,
    graph       TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (name, version)
) STRICT, WITHOUT ROWID;

-- A run that has begun: how many of its steps have not ended, and how many failed. `again` are the steps that a rerun
-- starts with; NULL: the failed ones.
CREATE TABLE tickwork_runs (
    id      TEXT PRIMARY KEY,
    open    INTEGER NOT NULL,
    failed  INTEGER NOT NULL,
    again   TEXT
) STRICT, WITHOUT ROWID;

-- A step of a run: see StepState in core/dag. `since` is when its state last changed, `wake_at` when an approval is
-- answered by its default.
CREATE TABLE tickwork_steps (
    run        TEXT NOT NULL,
    step       TEXT NOT NULL,
    state      TEXT NOT NULL,
    pending    INTEGER NOT NULL,
    succeeded  INTEGER NOT NULL,
    failed     INTEGER NOT NULL,
    skipped    INTEGER NOT NULL,
    mapped     INTEGER NOT NULL,
    total      INTEGER NOT NULL,
    ended      INTEGER NOT NULL,
    bad        INTEGER NOT NULL,
    blocked    INTEGER NOT NULL,
    reason     TEXT,
    result     TEXT,
    since      INTEGER NOT NULL,
    wake_at    INTEGER,
    PRIMARY KEY (run, step)
) STRICT, WITHOUT ROWID;

CREATE INDEX tickwork_steps_wake ON tickwork_steps (wake_at) WHERE wake_at IS NOT NULL;

-- Assets: when they were last updated, and by which job or run.
CREATE TABLE tickwork_assets (
    name     TEXT PRIMARY KEY,
    made_at  INTEGER NOT NULL,
    made_by  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Triggers of dags: all assets of a group must be updated. `fresh`: this asset was, since the last start.
CREATE TABLE tickwork_triggers (
    asset  TEXT NOT NULL,
    dag    TEXT NOT NULL,
    grp    INTEGER NOT NULL,
    fresh  INTEGER NOT NULL,
    PRIMARY KEY (asset, dag, grp)
) STRICT, WITHOUT ROWID;

CREATE INDEX tickwork_triggers_dag ON tickwork_triggers (dag, grp);

-- Access to the server: API keys, users and their sessions; the audit log; answers kept for repeated requests; and
-- secrets. Tokens and passwords are stored as digests only, and secrets are sealed before they are stored.

CREATE TABLE tickwork_api_keys (
    id          TEXT PRIMARY KEY,
    name        TEXT NOT NULL,
    digest      TEXT NOT NULL,
    scopes      TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    created_by  TEXT NOT NULL,
    expires_at  INTEGER,
    used_at     INTEGER,
    revoked_at  INTEGER
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX tickwork_api_keys_name ON tickwork_api_keys (name) WHERE revoked_at IS NULL;

CREATE TABLE tickwork_users (
    name        TEXT PRIMARY KEY,
    role        TEXT NOT NULL,
    password    TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    changed_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- `kind` is the owner's: a user, an API key, or the token of `tickwork dev`. `address` and `agent` are the browser's
-- address and user agent when the session began.
CREATE TABLE tickwork_sessions (
    digest      TEXT PRIMARY KEY,
    kind        TEXT NOT NULL,
    subject     TEXT NOT NULL,
    address     TEXT NOT NULL,
    agent       TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    used_at     INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX tickwork_sessions_subject ON tickwork_sessions (kind, subject);
CREATE INDEX tickwork_sessions_expiry ON tickwork_sessions (expires_at);

-- Failed logins, by name and by address.
CREATE TABLE tickwork_logins (
    subject        TEXT PRIMARY KEY,
    failures       INTEGER NOT NULL,
    tried_at       INTEGER NOT NULL,
    blocked_until  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX tickwork_logins_tried ON tickwork_logins (tried_at);

-- Users with an address that they logged in from: there, failures of others under their name do not delay them.
CREATE TABLE tickwork_known_logins (
    subject      TEXT PRIMARY KEY,
    known_until  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX tickwork_known_logins_until ON tickwork_known_logins (known_until);

CREATE TABLE tickwork_audit (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    at          INTEGER NOT NULL,
    who         TEXT NOT NULL,
    action      TEXT NOT NULL,
    target      TEXT NOT NULL,
    before      TEXT,
    after       TEXT,
    request_id  TEXT NOT NULL,
    address     TEXT NOT NULL
) STRICT;

CREATE INDEX tickwork_audit_who ON tickwork_audit (who, id);
CREATE INDEX tickwork_audit_action ON tickwork_audit (action, id);
CREATE INDEX tickwork_audit_target ON tickwork_audit (target, id);
CREATE INDEX tickwork_audit_at ON tickwork_audit (at);

-- The chain of the audit log: see store/admin/audit.py.
CREATE TABLE tickwork_audit_links (
    number    INTEGER PRIMARY KEY,
    audit_id  INTEGER NOT NULL UNIQUE,
    at        INTEGER NOT NULL,
    digest    TEXT NOT NULL,
    hash      TEXT NOT NULL
) STRICT;

-- The position up to which the audit log was sent elsewhere, and by which process: after `until` another may take over.
CREATE TABLE tickwork_audit_sinks (
    sink    TEXT PRIMARY KEY,
    number  INTEGER NOT NULL,
    holder  TEXT NOT NULL,
    until   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The answer to a POST with an Idempotency-Key. Without a status it has been in flight since `began_at`.
CREATE TABLE tickwork_answers (
    who       TEXT NOT NULL,
    key       TEXT NOT NULL,
    digest    TEXT NOT NULL,
    first_at  INTEGER NOT NULL,
    began_at  INTEGER NOT NULL,
    status    INTEGER,
    headers   TEXT,
    body      TEXT,
    PRIMARY KEY (who, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX tickwork_answers_first ON tickwork_answers (first_at);

-- The context that secrets are bound to besides their names: a value sealed for one store does not open in another.
CREATE TABLE tickwork_store (
    id  TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- `uses` are the tasks, dags and queues that may use it; none: all of them.
CREATE TABLE tickwork_secrets (
    name    TEXT PRIMARY KEY,
    sealed  TEXT NOT NULL,
    uses    TEXT NOT NULL,
    set_at  INTEGER NOT NULL,
    set_by  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Bulk operations on jobs.

-- An operation goes through its jobs page by page: `phase` and `place` are its position. The holder of its lease
-- continues it. Each step names the one before: if two processes do one page, it is recorded once.
CREATE TABLE tickwork_operations (
    id           TEXT PRIMARY KEY,
    what         TEXT NOT NULL,
    by           TEXT NOT NULL,
    state        TEXT NOT NULL,
    phase        INTEGER NOT NULL,
    place        TEXT,
    step         INTEGER NOT NULL,
    looked       INTEGER NOT NULL,
    changed      INTEGER NOT NULL,
    error        TEXT,
    created_at   INTEGER NOT NULL,
    ended_at     INTEGER,
    lease_until  INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX tickwork_operations_open ON tickwork_operations (id) WHERE state = 'running';

-- Webhooks, which turn requests into jobs, and objects declared in files.

CREATE TABLE tickwork_hooks (
    name        TEXT PRIMARY KEY,
    value       TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    edited_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Deliveries to a hook and their outcome, never their content. `genuine`: the signature was valid.
CREATE TABLE tickwork_deliveries (
    id           TEXT PRIMARY KEY,
    hook         TEXT NOT NULL,
    genuine      INTEGER NOT NULL,
    outcome      TEXT NOT NULL,
    event        TEXT,
    job_id       TEXT,
    reason       TEXT,
    size         INTEGER NOT NULL,
    received_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX tickwork_deliveries_hook ON tickwork_deliveries (hook, genuine, id);

-- The objects that `tickwork apply` created, and from which files, so that it can delete those that are removed.
CREATE TABLE tickwork_declared (
    kind    TEXT NOT NULL,
    name    TEXT NOT NULL,
    source  TEXT NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX tickwork_declared_source ON tickwork_declared (source);

-- Notifications: alert rules, how far each was evaluated, and the channels that messages are sent to.

CREATE TABLE tickwork_channels (
    name   TEXT PRIMARY KEY,
    value  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- `watch` is the state (see core/notify/state.py), `look_at` when it is evaluated next. Every write raises `version`,
-- and every move names it.
CREATE TABLE tickwork_notifications (
    name     TEXT PRIMARY KEY,
    value    TEXT NOT NULL,
    watch    TEXT NOT NULL,
    version  INTEGER NOT NULL,
    look_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Jobs without success, in the order in which they ended. Succeeded jobs are not in this index.
CREATE INDEX tickwork_finished_badly ON tickwork_finished (ended_at, job_id) WHERE state <> 'succeeded';

-- Statistics: what happened to jobs, counted into spans of time (see core/stats/rollups.py).

-- `span` is a number of minutes from `minute` on, which is counted since the epoch; 0: since the store was created. ''
-- means all queues, or all tasks. `waits` and `runs` are histograms (see core/stats/rollups.py).
CREATE TABLE tickwork_rollups (
    span       INTEGER NOT NULL,
    task       TEXT NOT NULL,
    queue      TEXT NOT NULL,
    minute     INTEGER NOT NULL,
    enqueued   INTEGER NOT NULL,
    started    INTEGER NOT NULL,
    succeeded  INTEGER NOT NULL,
    failed     INTEGER NOT NULL,
    cancelled  INTEGER NOT NULL,
    dropped    INTEGER NOT NULL,
    expired    INTEGER NOT NULL,
    retried    INTEGER NOT NULL,
    waits      TEXT NOT NULL,
    runs       TEXT NOT NULL,
    PRIMARY KEY (span, task, queue, minute)
) STRICT, WITHOUT ROWID;

CREATE INDEX tickwork_rollups_age ON tickwork_rollups (span, minute);

-- The marks up to which rows are counted: jobs by id, ends by time. Every move raises `version`, and names it.
-- `look_at` is when the next count is due.
CREATE TABLE tickwork_rollup_marks (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    created  TEXT NOT NULL,
    ended    INTEGER NOT NULL,
    version  INTEGER NOT NULL,
    look_at  INTEGER NOT NULL
) STRICT;

-- Attempts after which a job was retried, in the order in which they ended. Jobs that succeed at once have none.
CREATE INDEX tickwork_attempts_end ON tickwork_attempts (ended_at);

-- Schedules that start nothing, for the list of findings.
CREATE INDEX tickwork_schedules_paused ON tickwork_schedules (paused_at) WHERE paused_at IS NOT NULL;

-- Jobs that were tried before and wait to be retried. Other jobs are not in this index.
CREATE INDEX tickwork_queue_retrying ON tickwork_queue (job_id) WHERE failures > 0;
