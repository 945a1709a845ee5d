"""The PostgreSQL store: builds its components, and has the verbs on jobs, attempts and workers. The SQL is in sql/.

Every batch is one statement, and most verbs are one statement in all (see transactions.py).
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import psycopg

from tickwork.blobs import Blobs, LargeResults
from tickwork.clock import Clock
from tickwork.core.ids import ClaimId, JobId, WorkerId, is_id
from tickwork.core.job import NewJob, TaskDefinition
from tickwork.core.retention import Retention
from tickwork.errors import LeaseLost
from tickwork.store.attempt_types import Claims, Exchange, Finish, NewLog, OpenAttempt, Progress, new_claim
from tickwork.store.base import (
    DEFAULT_SIZES,
    ConnectionCounts,
    Place,
    PollOnlyWaiter,
    PoolSizes,
    Pruned,
    SchemaStatus,
    Store,
    StoreHealth,
    Waiter,
    WorkerRegistration,
)
from tickwork.store.claim.types import ClaimRequest
from tickwork.store.limits import LimitedCapacity
from tickwork.store.migrate import Migration
from tickwork.store.postgres import params
from tickwork.store.postgres.admin.access import PostgresAccess
from tickwork.store.postgres.admin.audit import PostgresAudit
from tickwork.store.postgres.admin.bulk_operations import PostgresOperations
from tickwork.store.postgres.admin.hooks import PostgresHooks
from tickwork.store.postgres.admin.notifications import PostgresNotifications
from tickwork.store.postgres.caller_tx.adapters import run_inside, run_inside_async
from tickwork.store.postgres.caller_tx.app_connection import lend_connection
from tickwork.store.postgres.caller_tx.same_database import WHICH, DatabaseIdentity, SameDatabase
from tickwork.store.postgres.caller_tx.statements import By, TxStatements
from tickwork.store.postgres.claim.claim_cursor import ClaimCursors
from tickwork.store.postgres.claim.claims import PostgresClaims
from tickwork.store.postgres.claim.limited_claims import ClaimRounds
from tickwork.store.postgres.connection.connector import HANDLER_WAIT_S, Connector
from tickwork.store.postgres.connection.libpq_connection import Rows
from tickwork.store.postgres.connection.listener import Listener
from tickwork.store.postgres.connection.session import Session
from tickwork.store.postgres.dags import PostgresDags
from tickwork.store.postgres.health import examine
from tickwork.store.postgres.job_transitions import JobTransitions
from tickwork.store.postgres.limit_openings import LimitOpenings, ReleasedHolds
from tickwork.store.postgres.limits import PostgresLimits
from tickwork.store.postgres.maintenance import check_clock, prune
from tickwork.store.postgres.params import document, id_document
from tickwork.store.postgres.reads.job_filter_queries import JobFilterQueries
from tickwork.store.postgres.reads.read_verbs import PostgresReads
from tickwork.store.postgres.reads.stats import PostgresStats
from tickwork.store.postgres.remote_leases import PostgresRemoteLeases
from tickwork.store.postgres.schedules import PostgresSchedules
from tickwork.store.postgres.transactions import PostgresTransactions
from tickwork.store.rows.instants import duration_us
from tickwork.store.rows.jobs import blob_owners, decode_policy
from tickwork.store.rows.workers import encode_offer
from tickwork.store.runs.graph_cache import GraphCache

T = TypeVar("T")


class PostgresStore(Store):
    """A store in a PostgreSQL database. Safe to use from many threads, processes and machines.

    Connections are opened when they are first needed. Tables of another version are refused, unless `upgrade` migrates
    them. `listen_url` reaches the same database without a pooler, so that workers can be woken. `sizes` limits the
    number of connections. With `on_refused` the store is used by handlers, which may wait longer for a connection;
    `on_refused` is called for each connection that the server refuses.
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
        self.blobs = blobs
        self.server = server = Connector(url)
        self._listening = Connector(listen_url) if listen_url else server
        if on_refused is not None:
            server.wait_s, server.refusals.tell = HANDLER_WAIT_S, on_refused
        self.transactions = transactions = PostgresTransactions(
            server, schema=schema, sizes=sizes, clock=clock, upgrade=upgrade
        )
        self.schema = transactions.schema
        self._last_call = weakref.finalize(self, transactions.notifier.flush)  # Also runs when the process ends.
        self._build(transactions, new_claim)

    def _build(self, transactions: PostgresTransactions, new_claim: Callable[[], ClaimId]) -> None:
        """Build the components of the store, in the order in which they depend on each other."""
        openings = LimitOpenings(transactions, ReleasedHolds(transactions.monotonic))
        graphs = GraphCache(LargeResults(self.blobs))
        self.changes = changes = JobTransitions(
            transactions,
            openings=openings,
            graphs=graphs,
            tx_statements=TxStatements(transactions.sql, transactions.channel),
            same_database=SameDatabase(self.server, lambda: transactions.perform(_read_identity)),
        )
        cursors = ClaimCursors(transactions.monotonic)
        rounds = ClaimRounds(transactions, changes, openings, cursors, new_claim)
        self.claims = PostgresClaims(transactions, rounds, changes)
        jobs = JobFilterQueries(transactions)
        self.reads = PostgresReads(transactions, jobs, graphs)
        self.stats = self._stats = PostgresStats(transactions)
        self.schedules = PostgresSchedules(transactions, openings, graphs)
        self.dags = PostgresDags(transactions, changes, jobs)
        self.limits = PostgresLimits(transactions, changes, openings)
        self.remote = PostgresRemoteLeases(transactions)
        self.access = PostgresAccess(transactions)
        self.audit = PostgresAudit(transactions)
        self.hooks = PostgresHooks(transactions)
        self.notifications = PostgresNotifications(transactions, changes.tx_statements)
        self.operations = PostgresOperations(transactions)

    def in_one_transaction(self, work: Callable[[], T]) -> T:
        return self.transactions.in_one_transaction(work)

    # -- callers

    def insert_jobs(self, jobs: Sequence[NewJob], tx: Any = None, by: By = None) -> list[JobId]:
        """Insert jobs (see Store.insert_jobs).

        Without keys and `by` this is one round trip, which may contain the NOTIFY.
        """
        if tx is not None:
            self.transactions.check_first()
            return run_inside(
                tx,
                self.changes.tx_statements.insert_and_call(jobs, self.transactions.test_time(), by),
                self.changes.same_database,
            )
        if by is None and not any(job.key for job in jobs):
            inserting = self.changes.tx_statements.inserting
            with self.transactions.notifier.ride() as rides:
                self.transactions.perform(
                    lambda session: session.run_together(inserting(jobs, session.now, session.again, rides))
                )
            return [job.id for job in jobs]
        insert = self.changes.tx_statements.insert
        ids = self.transactions.perform(
            lambda session: session.run_steps(insert(jobs, session.now, by, session.again)), single=False
        )
        self.transactions.notifier.call()
        return ids

    async def insert_jobs_async(self, jobs: Sequence[NewJob], tx: Any, by: By = None) -> list[JobId]:
        """Insert jobs as insert_jobs does, in an asynchronous transaction of psycopg or SQLAlchemy."""
        if not self.transactions.is_checked:
            await asyncio.to_thread(self.transactions.check_first)
        inserting = self.changes.tx_statements.insert_and_call(jobs, self.transactions.test_time(), by)
        return await run_inside_async(tx, inserting, self.changes.same_database)

    def cancel_jobs(self, ids: Sequence[JobId]) -> list[JobId]:
        became = self.changes.cancel(ids)
        self.transactions.notifier.call()
        return [job_id for job_id in dict.fromkeys(ids) if became.get(job_id) == "done"]

    def retry_jobs(
        self, ids: Sequence[JobId], spacing: timedelta = timedelta(0), first: timedelta = timedelta(0)
    ) -> list[JobId]:
        """Queue ended jobs again. For a failed step its run is queued, which continues from that step."""
        steps = self.changes.retry_steps(ids, duration_us(first))
        plain = [job_id for job_id in ids if job_id not in steps]
        times = {"spacing_us": duration_us(spacing), "first_us": duration_us(first)}
        values = {"ids": id_document(plain), **times, "any_end": False}
        rows = self.transactions.run("retry_jobs", **values)
        self.transactions.notifier.call()
        retried = {job_id for (job_id,) in rows} | {job_id for job_id, begun in steps.items() if begun}
        return [job_id for job_id in dict.fromkeys(ids) if job_id in retried]

    def reschedule_jobs(
        self, ids: Sequence[JobId], at: datetime | None = None, delay: timedelta = timedelta(0)
    ) -> list[JobId]:
        """Set the run_at of queued jobs.

        Held jobs leave their limit keys, so the sequences that they leave are opened.
        """
        values = {"ids": id_document(ids), "at": at, "delay_us": duration_us(delay)}
        rows = self.transactions.run("reschedule_jobs", **values)
        self.changes.openings.leave_sequences(limits for _, limits in rows)
        self.transactions.notifier.call()
        moved = {job_id for job_id, _ in rows}
        return [job_id for job_id in dict.fromkeys(ids) if job_id in moved]

    def discard_jobs(self, ids: Sequence[JobId]) -> list[JobId]:
        rows = self.transactions.run("discard_jobs", ids=id_document(ids))
        discarded = {job_id for (job_id,) in rows}
        return [job_id for job_id in dict.fromkeys(ids) if job_id in discarded]

    def connection(self) -> AbstractContextManager[psycopg.Connection[Any]]:
        return lend_connection(self.transactions)

    # -- workers

    def register_worker(
        self, worker: WorkerRegistration, definitions: Sequence[TaskDefinition], lease: timedelta
    ) -> None:
        values = {
            "id": worker.id,
            "host": worker.host,
            "pid": worker.pid,
            "version": worker.version,
            "queues": document(worker.queues),
            "tasks": document(worker.tasks),
            "slots": worker.slots,
            "schedules": document(worker.schedules),
            "offer": encode_offer(worker.offer),
            "lease_us": duration_us(lease),
        }

        def register(session: Session) -> None:
            if not session.run("register_worker", **values):
                raise LeaseLost(f"worker {worker.id} was lost or has ended; it must register under a new id.")
            if definitions:
                session.run("define_tasks", tasks=params.task_definitions(definitions))

        self.transactions.perform(register, single=not definitions)

    def renew_lease(self, worker: WorkerId, lease: timedelta) -> bool:
        return bool(self.transactions.run_reserved("renew_lease", id=worker, lease_us=duration_us(lease)))

    def drain_worker(self, worker: WorkerId) -> None:
        self.transactions.run("drain_worker", id=worker)

    def end_worker(self, worker: WorkerId) -> None:
        self.transactions.run("end_worker", id=worker)

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
        claims = self.exchange(
            worker, (), (), queues=queues, tasks=tasks, limit=limit, ahead=ahead, capacity=capacity
        ).claims
        if claims is None:
            raise LeaseLost(f"worker {worker} has no lease any more; it must register again before it claims.")
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
        asked = ClaimRequest(list(dict.fromkeys(queues)), tuple(tasks), limit, capacity or LimitedCapacity(limit))
        return self.claims.exchange(worker, endings, logs, asked, ahead)

    def finish_attempts(self, endings: Sequence[Finish], logs: Sequence[NewLog] = (), tx: Any = None) -> set[JobId]:
        return self.changes.finish_attempts(endings, logs, tx)

    def open_attempts(self, worker: WorkerId) -> list[OpenAttempt]:
        return _open_attempts(self.transactions.run("open_attempts", worker=worker))

    def cancel_requests(self, worker: WorkerId) -> list[tuple[JobId, ClaimId]]:
        rows = self.transactions.run("cancel_requests", worker=worker)
        return [(JobId(job_id), ClaimId(claim)) for job_id, claim in rows]

    def begin_alone(self, job_id: JobId, claim: ClaimId) -> bool:
        return bool(self.transactions.run("begin_alone", job_id=job_id, claim=claim))

    def append_logs(self, logs: Sequence[NewLog]) -> None:
        if logs:
            self.transactions.run("append_logs", logs=params.new_logs(logs))

    def set_progress(self, progress: Sequence[Progress]) -> None:
        if progress:
            self.transactions.run("set_progress", progress=params.progress(progress))

    def save_state(self, job_id: JobId, claim: ClaimId, state: bytes) -> bool:
        values = {"job_id": job_id, "claim": claim, "state": state.decode()}
        return bool(self.transactions.run("save_state", **values))

    def saved_state(self, job_id: JobId) -> bytes | None:
        if not is_id(job_id):
            return None
        return next((state.encode() for (state,) in self.transactions.run("saved_state", job_id=job_id)), None)

    # -- services

    def expired_attempts(self, limit: int) -> list[OpenAttempt]:
        return _open_attempts(self.transactions.run_reserved("expired_attempts", limit=limit))

    def reclaim_attempts(self, endings: Sequence[Finish]) -> set[JobId]:
        return self.changes.reclaim_attempts(endings)

    def expire_jobs(self, limit: int) -> int:
        return self.changes.expire_jobs(limit)

    def prune(self, retention: Retention, limit: int, after: Place | None = None) -> Pruned:
        return prune(self.transactions, self._stats, retention, limit, after)

    def unused_blobs(self, keys: Sequence[str]) -> list[str]:
        owned = [(job_id, key) for job_id, key in blob_owners(keys) if is_id(job_id)]
        ids = params.array([job_id for job_id, _ in owned])
        values = {"ids": ids, "keys": params.text_array([key for _, key in owned])}
        return [key for (key,) in self.transactions.run("unused_blobs", **values)]

    # -- the store itself

    def now(self) -> datetime:
        return self.transactions.now()

    def check_clock(self) -> timedelta | None:
        return check_clock(self.transactions)

    def record_clock_step(self, by: timedelta) -> None:
        self.transactions.run("record_step", step_us=duration_us(by))

    def waiter(self) -> Waiter:
        self.transactions.check_first()
        if self._listening.pooled:
            return PollOnlyWaiter()
        return Listener(lambda: self._listening.connect(ours=False), self.transactions.channel)

    def health(self) -> StoreHealth:
        return self.transactions.perform(partial(examine, self.transactions))

    def schema_status(self) -> SchemaStatus:
        return self.transactions.look_at_schema(self.schema.status)

    def upgrade(self) -> list[Migration]:
        return self.transactions.look_at_schema(self.schema.upgrade)

    def answer_within(self, limit: timedelta) -> None:
        self.server.shorten(limit.total_seconds())

    def connections(self) -> ConnectionCounts:
        transactions = self.transactions
        refused = sum(server.refusals.count for server in {self.server, self._listening})
        return ConnectionCounts(transactions.connections.open + transactions.user_connections.open, refused)

    def close(self) -> None:
        self.transactions.close()


def _read_identity(session: Session) -> DatabaseIdentity:
    """Return the identity of the store's own database."""
    return DatabaseIdentity.of(session.run_sql(WHICH, {}))


def _open_attempts(rows: Rows) -> list[OpenAttempt]:
    """Build open attempts from rows, whose columns are the fields of an OpenAttempt."""
    return [
        OpenAttempt(JobId(job_id), attempt, ClaimId(claim), WorkerId(worker), decode_policy(policy), *rest)
        for job_id, attempt, claim, worker, policy, *rest in rows
    ]
