-- What operators do to many jobs at once, and what they ask of workers.

-- What somebody wants of a worker: 'quiet' or 'stop'; its heartbeat looks.
ALTER TABLE tickwork_workers ADD COLUMN asked TEXT;

-- An operation goes through the jobs that it is for, page by page: `phase` and `place` say how far it is. Whoever holds its
-- lease carries it on. Each step names the one before: where two do a page, it is noted once.
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
