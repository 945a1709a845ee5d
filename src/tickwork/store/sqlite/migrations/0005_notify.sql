-- Notifications: alert rules, how far each was evaluated, and the channels that messages are sent to.

CREATE TABLE tickwork_channels (
    name   TEXT PRIMARY KEY,
    value  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- `watch` is the state (see core/notify/state.py), `look_at` when it is evaluated next. Every write raises `version`,
-- and every move names it.
CREATE TABLE tickwork_notifications (
    name     TEXT PRIMARY KEY,
    value    TEXT NOT NULL,
    watch    TEXT NOT NULL,
    version  INTEGER NOT NULL,
    look_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Jobs without success, in the order in which they ended. Succeeded jobs are not in this index.
CREATE INDEX tickwork_finished_badly ON tickwork_finished (ended_at, job_id) WHERE state <> 'succeeded';
