"""The verbs of `store.base` on one SQLite file. The SQL is in sql/, a file for each group of verbs.

Every writing verb is one `BEGIN IMMEDIATE` transaction on the one writing connection of this process; reads have
connections of their own. `run` below is a verb's view of a transaction: statements by name, and the store's now.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from tickwork.clock import Clock, SystemClock
from tickwork.core.ids import JobId, WorkerId
from tickwork.core.job import (
    LOWEST_PRIORITY,
    AttemptState,
    AttemptView,
    Claimed,
    JobFilter,
    JobState,
    JobView,
    LogChunk,
    NewJob,
    QueueView,
    TaskDefinition,
    WorkerView,
)
from tickwork.core.outcome import Transition
from tickwork.errors import LeaseLost, check
from tickwork.store import codec
from tickwork.store.base import (
    Claims,
    Finish,
    Health,
    NewLog,
    OpenAttempt,
    Progress,
    Retention,
    SchemaStatus,
    Waiter,
    Worker,
)
from tickwork.store.codec import duration_us, from_us
from tickwork.store.migrate import Migration
from tickwork.store.sql import load_statements
from tickwork.store.sqlite.clock import StoreClock
from tickwork.store.sqlite.connection import Connection
from tickwork.store.sqlite.file import SqliteFile
from tickwork.store.sqlite.wake import PollOnlyWaiter, SocketWaiter, wake_all

_SQL = load_statements("tickwork.store.sqlite")
_LOST_WORKERS_KEPT = timedelta(hours=1)
_STUCK = timedelta(minutes=1)


class Transaction:
    """Named statements on a connection, at one instant of the store's clock."""

    __slots__ = ("connection", "now")

    def __init__(self, connection: Connection, now: int) -> None:
        self.connection = connection
        self.now = now

    def run(self, statement: str, values: Any = ()) -> list[Any]:
        return self.connection.run(_SQL[statement], values)


class SqliteStore:
    """The embedded store. Safe to use from many threads, and from many processes of one machine."""

    def __init__(self, path: str, *, driver: str = "apsw", clock: Clock | None = None, adopt: bool = False) -> None:
        self.url = f"sqlite:///{path}"
        self._clock = StoreClock(clock or SystemClock())
        self._file = SqliteFile(path, driver, adopt=adopt)

    # -- transactions

    @contextlib.contextmanager
    def _write(self, tx: Any = None) -> Iterator[Transaction]:
        if tx is not None:
            with self._file.borrowed(tx) as connection:
                yield Transaction(connection, self._clock.now_us(connection, may_write=True))
            return
        with self._file.writing() as connection:
            yield Transaction(connection, self._clock.now_us(connection, may_write=True))

    @contextlib.contextmanager
    def _read(self) -> Iterator[Transaction]:
        with self._file.reading() as connection:
            yield Transaction(connection, self._clock.now_us(connection, may_write=False))

    # -- callers

    def insert_jobs(self, jobs: Sequence[NewJob], tx: Any = None, by: tuple[JobId, int] | None = None) -> list[JobId]:
        with self._write(tx) as transaction:
            if by is not None and not transaction.run("is_current", by):
                raise LeaseLost(f"attempt {by[1]} of job {by[0]} was superseded; nothing it enqueues is stored.")
            kept, stands = codec.one_for_each_key(jobs)
            ids = [_insert(transaction, job) for job in kept]
        self._wake()
        return [ids[place] for place in stands]

    def get_jobs(self, ids: Sequence[JobId]) -> dict[JobId, JobView]:
        with self._read() as transaction:
            rows = transaction.connection.rows(_SQL["job_columns"] + _SQL["of_these"], (_json(list(ids)),))
        views = (codec.job_view(row, from_us) for row in rows)
        return {view.id: view for view in views}

    def list_jobs(self, which: JobFilter, limit: int, before: JobId | None = None) -> list[JobView]:
        found, values = codec.conditions(which)
        if which.ids is not None:
            found.append("j.id IN (SELECT value FROM json_each({ids}))")
            values["ids"] = _json(list(which.ids))
        if which.label is not None:
            found.append("EXISTS (SELECT 1 FROM json_each(j.labels) WHERE value = {label})")
            values["label"] = which.label
        if before is not None:
            found.append("j.id < {before}")
            values["before"] = codec.checked_id(before)
        where = " AND ".join(found) or "true"
        where = where.format_map({name: f":{name}" for name in values})
        sql = f"{_SQL['job_columns']} WHERE {where} ORDER BY j.id DESC LIMIT :page"
        with self._read() as transaction:
            rows = transaction.connection.rows(sql, {**values, "page": limit})
        return [codec.job_view(row, from_us) for row in rows]

    def find_key(self, key: str) -> JobId | None:
        with self._read() as transaction:
            rows = transaction.run("holder_of_key", (key,)) or transaction.run("newest_of_key", (key,))
        return JobId(rows[0][0]) if rows else None

    def cancel_jobs(self, ids: Sequence[JobId]) -> list[JobId]:
        with self._write() as transaction:
            cancelled = [job_id for job_id in dict.fromkeys(ids) if _cancel(transaction, job_id)]
        self._wake()
        return cancelled

    def retry_jobs(
        self, ids: Sequence[JobId], spacing: timedelta = timedelta(0), first: timedelta = timedelta(0)
    ) -> list[JobId]:
        retried: list[JobId] = []
        with self._write() as transaction:
            for job_id in dict.fromkeys(ids):
                wait = duration_us(first) + duration_us(spacing) * len(retried)
                if _retry(transaction, job_id, transaction.now + wait):
                    retried.append(job_id)
        self._wake()
        return retried

    def discard_jobs(self, ids: Sequence[JobId]) -> list[JobId]:
        with self._write() as transaction:
            return [id for id in ids if transaction.run("discard_job", {"job_id": id, "now": transaction.now})]

    def attempts(self, job_id: JobId) -> list[AttemptView]:
        with self._read() as transaction:
            rows = transaction.run("attempts", {"job_id": job_id})
        return [
            AttemptView(JobId(id), number, AttemptState(state), worker, from_us(began), _instant(ended), error)
            for id, number, state, worker, began, ended, error in rows
        ]

    def logs(self, job_id: JobId, after: tuple[int, int] = (0, -1), limit: int = 1000) -> list[LogChunk]:
        values = {"job_id": job_id, "attempt": after[0], "seq": after[1], "limit": limit}
        with self._read() as transaction:
            rows = transaction.run("logs", values)
        return [LogChunk(JobId(id), attempt, seq, from_us(at), text) for id, attempt, seq, at, text in rows]

    def queues(self) -> list[QueueView]:
        with self._read() as transaction:
            rows = transaction.run("queues", {"now": transaction.now})
        return [QueueView(name, due, later, running, _instant(oldest)) for name, due, later, running, oldest in rows]

    def workers(self) -> list[WorkerView]:
        with self._read() as transaction:
            rows = transaction.run("workers", {"now": transaction.now})
        return [
            WorkerView(
                id,
                host,
                pid,
                version,
                _names(queues),
                _names(tasks),
                slots,
                state,
                from_us(began),
                from_us(until),
                held,
            )
            for id, host, pid, version, queues, tasks, slots, state, began, until, held in rows
        ]

    def task_definition(self, name: str) -> TaskDefinition | None:
        with self._read() as transaction:
            rows = transaction.run("task_definition", (name,))
        if not rows:
            return None
        _, queue, priority, policy, schema = rows[0]
        return TaskDefinition(name, queue, priority, codec.decode_policy(policy), schema.encode())

    def connection(self) -> contextlib.AbstractContextManager[Any]:
        return self._file.user_transaction(self._wake)

    # -- workers

    def register_worker(self, worker: Worker, definitions: Sequence[TaskDefinition], lease: timedelta) -> None:
        with self._write() as transaction:
            names = (_json(list(worker.queues)), _json(list(worker.tasks)))
            until = transaction.now + duration_us(lease)
            identity = (worker.id, worker.host, worker.pid, worker.version)
            if not transaction.run("register_worker", (*identity, *names, worker.slots, transaction.now, until)):
                raise LeaseLost(f"worker {worker.id} was lost or has ended; it must register under a new id.")
            for task in definitions:
                policy = codec.encode_policy(task.policy)
                transaction.run("define_task", (task.name, task.queue, task.priority, policy, task.schema.decode()))

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
    ) -> Claims:
        names, window, queues = _json(list(tasks)), duration_us(ahead), list(dict.fromkeys(queues))
        with self._write() as transaction:
            _check_lease(transaction, worker)
            picked = _pick(transaction, queues, names, limit, 0, transaction.now)
            if window and len(picked) < limit:
                until = transaction.now + window
                picked += _pick(transaction, queues, names, limit - len(picked), transaction.now, until)
            for row in picked:
                _move_to_running(transaction, worker, row)
            due = None if len(picked) == limit else _next_due(transaction, queues, window)
        claimed_at = from_us(transaction.now)
        return Claims([_claimed(row, claimed_at) for row in picked], due)

    def due_tasks(self, queues: Sequence[str]) -> set[str]:
        with self._read() as transaction:
            values = ((queue, transaction.now) for queue in queues)
            return {name for value in values for (name,) in transaction.run("due_tasks", value)}

    def finish_attempts(self, endings: Sequence[Finish], logs: Sequence[NewLog] = (), tx: Any = None) -> set[JobId]:
        with self._write(tx) as transaction:
            _append(transaction, logs)
            finished = {finish.job_id for finish in endings if _finish(transaction, finish, "leave_running", ())}
        if tx is None and any(finish.transition.job is JobState.QUEUED for finish in endings):
            self._wake()
        return finished

    def open_attempts(self, worker: WorkerId) -> list[OpenAttempt]:
        with self._read() as transaction:
            rows = transaction.run("open_attempts", (worker,))
        return [_open_attempt(row) for row in rows]

    def cancel_requests(self, worker: WorkerId) -> list[tuple[JobId, int]]:
        with self._read() as transaction:
            return [(JobId(id), attempt) for id, attempt in transaction.run("cancel_requests", (worker,))]

    def append_logs(self, logs: Sequence[NewLog]) -> None:
        with self._write() as transaction:
            _append(transaction, logs)

    def set_progress(self, progress: Sequence[Progress]) -> None:
        with self._write() as transaction:
            for one in progress:
                values = {"job_id": one.job_id, "attempt": one.attempt, "fraction": one.fraction}
                transaction.run("set_progress", {**values, "note": codec.clean(one.note)})

    def save_state(self, job_id: JobId, attempt: int, state: bytes) -> bool:
        values = {"job_id": job_id, "attempt": attempt, "state": state.decode()}
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
        return [_open_attempt(row) for row in rows]

    def reclaim_attempts(self, endings: Sequence[Finish]) -> set[JobId]:
        with self._write() as transaction:
            now = (transaction.now,)
            holders = {one.job_id: _finish(transaction, one, "leave_running_expired", now) for one in endings}
            for worker in sorted({worker for worker in holders.values() if worker is not None}):
                transaction.run("lose_worker", (worker,))
        self._wake()
        return {job_id for job_id, worker in holders.items() if worker is not None}

    def expire_jobs(self, limit: int) -> int:
        with self._write() as transaction:
            rows = transaction.run("dequeue_expired", (transaction.now, limit))
            for job_id, *standing in rows:
                _end_unstarted(
                    transaction, job_id, JobState.EXPIRED, standing, "it was not started before its deadline"
                )
        return len(rows)

    def prune(self, retention: Retention, limit: int) -> int:
        with self._write() as transaction:
            now = transaction.now
            cutoff = {"ended": now - duration_us(retention.ended), "failed": now - duration_us(retention.failed)}
            ids = [row[0] for row in transaction.run("prunable", {**cutoff, "now": now, "limit": limit})]
            for statement in ("prune_jobs", "prune_finished", "prune_attempts", "prune_logs", "prune_saved"):
                transaction.run(statement, (_json(ids),))
            transaction.run("prune_workers", (now - duration_us(_LOST_WORKERS_KEPT),))
            transaction.run("prune_keys", (now,))
        return len(ids)

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

    def health(self) -> Health:
        with self._file.reading() as connection:
            ahead = self._clock.ahead_us(connection)
            overdue = self._clock.now_us(connection, may_write=False) - duration_us(_STUCK)
            ((stuck,),) = connection.run(_SQL["stuck_leases"], (overdue,))
        return self._file.health(timedelta(microseconds=ahead), stuck)

    def schema_status(self) -> SchemaStatus:
        return self._file.schema_status()

    def upgrade(self) -> list[Migration]:
        return self._file.upgrade()

    def close(self) -> None:
        self._file.close()


# -- one row each: what the verbs above do for every job of a batch


def _insert(transaction: Transaction, job: NewJob) -> JobId:
    asked, run_at, expires_at = codec.due_us(job, transaction.now)
    if job.key is not None:
        if transaction.run("is_stored", (job.id,)):
            return job.id
        holder = transaction.run("key_holder", (job.key, transaction.now))
        if holder:
            if job.replace:
                _replace(transaction, JobId(holder[0][0]), job, asked, run_at, expires_at)
            return JobId(holder[0][0])
    policy, labels = codec.encode_policy(job.policy), codec.encode_labels(job.labels)
    what = (job.id, job.task, job.queue, job.priority, job.args.decode(), policy)
    around = (job.key, job.collection, labels, job.parent, job.trace)
    if transaction.run("insert_job", (*what, *around, transaction.now, asked, expires_at)):
        if job.key is not None:
            transaction.run("take_key", (job.key, job.id))
        place = (job.queue, job.priority, run_at, job.id, job.task)
        transaction.run("insert_queue", (*place, int(job.key is not None), expires_at))
    return job.id


def _replace(
    transaction: Transaction, holder: JobId, job: NewJob, asked: int, run_at: int, expires_at: int | None
) -> None:
    values = {
        "job_id": holder,
        "task": job.task,
        "queue": job.queue,
        "priority": job.priority,
        "run_at": run_at,
        "due_at": asked,
        "expires_at": expires_at,
        "args": job.args.decode(),
        "policy": codec.encode_policy(job.policy),
        "collection": job.collection,
        "labels": codec.encode_labels(job.labels),
        "parent": job.parent,
        "trace": job.trace,
    }
    if transaction.run("replace_queue", values):
        transaction.run("replace_job", values)


def _check_lease(transaction: Transaction, worker: WorkerId) -> None:
    rows = transaction.run("worker_lease", (worker,))
    if not rows or rows[0][0] <= transaction.now:
        raise LeaseLost(f"worker {worker} has no lease any more; it must register anew before it claims.")


def _pick(transaction: Transaction, queues: Sequence[str], tasks: str, limit: int, after: int, until: int) -> list[Any]:
    """The most urgent jobs of each queue whose time is in (after, until], queue by queue."""
    picked: list[Any] = []
    values = {"tasks": tasks, "after": after, "until": until, "now": transaction.now}
    for queue in queues:
        for priority in range(LOWEST_PRIORITY + 1):
            room = limit - len(picked)
            if room <= 0:
                return picked
            picked += transaction.run("pick_due", {**values, "queue": queue, "priority": priority, "limit": room})
    return picked


def _move_to_running(transaction: Transaction, worker: WorkerId, row: Any) -> None:
    job_id, attempt, task, queue, priority, _, _, run_at, failures, crashes, alone, keyed, expires_at = row
    transaction.run("leave_queue", (queue, priority, run_at, job_id))
    place = (job_id, attempt, worker, queue, priority, task, run_at, transaction.now)
    transaction.run("enter_running", (*place, failures, crashes, alone, keyed, expires_at))


def _claimed(row: Any, claimed_at: datetime) -> Claimed:
    job_id, attempt, task, queue, priority, args, policy, run_at, failures, crashes, alone, _, _ = row
    rules = codec.decode_policy(policy)
    standing = (from_us(run_at), claimed_at, failures, crashes, bool(alone))
    return Claimed(JobId(job_id), attempt, task, queue, priority, args.encode(), rules, *standing)


def _open_attempt(row: Any) -> OpenAttempt:
    job_id, attempt, worker, policy, failures, crashes, alone = row
    rules = codec.decode_policy(policy)
    return OpenAttempt(JobId(job_id), attempt, WorkerId(worker), rules, failures, crashes, bool(alone))


def _next_due(transaction: Transaction, queues: Sequence[str], window: int) -> float | None:
    after = transaction.now + window
    places = [(queue, priority, after) for queue in queues for priority in range(LOWEST_PRIORITY + 1)]
    times = [run_at for place in places for (run_at,) in transaction.run("next_due", place) if run_at is not None]
    return (min(times) - transaction.now) / 1e6 if times else None


def _append(transaction: Transaction, logs: Sequence[NewLog]) -> None:
    for log in logs:
        values = {"job_id": log.job_id, "attempt": log.attempt, "seq": log.seq, "at": transaction.now}
        transaction.run("append_log", {**values, "text": codec.clean(log.text)})


def _finish(transaction: Transaction, finish: Finish, guard: str, extra: tuple[int, ...]) -> str | None:
    """Close one attempt behind its guard and move its job on; return its worker. None: it was not the current one."""
    rows = transaction.run(guard, (finish.job_id, finish.attempt, *extra))
    if not rows:
        return None
    queue, priority, task, run_at, claimed_at, worker, keyed, expires_at, cancel_at = rows[0]
    outcome = finish.transition if cancel_at is None else _cancelled(finish.transition)
    error = codec.clean(outcome.error)
    started_at = claimed_at + duration_us(finish.waited)
    if outcome.job is JobState.QUEUED:
        check(outcome.delay is not None, f"Job {finish.job_id} is to be queued again without a time.")
        attempt = (finish.job_id, finish.attempt, outcome.attempt, worker, started_at, transaction.now, error)
        transaction.run("enter_attempts", attempt)
        again_at = transaction.now + duration_us(outcome.delay or timedelta(0))
        place = (queue, priority, again_at, finish.job_id, task, finish.attempt)
        counts = (outcome.failures, outcome.crashes, int(outcome.alone))
        transaction.run("enter_queue", (*place, *counts, keyed, expires_at))
        return str(worker)
    result = None if outcome.result is None else outcome.result.decode()
    ended = (finish.job_id, outcome.job, transaction.now, run_at, finish.attempt, outcome.attempt, worker, started_at)
    transaction.run("enter_finished", (*ended, outcome.failures, outcome.crashes, result, error))
    if keyed:
        _let_go_of_key(transaction, finish.job_id)
    return str(worker)


def _cancelled(outcome: Transition) -> Transition:
    """Somebody was told that this job is cancelled; that holds, whatever its attempt came to."""
    error = "cancelled while it ran" if outcome.error is None else outcome.error
    return Transition(AttemptState.CANCELLED, JobState.CANCELLED, outcome.failures, outcome.crashes, error=error)


def _let_go_of_key(transaction: Transaction, job_id: JobId) -> None:
    ((policy,),) = transaction.connection.run("SELECT policy FROM tickwork_jobs WHERE id = ?", (job_id,))
    stays = codec.decode_policy(policy).key_for
    if stays is None:
        transaction.run("free_key", (job_id,))
    else:
        transaction.run("release_key", {"job_id": job_id, "until": transaction.now + duration_us(stays)})


def _cancel(transaction: Transaction, job_id: JobId) -> bool:
    standing = transaction.run("dequeue", (job_id,))
    if standing:
        _end_unstarted(transaction, job_id, JobState.CANCELLED, standing[0], "cancelled before it was started")
        return True
    return bool(transaction.run("request_cancel", {"job_id": job_id, "now": transaction.now}))


def _end_unstarted(
    transaction: Transaction, job_id: JobId, state: JobState, standing: Sequence[Any], error: str
) -> None:
    run_at, attempt, failures, crashes, keyed = standing
    transaction.run("finish_unstarted", (job_id, state, transaction.now, run_at, attempt, failures, crashes, error))
    if keyed:
        _let_go_of_key(transaction, job_id)


def _retry(transaction: Transaction, job_id: JobId, run_at: int) -> bool:
    if transaction.run("hurry", {"job_id": job_id, "run_at": run_at, "now": transaction.now}):
        return True
    rows = transaction.run("ended_job", (job_id,))
    if not rows:
        return False
    attempt, attempt_state, worker, started_at, ended_at, error, _, queue, priority, task, key, _ = rows[0]
    if key is not None:
        holder = transaction.run("key_holder", (key, transaction.now))
        if holder and holder[0][0] != job_id:
            return False
        transaction.run("take_key", (key, job_id))
    transaction.run("leave_finished", (job_id,))
    if attempt_state is not None:
        transaction.run("enter_attempts", (job_id, attempt, attempt_state, worker, started_at, ended_at, error))
    place = (queue, priority, run_at, job_id, task, attempt)
    transaction.run("enter_queue", (*place, 0, 0, 0, int(key is not None), None))
    return True


def _instant(us: int | None) -> datetime | None:
    return None if us is None else from_us(us)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _names(text: str) -> tuple[str, ...]:
    return tuple(msgspec.json.decode(text, type=list[str]))
