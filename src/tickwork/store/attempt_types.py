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
    """An attempt that has not ended, with the fields that `core/outcome.py` needs to decide its end.

    `begun`: its handler has begun. This is recorded only for attempts that run alone in their process or over REST.
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
    """Lines that an attempt wrote. `seq` increases with each chunk of an attempt.

    `shared`: the lines were written to the output of a process in which other attempts ran at the same time.
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
    """The result of a claim: the claimed jobs, and when another claim may find more.

    `next_due_s`: seconds until the next job of these queues is due, None if none is known. `again_s`: seconds until a
    claim may find a job that this one skipped, None if it skipped none. `is_near`: the claim was a sparse scan (see
    store/claim/sparse_scan.py), and a plain read of the queue would have found the jobs as quickly.
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
