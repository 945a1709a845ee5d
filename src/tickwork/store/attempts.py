"""Attempts as the verbs of a store take and return them: claims, finishes, open attempts, logs and progress."""

from __future__ import annotations

import secrets

import msgspec

from tickwork.core.ids import ClaimId, JobId, WorkerId
from tickwork.core.job import Claimed, Policy
from tickwork.core.outcome import Transition

NO_CLAIM = ClaimId(0)  # The claim id of a read that claims nothing.


def new_claim() -> ClaimId:
    """Return a random claim id. The bits come from the kernel, so forked processes draw different ids."""
    return ClaimId(secrets.randbits(63))


class Finish(msgspec.Struct, frozen=True, gc=False):
    """The end of one attempt, as decided. `waited_us` is the time from its claim to the handler's first line.

    `run` and `step`: the job is a step of that run, and its end advances the run. `produce`: the assets that it updates
    if it succeeded. `progress`: its last report, in case the store does not have it yet.
    """

    job_id: JobId
    attempt: int
    claim: ClaimId
    transition: Transition
    waited_us: int = 0
    run: str | None = None
    step: str | None = None
    produce: tuple[str, ...] = ()
    progress: Progress | None = None


class OpenAttempt(msgspec.Struct, frozen=True, gc=False):
    """An attempt that has not ended, with all that `decide` needs to end it.

    `begun`: it runs alone in its worker, or over REST, and its handler has begun.
    """

    job_id: JobId
    attempt: int
    claim: ClaimId
    worker: WorkerId
    policy: Policy
    failures: int
    crashes: int
    alone: bool
    run: str | None = None
    step: str | None = None
    losses: int = 0
    begun: bool = False


class NewLog(msgspec.Struct, frozen=True, gc=False):
    """Lines that an attempt wrote. `seq` rises with each chunk of an attempt.

    `shared`: they came through a descriptor of a process in which other attempts ran, too.
    """

    job_id: JobId
    claim: ClaimId
    seq: int
    text: str
    shared: bool = False


class Progress(msgspec.Struct, frozen=True, gc=False):
    """The progress that an attempt reports, from 0 to 1."""

    job_id: JobId
    claim: ClaimId
    fraction: float
    note: str | None


class Claims(msgspec.Struct, frozen=True):
    """The result of a claim.

    `next_due_s`: seconds until the next job of these queues is due, None if none is known. `again_s`: seconds until a
    claim may find a job that this one skipped, None when it skipped nothing. `is_near`: if this was a sparse scan, it
    was not needed.
    """

    jobs: list[Claimed]
    next_due_s: float | None = None
    again_s: float | None = None
    is_near: bool = False


class Exchange(msgspec.Struct, frozen=True):
    """The result of `Store.exchange`: the jobs whose attempts were closed, and the jobs claimed in their place.

    `claims` is None if the worker has lost its lease.
    """

    finished: set[JobId]
    claims: Claims | None
