"""Which jobs the audit log tells of when they are enqueued, and what it is told of a job."""

from __future__ import annotations

from typing import Any

import msgspec

from tickwork.core.access.scopes import BUILT_IN, RUNS_COMMANDS
from tickwork.core.job import JobView, NewJob


def is_sensitive(job: NewJob) -> bool:
    """Return whether a job runs a command, is given secrets by its arguments, replaces another job, or is a run.

    Of all other jobs, who created them is stored with the job alone.
    """
    if job.task == RUNS_COMMANDS or job.if_exists == "replace" or job.version is not None:
        return True
    return job.task in BUILT_IN and b'"secrets"' in job.args


def told_name(job: NewJob, id: str) -> str:
    """Return the name under which the audit log tells of a job that was enqueued, which another one may stand for."""
    return f"job:{id}" if job.version is None else f"run {id}"


def told_job(view: JobView | None) -> dict[str, Any] | None:
    """Return what the audit log is told of a job: what it runs, with which arguments, and who created it."""
    if view is None:
        return None
    said = {"task": view.task, "args": msgspec.json.decode(view.args), "queue": view.queue, "key": view.key}
    return {**said, "creator": view.creator}
