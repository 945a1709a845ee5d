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

-- The chain of the audit log: see store/admin/audit_chain.py. A table of its own, so that rows of the log never change.
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
