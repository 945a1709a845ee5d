"""Broadcasts: one job for each live worker that could run it.

Each is an ordinary job that needs a label which only one worker has. It is placed like any job with needs, when that
worker has a free slot. If the worker is gone, the job expires, because its successor has another label.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from msgspec.structs import replace

from tickwork.core.job import NewJob, WorkerView
from tickwork.core.limits.job_limits import Broadcast, JobLimits
from tickwork.core.placement import Needs, needs_of, own_label, taken_of
from tickwork.errors import InvalidOption

EXPIRES = timedelta(minutes=10)  # unless the task or its options set another time


def addressees(workers: Iterable[WorkerView], job: NewJob) -> list[str]:
    """Return the workers that take jobs, know the task, serve the queue and have what the job needs."""
    needs = needs_of("" if job.job_limits is None else job.job_limits.needs)
    return [
        worker.id
        for worker in workers
        if worker.state == "running"
        and job.task in worker.tasks
        and job.queue in worker.queues
        and taken_of(worker.offer, needs) is not None
    ]


def addressed(job: NewJob, worker: str, index: int, total: int) -> NewJob:
    """Return a job that only this worker can run. Raises InvalidOption for a job with a key, which must be unique."""
    if job.key is not None:
        raise InvalidOption("a broadcast makes many jobs, and there is one live job per key: leave the key out.")
    job_limits = job.job_limits or JobLimits()
    other = needs_of(job_limits.needs)
    needs = Needs((*other.things, own_label(worker)), other.amounts)
    return replace(job, job_limits=replace(job_limits, needs=needs.text, broadcast=Broadcast(index, total)))
