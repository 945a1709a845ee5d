"""Which jobs the audit log tells of when they are enqueued, and what it is told of a job."""

from __future__ import annotations

from typing import Any

import msgspec

from tickwork.core.access import BUILT_IN, RUNS_COMMANDS
from tickwork.core.job import JobView, NewJob


def is_sensitive(job: NewJob) -> bool:
    """Return whether a job runs a command, is given secrets by its arguments, or replaces another job.

    Of all other jobs, who created them is stored with the job alone.
    """
    if job.task == RUNS_COMMANDS or job.if_exists == "replace":
        return True
    return job.task in BUILT_IN and b'"secrets"' in job.args


def told_job(view: JobView | None) -> dict[str, Any] | None:
    """Return what the audit log is told of a job: what it runs, with which arguments, and who created it."""
    if view is None:
        return None
    said = {"task": view.task, "args": msgspec.json.decode(view.args), "queue": view.queue, "key": view.key}
    return {**said, "creator": view.creator}
