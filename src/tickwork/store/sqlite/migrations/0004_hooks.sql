-- Hooks: how messages of others become jobs. What was declared from files, and pauses that end by themselves.

CREATE TABLE tickwork_hooks (
    name        TEXT PRIMARY KEY,
    value       TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    edited_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What came in at a hook and what became of it, never what it said. `genuine`: its signature held.
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

-- What `tickwork apply` made, and from which files: so that it can delete what is gone from them.
CREATE TABLE tickwork_declared (
    kind    TEXT NOT NULL,
    name    TEXT NOT NULL,
    source  TEXT NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX tickwork_declared_source ON tickwork_declared (source);

ALTER TABLE tickwork_schedules ADD COLUMN paused_until INTEGER;
