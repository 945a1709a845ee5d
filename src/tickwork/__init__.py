"""Tickwork: one scheduler for all of a team's background work, on SQLite or PostgreSQL."""

from tickwork.app import Tickwork
from tickwork.client import Job
from tickwork.context import CurrentJob, current_job
from tickwork.errors import (
    Cancel,
    Fatal,
    Interrupted,
    InvalidInput,
    JobCancelled,
    JobDropped,
    JobEnded,
    JobExpired,
    JobFailed,
    JobNotFound,
    LeaseLost,
    Retry,
    Snooze,
    TickworkError,
    WaitTimeout,
)
from tickwork.version import VERSION as __version__

__all__ = [
    "Cancel",
    "CurrentJob",
    "Fatal",
    "Interrupted",
    "InvalidInput",
    "Job",
    "JobCancelled",
    "JobDropped",
    "JobEnded",
    "JobExpired",
    "JobFailed",
    "JobNotFound",
    "LeaseLost",
    "Retry",
    "Snooze",
    "Tickwork",
    "TickworkError",
    "WaitTimeout",
    "__version__",
    "current_job",
]
