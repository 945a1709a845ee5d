"""The SQLite store: transactions, and the verbs on jobs and workers. The SQL is in sql/.

Every writing verb is one `BEGIN IMMEDIATE` transaction on the one writing connection of this process; reads have
connections of their own. Changes to rows are in transitions.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec

from tickwork.blobs import Blobs, LargeResults
from tickwork.clock import Clock, SystemClock
from tickwork.core.fairness import StarvationGuard
from tickwork.core.ids import ClaimId, JobId, WorkerId
from tickwork.core.job import (
    AskingAttempt,
    AttemptState,
    AttemptView,
    JobState,
    JobView,
    LogChunk,
    NewJob,
    TaskDefinition,
    WorkerView,
)
from tickwork.core.retention import Retention
from tickwork.core.workers.autoscale import WaitingKind
from tickwork.errors import LeaseLost, StoreError
from tickwork.store.admin.access import AccessVerbs
from tickwork.store.admin.audit import AuditVerbs
from tickwork.store.admin.hooks import HookVerbs
from tickwork.store.admin.notifications import NotifyVerbs
from tickwork.store.admin.operations import KEPT, OperationVerbs
from tickwork.store.attempts import Claims, Exchange, Finish, NewLog, OpenAttempt, Progress, new_claim
from tickwork.store.base import ConnectionCounts, Place, Pruned, SchemaStatus, StoreHealth, Waiter, WorkerRegistration
from tickwork.store.claim import limited
from tickwork.store.claim.limited import RoundResult
from tickwork.store.claim.memory import ClaimMemory
from tickwork.store.claim.positions import Backlog, by_kind, by_needs, places_of, ranges_of
from tickwork.store.claim.types import ClaimRequest
from tickwork.store.dags import DagVerbs
from tickwork.store.limits import LimitedCapacity, LimitVerbs
from tickwork.store.migrate import Migration
from tickwork.store.reads.stats import StatsVerbs
from tickwork.store.reads.verbs import ReadVerbs
from tickwork.store.remote_counts import with_held
from tickwork.store.remote_leases import REMOTE_OTHERS, REMOTE_SHOWN, RemoteVerbs
from tickwork.store.rows.instants import duration_us, from_us, to_us
from tickwork.store.rows.jobs import BLOB_MARK, blob_owners, job_view, own_blobs, read_task_definition, storable_text
from tickwork.store.rows.workers import decode_names, decode_offer, encode_offer
from tickwork.store.runs.graph_cache import GraphCache
from tickwork.store.schedules import ScheduleVerbs
from tickwork.store.shared_transaction import SharedTransaction, ThreadTransaction
from tickwork.store.sqlite import transitions
from tickwork.store.sqlite.admin.access import SqliteAccess
from tickwork.store.sqlite.admin.audit_chain import SqliteAuditChain
from tickwork.store.sqlite.admin.hooks import SqliteHooks
from tickwork.store.sqlite.admin.notifications import SqliteNotify
from tickwork.store.sqlite.admin.operations import SqliteOperations
from tickwork.store.sqlite.file.clock import StoreClock
from tickwork.store.sqlite.file.connection import is_stored_already
from tickwork.store.sqlite.file.file import SqliteFile, UserConnection
from tickwork.store.sqlite.file.wake import PollOnlyWaiter, SocketWaiter, wake_all
from tickwork.store.sqlite.limits import SqliteClaimTx, SqliteLimits, is_guarded
from tickwork.store.sqlite.reads.change_feed import SqliteChanges
from tickwork.store.sqlite.reads.job_search import SqliteJobSearch
from tickwork.store.sqlite.reads.page_queries import SqlitePageQueries
from tickwork.store.sqlite.reads.stats import SqliteStats, prune_rollups
from tickwork.store.sqlite.remote_leases import SqliteRemote
from tickwork.store.sqlite.runs import SqliteDags, advance, arranged, cancel, produce_all, retry_steps
from tickwork.store.sqlite.schedules import SqliteSchedules
from tickwork.store.sqlite.transitions import SQL, Transaction

T = TypeVar("T")

_LOST_WORKERS_KEPT = timedelta(hours=1)
_STUCK = timedelta(minutes=1)


class SqliteSharedTransaction:
    """A transaction that several verbs share.

    It begins with the first write, so that it blocks no writer before that.
    """

    def __init__(self, begin: Callable[[], UserConnection]) -> None:
        self._begin = begin
        self._tx: UserConnection | None = None

    @property
    def has_begun(self) -> bool:
        return self._tx is not None

    def begin(self) -> UserConnection:
        if self._tx is None:
            self._tx = self._begin()
        return self._tx


class SqliteStore(
    SqliteSchedules,
    SqliteLimits,
    SqliteDags,
    SqliteJobSearch,
    SqliteChanges,
    SqlitePageQueries,
    SqliteStats,
    SqliteOperations,
    SqliteHooks,
    SqliteNotify,
    SqliteRemote,
    SqliteAccess,
    SqliteAuditChain,
):
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
        # Each mixin below becomes a component; until then, the store is its own groups of verbs.
        self.reads: ReadVerbs = self
        self.stats: StatsVerbs = self
        self.schedules: ScheduleVerbs = self
        self.dags: DagVerbs = self
        self.limits: LimitVerbs = self
        self.remote: RemoteVerbs = self
        self.access: AccessVerbs = self
        self.audit: AuditVerbs = self
        self.hooks: HookVerbs = self
        self.notifications: NotifyVerbs = self
        self.operations: OperationVerbs = self
        self.blobs = blobs
        self._clock = StoreClock(clock or SystemClock())
        self._file = SqliteFile(path, driver, adopt=adopt)
        self._new_claim = new_claim
        self._turns: dict[WorkerId, ClaimMemory] = {}
        self._ageing: dict[WorkerId, StarvationGuard] = {}
        self._graphs = GraphCache(LargeResults(blobs))
        self._here = ThreadTransaction[SqliteSharedTransaction]()

    # -- transactions

    def in_one_transaction(self, work: Callable[[], T]) -> T:
        """Run `work` with a shared transaction that begins with its first write; later work runs after the commit."""
        if self._here.together is not None:
            return work()
        with contextlib.ExitStack() as stack:
            shared = SqliteSharedTransaction(lambda: stack.enter_context(self._file.user_transaction(self._wake)))
            self._here.together = together = SharedTransaction(shared)
            try:
                result = work()
            finally:
                self._here.together = None
        for later in together.after_commit:
            later()
        return result

    @contextlib.contextmanager
    def _write(self, tx: Any = None) -> Iterator[Transaction]:
        """Open a write transaction, or join the caller's or the thread's shared one."""
        if tx is None and self._here.together is not None:
            tx = self._here.together.held.begin()
        if tx is not None:
            with self._file.borrowed(tx) as connection:
                yield Transaction(connection, self._clock.now_us(connection, may_write=True))
            return
        with self._file.writing() as connection:
            yield Transaction(connection, self._clock.now_us(connection, may_write=True))

    @contextlib.contextmanager
    def _read(self) -> Iterator[Transaction]:
        """Open a read transaction; join the thread's shared one if that has begun, so that its writes are visible."""
        if self._here.together is not None and self._here.together.held.has_begun:
            with self._write() as transaction:
                yield transaction
            return
        with self._file.reading() as connection:
            yield Transaction(connection, self._clock.now_us(connection, may_write=False))

    # -- callers

    def insert_jobs(self, jobs: Sequence[NewJob], tx: Any = None, by: AskingAttempt | None = None) -> list[JobId]:
        """Insert jobs; if an id turns out to exist already, insert again without the existing ones."""
        try:
            ids = self._insert(jobs, tx, by, known=False)
        except StoreError as error:
            if not is_stored_already(error.__cause__):
                raise
            ids = self._insert(jobs, tx, by, known=True)
        self._wake()  # Again after the commit, for workers that only read and so do not wait for it.
        return ids

    def _insert(self, jobs: Sequence[NewJob], tx: Any, by: AskingAttempt | None, *, known: bool) -> list[JobId]:
        """Store jobs, unless the attempt `by` is not the current one of its job."""
        with self._write(tx) as transaction:
            if tx is None:
                self._wake()  # A claim that begins now waits for this commit, so workers can wake up meanwhile.
            if by is not None and not transaction.run("is_current", (by.job_id, by.claim)):
                raise LeaseLost(
                    f"attempt {by.attempt} of job {by.job_id} was superseded; nothing it enqueues is stored."
                )
            return transitions.insert(transaction, jobs, known=known)

    def get_jobs(self, ids: Sequence[JobId]) -> dict[JobId, JobView]:
        with self._read() as transaction:
            rows = transaction.connection.rows(
                SQL["job_columns"] + SQL["from_jobs"] + SQL["of_these"], (transitions.as_json(list(ids)),)
            )
        views = (job_view(row, from_us) for row in rows)
        return {view.id: view for view in views}

    def find_key(self, key: str) -> JobId | None:
        with self._read() as transaction:
            rows = transaction.run("holder_of_key", (key,)) or transaction.run("newest_of_key", (key,))
        return JobId(rows[0][0]) if rows else None

    def cancel_jobs(self, ids: Sequence[JobId]) -> list[JobId]:
        with self._write() as transaction:
            cancelled = cancel(transaction, self._graphs, ids)
        self._wake()
        return cancelled

    def retry_jobs(
        self, ids: Sequence[JobId], spacing: timedelta = timedelta(0), first: timedelta = timedelta(0)
    ) -> list[JobId]:
        retried: list[JobId] = []
        with self._write() as transaction:
            steps = retry_steps(transaction, ids, transaction.now + duration_us(first))
            for job_id in dict.fromkeys(ids):
                if job_id in steps:
                    retried += [job_id] if steps[job_id] else []
                    continue
                wait = duration_us(first) + duration_us(spacing) * len(retried)
                if transitions.retry(transaction, job_id, transaction.now + wait):
                    retried.append(job_id)
        self._wake()
        return retried

    def reschedule_jobs(
        self, ids: Sequence[JobId], at: datetime | None = None, delay: timedelta = timedelta(0)
    ) -> list[JobId]:
        with self._write() as transaction:
            asked = transaction.now + duration_us(delay) if at is None else to_us(at)
            run_at = max(asked, transaction.now)
            moved = [job_id for job_id in dict.fromkeys(ids) if transitions.reschedule(transaction, job_id, run_at)]
        self._wake()
        return moved

    def discard_jobs(self, ids: Sequence[JobId]) -> list[JobId]:
        with self._write() as transaction:
            return [id for id in ids if transaction.run("discard_job", {"job_id": id, "now": transaction.now})]

    def attempts(self, job_id: JobId) -> list[AttemptView]:
        with self._read() as transaction:
            rows = transaction.run("attempts", {"job_id": job_id})
        return [
            AttemptView(JobId(id), number, AttemptState(state), worker, from_us(began), _instant(ended), *rest)
            for id, number, state, worker, began, ended, *rest in rows
        ]

    def logs(self, job_id: JobId, after: tuple[int, int] = (0, -1), limit: int = 1000) -> list[LogChunk]:
        values = {"job_id": job_id, "attempt": after[0], "seq": after[1], "limit": limit}
        with self._read() as transaction:
            rows = transaction.run("logs", values)
        return [
            LogChunk(JobId(id), attempt, seq, from_us(at), text, shared == 1)
            for id, attempt, seq, at, text, shared in rows
        ]

    def durations(self) -> dict[str, timedelta]:
        with self._read() as transaction:
            rows = transaction.run("durations")
        return {queue: timedelta(microseconds=average) for queue, average in rows}

    def workers(self) -> list[WorkerView]:
        with self._read() as transaction:
            now = transaction.now
            processes = [_worker_view(row) for row in transaction.run("workers", {"now": now})]
            counts = dict(transaction.run("held_counts"))
            values = {"now": now, "most": REMOTE_SHOWN, "others": REMOTE_OTHERS}
            remote = [_worker_view(row) for row in transaction.run("remote_workers", values)]
        return with_held(processes, counts) + remote

    def worker(self, id: WorkerId) -> WorkerView | None:
        with self._read() as transaction:
            rows = transaction.run("worker", {"id": id, "now": transaction.now})
        return _worker_view(rows[0]) if rows else None

    def task_definition(self, name: str) -> TaskDefinition | None:
        with self._read() as transaction:
            rows = transaction.run("task_definition", (name,))
        return read_task_definition(rows[0]) if rows else None

    def task_definitions(self, limit: int, after: str = "") -> list[TaskDefinition]:
        with self._read() as transaction:
            rows = transaction.run("task_definitions", {"after": after, "limit": limit})
        return [read_task_definition(row) for row in rows]

    def connection(self) -> contextlib.AbstractContextManager[Any]:
        return self._file.user_transaction(self._wake)

    # -- workers

    def register_worker(
        self, worker: WorkerRegistration, definitions: Sequence[TaskDefinition], lease: timedelta
    ) -> None:
        with self._write() as transaction:
            names = (transitions.as_json(list(worker.queues)), transitions.as_json(list(worker.tasks)))
            until = transaction.now + duration_us(lease)
            identity = (worker.id, worker.host, worker.pid, worker.version)
            serves = (worker.slots, transitions.as_json(list(worker.schedules)), encode_offer(worker.offer))
            if not transaction.run("register_worker", (*identity, *names, *serves, transaction.now, until)):
                raise LeaseLost(f"worker {worker.id} was lost or has ended; it must register under a new id.")
            for task in definitions:
                transaction.run("define_task", transitions.task_row(task))

    def renew_lease(self, worker: WorkerId, lease: timedelta) -> bool:
        with self._write() as transaction:
            return bool(transaction.run("renew_lease", (transaction.now + duration_us(lease), worker)))

    def drain_worker(self, worker: WorkerId) -> None:
        with self._write() as transaction:
            transaction.run("drain_worker", (worker,))

    def end_worker(self, worker: WorkerId) -> None:
        with self._write() as transaction:
            transaction.run("end_worker", {"id": worker, "now": transaction.now})

    def claim_jobs(
        self,
        worker: WorkerId,
        queues: Sequence[str],
        tasks: Sequence[str],
        limit: int,
        ahead: timedelta = timedelta(0),
        reach: LimitedCapacity | None = None,
    ) -> Claims:
        with self._write() as transaction:
            claims = self._claim(transaction, worker, queues, tasks, limit, ahead, reach)
            if claims is None:
                raise LeaseLost(f"worker {worker} has no lease any more; it must register again before it claims.")
        if transaction.opened:
            self._wake()
        return claims

    def _claim(
        self,
        transaction: Transaction,
        worker: WorkerId,
        queues: Sequence[str],
        tasks: Sequence[str],
        limit: int,
        ahead: timedelta,
        reach: LimitedCapacity | None,
    ) -> Claims | None:
        """Claim jobs inside a transaction; None when the worker has no lease."""
        if not transitions.has_lease(transaction, worker):
            return None
        queues = list(dict.fromkeys(queues))
        reach = reach or LimitedCapacity(limit)
        if not reach.search and not is_guarded(transaction, queues):
            ageing = self._ageing.setdefault(worker, StarvationGuard())
            claims = transitions.claim(
                transaction, worker, self._new_claim(), queues, tasks, limit, duration_us(ahead), ageing
            )
            return self._arranged(transaction, claims)
        claim_tx = SqliteClaimTx(transaction, worker, queues, tasks, self._new_claim())
        memory = self._turns.setdefault(worker, ClaimMemory())

        def run_round(request: ClaimRequest, after_parking: bool) -> RoundResult:
            result = limited.run_round(claim_tx, request, memory, after_parking=after_parking)
            dropped = [job_id for job_id in result.dropped if transitions.drop(transaction, job_id)]
            advance(transaction, self._graphs, dropped)
            return result

        request = ClaimRequest(queues, tuple(tasks), limit, reach)
        result = limited.run_rounds(run_round, request, self._clock.monotonic)
        return self._arranged(transaction, Claims(claim_tx.claimed, None, result.again_s, result.is_near))

    def _arranged(self, transaction: Transaction, claims: Claims) -> Claims:
        """Begin the claimed runs and return the other claims. The first steps of the runs can be claimed at once."""
        jobs = arranged(transaction, self._graphs, claims.jobs)
        if jobs is claims.jobs:
            return claims
        next_due_s = 0.0 if len(jobs) < len(claims.jobs) else claims.next_due_s
        return msgspec.structs.replace(claims, jobs=jobs, next_due_s=next_due_s)

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
        with self._write() as transaction:
            transitions.append(transaction, logs)
            finished = self._finish(transaction, endings, "current_attempts")
            claims = self._claim(transaction, worker, queues, tasks, limit, ahead, reach)
        self._wake_for(endings, transaction)
        return Exchange(set(finished), claims)

    def _finish(self, transaction: Transaction, endings: Sequence[Finish], guard: str) -> dict[JobId, str]:
        """Close attempts and advance the runs of their steps; return the closed jobs with their workers."""
        closed = transitions.finish(transaction, endings, guard)
        steps = dict.fromkeys(one.job_id for one in endings if one.run is not None and one.job_id in closed)
        if steps:
            advance(transaction, self._graphs, steps)
        if making := [one for one in endings if one.produce and one.job_id in closed]:
            produce_all(transaction, making)
        return closed

    def due_tasks(self, queues: Sequence[str]) -> set[str]:
        with self._read() as transaction:
            values = ((queue, transaction.now) for queue in queues)
            return {name for value in values for (name,) in transaction.run("due_tasks", value)}

    def backlog(self, queues: Sequence[str], tasks: Sequence[str], most: int) -> list[Backlog]:
        asked = {"places": places_of(queues), "ranges": ranges_of(queues), "tasks": list(tasks)}
        values = {name: transitions.as_json(value) for name, value in asked.items()}
        with self._read() as transaction:
            rows = transaction.run("backlog", {**values, "most": most, "now": transaction.now})
        return by_needs((lane, count, from_us(oldest)) for lane, count, oldest in rows)

    def waiting_kinds(self, queue: str, most: int) -> list[WaitingKind]:
        ((low, high),) = ranges_of([queue])
        with self._read() as transaction:
            values = {"queue": queue, "low": low, "high": high, "most": most, "now": transaction.now}
            return by_kind(transaction.run("waiting_kinds", values))

    def finish_attempts(self, endings: Sequence[Finish], logs: Sequence[NewLog] = (), tx: Any = None) -> set[JobId]:
        with self._write(tx) as transaction:
            transitions.append(transaction, logs)
            finished = self._finish(transaction, endings, "current_attempts")
        if tx is None:
            self._wake_for(endings, transaction)
        return set(finished)

    def open_attempts(self, worker: WorkerId) -> list[OpenAttempt]:
        with self._read() as transaction:
            rows = transaction.run("open_attempts", (worker,))
        return [transitions.open_attempt(row) for row in rows]

    def cancel_requests(self, worker: WorkerId) -> list[tuple[JobId, ClaimId]]:
        with self._read() as transaction:
            return [(JobId(id), ClaimId(claim)) for id, claim in transaction.run("cancel_requests", (worker,))]

    def begin_alone(self, job_id: JobId, claim: ClaimId) -> bool:
        with self._write() as transaction:
            return bool(transaction.run("begin_alone", {"job_id": job_id, "claim": claim}))

    def append_logs(self, logs: Sequence[NewLog]) -> None:
        with self._write() as transaction:
            transitions.append(transaction, logs)

    def set_progress(self, progress: Sequence[Progress]) -> None:
        with self._write() as transaction:
            for one in progress:
                values = {"job_id": one.job_id, "claim": one.claim, "fraction": one.fraction}
                transaction.run("set_progress", {**values, "note": storable_text(one.note)})

    def save_state(self, job_id: JobId, claim: ClaimId, state: bytes) -> bool:
        values = {"job_id": job_id, "claim": claim, "state": state.decode()}
        with self._write() as transaction:
            return bool(transaction.run("save_state", values))

    def saved_state(self, job_id: JobId) -> bytes | None:
        with self._read() as transaction:
            rows = transaction.run("saved_state", (job_id,))
        return rows[0][0].encode() if rows else None

    # -- services

    def expired_attempts(self, limit: int) -> list[OpenAttempt]:
        with self._read() as transaction:
            rows = transaction.run("expired_attempts", {"now": transaction.now, "limit": limit})
        return [transitions.open_attempt(row) for row in rows]

    def reclaim_attempts(self, endings: Sequence[Finish]) -> set[JobId]:
        """Close attempts whose lease is still expired, and mark their workers as lost."""
        with self._write() as transaction:
            holders = self._finish(transaction, endings, "expired_current_attempts")
            workers = sorted(set(holders.values()))
            transaction.run("end_leases", (transitions.as_json(workers),))
            transaction.run_many("lose_worker", [(worker,) for worker in workers])
        self._wake()
        return set(holders)

    def expire_jobs(self, limit: int) -> int:
        """Dequeue and end jobs whose deadline has passed; their runs are advanced in the same transaction."""
        with self._write() as transaction:
            rows = transaction.run("dequeue_expired", (transaction.now, limit))
            for job_id, *standing in rows:
                error = "it was not started before its deadline"
                transitions.end_unstarted(transaction, job_id, JobState.EXPIRED, standing, error)
            advance(transaction, self._graphs, [row[0] for row in rows])
        if transaction.opened:
            self._wake()
        return len(rows)

    def prune(self, retention: Retention, limit: int, after: Place | None = None) -> Pruned:
        """Delete in one transaction the old jobs of a page with all their rows, and old rows of other tables."""
        at, job_id = after or ("0", JobId(""))
        with self._write() as transaction:
            now = transaction.now
            values = {
                "ages": transitions.as_json({place: duration_us(age) for place, age in retention.ages().items()}),
                "oldest": now - duration_us(retention.shortest()),
                "after": int(at),
                "after_id": job_id,
                "mark": BLOB_MARK,
            }
            seen = transaction.run("prunable", {**values, "now": now, "limit": limit})
            doomed = [(job_id, blob) for job_id, blob, _, goes in seen if goes]
            ids = [job_id for job_id, _ in doomed]
            for kind in ("jobs", "finished", "attempts", "logs", "saved", "runs", "steps"):
                transaction.run(f"prune_{kind}", (transitions.as_json(ids),))
            transaction.run("prune_workers", {"lost": now - duration_us(_LOST_WORKERS_KEPT), "now": now})
            transaction.run("prune_keys", (now,))
            transaction.run("prune_operations", (now - duration_us(KEPT),))
            prune_rollups(transaction, limit)
            fires = transaction.run("prune_fires", {"ended": now - duration_us(retention.ended), "limit": limit})
        following = (str(seen[-1][2]), JobId(seen[-1][0])) if len(seen) == limit else None
        return Pruned(max(len(ids), len(fires)), own_blobs(doomed), following)

    def unused_blobs(self, keys: Sequence[str]) -> list[str]:
        with self._read() as transaction:
            return [key for (key,) in transaction.run("unused_blobs", (transitions.as_json(blob_owners(keys)),))]

    # -- the store itself

    def now(self) -> datetime:
        with self._read() as transaction:
            return from_us(transaction.now)

    def waiter(self) -> Waiter:
        if self._file.wake_folder is None:
            return PollOnlyWaiter()
        try:
            return SocketWaiter(self._file.wake_folder)
        except OSError:
            return PollOnlyWaiter()

    def _wake(self) -> None:
        if self._file.wake_folder is not None:
            wake_all(self._file.wake_folder)

    def _wake_for(self, endings: Sequence[Finish], transaction: Transaction) -> None:
        """Wake workers if finishes put jobs back into the queue, or opened a limit."""
        if transaction.opened or any(finish.transition.job is JobState.QUEUED for finish in endings):
            self._wake()

    def check_clock(self) -> timedelta | None:
        return None  # It never goes back: see store/sqlite/file/clock.py.

    def record_clock_step(self, by: timedelta) -> None:
        """Do nothing: `health` compares with the host's clock."""

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
        """Keep the usual limits: a caller that stops waiting for the file's lock earlier has to wait again."""

    def connections(self) -> ConnectionCounts:
        return ConnectionCounts()

    def close(self) -> None:
        self._file.close()


def _instant(us: int | None) -> datetime | None:
    return None if us is None else from_us(us)


def _worker_view(row: Any) -> WorkerView:
    id, host, pid, version, queues, tasks, slots, schedules, offer, state, began, until, held, asked = row
    return WorkerView(
        id,
        host,
        pid,
        version,
        decode_names(queues),
        decode_names(tasks),
        slots,
        state,
        from_us(began),
        from_us(until),
        held,
        decode_names(schedules),
        decode_offer(offer),
        asked,
    )
