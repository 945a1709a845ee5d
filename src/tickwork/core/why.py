"""Why a job is not running: one true sentence, from the same rules that a claim follows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tickwork.core.duration import format_duration
from tickwork.core.job import JobState, JobView, WorkerView

RUNNABLE = "it can run now"
_GIST_LIMIT = 300


def explain(job: JobView, workers: Sequence[WorkerView], now: datetime) -> str:
    """Say what a job is doing or waiting for. It says `RUNNABLE ...` exactly when a claim would take it."""
    match job.state:
        case JobState.QUEUED:
            return _queued(job, [worker for worker in workers if worker.state == "running"], now)
        case JobState.RUNNING:
            return _running(job, workers, now)
        case _:
            return _ended(job)


def runnable(job: JobView, now: datetime) -> bool:
    """Whether a claim by a worker that serves everything would take the job."""
    return job.state is JobState.QUEUED and job.run_at <= now and not _expired(job, now)


def gist(error: str) -> str:
    """The line of an error that tells the most: the one below a traceback's frames, or a group's last exception."""
    below = error.rpartition("Traceback (most recent call last):\n")[2]
    lines = [line for line in below.splitlines() if line.strip(" |+-\t")]
    if "+---" in error:  # a group is drawn as a tree, with its last exception at the bottom
        told = "".join(lines[-1:]).strip(" |+-\t")
    else:
        told = next((line.strip() for line in lines if not line.startswith("  ")), "")
    return told if len(told) <= _GIST_LIMIT else f"{told[: _GIST_LIMIT - 3]}..."


def _queued(job: JobView, live: Sequence[WorkerView], now: datetime) -> str:
    if _expired(job, now):
        return "its deadline has passed; it is about to end as expired"
    if job.run_at > now:
        cause = f"its retry after failure {job.failures}" if job.failures else "its time"
        return f"it waits for {cause}: due in {format_duration(job.run_at - now)}, at {_time(job.run_at)}"
    return f"{RUNNABLE}, but {_nobody(job, live)}"


def _nobody(job: JobView, live: Sequence[WorkerView]) -> str:
    """What keeps the workers from a job that is due."""
    if not live:
        return "no worker is running; start one: tickwork worker MODULE_OR_FILE"
    serving = [worker for worker in live if job.queue in worker.queues]
    if not serving:
        served = ", ".join(sorted({queue for worker in live for queue in worker.queues}))
        return f"no worker serves its queue {job.queue!r} (they serve: {served}); start one with -q {job.queue}"
    knowing = [worker for worker in serving if job.task in worker.tasks]
    if not knowing:
        how = "with --shell" if job.task == "shell" else "that imports it"
        return f"no worker of queue {job.queue!r} knows the task {job.task!r}; start one {how}"
    busy = sum(worker.running for worker in knowing)
    slots = sum(worker.slots for worker in knowing)
    if busy >= slots:
        return f"all {slots} slots of the {len(knowing)} worker(s) that can run it are taken"
    return "no worker has taken it yet"


def _running(job: JobView, workers: Sequence[WorkerView], now: datetime) -> str:
    worker = next((worker for worker in workers if worker.id == job.worker), None)
    where = f"worker {job.worker}" if worker is None else f"{worker.host}:{worker.pid}"
    if worker is not None and worker.state == "lost":
        silent = format_duration(now - worker.lease_until)
        return f"its worker {where} fell silent and its lease ran out {silent} ago; it is about to be queued again"
    since = "" if job.started_at is None else f" for {format_duration(now - job.started_at)}"
    stopping = "; it was asked to stop" if job.cancel_requested else ""
    return f"it is running: attempt {job.attempt} on {where}{since}{stopping}"


def _ended(job: JobView) -> str:
    told = gist(job.error or "")
    cause = f": {told}" if told else ""
    when = "" if job.ended_at is None else f" at {_time(job.ended_at)}"
    return f"it ended as {job.state}{when} after {job.attempt} attempt(s){cause}"


def _expired(job: JobView, now: datetime) -> bool:
    return job.expires_at is not None and job.expires_at <= now


def _time(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%d %H:%M:%S UTC")
