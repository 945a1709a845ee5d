-- Bulk operations on jobs, and requests to workers.

-- The request to a worker: 'quiet' or 'stop'; its heartbeat reads it.
ALTER TABLE tickwork_workers ADD COLUMN asked TEXT;

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
