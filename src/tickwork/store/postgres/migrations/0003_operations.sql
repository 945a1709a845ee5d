-- Bulk operations on jobs, and requests to workers.

-- The request to a worker: 'quiet' or 'stop'; its heartbeat reads it.
ALTER TABLE tickwork.workers ADD COLUMN asked text;

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
