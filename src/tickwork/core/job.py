"""Data types of jobs: their states, requests for new jobs, and the views that stores return.

A job moves `queued -> running -> (queued again | an end)`. It ends in one way only: an attempt ends, `outcome.decide`
decides about the job, and the store applies that decision while the attempt is still the current one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal, NamedTuple

import msgspec

from tickwork.core.ids import ClaimId, JobId
from tickwork.core.limits.job_limits import JobLimits
from tickwork.core.occurrence import Occurrence
from tickwork.core.placement import NOTHING, Offer
from tickwork.core.retry import RetryPolicy

PRIORITIES = {"high": 2, "normal": 5, "low": 8}
LOWEST_PRIORITY = 9
RUN = "@dag"  # task name of runs of dags in a queue; every worker serves it, and the store executes it
IfExists = Literal["return", "replace", "error"]  # what an enqueue does if a job of the same task holds its key
IfHeld = IfExists | Literal["follow"]
NOBODY = ""  # the worker of an attempt that the store itself holds, as it does for runs


class JobState(StrEnum):
    WAITING = "waiting"
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DROPPED = "dropped"
    EXPIRED = "expired"

    @property
    def ended(self) -> bool:
        return self in ENDED


ENDED = frozenset(
    {JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.DROPPED, JobState.EXPIRED},
)


class QueuedReason(StrEnum):
    """Why a job is queued: it is due, or delayed before its first attempt, or waiting for a retry."""

    DUE = "due"
    DELAYED = "delayed"
    RETRYING = "retrying"


class AttemptState(StrEnum):
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    CANCELLED = "cancelled"
    RELEASED = "released"


MAX_LOST = 3


class Policy(msgspec.Struct, frozen=True, cache_hash=True, omit_defaults=True):
    """The rules that are stored with a job: they hold even if the task's defaults change later.

    After `max_lost` attempts in a row whose worker was lost, the job runs alone in its worker; None: never.
    `again_every`: the job runs again after this time until its result is true. `produce`: the assets that its success
    updates.
    """

    retry: RetryPolicy = RetryPolicy()
    timeout: timedelta | None = None
    expires: timedelta | None = None
    key_for: timedelta | None = None
    retry_on: tuple[str, ...] = ()
    give_up_on: tuple[str, ...] = ()
    on_lost: str = "retry"
    max_lost: int | None = MAX_LOST
    again_every: timedelta | None = None
    produce: tuple[str, ...] = ()


class MapIndex(msgspec.Struct, frozen=True, array_like=True):
    """The number of an instance of a mapped step, from 0, and how many instances there are."""

    index: int
    count: int


class StepInstance(msgspec.Struct, frozen=True, gc=False):
    """The step of a run, and the instance of that step, that a job executes.

    `inputs` are placeholders in its arguments (see core/dag/step_inputs.py).
    """

    run: str
    step: str
    idx: int
    inputs: bytes | None = None


class NewJob(msgspec.Struct, frozen=True, gc=False):
    """A request to run a task, checked and ready to be stored.

    The job is due `delay` after the current time of the store, or at `at`, whichever is given; `expires_at` is
    absolute, `policy.expires` counts from the moment it is due. `occurrence` is set, as JSON, if a schedule made it.
    `job_limits` is None for a plain job. `version` makes it a run of that version of the dag named by `task`. `part`
    is the step instance of a job that a step made. `creator` is who made the job (see context.py).

    `if_exists` "follow", which debounce and throttle use, replaces a waiting job that holds the key; if that job has
    started, the new job is stored beside it and takes over the key.
    """

    id: JobId
    task: str
    args: bytes
    queue: str = "default"
    priority: int = PRIORITIES["normal"]
    delay: timedelta | None = None
    at: datetime | None = None
    expires_at: datetime | None = None
    policy: Policy = msgspec.field(default_factory=Policy)
    key: str | None = None
    if_exists: IfHeld = "return"
    collection: str | None = None
    labels: tuple[str, ...] = ()
    parent: str | None = None
    trace: str | None = None
    creator: str | None = None
    occurrence: str | None = None
    job_limits: JobLimits | None = None
    version: int | None = None
    part: StepInstance | None = None


def is_exclusive(policy: Policy, losses: int) -> bool:
    """Return whether a job with this number of lost attempts in a row must run alone in its worker."""
    return policy.max_lost is not None and losses >= policy.max_lost


class AskingAttempt(NamedTuple):
    """The attempt on whose behalf a handler calls the store."""

    job_id: JobId
    attempt: int
    claim: ClaimId


class Claimed(msgspec.Struct, frozen=True, gc=False):
    """A job that this worker holds, with the number of its current attempt.

    `claim` identifies the claim that took it; all jobs of one claim share it. Every write of the attempt names the
    claim, because the number alone repeats if a store loses its last commits. Instants are the store's microseconds
    since the epoch, because a worker handles many of these objects. `is_probe`: a breaker needs to know how the job
    ends. `run` and `step`: the job is a step of that run. `trace`: the traceparent of the enqueuing call. `flaw`: why
    the job cannot be called with its arguments.
    """

    job_id: JobId
    attempt: int
    claim: ClaimId
    task: str
    queue: str
    priority: int
    args: bytes
    policy: Policy
    run_at_us: int
    claimed_at_us: int
    failures: int
    crashes: int
    alone: bool
    occurrence: str | None = None
    job_limits: JobLimits | None = None
    is_probe: bool = False
    run: str | None = None
    step: str | None = None
    inputs: str | None = None
    trace: str | None = None
    flaw: str | None = None
    losses: int = 0

    @property
    def is_exclusive(self) -> bool:
        """Whether the job must run alone in its worker, because too many consecutive attempts lost their workers."""
        return is_exclusive(self.policy, self.losses)


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as read from the store."""

    id: JobId
    task: str
    queue: str
    priority: int
    state: JobState
    args: bytes
    policy: Policy
    key: str | None
    collection: str | None
    labels: tuple[str, ...]
    parent: str | None
    trace: str | None
    creator: str | None
    created_at: datetime
    run_at: datetime
    expires_at: datetime | None
    attempt: int
    failures: int
    crashes: int
    alone: bool
    worker: str | None
    started_at: datetime | None
    ended_at: datetime | None
    cancel_requested: bool
    progress: float | None
    progress_note: str | None
    result: bytes | None
    error: str | None
    discarded: bool
    occurrence: Occurrence | None
    job_limits: JobLimits | None
    version: int | None = None
    run: str | None = None
    step: str | None = None
    idx: int | None = None
    losses: int = 0

    @property
    def is_exclusive(self) -> bool:
        """Whether the current or next attempt of the job must run alone in its worker."""
        return not self.state.ended and is_exclusive(self.policy, self.losses)


@dataclass(frozen=True, slots=True)
class AttemptView:
    """An attempt of a job, as read from the store."""

    job_id: JobId
    number: int
    state: AttemptState
    worker: str | None
    started_at: datetime
    ended_at: datetime | None
    error: str | None
    progress: float | None = None
    progress_note: str | None = None


@dataclass(frozen=True, slots=True)
class LogChunk:
    """A part of the output of a handler, in the order in which it was written.

    `shared`: the text came through a descriptor of a process in which other attempts ran, too, and may be theirs.
    """

    job_id: JobId
    attempt: int
    seq: int
    at: datetime
    text: str
    shared: bool = False


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A registered worker process, and the end of its lease.

    A `remote` worker claims jobs over REST; its host is the name that it gave. The store has a row for each of its
    leases, and lists merge rows with the same name, queues, tasks and offer into one worker. A remote worker without
    tasks takes jobs of any task. `asked` is what an operator has asked of it: "quiet", to claim no jobs, or "stop", to
    finish running jobs and exit.
    """

    id: str
    host: str
    pid: int
    version: str
    queues: tuple[str, ...]
    tasks: tuple[str, ...]
    slots: int
    state: str
    started_at: datetime
    lease_until: datetime
    running: int
    schedules: tuple[str, ...] = ()
    offer: Offer = NOTHING
    asked: str | None = None

    @property
    def name(self) -> str:
        """The name shown to users."""
        return f"{self.host}:{self.pid}" if self.pid else self.host

    @property
    def serves(self) -> bool:
        """Whether the worker takes jobs, or would with a free slot."""
        return self.state in ("running", "remote")

    def knows(self, task: str) -> bool:
        return task in self.tasks or (self.state == "remote" and not self.tasks)


COUNTED = 10_000  # the jobs of a queue are counted up to this number


@dataclass(frozen=True, slots=True)
class QueueView:
    """The numbers of jobs in a queue. Held jobs wait for a limit or a gate, and do not count as due.

    Counts are exact below COUNTED; counts named in `at_least` are lower bounds.
    """

    name: str
    due: int
    later: int
    running: int
    held: int
    oldest_due_at: datetime | None
    at_least: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskDefinition:
    """The definition of a task that workers store, so that callers who do not import the task can enqueue it.

    `task_limits` is its TaskLimits as JSON (see core/limits/task_limits.py). `version`: the task is a dag, and this
    is its newest version.
    """

    name: str
    queue: str
    priority: int
    policy: Policy
    schema: bytes
    task_limits: str | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class JobFilter:
    """A filter of jobs. Empty fields do not restrict.

    `dead` selects jobs that failed and are not discarded, `runs` runs of dags. `run` selects the steps of one run.
    `since` and `until` compare creation times, taken from the ids: created at or after `since`, and before `until`.
    `waits` applies to queued jobs. `tasks` is a prefix of task names, `error` a text within the error of the last
    attempt, and `worker` the worker of the last attempt.
    """

    ids: tuple[JobId, ...] | None = None
    state: JobState | None = None
    task: str | None = None
    queue: str | None = None
    key: str | None = None
    collection: str | None = None
    label: str | None = None
    parent: str | None = None
    creator: str | None = None
    dead: bool = False
    runs: bool = False
    run: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    waits: QueuedReason | None = None
    tasks: str | None = None
    tenant: str | None = None
    error: str | None = None
    worker: str | None = None


class JobPage(msgspec.Struct, frozen=True):
    """A page of jobs. `next` is where the next page begins; None if there are no more jobs.

    A page may have fewer jobs than requested, or none, although more follow.
    """

    jobs: list[JobView]
    next: JobId | None
