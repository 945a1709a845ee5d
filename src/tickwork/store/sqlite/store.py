"""The SQLite store: the verbs on jobs, attempts and workers, and the groups of its other verbs. The SQL is in sql/.

Changes to rows are in insert_jobs.py, job_transitions.py and run_transitions.py, claims in claim/.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from tickwork.blobs import Blobs, LargeResults
from tickwork.clock import Clock, SystemClock
from tickwork.core.ids import ClaimId, JobId, WorkerId
from tickwork.core.job import (
    AskingAttempt,
    JobState,
    NewJob,
    TaskDefinition,
)
from tickwork.core.retention import Retention
from tickwork.errors import LeaseLost, StoreError
from tickwork.store.admin.access import AccessVerbs
from tickwork.store.admin.audit import AuditVerbs
from tickwork.store.admin.bulk_operations import KEPT, OperationVerbs
from tickwork.store.admin.hooks import HookVerbs
from tickwork.store.admin.notifications import NotifyVerbs
from tickwork.store.attempt_types import Claims, Exchange, Finish, NewLog, OpenAttempt, Progress, new_claim
from tickwork.store.base import ConnectionCounts, Place, Pruned, SchemaStatus, StoreHealth, Waiter, WorkerRegistration
from tickwork.store.dags import DagVerbs
from tickwork.store.limits import LimitedCapacity, LimitVerbs
from tickwork.store.migrate import Migration
from tickwork.store.reads.stats import StatsVerbs
from tickwork.store.reads.verbs import ReadVerbs
from tickwork.store.remote_leases import RemoteVerbs
from tickwork.store.rows.instants import duration_us, from_us, to_us
from tickwork.store.rows.jobs import BLOB_MARK, blob_owners, own_blobs, storable_text
from tickwork.store.rows.workers import encode_offer
from tickwork.store.runs.graph_cache import GraphCache
from tickwork.store.schedules import ScheduleVerbs
from tickwork.store.sqlite import insert_jobs, job_transitions
from tickwork.store.sqlite.admin.access import SqliteAccess
from tickwork.store.sqlite.admin.audit import SqliteAudit
from tickwork.store.sqlite.admin.bulk_operations import SqliteOperations
from tickwork.store.sqlite.admin.hooks import SqliteHooks
from tickwork.store.sqlite.admin.notifications import SqliteNotifications
from tickwork.store.sqlite.claim.claims import SqliteClaims
from tickwork.store.sqlite.dags import SqliteDags
from tickwork.store.sqlite.file.clock import StoreClock
from tickwork.store.sqlite.file.connection import is_stored_already
from tickwork.store.sqlite.file.file import SqliteFile
from tickwork.store.sqlite.job_transitions import DequeuedRow
from tickwork.store.sqlite.limits import SqliteLimits
from tickwork.store.sqlite.reads.read_verbs import SqliteReads
from tickwork.store.sqlite.reads.stats import SqliteStats, prune_rollups
from tickwork.store.sqlite.remote_leases import SqliteRemoteLeases
from tickwork.store.sqlite.run_transitions import advance, cancel, produce_all, retry_steps
from tickwork.store.sqlite.schedules import SqliteSchedules
from tickwork.store.sqlite.transactions import SQL, SqliteTransactions, Transaction, as_json

T = TypeVar("T")

_LOST_WORKERS_KEPT = timedelta(hours=1)
_STUCK = timedelta(minutes=1)


class SqliteStore:
    """The embedded store. Safe to use from many threads, and from many processes of one machine."""

    def __init__(
        self,
        path: str,
        *,
        driver: str = "apsw",
        clock: Clock | None = None,
        adopt: bool = False,
        blobs: Blobs | None = None,
        new_claim: Callable[[], ClaimId] = new_claim,
    ) -> None:
        self.url = f"sqlite:///{path}"
        self.blobs = blobs
        self._clock = StoreClock(clock or SystemClock())
        self._file = SqliteFile(path, driver, adopt=adopt)
        self._transactions = transactions = SqliteTransactions(self._file, self._clock)
        self._graphs = graphs = GraphCache(LargeResults(blobs))
        self._claims = SqliteClaims(transactions, graphs, new_claim)
        self.reads: ReadVerbs = SqliteReads(transactions, graphs)
        self.stats: StatsVerbs = SqliteStats(transactions)
        self.schedules: ScheduleVerbs = SqliteSchedules(transactions, graphs)
        self.dags: DagVerbs = SqliteDags(transactions, graphs)
        self.limits: LimitVerbs = SqliteLimits(transactions, graphs)
        self.remote: RemoteVerbs = SqliteRemoteLeases(transactions)
        self.access: AccessVerbs = SqliteAccess(transactions)
        self.audit: AuditVerbs = SqliteAudit(transactions)
        self.hooks: HookVerbs = SqliteHooks(transactions)
        self.notifications: NotifyVerbs = SqliteNotifications(transactions)
        self.operations: OperationVerbs = SqliteOperations(transactions)

    def in_one_transaction(self, work: Callable[[], T]) -> T:
        """Run `work` so that its verbs share one transaction; return its result after the commit."""
        return self._transactions.in_one_transaction(work)

    # -- callers

    def insert_jobs(self, jobs: Sequence[NewJob], tx: Any = None, by: AskingAttempt | None = None) -> list[JobId]:
        """Insert jobs; if an id turns out to exist already, insert again without the existing ones."""
        try:
            ids = self._insert(jobs, tx, by, known=False)
        except StoreError as error:
            if not is_stored_already(error.__cause__):
                raise
            ids = self._insert(jobs, tx, by, known=True)
        self._transactions.wake()  # Again after the commit, for workers that only read and so do not wait for it.
        return ids

    def _insert(self, jobs: Sequence[NewJob], tx: Any, by: AskingAttempt | None, *, known: bool) -> list[JobId]:
        """Store jobs; return the ids of the jobs that represent them.

        Raise LeaseLost if the attempt `by` is not current.
        """
        with self._transactions.write(tx) as transaction:
            if tx is None:
                # A claim that begins now waits for this commit, so workers can wake up meanwhile.
                self._transactions.wake()
            if by is not None and not transaction.run("is_current", (by.job_id, by.claim)):
                raise LeaseLost(
                    f"attempt {by.attempt} of job {by.job_id} was superseded; nothing it enqueues is stored."
                )
            return insert_jobs.insert(transaction, jobs, known=known)

    def cancel_jobs(self, ids: Sequence[JobId]) -> list[JobId]:
        with self._transactions.write() as transaction:
            cancelled = cancel(transaction, self._graphs, ids)
        self._transactions.wake()
        return cancelled

    def retry_jobs(
        self, ids: Sequence[JobId], spacing: timedelta = timedelta(0), first: timedelta = timedelta(0)
    ) -> list[JobId]:
        retried: list[JobId] = []
        with self._transactions.write() as transaction:
            steps = retry_steps(transaction, ids, transaction.now + duration_us(first))
            for job_id in dict.fromkeys(ids):
                if job_id in steps:
                    retried += [job_id] if steps[job_id] else []
                    continue
                wait = duration_us(first) + duration_us(spacing) * len(retried)
                if job_transitions.retry(transaction, job_id, transaction.now + wait):
                    retried.append(job_id)
        self._transactions.wake()
        return retried

    def reschedule_jobs(
        self, ids: Sequence[JobId], at: datetime | None = None, delay: timedelta = timedelta(0)
    ) -> list[JobId]:
        with self._transactions.write() as transaction:
            asked = transaction.now + duration_us(delay) if at is None else to_us(at)
            run_at = max(asked, transaction.now)
            moved = [job_id for job_id in dict.fromkeys(ids) if job_transitions.reschedule(transaction, job_id, run_at)]
        self._transactions.wake()
        return moved

    def discard_jobs(self, ids: Sequence[JobId]) -> list[JobId]:
        with self._transactions.write() as transaction:
            return [id for id in ids if transaction.run("discard_job", {"job_id": id, "now": transaction.now})]

    def connection(self) -> contextlib.AbstractContextManager[Any]:
        return self._transactions.for_user()

    # -- workers

    def register_worker(
        self, worker: WorkerRegistration, definitions: Sequence[TaskDefinition], lease: timedelta
    ) -> None:
        with self._transactions.write() as transaction:
            names = (as_json(list(worker.queues)), as_json(list(worker.tasks)))
            until = transaction.now + duration_us(lease)
            identity = (worker.id, worker.host, worker.pid, worker.version)
            serves = (worker.slots, as_json(list(worker.schedules)), encode_offer(worker.offer))
            if not transaction.run("register_worker", (*identity, *names, *serves, transaction.now, until)):
                raise LeaseLost(f"worker {worker.id} was lost or has ended; it must register under a new id.")
            for task in definitions:
                transaction.run("define_task", insert_jobs.task_row(task))

    def renew_lease(self, worker: WorkerId, lease: timedelta) -> bool:
        with self._transactions.write() as transaction:
            return bool(transaction.run("renew_lease", (transaction.now + duration_us(lease), worker)))

    def drain_worker(self, worker: WorkerId) -> None:
        with self._transactions.write() as transaction:
            transaction.run("drain_worker", (worker,))

    def end_worker(self, worker: WorkerId) -> None:
        with self._transactions.write() as transaction:
            transaction.run("end_worker", {"id": worker, "now": transaction.now})

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
        with self._transactions.write() as transaction:
            claims = self._claims.claim(
                transaction, worker, queues=queues, tasks=tasks, limit=limit, ahead=ahead, capacity=capacity
            )
            if claims is None:
                raise LeaseLost(f"worker {worker} has no lease any more; it must register again before it claims.")
        if transaction.opened:
            self._transactions.wake()
        return claims

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
        with self._transactions.write() as transaction:
            job_transitions.append(transaction, logs)
            finished = self._finish(transaction, endings, "current_attempts")
            claims = self._claims.claim(
                transaction, worker, queues=queues, tasks=tasks, limit=limit, ahead=ahead, capacity=capacity
            )
        self._wake_for(endings, transaction)
        return Exchange(set(finished), claims)

    def _finish(self, transaction: Transaction, endings: Sequence[Finish], guard: str) -> dict[JobId, str]:
        """Close attempts and advance the runs of their steps; return the closed jobs with their workers.

        `guard` is the statement that selects the attempts that may be closed.
        """
        closed = job_transitions.finish(transaction, endings, guard)
        steps = dict.fromkeys(one.job_id for one in endings if one.run is not None and one.job_id in closed)
        if steps:
            advance(transaction, self._graphs, steps)
        if making := [one for one in endings if one.produce and one.job_id in closed]:
            produce_all(transaction, making)
        return closed

    def finish_attempts(self, endings: Sequence[Finish], logs: Sequence[NewLog] = (), tx: Any = None) -> set[JobId]:
        with self._transactions.write(tx) as transaction:
            job_transitions.append(transaction, logs)
            finished = self._finish(transaction, endings, "current_attempts")
        if tx is None:
            self._wake_for(endings, transaction)
        return set(finished)

    def open_attempts(self, worker: WorkerId) -> list[OpenAttempt]:
        with self._transactions.read() as transaction:
            rows = transaction.run("open_attempts", (worker,))
        return [job_transitions.open_attempt(row) for row in rows]

    def cancel_requests(self, worker: WorkerId) -> list[tuple[JobId, ClaimId]]:
        with self._transactions.read() as transaction:
            return [(JobId(id), ClaimId(claim)) for id, claim in transaction.run("cancel_requests", (worker,))]

    def begin_alone(self, job_id: JobId, claim: ClaimId) -> bool:
        with self._transactions.write() as transaction:
            return bool(transaction.run("begin_alone", {"job_id": job_id, "claim": claim}))

    def append_logs(self, logs: Sequence[NewLog]) -> None:
        with self._transactions.write() as transaction:
            job_transitions.append(transaction, logs)

    def set_progress(self, progress: Sequence[Progress]) -> None:
        with self._transactions.write() as transaction:
            for one in progress:
                values = {"job_id": one.job_id, "claim": one.claim, "fraction": one.fraction}
                transaction.run("set_progress", {**values, "note": storable_text(one.note)})

    def save_state(self, job_id: JobId, claim: ClaimId, state: bytes) -> bool:
        values = {"job_id": job_id, "claim": claim, "state": state.decode()}
        with self._transactions.write() as transaction:
            return bool(transaction.run("save_state", values))

    def saved_state(self, job_id: JobId) -> bytes | None:
        with self._transactions.read() as transaction:
            state = transaction.value("saved_state", (job_id,))
        return None if state is None else state.encode()

    # -- services

    def expired_attempts(self, limit: int) -> list[OpenAttempt]:
        with self._transactions.read() as transaction:
            rows = transaction.run("expired_attempts", {"now": transaction.now, "limit": limit})
        return [job_transitions.open_attempt(row) for row in rows]

    def reclaim_attempts(self, endings: Sequence[Finish]) -> set[JobId]:
        """Close attempts whose lease is still expired, and mark their workers as lost; return their jobs."""
        with self._transactions.write() as transaction:
            holders = self._finish(transaction, endings, "expired_current_attempts")
            workers = sorted(set(holders.values()))
            transaction.run("end_leases", (as_json(workers),))
            transaction.run_many("lose_worker", [(worker,) for worker in workers])
        self._transactions.wake()
        return set(holders)

    def expire_jobs(self, limit: int) -> int:
        """End jobs whose deadline has passed, and advance their runs in the same transaction; return how many."""
        with self._transactions.write() as transaction:
            rows = [DequeuedRow(*row) for row in transaction.run("dequeue_expired", (transaction.now, limit))]
            for row in rows:
                job_transitions.end_unstarted(
                    transaction, row, JobState.EXPIRED, "it was not started before its deadline"
                )
            advance(transaction, self._graphs, [row.job_id for row in rows])
        if transaction.opened:
            self._transactions.wake()
        return len(rows)

    def prune(self, retention: Retention, limit: int, after: Place | None = None) -> Pruned:
        """Delete the old jobs of a page with all their rows, and old rows of other tables, in one transaction."""
        at, job_id = after or ("0", JobId(""))
        with self._transactions.write() as transaction:
            now = transaction.now
            values = {
                "ages": as_json({place: duration_us(age) for place, age in retention.ages().items()}),
                "oldest": now - duration_us(retention.shortest()),
                "after": int(at),
                "after_id": job_id,
                "mark": BLOB_MARK,
            }
            seen = transaction.run("prunable", {**values, "now": now, "limit": limit})
            doomed = [(job_id, blob) for job_id, blob, _, goes in seen if goes]
            places = [(str(ended_at), JobId(job_id)) for job_id, _, ended_at, _ in seen]
            ids = [job_id for job_id, _ in doomed]
            for kind in ("jobs", "finished", "attempts", "logs", "saved", "runs", "steps"):
                transaction.run(f"prune_{kind}", (as_json(ids),))
            transaction.run("prune_workers", {"lost": now - duration_us(_LOST_WORKERS_KEPT), "now": now})
            transaction.run("prune_keys", (now,))
            transaction.run("prune_operations", (now - duration_us(KEPT),))
            prune_rollups(transaction, limit)
            fires = transaction.run("prune_fires", {"ended": now - duration_us(retention.ended), "limit": limit})
        following = places[-1] if len(places) == limit else None
        return Pruned(max(len(ids), len(fires)), own_blobs(doomed), following)

    def unused_blobs(self, keys: Sequence[str]) -> list[str]:
        with self._transactions.read() as transaction:
            return [key for (key,) in transaction.run("unused_blobs", (as_json(blob_owners(keys)),))]

    # -- the store itself

    def waiter(self) -> Waiter:
        return self._transactions.waiter()

    def now(self) -> datetime:
        with self._transactions.read() as transaction:
            return from_us(transaction.now)

    def _wake_for(self, endings: Sequence[Finish], transaction: Transaction) -> None:
        """Wake workers if one of these finishes has queued its job again, or opened a limit key."""
        if transaction.opened or any(finish.transition.job is JobState.QUEUED for finish in endings):
            self._transactions.wake()

    def check_clock(self) -> timedelta | None:
        return None  # It never goes back: see store/sqlite/file/clock.py.

    def record_clock_step(self, by: timedelta) -> None:
        """Do nothing: `health` compares the store's clock with the host's."""

    def health(self) -> StoreHealth:
        with self._file.reading() as connection:
            ahead = self._clock.ahead_us(connection)
            overdue = self._clock.now_us(connection, may_write=False) - duration_us(_STUCK)
            ((stuck,),) = connection.run(SQL["stuck_leases"], (overdue,))
        return self._file.health(timedelta(microseconds=ahead), stuck)

    def schema_status(self) -> SchemaStatus:
        return self._file.schema_status()

    def upgrade(self) -> list[Migration]:
        return self._file.upgrade()

    def answer_within(self, limit: timedelta) -> None:
        """Do nothing: a caller that stops waiting for the file's lock earlier has to wait again."""

    def connections(self) -> ConnectionCounts:
        return ConnectionCounts()

    def close(self) -> None:
        self._file.close()
