-- Statistics: what happened to jobs, counted into spans of time (see core/stats/rollups.py).

-- `span` is a number of minutes from `minute` on, which is counted since the epoch; 0: since the store was created. ''
-- means all queues, or all tasks. `waits` and `runs` are histograms (see core/stats/histogram.py).
CREATE TABLE tickwork_figures (
    span       INTEGER NOT NULL,
    task       TEXT NOT NULL,
    queue      TEXT NOT NULL,
    minute     INTEGER NOT NULL,
    enqueued   INTEGER NOT NULL,
    started    INTEGER NOT NULL,
    succeeded  INTEGER NOT NULL,
    failed     INTEGER NOT NULL,
    cancelled  INTEGER NOT NULL,
    dropped    INTEGER NOT NULL,
    expired    INTEGER NOT NULL,
    retried    INTEGER NOT NULL,
    waits      TEXT NOT NULL,
    runs       TEXT NOT NULL,
    PRIMARY KEY (span, task, queue, minute)
) STRICT, WITHOUT ROWID;

CREATE INDEX tickwork_figures_age ON tickwork_figures (span, minute);

-- The marks up to which rows are counted: jobs by id, ends by time. Every move raises `version`, and names it.
-- `look_at` is when the next count is due.
CREATE TABLE tickwork_figure_marks (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    created  TEXT NOT NULL,
    ended    INTEGER NOT NULL,
    version  INTEGER NOT NULL,
    look_at  INTEGER NOT NULL
) STRICT;

-- Attempts after which a job was retried, in the order in which they ended. Jobs that succeed at once have none.
CREATE INDEX tickwork_attempts_end ON tickwork_attempts (ended_at);

-- Schedules that start nothing, for the list of findings.
CREATE INDEX tickwork_schedules_paused ON tickwork_schedules (paused_at) WHERE paused_at IS NOT NULL;
