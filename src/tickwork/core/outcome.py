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
from typing import assert_never

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
    """The handler raised. `fatal`: no retry can help. `after`: the delay that the exception asked for."""

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
    """The process that ran the job died. `alone`: no other job ran there, so this job is to blame."""

    error: str
    alone: bool


class Abandoned(msgspec.Struct, frozen=True, gc=False):
    """The worker went silent, and its lease ran out. `begun`: the job ran alone there, and its handler had begun."""

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


def decide(
    policy: Policy, failures: int, crashes: int, alone: bool, ending: Ending, rng: Random, losses: int = 0
) -> Transition:
    """Return the outcome of a job, given its failures, crashes and losses so far, and how its attempt ended."""
    match ending:
        case Succeeded(result):
            if policy.again_every is not None and result in _FALSE:
                return _put_off(failures, crashes, policy.again_every, alone)
            return Transition(AttemptState.SUCCEEDED, JobState.SUCCEEDED, failures, crashes, result=result)
        case Failed(error, fatal, after):
            return _failed(policy, failures, crashes, alone, AttemptState.FAILED, error, fatal, after, rng)
        case TimedOut(error):
            return _failed(policy, failures, crashes, alone, AttemptState.TIMED_OUT, error, False, None, rng)
        case Snoozed(after):
            return _put_off(failures, crashes, after, alone)
        case Cancelled(error):
            return Transition(AttemptState.CANCELLED, JobState.CANCELLED, failures, crashes, error=error)
        case Released(after, begun):
            if begun and policy.on_lost == "fail":
                return _lost(policy, failures, crashes, _STOPPED, alone=alone, losses=losses)
            return _put_off(failures, crashes, after, alone, losses)
        case Crashed(error, was_alone):
            if was_alone:
                return _crashed(policy, failures, crashes + 1, error, losses)
            return _lost(policy, failures, crashes, error, alone=True, losses=losses)
        case Abandoned(error, begun):
            return _abandoned(policy, failures, crashes, alone, losses, error, begun)
        case _:
            assert_never(ending)


def _put_off(failures: int, crashes: int, delay: timedelta, alone: bool, losses: int = 0) -> Transition:
    return Transition(AttemptState.RELEASED, JobState.QUEUED, failures, crashes, delay, alone, losses=losses)


def _abandoned(
    policy: Policy, failures: int, crashes: int, alone: bool, losses: int, error: str, begun: bool
) -> Transition:
    """Count a lost attempt.

    A job that had begun alone in its worker fails; one that had not begun there is not counted.
    """
    if not is_exclusive(policy, losses):
        return _lost(policy, failures, crashes, error, alone=alone, losses=losses + 1)
    if not begun:
        return _lost(policy, failures, crashes, error, alone=alone, losses=losses)
    error = f"its worker died {losses + 1} times in a row while running it, the last time with no other job: {error}"
    return Transition(AttemptState.LOST, JobState.FAILED, failures, crashes, error=clip(error), losses=losses + 1)


def _failed(
    policy: Policy,
    failures: int,
    crashes: int,
    alone: bool,
    attempt: AttemptState,
    error: str,
    fatal: bool,
    after: timedelta | None,
    rng: Random,
) -> Transition:
    """Count a failure, and retry after a delay or end the job as failed."""
    error = clip(error)
    failures += 1
    delay = None if fatal else policy.retry.delay(failures, rng)
    if delay is None:
        return Transition(attempt, JobState.FAILED, failures, crashes, error=error)
    wait = delay if after is None else after
    return Transition(attempt, JobState.QUEUED, failures, crashes, wait, alone, error=error)


def _crashed(policy: Policy, failures: int, crashes: int, error: str, losses: int) -> Transition:
    """Retry a job that crashed alone, or end it as failed if its crash budget is used up."""
    if crashes >= CRASH_BUDGET or policy.on_lost == "fail":
        error = f"crashed: {clip(error)} (crash {crashes} of {CRASH_BUDGET} while running alone)"
        return Transition(AttemptState.LOST, JobState.FAILED, failures, crashes, error=error)
    again = (JobState.QUEUED, failures, crashes, timedelta(0), True)
    return Transition(AttemptState.LOST, *again, error=clip(error), losses=losses)


def _lost(policy: Policy, failures: int, crashes: int, error: str, *, alone: bool, losses: int) -> Transition:
    """Queue a job again after a lost attempt, or end it as failed if `on_lost` is "fail"."""
    if policy.on_lost == "fail":
        return Transition(AttemptState.LOST, JobState.FAILED, failures, crashes, error=clip(error), losses=losses)
    again = (JobState.QUEUED, failures, crashes, timedelta(0), alone)
    return Transition(AttemptState.LOST, *again, error=clip(error), losses=losses)


def clip(error: str) -> str:
    """Cut an error that is too long to store. Both ends stay: the cause is at the bottom, the call path at the top."""
    if len(error) <= ERROR_LIMIT:
        return error
    half = ERROR_LIMIT // 2
    return f"{error[:half]}\n... {len(error) - ERROR_LIMIT} characters left out ...\n{error[-half:]}"
