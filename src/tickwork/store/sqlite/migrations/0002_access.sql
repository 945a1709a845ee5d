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

-- The chain of the audit log: see store/admin/audit_chain.py.
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
