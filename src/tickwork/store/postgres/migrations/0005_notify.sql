-- Notifications: alert rules, how far each was evaluated, and the channels that messages are sent to.

CREATE TABLE tickwork.channels (
    name   text COLLATE "C" PRIMARY KEY,
    value  text NOT NULL
);

-- `watch` is the state (see core/notify/state.py), `look_at` when it is evaluated next. Every write raises `version`,
-- and every move names it.
CREATE TABLE tickwork.notifications (
    name     text COLLATE "C" PRIMARY KEY,
    value    text NOT NULL,
    watch    text NOT NULL,
    version  bigint NOT NULL,
    look_at  timestamptz NOT NULL
);

-- Jobs without success, in the order in which they ended. Succeeded jobs are not in this index.
CREATE INDEX finished_badly ON tickwork.finished (ended_at, job_id) WHERE state <> 'succeeded';
