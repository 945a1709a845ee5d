-- Webhooks, which turn requests into jobs; objects declared in files; and pauses that end by themselves.

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

ALTER TABLE tickwork_schedules ADD COLUMN paused_until INTEGER;
