"""What becomes of a job when one of its attempts ends: the only place that decides it.

`retries` bounds failures (failed, timed out). Attempts that were released, snoozed or lost are free of it; so is a
crash, which has a budget of its own: after a child died its jobs rerun alone, only dying alone counts, and the third
crash ends the job. A job that is to run again until its result is true is put off by a false one as if it had snoozed.
"""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import assert_never

import msgspec

from tickwork.core.job import AttemptState, JobState, Policy

CRASH_BUDGET = 3
ERROR_LIMIT = 64 * 1024
_FALSE = frozenset({b"null", b"false", b"0", b"0.0", b"-0.0", b'""', b"[]", b"{}"})


class Succeeded(msgspec.Struct, frozen=True, gc=False):
    """The handler returned; `result` is its encoded result."""

    result: bytes


class Failed(msgspec.Struct, frozen=True, gc=False):
    """The handler raised. `fatal` means that no retry can help; `after` is the wait that it asked for."""

    error: str
    fatal: bool = False
    after: timedelta | None = None


class TimedOut(msgspec.Struct, frozen=True, gc=False):
    """The handler was ended because its time was up."""

    error: str


class Snoozed(msgspec.Struct, frozen=True, gc=False):
    """The handler asked to be called later; nothing is charged."""

    after: timedelta


class Cancelled(msgspec.Struct, frozen=True, gc=False):
    """The handler ended because it was cancelled, or cancelled itself."""

    error: str = "cancelled"


class Released(msgspec.Struct, frozen=True, gc=False):
    """A draining worker gave the job back; nothing is charged."""


class Crashed(msgspec.Struct, frozen=True, gc=False):
    """The process that ran it died. `alone`: nothing else ran there, so this job is to blame."""

    error: str
    alone: bool


class Abandoned(msgspec.Struct, frozen=True, gc=False):
    """The worker fell silent, and its lease ran out."""

    error: str = "its worker went silent and the lease ran out"


Ending = Succeeded | Failed | TimedOut | Snoozed | Cancelled | Released | Crashed | Abandoned


class Transition(msgspec.Struct, frozen=True, gc=False):
    """What to write: how the attempt ended, and where the job goes. `delay` is set when it is queued again."""

    attempt: AttemptState
    job: JobState
    failures: int
    crashes: int
    delay: timedelta | None = None
    alone: bool = False
    result: bytes | None = None
    error: str | None = None


def decide(policy: Policy, failures: int, crashes: int, alone: bool, ending: Ending, rng: Random) -> Transition:
    """Say what becomes of a job with so many failures and crashes behind it, now that its attempt ended so."""
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
        case Released():
            return _put_off(failures, crashes, timedelta(0), alone)
        case Crashed(error, was_alone):
            if was_alone:
                return _crashed(policy, failures, crashes + 1, error)
            return _lost(policy, failures, crashes, error, alone=True)
        case Abandoned(error):
            return _lost(policy, failures, crashes, error, alone=alone)
        case _:
            assert_never(ending)


def _put_off(failures: int, crashes: int, delay: timedelta, alone: bool) -> Transition:
    return Transition(AttemptState.RELEASED, JobState.QUEUED, failures, crashes, delay, alone)


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
    error = clip(error)
    failures += 1
    delay = None if fatal else policy.retry.delay(failures, rng)
    if delay is None:
        return Transition(attempt, JobState.FAILED, failures, crashes, error=error)
    wait = delay if after is None else after
    return Transition(attempt, JobState.QUEUED, failures, crashes, wait, alone, error=error)


def _crashed(policy: Policy, failures: int, crashes: int, error: str) -> Transition:
    if crashes >= CRASH_BUDGET or policy.on_lost == "fail":
        error = f"crashed: {clip(error)} (crash {crashes} of {CRASH_BUDGET} while running alone)"
        return Transition(AttemptState.LOST, JobState.FAILED, failures, crashes, error=error)
    return Transition(AttemptState.LOST, JobState.QUEUED, failures, crashes, timedelta(0), True, error=clip(error))


def _lost(policy: Policy, failures: int, crashes: int, error: str, *, alone: bool) -> Transition:
    if policy.on_lost == "fail":
        return Transition(AttemptState.LOST, JobState.FAILED, failures, crashes, error=clip(error))
    return Transition(AttemptState.LOST, JobState.QUEUED, failures, crashes, timedelta(0), alone, error=clip(error))


def clip(error: str) -> str:
    """Keep both ends of an error that is too long to store: the cause is at the bottom, the way there at the top."""
    if len(error) <= ERROR_LIMIT:
        return error
    half = ERROR_LIMIT // 2
    return f"{error[:half]}\n... {len(error) - ERROR_LIMIT} characters left out ...\n{error[-half:]}"
