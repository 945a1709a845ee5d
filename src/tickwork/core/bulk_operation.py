"""Operations: one change to many jobs, as a value that is stored and carried on page by page until it is through.

Jobs are gone through from the newest to the oldest, and those that were made after it was asked for are left alone.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from tickwork.core.job import JobFilter, JobState, JobView
from tickwork.errors import InvalidInput


class BulkAction(StrEnum):
    """What to do to jobs: with a retry any that did not succeed run again, with a redrive dead letters alone."""

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
    """An action, and to which jobs. What runs again is spread out by `spacing`; what is rescheduled gets a time."""

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
    """An operation and how far it is. `step` counts the pages; `place` is the job before which the next one begins."""

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
    BulkAction.CANCEL: (JobState.RUNNING, JobState.QUEUED, JobState.RUNNING),  # the last for what was started meanwhile
    BulkAction.RETRY: (JobState.FAILED, JobState.CANCELLED, JobState.EXPIRED, JobState.DROPPED),
    BulkAction.RESCHEDULE: (JobState.QUEUED,),
}


def phases(change: BulkChange) -> list[JobFilter]:
    """The lists of jobs that a change goes through, one after the other: those states that it is for."""
    which = change.which
    if change.action in (BulkAction.REDRIVE, BulkAction.DISCARD):
        return [replace(which, dead=True)]
    if which.state is not None or which.waits is not None or which.dead or which.ids is not None:
        return [which]
    return [replace(which, state=state) for state in _STATES[change.action]]


def concerns(change: BulkChange, view: JobView) -> bool:
    """Whether a change would do something to a job."""
    if change.action in (BulkAction.REDRIVE, BulkAction.DISCARD):
        return view.state is JobState.FAILED and not view.discarded
    return view.state in _STATES[change.action] and not (change.action is BulkAction.CANCEL and view.cancel_requested)
