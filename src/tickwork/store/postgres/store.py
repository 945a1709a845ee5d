"""The PostgreSQL store: connections, transactions with retries, and the verbs on jobs and workers. SQL: sql/.

Every batch is one statement, and most verbs are one statement in all: a transaction by itself, in one round trip. `now`
is NULL in production, so that the database's own clock counts; tests pass a time. Heartbeats and the reaper have
connections of their own, and never wait for connections that other work uses.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any, TypeVar

import msgspec
import psycopg
from psycopg.pq import TransactionStatus

from tickwork.blobs import Blobs, LargeResults
from tickwork.clock import Clock, SystemClock
from tickwork.core.fairness import AGE, StarvationGuard
from tickwork.core.ids import ClaimId, JobId, WorkerId, is_id
from tickwork.core.job import (
    AttemptState,
    AttemptView,
    Claimed,
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
from tickwork.store.base import (
    DEFAULT_SIZES,
    ConnectionCounts,
    Place,
    PoolSizes,
    Pruned,
    SchemaStatus,
    StoreHealth,
    Waiter,
    WorkerRegistration,
)
from tickwork.store.claim.memory import ClaimMemory
from tickwork.store.claim.positions import Backlog, by_kind, by_needs, places_of, ranges_of
from tickwork.store.claim.types import ClaimRequest
from tickwork.store.dags import DagVerbs
from tickwork.store.limits import LimitedCapacity, LimitVerbs
from tickwork.store.migrate import Migration
from tickwork.store.postgres import params
from tickwork.store.postgres.admin.access import PostgresAccess
from tickwork.store.postgres.admin.audit_chain import PostgresAuditChain
from tickwork.store.postgres.admin.hooks import PostgresHooks
from tickwork.store.postgres.admin.notifications import PostgresNotify
from tickwork.store.postgres.admin.operations import PostgresOperations
from tickwork.store.postgres.caller_tx.adapters import inside, run_inside, run_inside_async
from tickwork.store.postgres.caller_tx.app_connection import LentConnection
from tickwork.store.postgres.caller_tx.same_database import WHICH, DatabaseIdentity, SameDatabase
from tickwork.store.postgres.caller_tx.statements import By, TxStatements
from tickwork.store.postgres.claim.cursor import ClaimCursor, CursorPosition, ReleasedHolds
from tickwork.store.postgres.claim.positions import guards, placed, read_limited_lanes
from tickwork.store.postgres.clock_repair import PostgresClock
from tickwork.store.postgres.connection.connection_pool import ConnectionPool
from tickwork.store.postgres.connection.connector import HANDLER_WAIT_S, PRUNE_S, USER_END_S, Connector
from tickwork.store.postgres.connection.error_mapping import runs_again, translate
from tickwork.store.postgres.connection.libpq_connection import PgConnection
from tickwork.store.postgres.connection.listener import Listener, PollOnlyWaiter
from tickwork.store.postgres.connection.session import Session
from tickwork.store.postgres.connection.steps import Rows, drive
from tickwork.store.postgres.connection.verb_pool import VerbPool
from tickwork.store.postgres.connection.wake_notify import WakeNotifier
from tickwork.store.postgres.health import examine
from tickwork.store.postgres.limits import PostgresLimits
from tickwork.store.postgres.reads.change_feed import PostgresChanges
from tickwork.store.postgres.reads.job_search import AMONG, PostgresJobSearch
from tickwork.store.postgres.reads.page_queries import PostgresPageQueries
from tickwork.store.postgres.reads.stats import PostgresStats
from tickwork.store.postgres.remote_leases import PostgresRemote
from tickwork.store.postgres.rows import as_claimed, id_document, instant, open_attempt, sooner, utc, worker_view
from tickwork.store.postgres.runs import PostgresRuns
from tickwork.store.postgres.schedules import PostgresSchedules
from tickwork.store.postgres.schema import Schema
from tickwork.store.postgres.sql_statements import checked_schema, statements
from tickwork.store.reads.stats import StatsVerbs
from tickwork.store.reads.verbs import ReadVerbs
from tickwork.store.remote_counts import with_held
from tickwork.store.remote_leases import REMOTE_OTHERS, REMOTE_SHOWN, RemoteVerbs
from tickwork.store.rows.instants import duration_us, from_us
from tickwork.store.rows.jobs import BLOB_MARK, blob_owners, own_blobs, read_task_definition
from tickwork.store.rows.workers import encode_offer
from tickwork.store.runs.graph_cache import GraphCache
from tickwork.store.schedules import ScheduleVerbs
from tickwork.store.shared_transaction import SharedTransaction, ThreadTransaction

T = TypeVar("T")

_log = logging.getLogger("tickwork.store")

RESERVED_SIZE = 2
TRIES = 6  # Attempts at a transaction that the server asks to repeat.
DUE = 0  # The phase of a claim that takes jobs that are due, before jobs that will be due soon.
_NAP_S = 0.02
_LOST_WORKERS_KEPT = timedelta(hours=1)


class PostgresStore(
    PostgresJobSearch,
    PostgresChanges,
    PostgresStats,
    PostgresLimits,
    PostgresSchedules,
    PostgresClock,
    PostgresPageQueries,
    PostgresOperations,
    PostgresHooks,
    PostgresNotify,
    PostgresRemote,
    PostgresAccess,
    PostgresAuditChain,
):
    """A store in a PostgreSQL database. Safe to use from many threads, processes and machines.

    Nothing is opened before it is needed. Tables of another version are refused, unless `upgrade` migrates them.
    `listen_url` reaches the same database without a pooler, so that workers can be woken. `sizes` bounds its
    connections. With `on_refused` the store is used by handlers, which may wait longer for a connection; it is called
    for each connection that the server refuses.
    """

    def __init__(
        self,
        url: str,
        *,
        schema: str = "tickwork",
        clock: Clock | None = None,
        upgrade: bool = False,
        listen_url: str | None = None,
        blobs: Blobs | None = None,
        new_claim: Callable[[], ClaimId] = new_claim,
        sizes: PoolSizes = DEFAULT_SIZES,
        on_refused: Callable[[], None] | None = None,
    ) -> None:
        self.url = url
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
        self.server = Connector(url)
        self.schema = Schema(checked_schema(schema), self.server.where)
        self._sql = statements(schema)
        self._clock = clock
        self._host_clock = SystemClock()
        self._random = Random()
        self._listening = Connector(listen_url) if listen_url else self.server
        if on_refused is not None:
            self.server.wait_s, self.server.refusals.tell = HANDLER_WAIT_S, on_refused
        idle_s = sizes.idle.total_seconds()
        self._stock, self._user_stock = (
            ConnectionPool(self.server, idle_s),
            ConnectionPool(self.server, idle_s, ours=False),
        )
        self._pool = VerbPool(self._stock, sizes.pool)
        self._reserved = VerbPool(self._stock, RESERVED_SIZE)  # For heartbeats and the reaper.
        self._user_pool = VerbPool(self._user_stock, sizes.user_pool)
        self._same = SameDatabase(self.server, lambda: self._perform(_which_database))
        self._upgrade_first = upgrade
        self._checked = False
        self._checking = threading.Lock()
        self._bounds: dict[tuple[WorkerId, tuple[str, ...]], ClaimCursor] = {}
        self._overs = ReleasedHolds(self._monotonic)
        self._new_claim = new_claim
        self._turns: dict[WorkerId, ClaimMemory] = {}
        self._ageing: dict[WorkerId, StarvationGuard] = {}
        self._graphs = GraphCache(LargeResults(blobs))
        self._channel = f"tickwork:{schema}"[:63]
        self._steps = TxStatements(self._sql, self._channel)
        self._here = ThreadTransaction[Session]()
        send, here = _sender(self._pool, self._channel), self._here
        self._notifier = WakeNotifier(send, self._host_clock.monotonic, lambda: here.together is not None)
        self._last_call = weakref.finalize(self, self._notifier.flush)  # Also runs when the process ends.

    # -- transactions

    def _perform(
        self,
        work: Callable[[Session], T],
        *,
        pool: VerbPool | None = None,
        single: bool = True,
        limit_s: float | None = None,
    ) -> T:
        """Run `work` as one transaction, and again if the server asks to repeat it.

        A `single` statement is a transaction by itself. Behind a pooler, or with a time limit of its own, it gets an
        explicit one, which sets the limits. A transaction that the server does not answer in time is not run again
        here: it may have been carried out.
        """
        if self._here.together is not None:
            return work(self._here.together.held)
        tries = 0
        while True:
            tries += 1
            with (pool or self._pool).lend() as connection:
                self._check_schema(connection)
                if limit_s is not None:
                    connection.answer_within(limit_s)
                begin = () if single and not self.server.pooled and limit_s is None else self.server.begin(limit_s)
                try:
                    return self._once(connection, work, tries > 1, begin)
                except psycopg.Error as error:
                    if not runs_again(error) or tries == TRIES:
                        raise translate(self.server.where, error, lost=connection.closed) from error
            threading.Event().wait(self._random.random() * _NAP_S * tries)

    def in_one_transaction(self, work: Callable[[], T]) -> T:
        """Run `work` with a shared transaction. `_perform` repeats it if the server asks for that before the commit."""
        if self._here.together is not None:
            return work()
        result, together = self._perform(partial(self._together, work), single=False)
        for later in together.after_commit:
            later()
        self._notifier.call()
        return result

    def _together(self, work: Callable[[], T], session: Session) -> tuple[T, SharedTransaction[Session]]:
        """Call `work` with a session that its verbs share, and commit."""
        self._here.together = together = SharedTransaction(session)
        session.is_shared = True
        try:
            result = work()
        finally:
            self._here.together = None
            session.is_shared = False
        try:
            session.commit()
        except psycopg.Error as error:  # The transaction may have been committed, so `work` is not called again.
            raise translate(self.server.where, error, lost=True) from error
        return result, together

    def _once(self, connection: PgConnection, work: Callable[[Session], T], again: bool, begin: tuple[str, ...]) -> T:
        """Run `work` on a connection and commit; roll back on any exception."""
        session = Session(connection, self._sql, self._now(), again, begin)
        try:
            result = work(session)
            session.commit()
        except BaseException:
            _roll_back(connection)
            raise
        return result

    def _now(self) -> datetime | None:
        return None if self._clock is None else from_us(self._clock.wall_us())

    def _check_schema(self, connection: PgConnection) -> None:
        """Upgrade or check the schema on the first use of this store."""
        if self._checked:
            return
        try:
            if self._upgrade_first:
                self.schema.upgrade(connection)
            self.schema.check(connection)
        except psycopg.Error as error:
            raise translate(self.server.where, error, lost=connection.closed) from error
        self._checked = True

    # -- callers

    def insert_jobs(self, jobs: Sequence[NewJob], tx: Any = None, by: By = None) -> list[JobId]:
        """Insert jobs. Without keys and without `by` it is one round trip, which may carry the NOTIFY."""
        if tx is not None:
            self._check_first()
            return run_inside(tx, self._steps.insert_and_call(jobs, self._now(), by), self._same)
        if by is None and not any(job.key for job in jobs):
            inserting = self._steps.inserting
            with self._notifier.ride() as rides:
                self._perform(lambda one: one.run_together(inserting(jobs, one.now, one.again, rides)))
            return [job.id for job in jobs]
        steps = self._steps.insert
        ids = self._perform(lambda one: drive(steps(jobs, one.now, by, one.again), one.run_sql), single=False)
        self._notifier.call()
        return ids

    async def insert_jobs_async(self, jobs: Sequence[NewJob], tx: Any, by: By = None) -> list[JobId]:
        """Insert jobs as insert_jobs does, in an asynchronous transaction of psycopg or SQLAlchemy."""
        if not self._checked:
            await asyncio.to_thread(self._check_first)
        return await run_inside_async(tx, self._steps.insert_and_call(jobs, self._now(), by), self._same)

    def get_jobs(self, ids: Sequence[JobId]) -> dict[JobId, JobView]:
        return {view.id: view for view in self._views(AMONG.format(ids="%(ids)s"), {"ids": id_document(ids)})}

    def find_key(self, key: str) -> JobId | None:
        rows = self._perform(lambda session: session.run("find_key", key=key))
        return JobId(rows[0][0]) if rows else None

    def cancel_jobs(self, ids: Sequence[JobId]) -> list[JobId]:
        became = self._move_runs(lambda claim_tx: claim_tx.cancel(dict.fromkeys(ids)))
        self._notifier.call()
        return [job_id for job_id in dict.fromkeys(ids) if became.get(job_id) == "done"]

    def retry_jobs(
        self, ids: Sequence[JobId], spacing: timedelta = timedelta(0), first: timedelta = timedelta(0)
    ) -> list[JobId]:
        steps = self._retry_steps(ids, duration_us(first))
        plain = [job_id for job_id in ids if job_id not in steps]
        times = {"spacing_us": duration_us(spacing), "first_us": duration_us(first)}
        values = {"ids": id_document(plain), **times, "any_end": False}
        rows = self._perform(lambda session: session.run("retry_jobs", **values))
        self._notifier.call()
        retried = {job_id for (job_id,) in rows} | {job_id for job_id, begun in steps.items() if begun}
        return [job_id for job_id in dict.fromkeys(ids) if job_id in retried]

    def reschedule_jobs(
        self, ids: Sequence[JobId], at: datetime | None = None, delay: timedelta = timedelta(0)
    ) -> list[JobId]:
        values = {"ids": id_document(ids), "at": at, "delay_us": duration_us(delay)}
        rows = self._perform(lambda session: session.run("reschedule_jobs", **values))
        self._leave_lines(limits for _, limits in rows)
        self._notifier.call()
        moved = {job_id for job_id, _ in rows}
        return [job_id for job_id in dict.fromkeys(ids) if job_id in moved]

    def discard_jobs(self, ids: Sequence[JobId]) -> list[JobId]:
        rows = self._perform(lambda session: session.run("discard_jobs", ids=id_document(ids)))
        discarded = {job_id for (job_id,) in rows}
        return [job_id for job_id in dict.fromkeys(ids) if job_id in discarded]

    def attempts(self, job_id: JobId) -> list[AttemptView]:
        if not is_id(job_id):
            return []
        rows = self._perform(lambda session: session.run("attempts", job_id=job_id))
        return [
            AttemptView(JobId(id), number, AttemptState(state), worker, utc(began), instant(ended), *rest)
            for id, number, state, worker, began, ended, *rest in rows
        ]

    def logs(self, job_id: JobId, after: tuple[int, int] = (0, -1), limit: int = 1000) -> list[LogChunk]:
        if not is_id(job_id):
            return []
        values = {"job_id": job_id, "attempt": after[0], "seq": after[1], "limit": limit}
        rows = self._perform(lambda session: session.run("logs", **values))
        return [LogChunk(JobId(id), attempt, seq, utc(at), *rest) for id, attempt, seq, at, *rest in rows]

    def durations(self) -> dict[str, timedelta]:
        return dict(self._perform(lambda session: session.run("durations")))

    def workers(self) -> list[WorkerView]:
        def look(session: Session) -> list[WorkerView]:
            values = {"now": session.now, "most": REMOTE_SHOWN, "others": REMOTE_OTHERS}
            names = ("workers", "held_counts", "remote_workers")
            rows, counts, remote = session.run_together([(self._sql[name], values) for name in names])
            return with_held([worker_view(row) for row in rows], dict(counts)) + [worker_view(row) for row in remote]

        return self._perform(look)

    def worker(self, id: WorkerId) -> WorkerView | None:
        rows = self._perform(lambda session: session.run("worker", id=id))
        return worker_view(rows[0]) if rows else None

    def task_definition(self, name: str) -> TaskDefinition | None:
        rows = self._perform(lambda session: session.run("task_definition", name=name))
        return read_task_definition(rows[0]) if rows else None

    def task_definitions(self, limit: int, after: str = "") -> list[TaskDefinition]:
        rows = self._perform(lambda session: session.run("task_definitions", after=after, limit=limit))
        return [read_task_definition(row) for row in rows]

    @contextlib.contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        """Lend a connection for a caller's transaction. Errors that the caller's block raises are not translated."""
        self._check_first()
        with self._user_pool.lend() as pooled:
            raised: BaseException | None = None
            handle = LentConnection(pooled, self.server)
            try:
                with handle.callers_transaction(USER_END_S):
                    try:
                        yield handle
                    except BaseException as error:
                        raised = error
                        raise
            except psycopg.Error as error:
                if error is raised:  # The caller's own error.
                    raise
                raise translate(self.server.where, error, lost=pooled.closed) from error
            finally:
                handle.end()

    # -- workers

    def register_worker(
        self, worker: WorkerRegistration, definitions: Sequence[TaskDefinition], lease: timedelta
    ) -> None:
        values = {
            "id": worker.id,
            "host": worker.host,
            "pid": worker.pid,
            "version": worker.version,
            "queues": params.document(worker.queues),
            "tasks": params.document(worker.tasks),
            "slots": worker.slots,
            "schedules": params.document(worker.schedules),
            "offer": encode_offer(worker.offer),
            "lease_us": duration_us(lease),
        }

        def register(session: Session) -> None:
            if not session.run("register_worker", **values):
                raise LeaseLost(f"worker {worker.id} was lost or has ended; it must register under a new id.")
            if definitions:
                session.run("define_tasks", tasks=params.task_definitions(definitions))

        self._perform(register, single=not definitions)

    def renew_lease(self, worker: WorkerId, lease: timedelta) -> bool:
        values = {"id": worker, "lease_us": duration_us(lease)}
        return bool(self._perform(lambda session: session.run("renew_lease", **values), pool=self._reserved))

    def drain_worker(self, worker: WorkerId) -> None:
        self._perform(lambda session: session.run("drain_worker", id=worker))

    def end_worker(self, worker: WorkerId) -> None:
        self._perform(lambda session: session.run("end_worker", id=worker))

    def claim_jobs(
        self,
        worker: WorkerId,
        queues: Sequence[str],
        tasks: Sequence[str],
        limit: int,
        ahead: timedelta = timedelta(0),
        reach: LimitedCapacity | None = None,
    ) -> Claims:
        claims = self.exchange(worker, (), (), queues, tasks, limit, ahead, reach).claims
        if claims is None:
            raise LeaseLost(f"worker {worker} has no lease any more; it must register anew before it claims.")
        return claims

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
        """Store finishes and claim. Finishes that advance runs come first, in a transaction of their own.

        Claimed runs are begun here instead of being returned.
        """
        moving = [one for one in endings if one.run is not None or one.produce]
        if moving:  # Finishes that advance runs go first, so that the jobs they release can be claimed here.
            ids = {one.job_id for one in moving}
            ended = self.finish_attempts(moving, [log for log in logs if log.job_id in ids])
            rest = [one for one in endings if one.job_id not in ids]
            words = [log for log in logs if log.job_id not in ids]
            done = self.exchange(worker, rest, words, queues, tasks, limit, ahead, reach)
            return Exchange(ended | done.finished, done.claims)
        found = self._exchange(worker, endings, logs, queues, tasks, limit, ahead, reach)
        if found.claims is None or not found.claims.jobs:
            return found
        jobs = self._arranged(worker, found.claims.jobs)
        begun = len(jobs) < len(found.claims.jobs)  # Runs were begun; their first steps can be claimed at once.
        next_due_s = 0.0 if begun else found.claims.next_due_s
        return Exchange(found.finished, msgspec.structs.replace(found.claims, jobs=jobs, next_due_s=next_due_s))

    def _exchange(
        self,
        worker: WorkerId,
        endings: Sequence[Finish],
        logs: Sequence[NewLog],
        queues: Sequence[str],
        tasks: Sequence[str],
        limit: int,
        ahead: timedelta,
        reach: LimitedCapacity | None,
    ) -> Exchange:
        """Finish attempts and claim jobs, with a plain claim where possible.

        The plain claim takes nothing if limits or gates are in force; then a limited claim in rounds follows. Now and
        then the oldest jobs of a starved priority are claimed first. The first of these claims stores the finishes in
        its transaction.
        """
        queues = list(dict.fromkeys(queues))
        reach = reach or LimitedCapacity(limit)
        if reach.search or self._turns_of(worker).is_guarded:
            return self._exchange_in_rounds(worker, endings, logs, ClaimRequest(queues, tuple(tasks), limit, reach))
        claim = self._new_claim()
        bounds = self._bounds_of(worker, tuple(tasks))
        reached = bounds.begin()
        ageing = self._ageing.setdefault(worker, StarvationGuard())
        aged = ageing.turn(self._monotonic())
        done: set[JobId] = set()
        opened = False
        before: list[Claimed] = []
        # Claim aged jobs of other priorities first, from the front of their places.
        if aged is not None:
            places = [(queue, priority) for priority in aged for queue in queues]
            asked = {
                **_asked(worker, claim, queues, tasks, limit),
                **placed(places, {}),
                **guards(queues, reached),
                **_AGED,
            }
            finished, rows = self._finish_and_claim(endings, logs, asked)
            done, opened = self._finished(endings, finished)
            before = [as_claimed(row, claim) for row in rows if row[0] is not None]
            ageing.took(before[0].priority if before else None, self._monotonic())
            endings, logs = (), ()
            if not rows or len(before) == limit:
                return Exchange(done, Claims(before) if rows else None)
        asked = _asked(worker, claim, queues, tasks, limit - len(before), ahead)
        asked |= {**placed(places_of(queues), reached), **guards(queues, reached)}
        finished, rows = self._finish_and_claim(endings, logs, asked)
        # The rows of a place are in order, so its last one wins: the cursor continues behind it.
        due = {(row[3], row[4]): CursorPosition(row[7], row[0]) for row in rows if row[13] == DUE}
        # A guarded claim has not read the lanes of limited jobs to their end.
        read = due if not rows or rows[0][-1] else read_limited_lanes(reached, queues, rows[0][8]) | due
        bounds.took(read.items(), claimed=bool(due))
        if endings:
            done, opened = self._finished(endings, finished)
        jobs = before + [as_claimed(row, claim) for row in rows if row[0] is not None]
        claims = Claims(jobs) if jobs else None
        if rows:
            next_due_s, opens_s, _ = rows[0][-3:]
            claims = Claims(jobs, next_due_s, sooner(bounds.again_s(), opens_s))
        # Limits are in force, or the finishes freed one that holds jobs: claim the rest in rounds.
        if claims is not None and (opened or (rows and rows[0][-1])):
            room = limit - len(jobs)
            claims = self._claim_in_rounds(worker, ClaimRequest(queues, tuple(tasks), room, reach), claims)
        return Exchange(done, claims)

    def _finish_and_claim(
        self, endings: Sequence[Finish], logs: Sequence[NewLog], asked: dict[str, Any]
    ) -> tuple[Rows, Rows]:
        """Store finishes and claim in one transaction and one round trip; return the rows of both."""

        def run(session: Session) -> list[Rows]:
            finishing = self._steps.finishing(endings, logs, session.now)
            return session.run_together([*finishing, (self._sql["claim_jobs"], {"now": session.now, **asked})])

        *finished, claimed = self._perform(run)
        return finished[-1] if endings else [], claimed

    def _claim_in_rounds(self, worker: WorkerId, asked: ClaimRequest, before: Claims) -> Claims:
        """Claim jobs under limits, in addition to the jobs claimed before."""
        try:
            claim = self._claim_guarded(worker, asked)
        # The lease was lost between the two claims. The first claim's jobs are returned, and the next claim reports it.
        except LeaseLost:
            return before
        return Claims([*before.jobs, *claim.claimed], None, sooner(before.again_s, claim.again_s))

    def _exchange_in_rounds(
        self, worker: WorkerId, endings: Sequence[Finish], logs: Sequence[NewLog], asked: ClaimRequest
    ) -> Exchange:
        """Finish and claim in rounds, where a sparse scan is asked for or the last claim met limits.

        The first round stores the finishes.
        """
        # If this fails, the next exchange stores its finishes without the limited claim that failed.
        self._turns_of(worker).is_guarded = False
        try:
            claim = self._claim_guarded(worker, asked, partial(self._steps.finishing, endings, logs))
        except LeaseLost:
            return Exchange(self.finish_attempts(endings, logs), None)
        self._call_for(endings)
        done = {JobId(job_id) for job_id, _ in claim.finished if job_id is not None}
        return Exchange(done, Claims(claim.claimed, None, claim.again_s, claim.is_near))

    def _finished(self, endings: Sequence[Finish], rows: Rows) -> tuple[set[JobId], bool]:
        """Return the jobs whose attempts were closed, and whether that opened a limit key that holds jobs."""
        freed = [key_text for job_id, key_text in rows if job_id is None]
        opened = bool(freed) and self._open_freed(freed)
        self._call_for(endings)
        return {JobId(job_id) for job_id, _ in rows if job_id is not None}, opened

    def _call_for(self, endings: Sequence[Finish]) -> None:
        """Wake workers if finishes put jobs back into the queue."""
        if any(finish.transition.job is JobState.QUEUED for finish in endings):
            self._notifier.call()

    def _monotonic(self) -> float:
        return (self._clock or self._host_clock).monotonic()

    def _bounds_of(self, worker: WorkerId, tasks: tuple[str, ...]) -> ClaimCursor:
        """Return the claim cursor of this worker for these tasks. Cursors of other workers are dropped."""
        bounds = self._bounds.get((worker, tasks))
        if bounds is None:
            bounds = ClaimCursor(self._monotonic)
            kept = {known: one for known, one in self._bounds.items() if known[0] == worker}
            self._bounds = {**kept, (worker, tasks): bounds}
        return bounds

    def due_tasks(self, queues: Sequence[str]) -> set[str]:
        rows = self._perform(lambda session: session.run("due_tasks", queues=params.document(queues)))
        return {name for (name,) in rows}

    def backlog(self, queues: Sequence[str], tasks: Sequence[str], most: int) -> list[Backlog]:
        asked: dict[str, Sequence[Any]] = {"places": places_of(queues), "ranges": ranges_of(queues), "tasks": tasks}
        values = {name: params.document(value) for name, value in asked.items()}
        rows = self._perform(lambda session: session.run("backlog", **values, most=most))
        return by_needs((lane, count, utc(oldest)) for lane, count, oldest in rows)

    def waiting_kinds(self, queue: str, most: int) -> list[WaitingKind]:
        ((low, high),) = ranges_of([queue])
        values = {"queue": queue, "low": low, "high": high, "most": most}
        return by_kind(self._perform(lambda session: session.run("waiting_kinds", **values)))

    def finish_attempts(self, endings: Sequence[Finish], logs: Sequence[NewLog] = (), tx: Any = None) -> set[JobId]:
        """Close attempts, in the caller's transaction if there is one; finishes of steps also advance their runs."""
        moves_runs = any(one.run or one.produce for one in endings)
        if tx is not None and not moves_runs:
            rows = run_inside(tx, self._steps.finish(endings, logs, self._now()), self._same)
            return {JobId(job_id) for job_id, _ in rows if job_id is not None}
        if tx is not None:
            with inside(tx, self._same) as run_all:
                claim_tx = PostgresRuns(run_all, self._sql, self._graphs, self._now())
                rows = claim_tx.close("finish_attempts", endings, logs)
                claim_tx.finish(run_all)
            return {JobId(job_id) for job_id, _ in rows if job_id is not None}
        if moves_runs:
            rows = self._move_runs(lambda claim_tx: claim_tx.close("finish_attempts", endings, logs))
            return self._finished(endings, rows)[0]
        finish = self._steps.finish
        rows = self._perform(
            lambda session: drive(finish(endings, logs, session.now), session.run_sql), single=not logs
        )
        return self._finished(endings, rows)[0]

    def open_attempts(self, worker: WorkerId) -> list[OpenAttempt]:
        rows = self._perform(lambda session: session.run("open_attempts", worker=worker))
        return [open_attempt(row) for row in rows]

    def cancel_requests(self, worker: WorkerId) -> list[tuple[JobId, ClaimId]]:
        rows = self._perform(lambda session: session.run("cancel_requests", worker=worker))
        return [(JobId(job_id), ClaimId(claim)) for job_id, claim in rows]

    def begin_alone(self, job_id: JobId, claim: ClaimId) -> bool:
        return bool(self._perform(lambda session: session.run("begin_alone", job_id=job_id, claim=claim)))

    def append_logs(self, logs: Sequence[NewLog]) -> None:
        if logs:
            self._perform(lambda session: session.run("append_logs", logs=params.new_logs(logs)))

    def set_progress(self, progress: Sequence[Progress]) -> None:
        if progress:
            self._perform(lambda session: session.run("set_progress", progress=params.progress(progress)))

    def save_state(self, job_id: JobId, claim: ClaimId, state: bytes) -> bool:
        values = {"job_id": job_id, "claim": claim, "state": state.decode()}
        return bool(self._perform(lambda session: session.run("save_state", **values)))

    def saved_state(self, job_id: JobId) -> bytes | None:
        if not is_id(job_id):
            return None
        rows = self._perform(lambda session: session.run("saved_state", job_id=job_id))
        return rows[0][0].encode() if rows else None

    # -- services

    def expired_attempts(self, limit: int) -> list[OpenAttempt]:
        rows = self._perform(lambda session: session.run("expired_attempts", limit=limit), pool=self._reserved)
        return [open_attempt(row) for row in rows]

    def reclaim_attempts(self, endings: Sequence[Finish]) -> set[JobId]:
        """Close attempts whose lease is still expired, on the connections reserved for heartbeats and the reaper."""
        values = params.endings(endings)
        if any(one.run for one in endings):
            rows = self._move_runs(lambda claim_tx: claim_tx.close("reclaim_attempts", endings), self._reserved)
        else:
            rows = self._perform(lambda session: session.run("reclaim_attempts", **values), pool=self._reserved)
        self._notifier.call()
        return self._finished(endings, rows)[0]

    def expire_jobs(self, limit: int) -> int:
        """End jobs whose deadline has passed: plain jobs in one statement, then steps under the lock of their run."""
        end = {"state": "expired", "error": "it was not started before its deadline"}
        ((count, limits),) = self._perform(lambda session: session.run("expire_jobs", limit=limit, **end))
        self._leave_lines(limits)
        steps = self._perform(lambda session: session.run("expired_steps", limit=limit))
        ended = self._end_steps([job_id for (job_id,) in steps], **end) if steps else 0
        return max(int(count), ended)

    def prune(self, retention: Retention, limit: int, after: Place | None = None) -> Pruned:
        """Delete old jobs after a position in one transaction, then old operations and statistics in others."""
        at, after_id = after or ("-infinity", JobId("00000000-0000-0000-0000-000000000000"))
        values = {
            "after": at,
            "after_id": after_id,
            "ages": params.mapping({place: duration_us(age) for place, age in retention.ages().items()}),
            "shortest_us": duration_us(retention.shortest()),
            "ended_us": duration_us(retention.ended),
            "lost_us": duration_us(_LOST_WORKERS_KEPT),
            "limit": limit,
            "mark": BLOB_MARK,
        }
        rows = self._perform(lambda session: session.run("prune", **values), limit_s=PRUNE_S)
        kept = {"kept_us": duration_us(KEPT)}
        self._perform(lambda session: session.run("prune_operations", **kept), limit_s=PRUNE_S)
        self._prune_rollups(limit)
        count, _, _, last_at, last_id = rows[0]
        blobs = own_blobs((job_id, blob) for _, job_id, blob, _, _ in rows)
        return Pruned(int(count), blobs, None if last_at is None else (last_at, JobId(last_id)))

    def unused_blobs(self, keys: Sequence[str]) -> list[str]:
        owned = [(job_id, key) for job_id, key in blob_owners(keys) if is_id(job_id)]
        ids = params.array([job_id for job_id, _ in owned])
        values = {"ids": ids, "keys": params.text_array([key for _, key in owned])}
        return [key for (key,) in self._perform(lambda session: session.run("unused_blobs", **values))]

    # -- the store itself

    def now(self) -> datetime:
        ((now,),) = self._perform(lambda session: session.run("now"))
        return utc(now)

    def waiter(self) -> Waiter:
        self._check_first()
        if self._listening.pooled:
            return PollOnlyWaiter()
        return Listener(lambda: self._listening.connect(ours=False), self._channel)

    def health(self) -> StoreHealth:
        name, server, clock = self.schema.name, self.server, self._host_clock
        return self._perform(lambda session: examine(session.connection, name, server, clock, session.now))

    def schema_status(self) -> SchemaStatus:
        return self._look_at_schema(self.schema.status)

    def upgrade(self) -> list[Migration]:
        return self._look_at_schema(self.schema.upgrade)

    def _look_at_schema(self, look: Callable[[PgConnection], T]) -> T:
        """Run a check or upgrade of the schema on a connection whose schema was not checked."""
        with self._pool.lend() as connection:
            try:
                return look(connection)
            except psycopg.Error as error:
                raise translate(self.server.where, error, lost=connection.closed) from error

    def _check_first(self) -> None:
        """Check the schema, unless that was done. Handlers that begin at the same time share one connection for it."""
        if self._checked:
            return
        # A fork may have copied the lock while it was held.
        is_ours = self._checking.acquire(timeout=self.server.wait_s)
        try:
            if not self._checked:
                self._perform(lambda session: None)
        finally:
            if is_ours:
                self._checking.release()

    def answer_within(self, limit: timedelta) -> None:
        self.server.shorten(limit.total_seconds())

    def connections(self) -> ConnectionCounts:
        servers = {self.server, self._listening}
        return ConnectionCounts(self._stock.open + self._user_stock.open, sum(one.refusals.count for one in servers))

    def close(self) -> None:
        self._notifier.flush()
        for stock in (self._stock, self._user_stock):
            stock.close()


_AGED = {"age_us": str(duration_us(AGE))}


def _asked(
    worker: WorkerId,
    claim: ClaimId,
    queues: Sequence[str],
    tasks: Sequence[str],
    limit: int,
    ahead: timedelta = timedelta(0),
) -> dict[str, Any]:
    """Return the parameters of `claim_jobs`, without places."""
    return {
        "worker": worker,
        "claim": str(claim),
        "queues": params.text_array(queues),
        "tasks": params.text_array(tasks),
        "limit": str(limit),
        "ahead_us": str(duration_us(ahead)),
        "age_us": "0",
    }


def _which_database(session: Session) -> DatabaseIdentity:
    return DatabaseIdentity(*session.run_sql(WHICH, {})[0])


def _sender(pool: VerbPool, channel: str) -> Callable[[], None]:
    """Return a function that notifies workers. A notification is a hint: it need not be durable and may fail."""
    statement = f'BEGIN; SET LOCAL synchronous_commit TO off; NOTIFY "{channel}"; COMMIT'.encode()

    def send() -> None:
        try:
            with pool.lend() as connection:
                connection.execute(statement)
        except (StoreError, psycopg.Error) as error:
            _log.debug("Workers could not be woken (%s); they will poll.", error)

    return send


def _roll_back(connection: PgConnection) -> None:
    """Roll back an open transaction; errors are ignored, because the pool closes a broken connection."""
    if connection.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
        with contextlib.suppress(psycopg.Error):
            connection.execute("ROLLBACK")
