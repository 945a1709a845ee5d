-- Statistics: what happened to jobs, counted into spans of time (see core/stats/rollups.py).

-- `span` is a number of minutes from `minute` on, which is counted since the epoch; 0: since the store was created. ''
-- means all queues, or all tasks. `waits` and `runs` are histograms (see core/stats/histogram.py). The newest rows are
-- rewritten every few seconds, so vacuum runs promptly.
CREATE TABLE tickwork.figures (
    span       integer NOT NULL,
    task       text COLLATE "C" NOT NULL,
    queue      text COLLATE "C" NOT NULL,
    minute     bigint NOT NULL,
    enqueued   bigint NOT NULL,
    started    bigint NOT NULL,
    succeeded  bigint NOT NULL,
    failed     bigint NOT NULL,
    cancelled  bigint NOT NULL,
    dropped    bigint NOT NULL,
    expired    bigint NOT NULL,
    retried    bigint NOT NULL,
    waits      text NOT NULL,
    runs       text NOT NULL,
    PRIMARY KEY (span, task, queue, minute)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

CREATE INDEX figures_age ON tickwork.figures (span, minute);

-- The marks up to which rows are counted: jobs by id, ends by time. Every move raises `version`, and names it.
-- `look_at` is when the next count is due.
CREATE TABLE tickwork.figure_marks (
    one      integer PRIMARY KEY CHECK (one = 1),
    created  uuid NOT NULL,
    ended    timestamptz NOT NULL,
    version  bigint NOT NULL,
    look_at  timestamptz NOT NULL
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Attempts after which a job was retried, in the order in which they ended. Jobs that succeed at once have none.
CREATE INDEX attempts_end ON tickwork.attempts (ended_at);

-- Schedules that start nothing, for the list of findings.
CREATE INDEX schedules_paused ON tickwork.schedules (paused_at) WHERE paused_at IS NOT NULL;
