"""The `Store` protocol: every operation on jobs, workers, leases and queues. `tests/store/` defines it for both stores.

Verbs are synchronous, short, and plural wherever work comes in batches. Every write names the state that it expects; if
it finds another one, it changes nothing and says so in its result. Every verb is one transaction and safe to run twice.
All times are the store's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

import msgspec

from tickwork.blobs import Blobs
from tickwork.core.ids import ClaimId, JobId, WorkerId
from tickwork.core.job import (
    AskingAttempt,
    NewJob,
    TaskDefinition,
)
from tickwork.core.placement import NOTHING, Offer
from tickwork.core.retention import Retention
from tickwork.store.admin.access import AccessVerbs
from tickwork.store.admin.audit import AuditVerbs
from tickwork.store.admin.hooks import HookVerbs
from tickwork.store.admin.notifications import NotifyVerbs
from tickwork.store.admin.operations import OperationVerbs
from tickwork.store.attempts import Claims, Exchange, Finish, NewLog, OpenAttempt, Progress
from tickwork.store.dags import DagVerbs
from tickwork.store.limits import LimitedCapacity, LimitVerbs
from tickwork.store.migrate import Migration
from tickwork.store.reads.stats import StatsVerbs
from tickwork.store.reads.verbs import ReadVerbs
from tickwork.store.remote_leases import RemoteVerbs
from tickwork.store.schedules import ScheduleVerbs

T = TypeVar("T")

LEASE = timedelta(seconds=30)
AHEAD_LIMIT = timedelta(milliseconds=250)  # A claim may precede a job's run_at by up to this; a start never does.
CLOCK_STEP = timedelta(seconds=5)  # Smaller steps of the clock delay nothing by more than this.


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


Place = tuple[str, JobId]
"""A position in the list of ended jobs: the store's own text for an instant, and a job that ended then."""


class Pruned(msgspec.Struct, frozen=True):
    """The result of a prune: the larger number of deleted jobs or fire records, and the blobs no longer referenced.

    `next`: the position to continue from, if there may be more jobs that are old enough.
    """

    count: int
    blobs: list[str]
    next: Place | None = None


@dataclass(frozen=True, slots=True)
class StoreHealth:
    """The report of `tickwork doctor` on a store: facts, and warnings that say what is wrong and what to do."""

    facts: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PoolSizes:
    """The maximum number of connections that a process opens, for Tickwork's own calls and for the caller's.

    A connection that was not used for `idle` is closed.
    """

    pool: int = 8
    user_pool: int = 20
    idle: timedelta = timedelta(seconds=10)


DEFAULT_SIZES = PoolSizes()


@dataclass(frozen=True, slots=True)
class ConnectionCounts:
    """The connections that a process has open, and how often the server refused one for lack of connections."""

    open: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """The migrations that a store has applied, and those that are pending, in order. Each contains its SQL."""

    applied: tuple[Migration, ...]
    pending: tuple[Migration, ...]


class Waiter(Protocol):
    """A wake-up for a worker when there may be new work. It is a hint: a worker that only polls must be correct.

    A call may come before the commit of the change that it announces, where claims wait for that commit; another call
    then follows after it.
    """

    def fileno(self) -> int:
        """Return a descriptor that becomes readable on a call; -1 when this store can only be polled."""

    def clear(self) -> None:
        """Discard the calls so far."""

    def close(self) -> None: ...


class Store(Protocol):
    """A store: the verbs on jobs, attempts and workers, and groups of verbs on every other subject.

    The layers above do not know which database they talk to.
    """

    url: str
    blobs: Blobs | None
    reads: ReadVerbs
    stats: StatsVerbs
    schedules: ScheduleVerbs
    dags: DagVerbs
    limits: LimitVerbs
    remote: RemoteVerbs
    access: AccessVerbs
    audit: AuditVerbs
    hooks: HookVerbs
    notifications: NotifyVerbs
    operations: OperationVerbs

    def in_one_transaction(self, work: Callable[[], T]) -> T:
        """Run `work` so that its verbs in this thread share one transaction; return its result once that is committed.

        When `work` raises, all of its changes are rolled back. The server may ask to run the transaction again; `work`
        is then called again, and nothing of the first call is stored. `work` must be short and must not wait.
        """

    # -- callers

    def insert_jobs(self, jobs: Sequence[NewJob], tx: Any = None, by: AskingAttempt | None = None) -> list[JobId]:
        """Store jobs, all or none; return for each the id of the job that now represents it.

        That is an existing job if a live job of the same task holds the same key. If a job of another task holds it, or
        with if_exists="error", KeyTaken is raised and nothing is stored. Inserting an id a second time changes nothing,
        so an insert whose reply was lost can be repeated. With `tx` it happens in that transaction. `by` is the attempt
        whose handler inserts: if it is not the current one, LeaseLost is raised and nothing is stored.
        """

    def cancel_jobs(self, ids: Sequence[JobId]) -> list[JobId]:
        """End jobs that are not running as cancelled, and ask running jobs to stop; return both.

        From here on no new attempt of them starts, and a running one ends as cancelled whatever it returns.
        """

    def retry_jobs(
        self, ids: Sequence[JobId], spacing: timedelta = timedelta(0), first: timedelta = timedelta(0)
    ) -> list[JobId]:
        """Queue ended jobs again (not succeeded ones) with no failures counted; return the jobs that were queued.

        The first is due `first` from now, the others one `spacing` after the other. A job whose key is held by another
        live job is not changed. A queued job whose time has not come becomes due now.
        """

    def reschedule_jobs(
        self, ids: Sequence[JobId], at: datetime | None = None, delay: timedelta = timedelta(0)
    ) -> list[JobId]:
        """Change when waiting jobs are due: at an instant, or a delay from now. Return the jobs that are waiting.

        Jobs that a limit or a gate holds are checked again at that time. A deadline moves with its job.
        """

    def discard_jobs(self, ids: Sequence[JobId]) -> list[JobId]:
        """Remove failed jobs from the dead letters; return the jobs that were removed."""

    def connection(self) -> AbstractContextManager[Any]:
        """Open a transaction for the caller on this store: it commits at the end of the block, or rolls back."""

    # -- workers

    def register_worker(
        self, worker: WorkerRegistration, definitions: Sequence[TaskDefinition], lease: timedelta
    ) -> None:
        """Register a worker with a lease, the tasks that it can run and the schedules that its code declares."""

    def renew_lease(self, worker: WorkerId, lease: timedelta) -> bool:
        """Extend a worker's lease; return False if it is unknown by now: it must register again and drop its work."""

    def drain_worker(self, worker: WorkerId) -> None:
        """Record that a worker takes no more jobs."""

    def end_worker(self, worker: WorkerId) -> None:
        """Delete a worker that has returned or ended all of its attempts."""

    def claim_jobs(
        self,
        worker: WorkerId,
        queues: Sequence[str],
        tasks: Sequence[str],
        limit: int,
        *,
        ahead: timedelta = timedelta(0),
        capacity: LimitedCapacity | None = None,
    ) -> Claims:
        """Lease up to `limit` due jobs, the most urgent of the first queue first, each with its attempt number.

        All of them carry the id of this claim, which every later write of their attempts names. Jobs that become due
        within `ahead` are taken when too few are due now. Limited jobs are taken only if limits and gates admit them,
        and only up to `capacity.slots` (without `capacity`: up to `limit`, and without needs). A worker that is unknown
        or whose lease has expired gets LeaseLost: otherwise it would claim jobs that the reaper could reclaim at once.
        """

    def exchange(
        self,
        worker: WorkerId,
        endings: Sequence[Finish],
        logs: Sequence[NewLog],
        *,
        queues: Sequence[str],
        tasks: Sequence[str],
        limit: int,
        ahead: timedelta = timedelta(0),
        capacity: LimitedCapacity | None = None,
    ) -> Exchange:
        """Run finish_attempts and then claim_jobs.

        A lost lease is part of the result, not an error: the finishes are stored.
        """

    def finish_attempts(self, endings: Sequence[Finish], logs: Sequence[NewLog] = (), tx: Any = None) -> set[JobId]:
        """Close attempts and move their jobs in one transaction; return the jobs whose attempt was closed.

        An attempt is closed only while its claim is the one that holds the job. One missing from the result was
        reclaimed meanwhile: the caller drops its result. A late result is stored if the attempt was not reclaimed. A
        job whose cancellation was requested ends as cancelled, whatever the transition says.
        """

    def open_attempts(self, worker: WorkerId) -> list[OpenAttempt]:
        """Return every attempt that a worker holds.

        After a claim whose reply was lost, the worker may know of fewer.
        """

    def cancel_requests(self, worker: WorkerId) -> list[tuple[JobId, ClaimId]]:
        """Return the open attempts of a worker whose jobs are to be cancelled, with their claims."""

    def begin_alone(self, job_id: JobId, claim: ClaimId) -> bool:
        """Record that the handler of a job that runs alone in its worker begins; False if another claim holds the job.

        If the attempt is lost from here on, the job is blamed for the crash; before, jobs beside it may have caused it.
        """

    def append_logs(self, logs: Sequence[NewLog]) -> None:
        """Store lines of current attempts; lines of other attempts are dropped."""

    def set_progress(self, progress: Sequence[Progress]) -> None:
        """Store the progress of current attempts; reports of other attempts are dropped."""

    def save_state(self, job_id: JobId, claim: ClaimId, state: bytes) -> bool:
        """Store the state from which a later attempt resumes; False when this attempt is not the current one."""

    def saved_state(self, job_id: JobId) -> bytes | None:
        """Return the state that an earlier attempt saved."""

    # -- services

    def expired_attempts(self, limit: int) -> list[OpenAttempt]:
        """Return open attempts whose worker's lease has expired."""

    def reclaim_attempts(self, endings: Sequence[Finish]) -> set[JobId]:
        """Close attempts as finish_attempts does, but only if the lease is still expired: a renewal in between wins."""

    def expire_jobs(self, limit: int) -> int:
        """End queued jobs whose deadline passed before they were started; return how many."""

    def prune(self, retention: Retention, limit: int, after: Place | None = None) -> Pruned:
        """Delete ended jobs and fire records that are old enough, reading up to `limit` jobs from a position on.

        Old statistics, workers lost long ago and free keys are deleted, too. A job whose key stays taken is kept as
        long as the key.
        """

    def unused_blobs(self, keys: Sequence[str]) -> list[str]:
        """Return the blobs among these that jobs of this store have written and whose results do not refer to them."""

    # -- the store itself

    def now(self) -> datetime:
        """Return the time of the store's clock."""

    def check_clock(self) -> timedelta | None:
        """Compare the clock with its last recorded reading. Return by how much it went back, None if it did not.

        If it did, times that were stored during the jump are moved back with it. Schedules are evaluated again, but an
        occurrence that has fired does not fire twice. Leases, retries, rates and keys that count from the time of the
        jump are shortened by its size. An instant that a caller named is kept. None also if another process made the
        repair.
        """

    def record_clock_step(self, by: timedelta) -> None:
        """Record that the clock went forward, and its reading."""

    def waiter(self) -> Waiter:
        """Return a waiter that is woken when jobs or cancellations are stored."""

    def health(self) -> StoreHealth:
        """Return facts and warnings about this store for an operator."""

    def schema_status(self) -> SchemaStatus:
        """Return which migrations are applied, and change nothing.

        SchemaMismatch: the tables are newer, or not Tickwork's.
        """

    def upgrade(self) -> list[Migration]:
        """Apply the missing migrations, all or none, and return them.

        Safe to run twice, and by two processes at once.
        """

    def answer_within(self, limit: timedelta) -> None:
        """Limit how long a call waits for the database, if that is less than usual; a worker has to react in time.

        A store whose database is a local file has nothing to wait for, and may ignore it.
        """

    def connections(self) -> ConnectionCounts:
        """Return how many connections this process has open, without the listening one, and how many were refused."""

    def close(self) -> None:
        """Close every connection."""
