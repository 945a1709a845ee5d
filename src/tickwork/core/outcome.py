"""Decide the outcome of a job when one of its attempts ends. No other module decides it.

`retries` bounds failures (failed, timed out). Attempts that were released, snoozed or lost do not count against it; nor
does a crash, which has its own budget: after a child process died, its jobs rerun alone, only a crash of a job that
runs alone counts, and the third crash ends the job. Lost attempts, whose whole worker went silent, are counted while
they are consecutive: after `max_lost` of them the job runs alone in its worker, and if that attempt is lost, too, the
job ends as failed. An attempt that was released, or whose child process died, neither counts as lost nor resets the
count; any other end resets it.

A job that runs again until its result is true is delayed by a false result as if it had snoozed.
"""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import NamedTuple, Protocol, assert_never

import msgspec

from tickwork.core.job import AttemptState, JobState, Policy, is_exclusive

CRASH_BUDGET = 3
ERROR_LIMIT = 64 * 1024
_STOPPED = "its worker had to stop it while it ran, and on_lost='fail' lets it begin only once"
_FALSE = frozenset({b"null", b"false", b"0", b"0.0", b"-0.0", b'""', b"[]", b"{}"})


class Succeeded(msgspec.Struct, frozen=True, gc=False):
    """The handler returned; `result` is its encoded result."""

    result: bytes


class Failed(msgspec.Struct, frozen=True, gc=False):
    """The handler raised an exception. `fatal`: no retry can help. `after`: the delay that the exception asked for."""

    error: str
    fatal: bool = False
    after: timedelta | None = None


class TimedOut(msgspec.Struct, frozen=True, gc=False):
    """The handler was stopped because its time was up."""

    error: str


class Snoozed(msgspec.Struct, frozen=True, gc=False):
    """The handler asked to be called again later; this counts as no failure."""

    after: timedelta


class Cancelled(msgspec.Struct, frozen=True, gc=False):
    """The handler ended because it was cancelled, or cancelled itself."""

    error: str = "cancelled"


class Released(msgspec.Struct, frozen=True, gc=False):
    """A worker or server returned the job to the queue, for `after`; this counts as no failure.

    `begun`: its handler had begun.
    """

    after: timedelta = timedelta(0)
    begun: bool = False


class Crashed(msgspec.Struct, frozen=True, gc=False):
    """The process that ran the job died. `alone`: no other job ran there, so this job is the cause."""

    error: str
    alone: bool


class Abandoned(msgspec.Struct, frozen=True, gc=False):
    """The worker stopped renewing, and its lease expired.

    `begun`: the job ran alone there, and its handler had begun.
    """

    error: str = "its worker went silent and the lease ran out"
    begun: bool = False


Ending = Succeeded | Failed | TimedOut | Snoozed | Cancelled | Released | Crashed | Abandoned


class Transition(msgspec.Struct, frozen=True, gc=False):
    """The decision to write: how the attempt ended, and the next state of the job.

    `delay` is set if it is queued again.
    """

    attempt: AttemptState
    job: JobState
    failures: int
    crashes: int
    delay: timedelta | None = None
    alone: bool = False
    result: bytes | None = None
    error: str | None = None
    losses: int = 0


class CountedJob(Protocol):
    """A job with its policy, and the counts of its attempts that failed, crashed and were lost."""

    @property
    def policy(self) -> Policy: ...

    @property
    def failures(self) -> int: ...

    @property
    def crashes(self) -> int: ...

    @property
    def alone(self) -> bool: ...

    @property
    def losses(self) -> int: ...


class JobCounts(NamedTuple):
    """The policy and the counts of a job, for callers that do not have the job itself."""

    policy: Policy = Policy()
    failures: int = 0
    crashes: int = 0
    alone: bool = False
    losses: int = 0


def decide(job: CountedJob, ending: Ending, rng: Random) -> Transition:
    """Return the outcome of a job, given its counts before the attempt, and how the attempt ended."""
    match ending:
        case Succeeded(result):
            if job.policy.again_every is not None and result in _FALSE:
                return _put_off(job, job.policy.again_every)
            return Transition(AttemptState.SUCCEEDED, JobState.SUCCEEDED, job.failures, job.crashes, result=result)
        case Failed(error, fatal, after):
            delay = None if fatal else job.policy.retry.delay(job.failures + 1, rng)
            return _failed(job, AttemptState.FAILED, error, delay if delay is None or after is None else after)
        case TimedOut(error):
            return _failed(job, AttemptState.TIMED_OUT, error, job.policy.retry.delay(job.failures + 1, rng))
        case Snoozed(after):
            return _put_off(job, after)
        case Cancelled(error):
            return Transition(AttemptState.CANCELLED, JobState.CANCELLED, job.failures, job.crashes, error=error)
        case Released(after, begun):
            if begun and job.policy.on_lost == "fail":
                return _lost(job, _STOPPED, alone=job.alone, losses=job.losses)
            return _put_off(job, after, job.losses)
        case Crashed(error, was_alone):
            return _crashed(job, error) if was_alone else _lost(job, error, alone=True, losses=job.losses)
        case Abandoned(error, begun):
            return _abandoned(job, error, begun)
        case _:
            assert_never(ending)


def _put_off(job: CountedJob, delay: timedelta, losses: int = 0) -> Transition:
    counts = (job.failures, job.crashes)
    return Transition(AttemptState.RELEASED, JobState.QUEUED, *counts, delay, job.alone, losses=losses)


def _abandoned(job: CountedJob, error: str, begun: bool) -> Transition:
    """Count a lost attempt.

    A job that had begun alone in its worker fails; one that had not begun there is not counted.
    """
    losses = job.losses + 1
    if not is_exclusive(job.policy, job.losses):
        return _lost(job, error, alone=job.alone, losses=losses)
    if not begun:
        return _lost(job, error, alone=job.alone, losses=job.losses)
    error = clip(f"its worker died {losses} times in a row while running it, the last time with no other job: {error}")
    return Transition(AttemptState.LOST, JobState.FAILED, job.failures, job.crashes, error=error, losses=losses)


def _failed(job: CountedJob, attempt: AttemptState, error: str, delay: timedelta | None) -> Transition:
    """Count a failure, and retry after a delay; with a delay of None, end the job as failed."""
    counts = (job.failures + 1, job.crashes)
    if delay is None:
        return Transition(attempt, JobState.FAILED, *counts, error=clip(error))
    return Transition(attempt, JobState.QUEUED, *counts, delay, job.alone, error=clip(error))


def _crashed(job: CountedJob, error: str) -> Transition:
    """Retry a job that crashed alone, or end it as failed if its crash budget is used up."""
    crashes = job.crashes + 1
    if crashes >= CRASH_BUDGET or job.policy.on_lost == "fail":
        error = f"crashed: {clip(error)} (crash {crashes} of {CRASH_BUDGET} while running alone)"
        return Transition(AttemptState.LOST, JobState.FAILED, job.failures, crashes, error=error)
    again = (JobState.QUEUED, job.failures, crashes, timedelta(0), True)
    return Transition(AttemptState.LOST, *again, error=clip(error), losses=job.losses)


def _lost(job: CountedJob, error: str, *, alone: bool, losses: int) -> Transition:
    """Queue a job again after a lost attempt, or end it as failed if `on_lost` is "fail"."""
    counts = (job.failures, job.crashes)
    if job.policy.on_lost == "fail":
        return Transition(AttemptState.LOST, JobState.FAILED, *counts, error=clip(error), losses=losses)
    again = (JobState.QUEUED, *counts, timedelta(0), alone)
    return Transition(AttemptState.LOST, *again, error=clip(error), losses=losses)


def clip(error: str) -> str:
    """Return an error cut to the size that can be stored.

    Both ends are kept: the cause is at the bottom, the calls at the top.
    """
    if len(error) <= ERROR_LIMIT:
        return error
    half = ERROR_LIMIT // 2
    return f"{error[:half]}\n... {len(error) - ERROR_LIMIT} characters left out ...\n{error[-half:]}"
