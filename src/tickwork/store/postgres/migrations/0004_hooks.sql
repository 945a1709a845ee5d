-- Hooks: how messages of others become jobs. What was declared from files, and pauses that end by themselves.

CREATE TABLE tickwork.hooks (
    name        text COLLATE "C" PRIMARY KEY,
    value       text NOT NULL,
    created_at  timestamptz NOT NULL,
    edited_at   timestamptz NOT NULL
);

-- What came in at a hook and what became of it, never what it said. `genuine`: its signature held.
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

-- What `tickwork apply` made, and from which files: so that it can delete what is gone from them.
CREATE TABLE tickwork.declared (
    kind    text COLLATE "C" NOT NULL,
    name    text COLLATE "C" NOT NULL,
    source  text COLLATE "C" NOT NULL,
    PRIMARY KEY (kind, name)
);

CREATE INDEX declared_source ON tickwork.declared (source);

ALTER TABLE tickwork.schedules ADD COLUMN paused_until timestamptz;
