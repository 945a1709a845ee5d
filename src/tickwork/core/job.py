"""What a job is: its states, what a caller asks for, and what the stores give back.

A job moves `queued -> running -> (queued again | an end)`. There is one road to an ending: an attempt ends,
`outcome.decide` says what becomes of the job, and the store applies it while that attempt is still the current one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal, NamedTuple

import msgspec

from tickwork.core.ids import ClaimId, JobId
from tickwork.core.limits.lanes import Flow
from tickwork.core.occurrence import Occurrence
from tickwork.core.placement.needs import NOTHING, Offer
from tickwork.core.retry import RetryPolicy

PRIORITIES = {"high": 2, "normal": 5, "low": 8}
LOWEST_PRIORITY = 9
RUN = "@dag"  # what a run of a dag stands in the queue as; every worker serves it, and the store carries it out
IfExists = Literal["return", "replace", "error"]  # what an enqueue does when its key is held by a job of its task
IfHeld = IfExists | Literal["follow"]
NOBODY = ""  # the worker of an attempt that the store itself holds, as it does runs


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
    """How a queued job waits: it is due, or will be for the first time, or was tried before without success."""

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
    """The rules that a job carries with it: they hold even if the task's defaults change later.

    After `max_lost` attempts in a row whose worker was lost, it runs alone in its worker; None: never.
    `again_every`: it runs again after so long, until its result is true. `produce`: the assets that its success makes
    anew.
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
    """Which instance of a mapped step a job is, from 0 on, and how many there are."""

    index: int
    count: int


class StepInstance(msgspec.Struct, frozen=True, gc=False):
    """The step of a run, and the instance of it, that a job runs.

    `inputs` are placeholders in its arguments (see core/dag/step_inputs.py).
    """

    run: str
    step: str
    idx: int
    inputs: bytes | None = None


class NewJob(msgspec.Struct, frozen=True, gc=False):
    """A request to run a task, checked and ready to be stored.

    It is due `delay` after the store's now, or at `at`, whichever is given; `expires_at` is absolute, `policy.expires`
    counts from the moment it is due. `tick` is the occurrence that it stands for, as JSON, if a schedule made it.
    `flow` is what flow control has to know of it; None: it is a plain job. `version` makes it a run of that version of
    the dag that `task` names. `part` is the place in a run of a job that a step made.
    `creator` says who made the job (see api/creator.py).

    `if_exists` "follow", which debounce and throttle use, replaces a holder of the key that waits; where the holder has
    started, this job is stored as well and takes over the key.
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
    tick: str | None = None
    flow: Flow | None = None
    version: int | None = None
    part: StepInstance | None = None


def is_exclusive(policy: Policy, losses: int) -> bool:
    """Say whether a job with so many lost attempts in a row must run alone in its worker."""
    return policy.max_lost is not None and losses >= policy.max_lost


class AskingAttempt(NamedTuple):
    """The attempt whose handler asks the store for something."""

    job_id: JobId
    attempt: int
    claim: ClaimId


class Claimed(msgspec.Struct, frozen=True, gc=False):
    """A job that this worker now holds, with the number of the attempt that it may make.

    `claim` is the identity of the claim that took it; all jobs of one claim share it. Every write of the attempt names
    it: the number alone repeats when a store loses its last commits.
    There are many of these, so their instants are the store's microseconds since the epoch. `is_probe`: a breaker wants
    to know how it ends. `run` and `step`: it is a step of that run. `trace`: the traceparent of whoever enqueued it.
    `flaw`: why it cannot be called with its arguments.
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
    tick: str | None = None
    flow: Flow | None = None
    is_probe: bool = False
    run: str | None = None
    step: str | None = None
    inputs: str | None = None
    trace: str | None = None
    flaw: str | None = None
    losses: int = 0

    @property
    def is_exclusive(self) -> bool:
        """Whether it must run alone in its worker: too many attempts in a row took their workers down."""
        return is_exclusive(self.policy, self.losses)


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as it stood when the store was read."""

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
    tick: Occurrence | None
    flow: Flow | None
    version: int | None = None
    run: str | None = None
    step: str | None = None
    idx: int | None = None
    losses: int = 0

    @property
    def is_exclusive(self) -> bool:
        """Whether its next attempt must run alone in its worker, or this one does."""
        return not self.state.ended and is_exclusive(self.policy, self.losses)


@dataclass(frozen=True, slots=True)
class AttemptView:
    """One try of a job, as it stood when the store was read."""

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
    """Some lines that a handler wrote, in the order that it wrote them.

    `shared`: they came through a descriptor of a process in which other attempts ran, too, and may be theirs.
    """

    job_id: JobId
    attempt: int
    seq: int
    at: datetime
    text: str
    shared: bool = False


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker process that registered itself, and until when it is believed to live.

    A `remote` one works over REST, at one attempt; its host is the name that it gave. Without tasks it takes any.
    `asked` is what somebody wants of it: "quiet", to claim nothing, or "stop", to finish what runs and end.
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
        """How people tell it from others."""
        return f"{self.host}:{self.pid}" if self.pid else self.host

    @property
    def serves(self) -> bool:
        """Whether it takes jobs, or would if it had no other."""
        return self.state in ("running", "remote")

    def knows(self, task: str) -> bool:
        return task in self.tasks or (self.state == "remote" and not self.tasks)


COUNTED = 10_000  # what stands in a queue is counted up to here


@dataclass(frozen=True, slots=True)
class QueueView:
    """How much stands in a queue. What is held waits for a limit or a gate, and is not among what is due.

    Counts are exact below COUNTED; those that are named in `at_least` are only known to be no less than they say.
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
    """What workers tell the store of a task, so that callers who do not import it can use it.

    `flow` is what its jobs are stamped with (see core/job_limits.py), as JSON. `version`: it is a dag, and this the
    newest version of it.
    """

    name: str
    queue: str
    priority: int
    policy: Policy
    schema: bytes
    flow: str | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs are meant. Empty fields do not restrict.

    `dead` means failed and not discarded, `runs` those that are runs of dags. `run` are the steps of one run. Jobs were
    created `since` an instant, and before `until`, by their ids. `waits` is of queued jobs. `tasks` is how the names of
    tasks begin, `error` what stands in the error of the last attempt, and `worker` who has or had that.
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
    """Some jobs, and from where on to look for more; None: there are no more.

    There may be fewer of them than were asked for, and none at all, although there are more.
    """

    jobs: list[JobView]
    next: JobId | None
