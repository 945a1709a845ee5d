-- Notifications: who is to be told of what, how far each of them has looked, and the channels that messages go to.

CREATE TABLE tickwork.channels (
    name   text COLLATE "C" PRIMARY KEY,
    value  text NOT NULL
);

-- `watch` is how it stands (see core/notify/state.py), `look_at` when somebody has to look. `version` is raised by every
-- write and named by every move.
CREATE TABLE tickwork.notifications (
    name     text COLLATE "C" PRIMARY KEY,
    value    text NOT NULL,
    watch    text NOT NULL,
    version  bigint NOT NULL,
    look_at  timestamptz NOT NULL
);

-- What did not succeed, in the order in which it ended. Jobs that succeed do not pay for it.
CREATE INDEX finished_badly ON tickwork.finished (ended_at, job_id) WHERE state <> 'succeeded';
