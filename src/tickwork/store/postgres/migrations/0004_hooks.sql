-- Webhooks, which turn requests into jobs; objects declared in files; and pauses that end by themselves.

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

ALTER TABLE tickwork.schedules ADD COLUMN paused_until timestamptz;
