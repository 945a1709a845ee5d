"""Audit of enqueues: which jobs the audit log records, and which facts of a job."""

from __future__ import annotations

from typing import Any

import msgspec

from tickwork.core.access.scopes import BUILT_IN, RUNS_COMMANDS
from tickwork.core.job import JobView, NewJob


def is_sensitive(job: NewJob) -> bool:
    """Return whether a job runs a command, gets secrets by its arguments, replaces another job, or is a run.

    For all other jobs the creator is stored only with the job.
    """
    if job.task == RUNS_COMMANDS or job.if_exists == "replace" or job.version is not None:
        return True
    return job.task in BUILT_IN and b'"secrets"' in job.args


def told_name(job: NewJob, id: str) -> str:
    """Return the target name in the audit log of an enqueued job.

    `id` is the stored job, which may be an existing one.
    """
    return f"job:{id}" if job.version is None else f"run {id}"


def told_job(view: JobView | None) -> dict[str, Any] | None:
    """Return the facts of a job in the audit log: what it runs, with which arguments, and who created it."""
    if view is None:
        return None
    said = {"task": view.task, "args": msgspec.json.decode(view.args), "queue": view.queue, "key": view.key}
    return {**said, "creator": view.creator}
