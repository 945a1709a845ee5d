"""Decide whether a new job may be answered with the job that holds its key, or must be refused.

Keys are shared by all tasks of a store. The holder may be returned for a new job only if it is of the same task: a
caller must never get a job of another task as if it were its own.
"""

from __future__ import annotations

from typing import NamedTuple

from tickwork.core.ids import JobId
from tickwork.core.job import JobState, NewJob
from tickwork.errors import KeyTaken


class KeyOwner(NamedTuple):
    """The job that holds a key, with the facts needed to check a new job.

    An ended job can hold its key for its `key_for`.
    """

    job_id: JobId
    task: str
    is_run: bool
    state: str


def check_holder(new: NewJob, holder: KeyOwner) -> None:
    """Raise KeyTaken if the holder cannot be returned for the new job, or if `if_exists` is "error"."""
    if holder.task == new.task and holder.is_run == (new.version is not None) and new.if_exists != "error":
        return
    raise KeyTaken(str(new.key), holder.job_id, holder.task, holder.state, _message(new, holder))


def check_beside(new: NewJob, other: NewJob) -> None:
    """Raise KeyTaken as `check_holder` does, for a job with the same key that is stored by the same call."""
    check_holder(new, KeyOwner(other.id, other.task, other.version is not None, "of the same batch"))


def _message(new: NewJob, holder: KeyOwner) -> str:
    """Return the error message for a key that is held."""
    what = "run" if holder.is_run else "job"
    ended = holder.state in {state.value for state in JobState if state.ended}
    state = f"{holder.state}, and keeps the key for its key_for" if ended else holder.state
    held = f"the key {new.key!r} is held by {what} {holder.job_id} of {holder.task!r} ({state})."
    if holder.task == new.task and holder.is_run == (new.version is not None):
        return f'{held} if_exists is "error", so nothing was stored. Use if_exists="return" to be given that {what}.'
    return (
        f"{held} It cannot stand for a job of {new.task!r}, so nothing was stored. All tasks share one set of keys: "
        f"make the task a part of the key, like {f'{new.task}:{new.key}'!r}."
    )
