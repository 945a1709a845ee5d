"""Tickwork: one scheduler for all of a team's background work, on SQLite or PostgreSQL."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from tickwork.app import Tickwork
    from tickwork.client import Job
    from tickwork.context import CurrentJob, current_job

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

# Imported when first asked for: they cost 100 ms, which `tickwork --help` does not have.
_LAZY = {
    "Tickwork": "tickwork.app",
    "Job": "tickwork.client",
    "CurrentJob": "tickwork.context",
    "current_job": "tickwork.context",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value
