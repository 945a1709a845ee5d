"""Remote work in any language: claim jobs over REST, renew their leases, and finish them.

Every call about an attempt identifies it by the job's id, the attempt's number and the `claim` of the lease answer.
If that claim no longer holds the job, the answer is 409 `lease-lost`, and nothing has changed. A call may leave the
claim out if its caller, an API key or a user, leased the job.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Annotated, Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from tickwork.core.arguments.payload import RESULT_LIMIT, encode, storable
from tickwork.core.ids import JobId
from tickwork.core.job import AttemptState, JobState
from tickwork.core.job_options import read_option, task_name, worker_name
from tickwork.core.outcome import Failed, Released, Succeeded, TimedOut, clip
from tickwork.core.placement import read_offer
from tickwork.errors import InvalidOption, LeaseLost
from tickwork.http.auth.access import CHECK_S, WatchedCredential
from tickwork.http.framework.params import read_seconds
from tickwork.http.framework.route import BODY_LIMIT, Routes, Scope, Struct
from tickwork.http.remote.claim_and_finish import LeaseRequest, WantedJobs
from tickwork.http.request import Call
from tickwork.http.resources.jobs.jobs import found
from tickwork.http.resources.jobs.leased_job import LeasedJobBody, read_claim, shown
from tickwork.store.attempt_types import Progress
from tickwork.store.remote_leases import RemoteAttempt, RemoteName
from tickwork.store.rows.jobs import storable_text
from tickwork.worker.run.capture import LOG_LIMIT

routes = Routes("work")

WAIT_LIMIT_S = 60.0
SHORTEST_LEASE_S, LONGEST_LEASE_S = 1.0, 3600.0
AFTER_LIMIT_S = 366 * 86400.0
NOTE_LIMIT = 500
_RESULT_BODY = RESULT_LIMIT + 64 * 1024

Duration = str | float
Number = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
ClaimText = Annotated[str, msgspec.Meta(max_length=64)]


class LeaseBody(Struct):
    """The jobs that a worker asks for, by queues (in the order of preference) and tasks; without tasks, any task.

    Tickwork's own tasks (`shell`, `http`, `smtp`) are leased only if they are named. `wait` is how long to wait for a
    job, up to 60 s, and `lease` how long each job is leased without a heartbeat, from 1 s to 1 h; without it, the
    `lease` setting of the server applies, up to 1 h. `labels` and `resources` are what the worker has, for jobs with
    needs.
    """

    queues: Annotated[list[Name], msgspec.Meta(min_length=1, max_length=100)]
    worker: Name
    tasks: Annotated[list[Name], msgspec.Meta(max_length=1000)] = msgspec.field(default_factory=list)
    wait: Duration = 0.0
    lease: Duration | None = None
    max: Annotated[int, msgspec.Meta(ge=1, le=100)] = 1
    labels: Annotated[list[Name], msgspec.Meta(max_length=100)] = msgspec.field(default_factory=list)
    resources: dict[str, str | float] = msgspec.field(default_factory=dict)


class LeasesBody(Struct):
    """Jobs to run now; empty if no job was due while the request waited."""

    jobs: list[LeasedJobBody]


class LeasedAttemptBody(Struct):
    """The attempt. `claim` is from the lease answer; the caller that leased the job may leave it out."""

    attempt: Number
    claim: ClaimText | None = None


class HeartbeatBody(LeasedAttemptBody):
    """A heartbeat of an attempt, with the length of its lease from now on, and its progress from 0 to 1.

    Without `lease`, the `lease` setting of the server applies, up to 1 h.
    """

    lease: Duration | None = None
    progress: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    note: str | None = None


class RenewedBody(Struct):
    """The end of the lease.

    `cancel`: the job was asked to stop, and ends as cancelled whatever outcome the attempt reports.
    """

    lease_until: datetime
    cancel: bool


class CompleteBody(LeasedAttemptBody):
    """An attempt that succeeded, and its result."""

    result: Any = None


class FailBody(LeasedAttemptBody, kw_only=True):
    """An attempt that failed. The retry policy of the job decides whether and when it is retried.

    With `retry` false it is not retried; `after` replaces the delay of the policy.
    """

    error: Annotated[str, msgspec.Meta(min_length=1)]
    retry: bool = True
    after: Duration | None = None


class ReleaseBody(LeasedAttemptBody):
    """An attempt that returns its job to the queue, for example because its worker was told to stop."""


class EndBody(Struct):
    """The state of the job after the call."""

    id: str
    state: str


class LeasedLogBody(LeasedAttemptBody, kw_only=True):
    """Lines that an attempt wrote. With `seq`, which counts from 0, lines that are sent twice are stored once."""

    text: Annotated[str, msgspec.Meta(max_length=256 * 1024)]
    seq: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] | None = None


class LoggedBody(Struct):
    """The number of the piece in the attempt's log."""

    seq: int


class CheckpointBody(LeasedAttemptBody, kw_only=True):
    """A checkpoint, which later attempts receive as `state` of their job."""

    state: Any


@routes.post("/leases", Scope.WORK, is_repeatable=False)
async def lease_jobs(call: Call, body: LeaseBody) -> LeasesBody:
    """Claim jobs, each with a lease of its own; wait for a job if none is due.

    The list is empty if no job became due.
    """
    wanted = WantedJobs(
        tuple(dict.fromkeys(read_option("queue", queue) for queue in body.queues)),
        tuple(dict.fromkeys(_task(name) for name in body.tasks)),
        read_offer(body.labels, body.resources),
    )
    asker = LeaseRequest(worker_name(body.worker), call.who.name, _lease(call, body.lease), body.max)
    wait_s = read_seconds(body.wait, "wait", 0, WAIT_LIMIT_S)
    if call.parts.stopping.is_set():
        return LeasesBody(jobs=[])
    permit = call.parts.credential_watch.of(call.request, Scope.WORK)
    leased = await call.parts.long_polls.poll(wanted, asker, wait_s, _gone(call.request, permit))
    permit.check()
    return LeasesBody(jobs=await run_in_threadpool(shown, call, leased) if leased else [])


def _lease(call: Call, named: Duration | None) -> timedelta:
    """Return the length of a lease: as requested, else the setting, up to the maximum."""
    if named is None:
        return min(call.app.settings.lease_times().lease, timedelta(seconds=LONGEST_LEASE_S))
    return timedelta(seconds=read_seconds(named, "lease", SHORTEST_LEASE_S, LONGEST_LEASE_S))


async def _gone(request: Request, permit: WatchedCredential) -> None:
    """Return when the client of a request has disconnected, or is no longer permitted to work."""
    leaving = asyncio.ensure_future(_disconnected(request))
    try:
        while not leaving.done() and await permit.holds():
            await asyncio.wait((leaving,), timeout=CHECK_S)
    finally:
        leaving.cancel()


async def _disconnected(request: Request) -> None:
    """Return when the client of a request has disconnected."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _task(name: str) -> str:
    """Return the name of a task that a worker may lease. Raises InvalidOption."""
    if name.startswith("@"):
        raise InvalidOption(f"{name!r} is a built-in task: only Tickwork's own workers run it.")
    return task_name(name)


@routes.post("/jobs/{id}/heartbeat", Scope.WORK, takes_nul=True)
def renew_lease(call: Call, id: str, body: HeartbeatBody) -> RenewedBody:
    """Extend the lease of a job from now on, and return whether the job was asked to stop.

    This call ends an attempt that has exceeded its timeout.
    """
    lease = _lease(call, body.lease)
    one = call.app.store.remote.renew_attempt(_name(call, id, body), lease)
    if one is None:
        raise _lost(call, id, body)
    if one.policy.timeout is not None and one.lease_until - lease - one.claimed_at > one.policy.timeout:
        error = f"it ran for more than its timeout of {one.policy.timeout.total_seconds():g} s"
        call.parts.long_polls.ends.end(one, TimedOut(error), one.worker)
        raise LeaseLost(f"attempt {body.attempt} of job {id} has ended: {error}.")
    if body.progress is not None:
        note = None if body.note is None else storable(body.note)[:NOTE_LIMIT]
        call.app.store.set_progress([Progress(one.job_id, one.claim, body.progress, note)])
    return RenewedBody(lease_until=one.lease_until, cancel=one.cancel_requested)


@routes.post("/jobs/{id}/complete", Scope.WORK, body_limit=_RESULT_BODY)
def complete_job(call: Call, id: str, body: CompleteBody) -> EndBody:
    """End a job as succeeded. A repeated call with an equal result gets the same answer."""
    result = encode(body.result, what=f"the result of job {id}", limit_bytes=RESULT_LIMIT)
    one = call.app.store.remote.remote_attempt(_name(call, id, body))
    if one is None or not call.parts.long_polls.ends.end(one, Succeeded(result), one.worker):
        job = found(call, id).view
        is_same = (job.state, job.attempt, job.result) == (JobState.SUCCEEDED, body.attempt, result)
        if not is_same and not _was_cancelled(call, id, body.attempt):
            raise _lost(call, id, body)
    return _ended(call, id)


@routes.post("/jobs/{id}/fail", Scope.WORK, takes_nul=True)
def fail_job(call: Call, id: str, body: FailBody) -> EndBody:
    """End an attempt as failed: the job is retried, or fails for good. A repeated call gets the same answer."""
    after = None if body.after is None else timedelta(seconds=read_seconds(body.after, "after", 0, AFTER_LIMIT_S))
    one = call.app.store.remote.remote_attempt(_name(call, id, body))
    if one is None or not call.parts.long_polls.ends.end(one, Failed(body.error, not body.retry, after), one.worker):
        tried = (body.attempt, AttemptState.FAILED, storable_text(clip(body.error)))
        is_same = tried in [(one.number, one.state, one.error) for one in found(call, id).attempts()]
        if not is_same and not _was_cancelled(call, id, body.attempt):
            raise _lost(call, id, body)
    return _ended(call, id)


@routes.post("/jobs/{id}/release", Scope.WORK)
def release_job(call: Call, id: str, body: ReleaseBody) -> EndBody:
    """Return a job to the queue: it is due again at once, and the attempt is not counted against its retries."""
    one = _current(call, id, body)
    if not call.parts.long_polls.ends.end(one, Released(), one.worker):
        raise _lost(call, id, body)
    return _ended(call, id)


@routes.post("/jobs/{id}/log", Scope.WORK, body_limit=BODY_LIMIT * 2, takes_nul=True)
def append_log(call: Call, id: str, body: LeasedLogBody) -> LoggedBody:
    """Append lines to the log of an attempt. They can be read before the job ends."""
    seq = call.app.store.remote.append_log(_name(call, id, body), body.text, body.seq, LOG_LIMIT)
    if seq is None:
        raise _lost(call, id, body)
    return LoggedBody(seq=seq)


@routes.post("/jobs/{id}/checkpoint", Scope.WORK, body_limit=_RESULT_BODY)
def save_checkpoint(call: Call, id: str, body: CheckpointBody) -> None:
    """Store a checkpoint from which a later attempt of the job resumes."""
    state = encode(body.state, what=f"the state of job {id}", limit_bytes=RESULT_LIMIT)
    one = _current(call, id, body)
    if not call.app.store.save_state(one.job_id, one.claim, state):
        raise _lost(call, id, body)


def _was_cancelled(call: Call, id: str, attempt: int) -> bool:
    """Return whether an attempt has ended as cancelled; its calls then get a normal answer."""
    tried = ((one.number, one.state) for one in found(call, id).attempts())
    return (attempt, AttemptState.CANCELLED) in tried


def _name(call: Call, id: str, body: LeasedAttemptBody) -> RemoteName:
    return RemoteName(JobId(id), body.attempt, read_claim(body.claim), call.who.name)


def _current(call: Call, id: str, body: LeasedAttemptBody) -> RemoteAttempt:
    one = call.app.store.remote.remote_attempt(_name(call, id, body))
    if one is None:
        raise _lost(call, id, body)
    return one


def _lost(call: Call, id: str, body: LeasedAttemptBody) -> LeaseLost:
    """Return the error for a caller whose claim does not hold the job. Raises JobNotFound."""
    job, attempt = found(call, id).view, body.attempt
    if job.state is not JobState.RUNNING or job.attempt != attempt:
        return LeaseLost(
            f"attempt {attempt} of job {id} holds no lease over REST: the job is {job.state.value}, at attempt "
            f"{job.attempt}. Nothing was changed."
        )
    if body.claim is None:
        return LeaseLost(
            f"attempt {attempt} of job {id} was not leased by {call.who.name}. Send the `claim` of the lease answer: "
            f"`attempt` alone is valid only for the caller that leased the job. Nothing was changed."
        )
    return LeaseLost(f"another claim holds attempt {attempt} of job {id} by now. Drop the work; nothing was changed.")


def _ended(call: Call, id: str) -> EndBody:
    return EndBody(id=id, state=found(call, id).view.state.value)
