-- Notifications: who is to be told of what, how far each of them has looked, and the channels that messages go to.

CREATE TABLE tickwork_channels (
    name   TEXT PRIMARY KEY,
    value  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- `watch` is how it stands (see core/notify/state.py), `look_at` when somebody has to look. `version` is raised by every
-- write and named by every move.
CREATE TABLE tickwork_notifications (
    name     TEXT PRIMARY KEY,
    value    TEXT NOT NULL,
    watch    TEXT NOT NULL,
    version  INTEGER NOT NULL,
    look_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What did not succeed, in the order in which it ended. Jobs that succeed do not pay for it.
CREATE INDEX tickwork_finished_badly ON tickwork_finished (ended_at, job_id) WHERE state <> 'succeeded';
