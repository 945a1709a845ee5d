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
    from tickwork.app import Tickwork
    from tickwork.blobs import Blobs, LocalBlobs
    from tickwork.client import Job
    from tickwork.context import CurrentJob, current_batch, current_job
    from tickwork.core.flow.batch import batch
    from tickwork.core.flow.breaker import breaker
    from tickwork.core.flow.debounce import debounce, throttle
    from tickwork.core.flow.limits import concurrency, rate, sequence
    from tickwork.dag import Dag
    from tickwork.rules import Rule, after, all_of, any_of, at, calendar, cron, every, except_on, rrule
    from tickwork.runs import Run
    from tickwork.schedules import Schedule
    from tickwork.tracing.blocks import approve, branch, group, if_, teardown
    from tickwork.tracing.calls import each
    from tickwork.tracing.loops import loop
    from tickwork.tracing.this_run import this_run

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

# Imported when first asked for: they cost 100 ms, which `tickwork --help` does not have.
_LAZY = {
    "Tickwork": "tickwork.app",
    "Blobs": "tickwork.blobs",
    "LocalBlobs": "tickwork.blobs",
    "Job": "tickwork.client",
    "CurrentJob": "tickwork.context",
    "current_batch": "tickwork.context",
    "current_job": "tickwork.context",
    "batch": "tickwork.core.flow.batch",
    "breaker": "tickwork.core.flow.breaker",
    "concurrency": "tickwork.core.flow.limits",
    "debounce": "tickwork.core.flow.debounce",
    "rate": "tickwork.core.flow.limits",
    "sequence": "tickwork.core.flow.limits",
    "throttle": "tickwork.core.flow.debounce",
    "Rule": "tickwork.rules",
    "Schedule": "tickwork.schedules",
    "after": "tickwork.rules",
    "all_of": "tickwork.rules",
    "any_of": "tickwork.rules",
    "at": "tickwork.rules",
    "calendar": "tickwork.rules",
    "cron": "tickwork.rules",
    "every": "tickwork.rules",
    "except_on": "tickwork.rules",
    "rrule": "tickwork.rules",
    "Dag": "tickwork.dag",
    "Run": "tickwork.runs",
    "approve": "tickwork.tracing.blocks",
    "branch": "tickwork.tracing.blocks",
    "each": "tickwork.tracing.calls",
    "group": "tickwork.tracing.blocks",
    "if_": "tickwork.tracing.blocks",
    "loop": "tickwork.tracing.loops",
    "teardown": "tickwork.tracing.blocks",
    "this_run": "tickwork.tracing.this_run",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value
