-- What operators do to many jobs at once, and what they ask of workers.

-- What somebody wants of a worker: 'quiet' or 'stop'; its heartbeat looks.
ALTER TABLE tickwork.workers ADD COLUMN asked text;

-- An operation goes through the jobs that it is for, page by page: `phase` and `place` say how far it is. Whoever holds its
-- lease carries it on. Each step names the one before: where two do a page, it is noted once.
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
