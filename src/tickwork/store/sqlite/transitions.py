"""State changes of jobs on SQLite: insert, claim, finish, cancel, retry. The caller begins and commits the transaction.

Batches use `run_many`, one statement for all their rows. A writer excludes all others until the commit, so rows that
were read in the transaction cannot change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from datetime import timedelta
from functools import cache, partial
from itertools import chain
from typing import Any

import msgspec

from tickwork.core.fairness import StarvationGuard, aged_before_us
from tickwork.core.ids import ClaimId, JobId, WorkerId
from tickwork.core.job import RUN, AttemptState, JobState, NewJob, StepInstance, TaskDefinition
from tickwork.core.key_conflict import KeyOwner, check_holder
from tickwork.core.limits.lanes import home_lane, read_lane, returned_priority, row_priority
from tickwork.core.outcome import Transition
from tickwork.errors import check
from tickwork.store.attempts import Claims, Finish, NewLog, OpenAttempt
from tickwork.store.claim.positions import places_of
from tickwork.store.claim.types import PickedRow, claimed_job
from tickwork.store.rows.instants import duration_us
from tickwork.store.rows.jobs import (
    decode_job_limits,
    decode_policy,
    encode_job_limits,
    encode_labels,
    encode_policy,
    limit_keys_of,
    storable_text,
)
from tickwork.store.rows.new_jobs import due_us, group_alike, merge_keys
from tickwork.store.sql_files import load_statements
from tickwork.store.sqlite.file.connection import Connection

SQL = load_statements("tickwork.store.sqlite")
AT_ONCE = 32


class Transaction:
    """Named statements on a connection, at one instant of the store's clock.

    `opened`: held jobs may start after the commit, so workers are to be woken.
    """

    __slots__ = ("connection", "now", "opened")

    def __init__(self, connection: Connection, now: int) -> None:
        self.connection = connection
        self.now = now
        self.opened = False

    def run(self, statement: str, values: Any = ()) -> list[Any]:
        return self.connection.run(SQL[statement], values)

    def run_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement that returns no rows, for each row of values."""
        if rows:
            self.connection.run_many(SQL[statement], rows)

    def insert_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run an INSERT that ends with its VALUES for each row. AT_ONCE rows per statement take half the time."""
        whole = len(rows) - len(rows) % AT_ONCE
        if whole:
            parts = [tuple(chain.from_iterable(rows[at : at + AT_ONCE])) for at in range(0, whole, AT_ONCE)]
            self.connection.run_many(_at_once(SQL[statement]), parts)
        self.run_many(statement, rows[whole:] if whole else rows)


@cache
def _at_once(sql: str) -> str:
    """Return the same INSERT for AT_ONCE rows."""
    what, values, row = sql.rpartition("VALUES ")
    check(row.rstrip().endswith(")"), f"This statement does not end with its VALUES: {sql}")
    return f"{what}{values}{', '.join([row] * AT_ONCE)}"


def as_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def task_row(task: TaskDefinition) -> tuple[Any, ...]:
    rules = (encode_policy(task.policy), task.schema.decode(), task.task_limits)
    return (task.name, task.queue, task.priority, *rules, task.version)


# -- into the queue


def insert(transaction: Transaction, jobs: Sequence[NewJob], *, known: bool) -> list[JobId]:
    """Store jobs; return for each the job that represents it. `known`: existing ids are left as they are."""
    if known:
        stored = {job_id for (job_id,) in transaction.run("stored_jobs", (as_json([job.id for job in jobs]),))}
        inserted = insert(transaction, [job for job in jobs if job.id not in stored], known=False)
        stands = iter(inserted)
        return [job.id if job.id in stored else next(stands) for job in jobs]
    if not any(job.key for job in jobs):
        _insert_new(transaction, jobs)
        return [job.id for job in jobs]
    kept, places = merge_keys(jobs)
    ids = [_insert_keyed(transaction, job) for job in kept]
    return [ids[place] for place in places]


def _insert_new(transaction: Transaction, jobs: Sequence[NewJob]) -> None:
    """Store jobs that hold their keys."""
    for group in group_alike(jobs):
        first, now = group[0], transaction.now
        asked, run_at, expires_at = due_us(first, now)
        task, queue, priority = first.task, first.queue, first.priority
        rules = (encode_policy(first.policy),)
        around = (
            first.collection,
            encode_labels(first.labels),
            first.parent,
            first.trace,
            first.creator,
            first.occurrence,
            now,
            asked,
            expires_at,
        )
        if first.part is not None:
            row_of = partial(_step_row, now=now, asked=asked, expires_at=expires_at)
            transaction.insert_many("insert_step_job", [row_of(job, job.part) for job in group if job.part])
        else:
            transaction.insert_many(
                "insert_job",
                [(job.id, task, queue, priority, job.args.decode(), *rules, job.key, *around) for job in group],
            )
        if first.version is not None:
            transaction.run_many("set_version", [(job.version, job.id) for job in group])
            task = RUN
        rows = [(queue, priority, run_at, job.id, task, int(job.key is not None), expires_at) for job in group]
        if any(job.job_limits for job in group):
            rows = [_into_lane(transaction, job, row) for job, row in zip(group, rows, strict=True)]
        transaction.insert_many("insert_queue", rows)


def _step_row(job: NewJob, part: StepInstance, now: int, asked: int, expires_at: int | None) -> tuple[Any, ...]:
    what = (job.id, job.task, job.queue, job.priority, job.args.decode(), encode_policy(job.policy))
    around = (job.collection, encode_labels(job.labels), job.parent, job.trace, job.creator)
    inputs = None if part.inputs is None else part.inputs.decode()
    return (*what, *around, part.run, part.step, part.idx, inputs, now, asked, expires_at)


def stamp(transaction: Transaction, job: NewJob) -> str:
    """Store a job's lane and job_limits; return its lane."""
    lane = home_lane(job.queue, job.job_limits)
    transaction.run("stamp_job", (lane, encode_job_limits(job.job_limits), job.id))
    return lane


def _into_lane(transaction: Transaction, job: NewJob, row: tuple[Any, ...]) -> tuple[Any, ...]:
    lane = stamp(transaction, job)
    return (lane, row_priority(job.priority, job.job_limits), *row[2:])


def _insert_keyed(transaction: Transaction, job: NewJob) -> JobId:
    """Store a job with a key, or return the live job that holds it. Raises KeyTaken if that cannot represent it."""
    if job.key is not None:
        if transaction.run("stored_jobs", (as_json([job.id]),)):
            return job.id  # The job exists already. Its key may be another job's by now.
        holder = transaction.run("key_holder", (job.key, transaction.now))
        if holder:
            found = KeyOwner(*holder[0])
            check_holder(job, found)
            replaced = job.if_exists in ("replace", "follow") and _replace(transaction, found.job_id, job)
            if replaced or job.if_exists != "follow":
                return found.job_id
        transaction.run("take_key", (job.key, job.id))
    _insert_new(transaction, [job])
    return job.id


def _replace(transaction: Transaction, holder: JobId, job: NewJob) -> bool:
    """Replace a waiting job by a new one; return False if it does not wait."""
    asked, run_at, expires_at = due_us(job, transaction.now)
    values = {
        "job_id": holder,
        "task": job.task,
        "queue": job.queue,
        "lane": home_lane(job.queue, job.job_limits),
        "job_limits": encode_job_limits(job.job_limits),
        "priority": job.priority,
        "row_priority": row_priority(job.priority, job.job_limits),
        "run_at": run_at,
        "due_at": asked,
        "expires_at": expires_at,
        "args": job.args.decode(),
        "policy": encode_policy(job.policy),
        "collection": job.collection,
        "labels": encode_labels(job.labels),
        "parent": job.parent,
        "trace": job.trace,
        "creator": job.creator,
        "occurrence": job.occurrence,
        "version": job.version,
        "stands_as": job.task if job.version is None else RUN,
    }
    waits = bool(transaction.run("replace_queue", values))
    if waits:
        transaction.run("replace_job", values)
    return waits


# -- from the queue to running


def claim(
    transaction: Transaction,
    worker: WorkerId,
    claim: ClaimId,
    queues: Sequence[str],
    tasks: Sequence[str],
    limit: int,
    ahead_us: int,
    ageing: StarvationGuard,
) -> Claims:
    """Claim jobs: aged ones when it is their turn, then jobs that are due, then jobs due within `ahead_us`."""
    now = transaction.now
    places = places_of(queues)
    asked = {"places": as_json(places), "tasks": as_json(tasks), "now": now}
    picked: list[PickedRow] = []
    if (aged := ageing.turn(now / 1e6)) is not None:
        lowest_first = as_json([(queue, priority) for priority in aged for queue in queues])
        picked = _take(transaction, {**asked, "places": lowest_first}, limit, 0, aged_before_us(now))
        ageing.took(picked[0].priority if picked else None, now / 1e6)
    for after, until in ((0, now), (now, now + ahead_us)):
        if until > after and len(picked) < limit:
            picked += _take(transaction, asked, limit - len(picked), after, until)
    transaction.insert_many("enter_running", [running_row(row, row.lane, worker, claim, now) for row in picked])
    jobs = [claimed_job(row, queue=row.lane, claim=claim, now_us=now) for row in picked]
    return Claims(jobs, *_next_s(transaction, asked, ahead_us)) if len(picked) < limit else Claims(jobs)


def _take(transaction: Transaction, asked: dict[str, Any], limit: int, after: int, until: int) -> list[PickedRow]:
    """Pick jobs and delete their queue rows."""
    rows = pick(transaction, asked, limit, after, until)
    transaction.run_many("leave_queue", [queue_key(row) for row in rows])
    return rows


def pick(transaction: Transaction, asked: dict[str, Any], limit: int, after: int, until: int) -> list[PickedRow]:
    """Return the most urgent jobs of each queue with run_at in (after, until], queue by queue."""
    rows = transaction.run("pick_due", {**asked, "limit": limit, "after": after, "until": until})
    return [PickedRow(*row) for row in rows]


def queue_key(row: PickedRow) -> tuple[str, int, int, JobId]:
    """Return the primary key of the queue row of a picked job."""
    return (row.lane, row.priority, row.run_at_us, row.job_id)


def has_lease(transaction: Transaction, worker: WorkerId) -> bool:
    """Return whether a worker's lease has not expired."""
    lease = transaction.run("worker_lease", (worker,))
    return bool(lease) and lease[0][0] > transaction.now


def running_row(row: PickedRow, lane: str, worker: WorkerId, claim: ClaimId, now: int) -> tuple[Any, ...]:
    """Return the running row of a picked job; `lane` is the lane to which it returns if it is queued again."""
    return (
        row.job_id,
        row.attempt,
        worker,
        lane,
        row.priority,
        row.task,
        row.run_at_us,
        now,
        row.failures,
        row.crashes,
        row.alone,
        row.keyed,
        row.expires_at_us,
        claim,
        row.losses,
    )


def _next_s(transaction: Transaction, asked: dict[str, Any], ahead_us: int) -> tuple[float | None, float | None]:
    """Return in how many seconds the next job is due, and the next limit key opens."""
    now = transaction.now
    (next_us,) = transaction.run("next_due", {"places": asked["places"], "after": now + ahead_us, "now": now})
    due_s, opens_s = (None if at_us is None else (at_us - now) / 1e6 for at_us in next_us)
    return due_s, opens_s


# -- from running to the end, or back into the queue


def finish(transaction: Transaction, endings: Sequence[Finish], guard: str) -> dict[JobId, str]:
    """Close the attempts that the statement `guard` selects and move their jobs; return the jobs with their workers.

    An attempt whose claim does not hold the job any more is skipped. Results and retries are written in batches; holds
    are freed last, which opens the limit keys that jobs wait for.
    """
    rows: list[Any] = []
    left = endings
    while left:
        claims = {finish.job_id: finish.claim for finish in left}
        rows += transaction.run(guard, {"claims": as_json(claims), "now": transaction.now})
        # Two finishes of one job in a batch are rare, and only one of them can be current: find the others in another
        # pass.
        left = [] if len(claims) == len(left) else [one for one in left if claims[one.job_id] != one.claim]
    transaction.run_many("leave_running", [(row[0],) for row in rows])
    closed = {row[0]: row for row in rows}
    ended, tried, queued = [], [], []
    for one in endings:
        row = closed.get(one.job_id)
        if row is None or row[-1] != one.claim:
            continue
        job_id, attempt, _, _, _, run_at, claimed_at, worker, keyed, _, cancel_at, *progress, _ = row
        outcome = one.transition if cancel_at is None else cancelled(one.transition)
        began, error = claimed_at + one.waited_us, storable_text(outcome.error)
        if one.progress is not None:
            progress = [one.progress.fraction, storable_text(one.progress.note)]
        if outcome.job is JobState.QUEUED:
            tried.append((job_id, attempt, outcome.attempt, worker, began, transaction.now, error, *progress))
            queued.append(_queued(transaction, row, outcome))
            continue
        result = None if outcome.result is None else outcome.result.decode()
        how = (
            outcome.attempt,
            worker,
            began,
            outcome.failures,
            outcome.crashes,
            result,
            error,
            *progress,
            outcome.losses,
        )
        ended.append((job_id, outcome.job, transaction.now, run_at, attempt, *how))
        if keyed:
            _let_go_of_key(transaction, job_id)
    transaction.insert_many("enter_finished", ended)
    transaction.insert_many("enter_attempts", tried)
    transaction.insert_many("enter_queue", queued)
    returned = {row[3] for row in queued}
    _free_holds(transaction, [row[0] for row in rows if ":" in row[2]], returned)
    return {JobId(job_id): row[7] for job_id, row in closed.items()}


def _free_holds(transaction: Transaction, job_ids: Sequence[str], returned: Set[str]) -> None:
    """Free the holds of ended attempts and open their limit keys.

    A job that was `returned` to the queue keeps its place in a sequence.
    """
    holds = transaction.run("holds_of", (as_json(job_ids),)) if job_ids else []
    transaction.run_many("free_hold", [hold[:3] for hold in holds if hold[3] is None or hold[1] not in returned])
    names = [name for name, job_id, _, on_retry in holds if on_retry != "wait" or job_id not in returned]
    _open(transaction, names)


def _open(transaction: Transaction, names: Sequence[str]) -> None:
    """Open these limit keys, so that the jobs they hold are checked again."""
    if not names or not transaction.run("any_waits")[0][0]:
        return
    if transaction.run("open_freed", {"names": as_json(names), "now": transaction.now}):
        transaction.opened = True


def _leave_line(transaction: Transaction, job_id: JobId, lane: str) -> None:
    """Open the sequences that a waiting job has left: the next job may start."""
    if read_lane(lane).in_order:
        ((_, _, job_limits),) = transaction.run("belongs", (job_id,))
        _open(transaction, limit_keys_of(job_limits))


def cancelled(outcome: Transition) -> Transition:
    """Return the transition of a cancelled job.

    A caller was told that it is cancelled, whatever its attempt returned.
    """
    error = "cancelled while it ran" if outcome.error is None else outcome.error
    return Transition(AttemptState.CANCELLED, JobState.CANCELLED, outcome.failures, outcome.crashes, error=error)


def _queued(transaction: Transaction, row: Any, outcome: Transition) -> tuple[Any, ...]:
    """Return the queue row of a job that is queued again after an attempt."""
    job_id, attempt, queue, priority, task, _, _, _, keyed, expires_at, *_ = row
    check(outcome.delay is not None, f"Job {job_id} is to be queued again without a time.")
    again_at = transaction.now + duration_us(outcome.delay or timedelta(0))
    counts = (outcome.failures, outcome.crashes, int(outcome.alone))
    place = (queue, returned_priority(priority, queue), again_at, job_id, task, attempt)
    return (*place, *counts, keyed, expires_at, outcome.losses)


def _let_go_of_key(transaction: Transaction, job_id: JobId) -> None:
    """Free the key of an ended job, or keep it taken for as long as the job's policy says."""
    ((policy,),) = transaction.run("policy", (job_id,))
    stays = decode_policy(policy).key_for
    if stays is None:
        transaction.run("free_key", (job_id,))
    else:
        transaction.run("release_key", {"job_id": job_id, "until": transaction.now + duration_us(stays)})


def append(transaction: Transaction, logs: Iterable[NewLog]) -> None:
    """Store lines of current attempts; lines of other attempts are dropped."""
    for log in logs:
        values = {"job_id": log.job_id, "claim": log.claim, "seq": log.seq, "at": transaction.now}
        transaction.run("append_log", {**values, "text": storable_text(log.text), "shared": log.shared})


def open_attempt(row: Any) -> OpenAttempt:
    job_id, attempt, claim, worker, policy, failures, crashes, alone, run, step, losses, begun = row
    rules = decode_policy(policy)
    counts = (failures, crashes, alone == 1)
    return OpenAttempt(job_id, attempt, claim, worker, rules, *counts, run, step, losses, begun == 1)


# -- what callers do to jobs


def cancel(transaction: Transaction, job_id: JobId) -> bool:
    """Cancel a waiting job, or request the cancellation of a running one; False when it is neither."""
    standing = transaction.run("dequeue", (job_id,))
    if standing:
        end_unstarted(transaction, job_id, JobState.CANCELLED, standing[0], "cancelled before it was started")
        return True
    return bool(transaction.run("request_cancel", {"job_id": job_id, "now": transaction.now}))


def drop(transaction: Transaction, job_id: JobId) -> bool:
    """End a job that a gate drops; False when it does not wait any more."""
    standing = transaction.run("dequeue", (job_id,))
    if standing:
        end_unstarted(transaction, job_id, JobState.DROPPED, standing[0], "a gate dropped it")
    return bool(standing)


def end_unstarted(
    transaction: Transaction, job_id: JobId, state: JobState, standing: Sequence[Any], error: str
) -> None:
    """End a job whose queue row was deleted; `standing` are the columns of that row."""
    run_at, attempt, failures, crashes, keyed, lane = standing
    transaction.run("finish_unstarted", (job_id, state, transaction.now, run_at, attempt, failures, crashes, error))
    if keyed:
        _let_go_of_key(transaction, job_id)
    _leave_line(transaction, job_id, lane)


def retry(transaction: Transaction, job_id: JobId, run_at: int) -> bool:
    """Queue an ended job again, or make a waiting job due earlier; False when it is neither."""
    if transaction.run("hurry", {"job_id": job_id, "run_at": run_at, "now": transaction.now}):
        return True
    return queue_again(transaction, job_id, run_at, unless=JobState.SUCCEEDED)


def reschedule(transaction: Transaction, job_id: JobId, run_at: int) -> bool:
    """Make a waiting job due at `run_at`, in its home lane; False when it does not wait."""
    rows = transaction.run("take_out", (job_id,))
    if not rows:
        return False
    before, task, attempt, failures, crashes, alone, keyed, expires_at, losses = rows[0]
    ((queue, priority, job_limits),) = transaction.run("belongs", (job_id,))
    stamp = decode_job_limits(job_limits)
    if expires_at is not None:
        expires_at += run_at - before
        transaction.run("set_deadline", (expires_at, job_id))
    lane, urgency = home_lane(queue, stamp), row_priority(priority, stamp)
    urgency = returned_priority(urgency, lane) if attempt else urgency
    place = (lane, urgency, run_at, job_id, task, attempt)
    transaction.run("enter_queue", (*place, failures, crashes, alone, keyed, expires_at, losses))
    _leave_line(transaction, job_id, lane)
    return True


def queue_again(transaction: Transaction, job_id: JobId, run_at: int, unless: str = "") -> bool:
    """Queue an ended job again; False when it has not ended, or ended as `unless`, or its key is taken."""
    rows = transaction.run("ended_job", (job_id, unless))
    if not rows:
        return False
    attempt, attempt_state, worker, started_at, ended_at, error, queue, priority, task, key, job_limits, *progress = (
        rows[0]
    )
    if key is not None:
        holder = transaction.run("key_holder", (key, transaction.now))
        if holder and holder[0][0] != job_id:
            return False
        transaction.run("take_key", (key, job_id))
    transaction.run("leave_finished", (job_id,))
    if attempt_state is not None:
        tried = (job_id, attempt, attempt_state, worker, started_at, ended_at, error, *progress)
        transaction.run("enter_attempts", tried)
    stamp = decode_job_limits(job_limits)
    if stamp is not None:
        # Otherwise the hold of its last attempt would make it the head of its sequence.
        transaction.run("forget_holds_of", (job_id,))
    place = (home_lane(queue, stamp), row_priority(priority, stamp), run_at, job_id, task, attempt)
    transaction.run("enter_queue", (*place, 0, 0, 0, int(key is not None), None, 0))
    return True
