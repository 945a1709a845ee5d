"""Bulk operations: one change to many jobs, stored as a value and carried out page by page.

Jobs are visited from the newest to the oldest. Jobs that were created after the request are not changed.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from tickwork.core.job import JobFilter, JobState, JobView
from tickwork.errors import InvalidInput


class BulkAction(StrEnum):
    """The action of a bulk operation. A retry queues jobs that did not succeed, a redrive only dead letters."""

    CANCEL = "cancel"
    RETRY = "retry"
    REDRIVE = "redrive"
    DISCARD = "discard"
    RESCHEDULE = "reschedule"


class OperationState(StrEnum):
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    CANCELLED = "cancelled"
    FAILED = "failed"


class BulkChange(msgspec.Struct, frozen=True):
    """An action and the jobs to change.

    Jobs that run again are spread out by `spacing`; rescheduled jobs need `at` or `delay`.
    """

    action: BulkAction
    which: JobFilter
    spacing: timedelta = timedelta(0)
    at: datetime | None = None
    delay: timedelta | None = None

    def __post_init__(self) -> None:
        is_timed = (self.at is None) != (self.delay is None)
        if self.action is BulkAction.RESCHEDULE and not is_timed:
            raise InvalidInput("say to when jobs are rescheduled: at an instant, or after a delay.")
        if self.action is not BulkAction.RESCHEDULE and (self.at is not None or self.delay is not None):
            raise InvalidInput(f"at and delay are for jobs that are rescheduled, not for a {self.action.value}.")
        if self.spacing and self.action not in (BulkAction.RETRY, BulkAction.REDRIVE):
            raise InvalidInput(f"a rate is for jobs that run again, not for a {self.action.value}.")


class BulkOperation(msgspec.Struct, frozen=True, kw_only=True):
    """A bulk operation and its progress. `step` counts the pages; the next page begins before job `place`."""

    id: str
    change: BulkChange
    by: str
    state: OperationState
    phase: int
    place: str | None
    step: int
    looked: int
    changed: int
    error: str | None
    created_at: datetime
    ended_at: datetime | None


_STATES = {
    # RUNNING again, for jobs that started meanwhile
    BulkAction.CANCEL: (JobState.RUNNING, JobState.QUEUED, JobState.RUNNING),
    BulkAction.RETRY: (JobState.FAILED, JobState.CANCELLED, JobState.EXPIRED, JobState.DROPPED),
    BulkAction.RESCHEDULE: (JobState.QUEUED,),
}


def phases(change: BulkChange) -> list[JobFilter]:
    """Return the job filters that a change goes through, one after the other."""
    which = change.which
    if change.action in (BulkAction.REDRIVE, BulkAction.DISCARD):
        return [replace(which, dead=True)]
    if which.state is not None or which.waits is not None or which.dead or which.ids is not None:
        return [which]
    return [replace(which, state=state) for state in _STATES[change.action]]


def concerns(change: BulkChange, view: JobView) -> bool:
    """Return whether a change would affect a job."""
    if change.action in (BulkAction.REDRIVE, BulkAction.DISCARD):
        return view.state is JobState.FAILED and not view.discarded
    return view.state in _STATES[change.action] and not (change.action is BulkAction.CANCEL and view.cancel_requested)
