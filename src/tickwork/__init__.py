"""Tickwork: one scheduler for all of a team's background work, on SQLite or PostgreSQL."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tickwork.errors import (
    BlobError,
    Cancel,
    CommandFailed,
    DagNotFound,
    Fatal,
    HookNotFound,
    Interrupted,
    InvalidArguments,
    InvalidDag,
    InvalidInput,
    InvalidOption,
    InvalidPayload,
    InvariantBroken,
    JobCancelled,
    JobDropped,
    JobEnded,
    JobExpired,
    JobFailed,
    JobNotFound,
    KeyTaken,
    LeaseLost,
    MixedDrivers,
    NoCurrentJob,
    NotificationNotFound,
    RequestFailed,
    Retry,
    ScheduleNotFound,
    SchemaMismatch,
    SecretError,
    Snooze,
    StoreError,
    StoreFull,
    StoreNotOurs,
    StoreReadOnly,
    StoreUnreachable,
    TickworkError,
    UnknownTask,
    WaitTimeout,
    WorkerError,
)
from tickwork.version import VERSION as __version__

if TYPE_CHECKING:
    from tickwork.api.client import Job
    from tickwork.api.runs import Run
    from tickwork.api.schedule_rules import Rule, after, all_of, any_of, at, calendar, cron, every, except_on, rrule
    from tickwork.api.schedules import Schedule
    from tickwork.app import Tickwork
    from tickwork.blobs import Blobs, LocalBlobs
    from tickwork.context import CurrentJob, current_batch, current_job
    from tickwork.core.limits.breaker import breaker
    from tickwork.core.limits.debounce import debounce, throttle
    from tickwork.core.limits.limits import concurrency, rate, sequence
    from tickwork.core.workers.batch import batch
    from tickwork.dag import Dag
    from tickwork.dag_builder.blocks import approve, branch, group, if_, loop, teardown, this_run
    from tickwork.dag_builder.task_calls import each

__all__ = [
    "BlobError",
    "Blobs",
    "Cancel",
    "CommandFailed",
    "CurrentJob",
    "Dag",
    "DagNotFound",
    "Fatal",
    "HookNotFound",
    "Interrupted",
    "InvalidArguments",
    "InvalidDag",
    "InvalidInput",
    "InvalidOption",
    "InvalidPayload",
    "InvariantBroken",
    "Job",
    "JobCancelled",
    "JobDropped",
    "JobEnded",
    "JobExpired",
    "JobFailed",
    "JobNotFound",
    "KeyTaken",
    "LeaseLost",
    "LocalBlobs",
    "MixedDrivers",
    "NoCurrentJob",
    "NotificationNotFound",
    "RequestFailed",
    "Retry",
    "Rule",
    "Run",
    "Schedule",
    "ScheduleNotFound",
    "SchemaMismatch",
    "SecretError",
    "Snooze",
    "StoreError",
    "StoreFull",
    "StoreNotOurs",
    "StoreReadOnly",
    "StoreUnreachable",
    "Tickwork",
    "TickworkError",
    "UnknownTask",
    "WaitTimeout",
    "WorkerError",
    "__version__",
    "after",
    "all_of",
    "any_of",
    "approve",
    "at",
    "batch",
    "branch",
    "breaker",
    "calendar",
    "concurrency",
    "cron",
    "current_batch",
    "current_job",
    "debounce",
    "each",
    "every",
    "except_on",
    "group",
    "if_",
    "loop",
    "rate",
    "rrule",
    "sequence",
    "teardown",
    "this_run",
    "throttle",
]

# Imported on first use: these imports take 100 ms, which would slow down `tickwork --help`.
_LAZY = {
    "Tickwork": "tickwork.app",
    "Blobs": "tickwork.blobs",
    "LocalBlobs": "tickwork.blobs",
    "Job": "tickwork.api.client",
    "CurrentJob": "tickwork.context",
    "current_batch": "tickwork.context",
    "current_job": "tickwork.context",
    "batch": "tickwork.core.workers.batch",
    "breaker": "tickwork.core.limits.breaker",
    "concurrency": "tickwork.core.limits.limits",
    "debounce": "tickwork.core.limits.debounce",
    "rate": "tickwork.core.limits.limits",
    "sequence": "tickwork.core.limits.limits",
    "throttle": "tickwork.core.limits.debounce",
    "Rule": "tickwork.api.schedule_rules",
    "Schedule": "tickwork.api.schedules",
    "after": "tickwork.api.schedule_rules",
    "all_of": "tickwork.api.schedule_rules",
    "any_of": "tickwork.api.schedule_rules",
    "at": "tickwork.api.schedule_rules",
    "calendar": "tickwork.api.schedule_rules",
    "cron": "tickwork.api.schedule_rules",
    "every": "tickwork.api.schedule_rules",
    "except_on": "tickwork.api.schedule_rules",
    "rrule": "tickwork.api.schedule_rules",
    "Dag": "tickwork.dag",
    "Run": "tickwork.api.runs",
    "approve": "tickwork.dag_builder.blocks",
    "branch": "tickwork.dag_builder.blocks",
    "each": "tickwork.dag_builder.task_calls",
    "group": "tickwork.dag_builder.blocks",
    "if_": "tickwork.dag_builder.blocks",
    "loop": "tickwork.dag_builder.blocks",
    "teardown": "tickwork.dag_builder.blocks",
    "this_run": "tickwork.dag_builder.blocks",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value
