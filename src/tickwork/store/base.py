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
from tickwork.store.admin.bulk_operations import OperationVerbs
from tickwork.store.admin.hooks import HookVerbs
from tickwork.store.admin.notifications import NotifyVerbs
from tickwork.store.attempt_types import Claims, Exchange, Finish, NewLog, OpenAttempt, Progress
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
    """The result of a prune: the larger of the numbers of deleted jobs and of deleted fire records, and unused blobs.

    `blobs` are no longer referenced, so the caller may delete them. `next` is the position from which the next call
    continues; None if no more jobs are old enough.
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
    """The maximum number of connections that a process opens: for Tickwork's own calls, and for callers' transactions.

    A connection that was not used for `idle` is closed.
    """

    pool: int = 8
    user_pool: int = 20
    idle: timedelta = timedelta(seconds=10)


DEFAULT_SIZES = PoolSizes()


@dataclass(frozen=True, slots=True)
class ConnectionCounts:
    """The number of open connections of a process, and how many the server has refused because it had too many."""

    open: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """The migrations that a store has applied, and those that are missing, in order."""

    applied: tuple[Migration, ...]
    pending: tuple[Migration, ...]


class Waiter(Protocol):
    """A wake-up signal for a worker when there may be new work. It is a hint: a worker that only polls is correct, too.

    A signal may arrive before the commit of the change that it announces, on stores whose claims wait for that commit;
    another signal then follows the commit.
    """

    def fileno(self) -> int:
        """Return a file descriptor that becomes readable on a signal; -1 if this store can only be polled."""

    def clear(self) -> None:
        """Discard the signals received so far."""

    def close(self) -> None: ...


class PollOnlyWaiter:
    """The waiter of a store that can only be polled: in memory, in a folder without sockets, or behind a pooler."""

    def fileno(self) -> int:
        return -1

    def clear(self) -> None: ...

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
        """Run `work` so that its verbs in this thread share one transaction; return its result after the commit.

        If `work` raises, all of its changes are rolled back. After a serialization failure `work` is called again, and
        nothing of the first call is stored. `work` must be short and must not wait.
        """

    # -- callers

    def insert_jobs(self, jobs: Sequence[NewJob], tx: Any = None, by: AskingAttempt | None = None) -> list[JobId]:
        """Store new jobs, all or none; return for each the id of the job that represents it.

        That is an existing job if a live job of the same task has the same key. If a job of another task has the key,
        or with if_exists="error", KeyTaken is raised and nothing is stored. Inserting an id a second time changes
        nothing, so an insert whose reply was lost can be repeated. With `tx` the jobs are stored in that transaction of
        the caller. `by` is the attempt whose handler inserts: if it is not the current attempt of its job, LeaseLost is
        raised and nothing is stored.
        """

    def cancel_jobs(self, ids: Sequence[JobId]) -> list[JobId]:
        """End jobs that are not running as cancelled, and request the cancellation of running jobs; return the ids of
        both.

        Jobs that have ended are not changed. No new attempt of the cancelled jobs starts, and a running attempt ends
        its job as cancelled, whatever its handler returns.
        """

    def retry_jobs(
        self, ids: Sequence[JobId], spacing: timedelta = timedelta(0), first: timedelta = timedelta(0)
    ) -> list[JobId]:
        """Queue ended jobs that did not succeed again, with no failures counted; return the ids that were queued.

        The first is due `first` from now, each other one `spacing` after the one before. A job whose key another live
        job has is not changed. A queued job with a later run_at becomes due now.
        """

    def reschedule_jobs(
        self, ids: Sequence[JobId], at: datetime | None = None, delay: timedelta = timedelta(0)
    ) -> list[JobId]:
        """Set the run_at of queued jobs to an instant, or to a delay from now; return the ids of the jobs that were
        queued.

        Held jobs are checked again at that time. A deadline moves by the same amount.
        """

    def discard_jobs(self, ids: Sequence[JobId]) -> list[JobId]:
        """Mark failed jobs as discarded, so that they are no dead letters any more; return the ids that were marked."""

    def connection(self) -> AbstractContextManager[Any]:
        """Open a transaction for the caller on this store's database. It commits at the end of the block, or rolls
        back.
        """

    # -- workers

    def register_worker(
        self, worker: WorkerRegistration, definitions: Sequence[TaskDefinition], lease: timedelta
    ) -> None:
        """Register a worker with a lease, the tasks that it can run and the schedules that its code declares."""

    def renew_lease(self, worker: WorkerId, lease: timedelta) -> bool:
        """Extend a worker's lease; return False if the worker is unknown: it must then register again and drop its
        attempts.
        """

    def drain_worker(self, worker: WorkerId) -> None:
        """Record that a worker claims no more jobs."""

    def end_worker(self, worker: WorkerId) -> None:
        """Delete a worker that holds no attempts any more."""

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
        """Lease up to `limit` due jobs to a worker and return them, each with its attempt number.

        The jobs of the first queue come first, the most urgent of each queue first. All attempts carry the id of this
        claim, which every later write names. Jobs that become due within `ahead` are taken if too few are due now.
        Limited jobs are taken only if limits and gates admit them, and only up to `capacity.slots` (without `capacity`:
        up to `limit`, and only jobs without needs). LeaseLost is raised for a worker that is unknown or whose lease has
        expired: the reaper could reclaim its jobs at once.
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
        """Run finish_attempts and then claim_jobs in one transaction; return both results.

        If the worker has lost its lease, the finishes are stored and `claims` is None; nothing is raised.
        """

    def finish_attempts(self, endings: Sequence[Finish], logs: Sequence[NewLog] = (), tx: Any = None) -> set[JobId]:
        """Close attempts and apply their transitions to the jobs, in one transaction; return the jobs whose attempt was
        closed.

        An attempt is closed only while its claim is the current one of the job. A job that is missing from the result
        was reclaimed meanwhile: the caller drops its result. A result after the end of the lease is stored if the
        attempt was not reclaimed. A job whose cancellation was requested ends as cancelled, whatever the transition
        says.
        """

    def open_attempts(self, worker: WorkerId) -> list[OpenAttempt]:
        """Return every attempt that a worker holds.

        The worker itself may know of fewer, if the reply to a claim was lost.
        """

    def cancel_requests(self, worker: WorkerId) -> list[tuple[JobId, ClaimId]]:
        """Return the job and the claim of each open attempt of a worker whose job is to be cancelled."""

    def begin_alone(self, job_id: JobId, claim: ClaimId) -> bool:
        """Record that the handler of a job that runs alone in its process begins; return False if the claim is not
        current.

        If the process dies after this record, the crash counts against the job; before, another job of the process may
        have caused it.
        """

    def append_logs(self, logs: Sequence[NewLog]) -> None:
        """Store log lines of current attempts; drop lines of other attempts."""

    def set_progress(self, progress: Sequence[Progress]) -> None:
        """Store the progress of current attempts; drop reports of other attempts."""

    def save_state(self, job_id: JobId, claim: ClaimId, state: bytes) -> bool:
        """Store the state from which a later attempt of the job resumes; return False if this attempt is not the
        current one.
        """

    def saved_state(self, job_id: JobId) -> bytes | None:
        """Return the state that an attempt of the job saved; None if none was saved."""

    # -- services

    def expired_attempts(self, limit: int) -> list[OpenAttempt]:
        """Return up to `limit` running attempts whose lease has expired."""

    def reclaim_attempts(self, endings: Sequence[Finish]) -> set[JobId]:
        """Close attempts as finish_attempts does, but only those whose lease is still expired; return the jobs of the
        closed ones.
        """

    def expire_jobs(self, limit: int) -> int:
        """End up to `limit` queued jobs whose deadline has passed, as expired; return how many."""

    def prune(self, retention: Retention, limit: int, after: Place | None = None) -> Pruned:
        """Delete ended jobs and fire records that are old enough, reading up to `limit` jobs after the position
        `after`.

        Old statistics, workers lost long ago and unused keys are deleted, too. A job whose key stays taken is kept as
        long as the key.
        """

    def unused_blobs(self, keys: Sequence[str]) -> list[str]:
        """Return which of these blobs jobs of this store have written and no stored result refers to."""

    # -- the store itself

    def now(self) -> datetime:
        """Return the time of the store's clock."""

    def check_clock(self) -> timedelta | None:
        """Compare the clock with its last recorded reading; return by how much it went back, None if it did not.

        If it did, the times that were stored during the jump are moved back by its size. Schedules are evaluated again,
        but an occurrence that has fired does not fire twice. Leases, retries, rates and keys that count from the time
        of the jump are shortened by its size. An instant that a caller named is kept. The result is also None if
        another process has made the repair.
        """

    def record_clock_step(self, by: timedelta) -> None:
        """Record that the clock went forward by `by`, and its present reading."""

    def waiter(self) -> Waiter:
        """Return a new waiter that is signalled when jobs or cancellations are stored."""

    def health(self) -> StoreHealth:
        """Return facts and warnings about this store for an operator."""

    def schema_status(self) -> SchemaStatus:
        """Return which migrations are applied and which are missing; change nothing.

        Raise SchemaMismatch if the tables are newer than this version, or are not Tickwork's.
        """

    def upgrade(self) -> list[Migration]:
        """Apply the missing migrations, all or none, and return them (none: the schema was current).

        Safe to run twice, and by two processes at once.
        """

    def answer_within(self, limit: timedelta) -> None:
        """Limit how long a call waits for the database, if the limit is less than the present one.

        A worker must react before its lease ends. A store whose database is a local file may ignore the limit.
        """

    def connections(self) -> ConnectionCounts:
        """Return the number of open connections of this process, without the listening one, and how many the server
        refused.

        Refusals are counted since the store was opened.
        """

    def close(self) -> None:
        """Close every connection of this store object."""
