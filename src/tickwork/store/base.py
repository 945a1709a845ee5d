"""What a store promises. `tests/store/` is the definition; both stores pass it.

Verbs are synchronous, short, and plural wherever work comes in batches. Every write names what it expects to find, and
finding otherwise is an answer. Every verb is one transaction and safe to run twice. All times are the store's own.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

import msgspec

from tickwork.blobs import Blobs
from tickwork.core.autoscale import WaitingKind
from tickwork.core.ids import ClaimId, JobId, WorkerId
from tickwork.core.job import (
    AskingAttempt,
    AttemptView,
    Claimed,
    JobFilter,
    JobView,
    LogChunk,
    NewJob,
    Policy,
    QueueView,
    TaskDefinition,
    WorkerView,
)
from tickwork.core.outcome import Transition
from tickwork.core.placement.needs import NOTHING, Offer
from tickwork.core.retention import Retention
from tickwork.store.admin.access import AccessVerbs
from tickwork.store.admin.audit_chain import AuditChainVerbs
from tickwork.store.admin.hooks import DeclaredVerbs, HookVerbs
from tickwork.store.admin.notifications import NotifyVerbs
from tickwork.store.admin.operations import OperationVerbs
from tickwork.store.claim.positions import Backlog
from tickwork.store.clock_repair import ClockVerbs
from tickwork.store.dags import DagVerbs
from tickwork.store.limits import LimitedCapacity, LimitVerbs
from tickwork.store.migrate import Migration
from tickwork.store.reads.change_feed import ChangeVerbs
from tickwork.store.reads.job_search import SearchVerbs
from tickwork.store.reads.metric_counts import CountVerbs
from tickwork.store.reads.page_queries import PageVerbs
from tickwork.store.reads.stats import StatsVerbs
from tickwork.store.remote_leases import RemoteVerbs
from tickwork.store.schedules import ScheduleVerbs

T = TypeVar("T")

LEASE = timedelta(seconds=30)
AHEAD_LIMIT = timedelta(milliseconds=250)  # a claim may precede its job's time by so much, never a start
NO_CLAIM = ClaimId(0)  # of a look that takes nothing


def new_claim() -> ClaimId:
    """Draw the identity of a claim. The bits are the kernel's, so forked processes draw different ones."""
    return ClaimId(secrets.randbits(63))


@dataclass(frozen=True, slots=True)
class WorkerRegistration:
    """A worker instance as it registers itself. Its id is random for each start."""

    id: WorkerId
    host: str
    pid: int
    version: str
    queues: tuple[str, ...]
    tasks: tuple[str, ...]
    slots: int
    schedules: tuple[str, ...] = ()
    offer: Offer = NOTHING


class Finish(msgspec.Struct, frozen=True, gc=False):
    """One attempt's end, as decided. `waited_us` is the time from its claim to the handler's first line.

    `run` and `step`: the job is a step of that run, and its end moves the run on. `produce`: the assets that it makes
    anew if that was a success. `progress`: its last report, where the store may not have it yet.
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
    """An attempt that is not ended, with what `decide` needs to end it.

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
    """Some lines that an attempt wrote. `seq` rises with each chunk of an attempt.

    `shared`: they came through a descriptor of a process in which other attempts ran, too.
    """

    job_id: JobId
    claim: ClaimId
    seq: int
    text: str
    shared: bool = False


class Progress(msgspec.Struct, frozen=True, gc=False):
    """How far an attempt says it is, from 0 to 1."""

    job_id: JobId
    claim: ClaimId
    fraction: float
    note: str | None


class Claims(msgspec.Struct, frozen=True):
    """What a claim brought.

    `next_due_s`: seconds until the next job of these queues is due, None if none is known. `again_s`: seconds until a
    claim may find a job that this one passed by, None when it passed by nothing. `is_near`: if this was a search,
    there was no need for one.
    """

    jobs: list[Claimed]
    next_due_s: float | None = None
    again_s: float | None = None
    is_near: bool = False


class Exchange(msgspec.Struct, frozen=True):
    """What became of endings (`finished`: whose attempts were closed), and what was claimed in their place.

    No claims: the worker has no lease any more.
    """

    finished: set[JobId]
    claims: Claims | None


Place = tuple[str, JobId]
"""Where a walk through the ended jobs stands: the store's own text for an instant, and a job that ended then."""


class Pruned(msgspec.Struct, frozen=True):
    """What was deleted: how many jobs or records of fires, the larger number, and the blobs that nobody names now.

    `next`: where to go on, if there may be more jobs that are old enough.
    """

    count: int
    blobs: list[str]
    next: Place | None = None


@dataclass(frozen=True, slots=True)
class StoreHealth:
    """What `tickwork doctor` says of a store: facts, and what is wrong with what to do about it."""

    facts: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PoolSizes:
    """How many connections a process may have at the same time: for Tickwork's own calls and for the caller's.

    A connection that was not used for `idle` is closed.
    """

    pool: int = 8
    user_pool: int = 20
    idle: timedelta = timedelta(seconds=10)


DEFAULT_SIZES = PoolSizes()


@dataclass(frozen=True, slots=True)
class ConnectionCounts:
    """Connections that a process has open now, and those that the server refused it because it had none left."""

    open: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """Which migrations a store has, and which it still lacks, in order. Each knows its SQL."""

    applied: tuple[Migration, ...]
    pending: tuple[Migration, ...]


class Waiter(Protocol):
    """Wakes a worker when there may be something to do. A hint: polling alone must be right.

    A call may come before the commit of what it is for, where claims wait for that; another one comes after it.
    """

    def fileno(self) -> int:
        """A descriptor that is readable when somebody called; -1 when this store can only be polled."""

    def clear(self) -> None:
        """Forget the calls so far."""

    def close(self) -> None: ...


class Store(
    ScheduleVerbs,
    LimitVerbs,
    DagVerbs,
    SearchVerbs,
    PageVerbs,
    OperationVerbs,
    StatsVerbs,
    CountVerbs,
    ChangeVerbs,
    ClockVerbs,
    HookVerbs,
    DeclaredVerbs,
    NotifyVerbs,
    RemoteVerbs,
    AccessVerbs,
    AuditChainVerbs,
    Protocol,
):
    """The verbs. Nothing above this line knows which database it talks to."""

    url: str
    blobs: Blobs | None

    def in_one_transaction(self, work: Callable[[], T]) -> T:
        """Run `work`, whose verbs in this thread share one transaction; return its result once that is committed.

        When `work` raises, none of its verbs has changed anything. The server may ask to run the transaction again;
        then `work` is called again, and nothing of the first call is stored. `work` must be short and must not wait.
        """

    # -- callers

    def insert_jobs(self, jobs: Sequence[NewJob], tx: Any = None, by: AskingAttempt | None = None) -> list[JobId]:
        """Store jobs, all or none; return for each the job that stands for it now.

        That is another one than asked for where a live job of the same task holds the same key. A job of another task
        there, or if_exists="error", raises KeyTaken, and nothing is stored. Inserting an id a second time changes
        nothing, so an insert whose reply was lost can simply be repeated. With `tx` it happens in that transaction.
        `by` is the attempt whose handler asks: when it is not the current one, LeaseLost, and nothing is stored.
        """

    def get_jobs(self, ids: Sequence[JobId]) -> dict[JobId, JobView]:
        """Return those of the jobs that exist."""

    def list_jobs(self, which: JobFilter, limit: int, before: JobId | None = None) -> list[JobView]:
        """Return matching jobs, the newest first, from just below `before` on."""

    def find_key(self, key: str) -> JobId | None:
        """Return the job that holds the key, else the newest one that had it."""

    def cancel_jobs(self, ids: Sequence[JobId]) -> list[JobId]:
        """End jobs that are not running as cancelled and ask running ones to stop; return both.

        From here on no new attempt of them starts, and whatever a running one returns, it ends as cancelled.
        """

    def retry_jobs(
        self, ids: Sequence[JobId], spacing: timedelta = timedelta(0), first: timedelta = timedelta(0)
    ) -> list[JobId]:
        """Queue ended jobs again (not succeeded ones), with a fresh count of failures; return those that were queued.

        The first is due `first` from now, the others one `spacing` after the other. A job whose key is held by
        another live job stays as it is. A queued job whose time has not come becomes due now.
        """

    def reschedule_jobs(
        self, ids: Sequence[JobId], at: datetime | None = None, delay: timedelta = timedelta(0)
    ) -> list[JobId]:
        """Have waiting jobs be due at another time: at an instant, or a delay from now; return those that wait.

        What a limit or a gate holds is judged anew then. A deadline moves with its job.
        """

    def discard_jobs(self, ids: Sequence[JobId]) -> list[JobId]:
        """Take failed jobs out of the dead letters; return those that were there."""

    def attempts(self, job_id: JobId) -> list[AttemptView]:
        """Return all tries of a job, the first one first."""

    def logs(self, job_id: JobId, after: tuple[int, int] = (0, -1), limit: int = 1000) -> list[LogChunk]:
        """Return what handlers of the job wrote, from just after (attempt, seq) on."""

    def queues(self) -> list[QueueView]:
        """Return each queue that has jobs standing or running in it, counted up to COUNTED."""

    def durations(self) -> dict[str, timedelta]:
        """Return how long jobs of each queue took on average, by the last thousand of all that ended."""

    def workers(self) -> list[WorkerView]:
        """Return the workers that live, and those that were lost lately.

        Attempts over REST are seen while they run: those of one name with the same queues, tasks and offer are one
        worker in the state `remote`, with the id of one of their leases and as many slots as attempts. Of more than
        REMOTE_SHOWN such workers, the others are put together as REMOTE_OTHERS. A server, which claims for others and
        has no slots, is none.
        """

    def worker(self, id: WorkerId) -> WorkerView | None:
        """Return one worker, or one attempt over REST by the id of its lease; None when there is none."""

    def task_definition(self, name: str) -> TaskDefinition | None:
        """Return what workers last said of a task."""

    def task_definitions(self, limit: int, after: str = "") -> list[TaskDefinition]:
        """Return what workers last said of tasks, and what is stored of dags, by name, from just after `after` on."""

    def connection(self) -> AbstractContextManager[Any]:
        """A transaction of the caller's own on this store: commits at the end of the block, or rolls back."""

    # -- workers

    def register_worker(
        self, worker: WorkerRegistration, definitions: Sequence[TaskDefinition], lease: timedelta
    ) -> None:
        """Make a worker known, with a lease, the tasks that it can run and the schedules that its code declares."""

    def renew_lease(self, worker: WorkerId, lease: timedelta) -> bool:
        """Extend a worker's lease; False when it is not known any more (it must register anew and drop its work)."""

    def drain_worker(self, worker: WorkerId) -> None:
        """Announce that a worker takes no more jobs."""

    def end_worker(self, worker: WorkerId) -> None:
        """Forget a worker that gave back or ended everything it held."""

    def claim_jobs(
        self,
        worker: WorkerId,
        queues: Sequence[str],
        tasks: Sequence[str],
        limit: int,
        ahead: timedelta = timedelta(0),
        reach: LimitedCapacity | None = None,
    ) -> Claims:
        """Lease up to `limit` due jobs, the most urgent of the first queue first, each with its attempt number.

        All of them carry the identity of this claim, which every later write of their attempts names.

        Jobs that become due within `ahead` are taken when too few are due now. Of jobs with a flow those are taken that
        limits and gates let through, and up to `reach.slots` of them (without it: up to `limit`, without needs). A
        worker whose lease ran out, or that is not known, gets LeaseLost: nothing is claimed that could be reclaimed at
        once.
        """

    def exchange(
        self,
        worker: WorkerId,
        endings: Sequence[Finish],
        logs: Sequence[NewLog],
        queues: Sequence[str],
        tasks: Sequence[str],
        limit: int,
        ahead: timedelta = timedelta(0),
        reach: LimitedCapacity | None = None,
    ) -> Exchange:
        """As finish_attempts and then claim_jobs. A lost lease is an answer: the endings count."""

    def due_tasks(self, queues: Sequence[str]) -> set[str]:
        """Return the names of tasks whose jobs are due in these queues, looking at the first thousand jobs of each."""

    def backlog(self, queues: Sequence[str], tasks: Sequence[str], most: int) -> list[Backlog]:
        """Return how many jobs of these tasks wait in these queues for a slot, by what they need.

        It costs the same however many there are: about `most` jobs are looked at, those without and those with a flow.
        """

    def waiting_kinds(self, queue: str, most: int) -> list[WaitingKind]:
        """Return how many jobs of each task and with which needs wait in a queue for a slot.

        It costs the same however many there are: about `most` jobs are looked at, those without and those with a flow.
        """

    def finish_attempts(self, endings: Sequence[Finish], logs: Sequence[NewLog] = (), tx: Any = None) -> set[JobId]:
        """Close attempts and move their jobs in one transaction; return the jobs whose attempt was closed.

        An attempt is closed only while its claim is the one that holds the job. One missing from the answer was
        reclaimed meanwhile: the caller drops its result. A late result that nobody reclaimed is kept. A job whose
        cancellation was asked for ends as cancelled, whatever the transition says.
        """

    def open_attempts(self, worker: WorkerId) -> list[OpenAttempt]:
        """Return every attempt that a worker holds: after a claim whose answer was lost, it may know of fewer."""

    def cancel_requests(self, worker: WorkerId) -> list[tuple[JobId, ClaimId]]:
        """Return the open attempts of a worker whose job somebody wants to stop, by their claims."""

    def begin_alone(self, job_id: JobId, claim: ClaimId) -> bool:
        """Note that the handler of a job that runs alone in its worker begins; False when another claim holds the job.

        Should the attempt be lost from here on, the job is to blame; before, its neighbours may have been.
        """

    def append_logs(self, logs: Sequence[NewLog]) -> None:
        """Store lines of attempts that are current; lines of others are dropped."""

    def set_progress(self, progress: Sequence[Progress]) -> None:
        """Store how far current attempts are; that of others is dropped."""

    def save_state(self, job_id: JobId, claim: ClaimId, state: bytes) -> bool:
        """Store what a later attempt resumes from; False when this attempt is not the current one."""

    def saved_state(self, job_id: JobId) -> bytes | None:
        """Return what an earlier attempt saved."""

    # -- services

    def expired_attempts(self, limit: int) -> list[OpenAttempt]:
        """Return open attempts whose worker's lease ran out."""

    def reclaim_attempts(self, endings: Sequence[Finish]) -> set[JobId]:
        """Like finish_attempts, but only where the lease is still expired: a renewal in between wins."""

    def expire_jobs(self, limit: int) -> int:
        """End queued jobs whose deadline passed before they were started; return how many."""

    def prune(self, retention: Retention, limit: int, after: Place | None = None) -> Pruned:
        """Delete ended jobs and records of fires that are old enough, looking at up to `limit` jobs behind a place.

        Old figures, workers lost long ago and keys that are free go, too. A job whose key stays taken is kept as long
        as the key.
        """

    def unused_blobs(self, keys: Sequence[str]) -> list[str]:
        """Return those of these blobs that jobs of this store have written and whose results do not name them."""

    # -- the store itself

    def now(self) -> datetime:
        """The store's clock."""

    def waiter(self) -> Waiter:
        """Something to wait on, woken when jobs or cancellations come in."""

    def health(self) -> StoreHealth:
        """What an operator should know of this store."""

    def schema_status(self) -> SchemaStatus:
        """Say how far the tables are, and change nothing. SchemaMismatch: they are of a newer version, or another's."""

    def upgrade(self) -> list[Migration]:
        """Apply the migrations that are missing, all or none; return them. Safe to run twice, and by two at once."""

    def answer_within(self, limit: timedelta) -> None:
        """Give up waiting for the database after this time, if that is sooner than usual; a worker needs to know.

        A store whose database is a local file has nothing else to wait for, and may ignore it.
        """

    def connections(self) -> ConnectionCounts:
        """Say how many connections this process has to a database server, the listening one aside, and was refused."""

    def close(self) -> None:
        """Let go of every connection."""
