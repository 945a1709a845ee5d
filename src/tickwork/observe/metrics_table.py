"""The table of metrics. The exposition, the dashboard and the alert rules are generated from it."""

from __future__ import annotations

from typing import Literal, NamedTuple

PREFIX = "tickwork_"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


class Metric(NamedTuple):
    """A metric. Its labels have few values: never an id, a key or a payload."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()

    @property
    def full(self) -> str:
        """The name of the metric as it is scraped."""
        return PREFIX + self.name + ("_total" if self.kind == "counter" else "")


# -- by a server, for the whole store: equal on each server, so aggregate with max(), not sum()
JOBS_ENQUEUED = Metric(
    "jobs_enqueued", "counter", "Jobs that were stored, since the store was made.", ("queue", "task")
)
JOBS_FINISHED = Metric(
    "jobs_finished", "counter", "Jobs that ended, since the store was made.", ("queue", "task", "outcome")
)
RUNS_FINISHED = Metric(
    "runs_finished", "counter", "Runs of dags that ended, since the store was made.", ("dag", "outcome")
)
SCHEDULE_FIRES = Metric(
    "schedule_fires", "counter", "Occurrences of schedules by what became of them; pass: missed.", ("action",)
)
SCHEDULE_LAG = Metric("schedule_lag_seconds", "gauge", "How long the most overdue schedule has waited for a look.")
CANARY_DELAY = Metric(
    "canary_delay_seconds", "gauge", "How much later than it was due the last canary began, or how long it waits."
)
QUEUE_JOBS = Metric(
    "queue_jobs", "gauge", "Jobs by queue: due, later, held (by a limit or gate), running.", ("queue", "state")
)
QUEUE_OLDEST = Metric("queue_oldest_seconds", "gauge", "How long the oldest due job of a queue has waited.", ("queue",))
QUEUE_WANTED = Metric(
    "queue_workers_wanted", "gauge", "How many workers would begin all that is due in a queue within 30 s.", ("queue",)
)
QUEUE_UNPLACED = Metric("queue_unplaced_jobs", "gauge", "Due jobs that no live worker can run.", ("queue",))
QUEUE_PAUSED = Metric("queue_paused", "gauge", "1 while a gate pauses the whole queue.", ("queue",))
WORKERS = Metric("workers", "gauge", "Workers by state.", ("state",))
WORKER_SLOTS = Metric("worker_slots", "gauge", "Slots of the workers that live.")
WORKER_BUSY = Metric("worker_busy", "gauge", "Jobs that workers run now.")
DEAD_JOBS = Metric("dead_jobs", "gauge", "Failed jobs that were neither redriven nor discarded; counted up to 1,000.")

# -- by every worker, for itself
ATTEMPTS = Metric("job_attempts", "counter", "Attempts that this worker ended.", ("queue", "task", "outcome"))
WAIT = Metric("job_wait_seconds", "histogram", "From when a job was due to the start of its handler.", ("queue",))
RUN = Metric("job_run_seconds", "histogram", "How long handlers ran.", ("queue", "task"))
HEARTBEAT_AGE = Metric("worker_heartbeat_age_seconds", "gauge", "Since this worker's lease was last renewed.")
LEASES_EXPIRED = Metric("leases_expired", "counter", "Attempts that this process took back from silent workers.")

# -- by every worker and every server, for itself
CONNECTIONS = Metric(
    "db_connections", "gauge", "PostgreSQL connections of this process, without its children and the listening one."
)
CONNECTIONS_REFUSED = Metric(
    "db_connections_refused",
    "counter",
    "Connections that PostgreSQL, having none left, refused to us or to handlers.",
)

# -- by every server, for itself
HTTP = Metric("http_request_seconds", "histogram", "Requests.", ("route", "method", "code"))
DB = Metric("db_query_seconds", "histogram", "Calls of the store by this server.", ("op",))

METRICS = (
    JOBS_ENQUEUED,
    JOBS_FINISHED,
    RUNS_FINISHED,
    SCHEDULE_FIRES,
    SCHEDULE_LAG,
    CANARY_DELAY,
    QUEUE_JOBS,
    QUEUE_OLDEST,
    QUEUE_WANTED,
    QUEUE_UNPLACED,
    QUEUE_PAUSED,
    WORKERS,
    WORKER_SLOTS,
    WORKER_BUSY,
    DEAD_JOBS,
    ATTEMPTS,
    WAIT,
    RUN,
    HEARTBEAT_AGE,
    LEASES_EXPIRED,
    CONNECTIONS,
    CONNECTIONS_REFUSED,
    HTTP,
    DB,
)
