"""State changes of jobs on SQLite: finish, cancel, expire, retry. The caller begins and commits the transaction.

Batches use `run_many`, one statement for all their rows. A writer excludes all others until the commit, so rows that
were read in the transaction cannot change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from datetime import timedelta
from typing import Any, NamedTuple

from tickwork.core.ids import ClaimId, JobId, WorkerId
from tickwork.core.job import AttemptState, JobState
from tickwork.core.key_conflict import KeyOwner
from tickwork.core.limits.lanes import home_lane, read_lane, returned_priority, row_priority
from tickwork.core.outcome import Transition
from tickwork.errors import check
from tickwork.store.attempt_types import Finish, NewLog, OpenAttempt, Progress
from tickwork.store.rows.instants import duration_us
from tickwork.store.rows.jobs import (
    decode_job_limits,
    decode_policy,
    limit_keys_of,
    storable_text,
)
from tickwork.store.sqlite.transactions import Transaction, as_json

# -- from running to the end, or back into the queue


ProgressColumns = tuple[float | None, str | None]


class _HeldRow(NamedTuple):
    """The row of an attempt that is the current one of its job, as the statement `current_attempts` returns it."""

    job_id: JobId
    attempt: int
    lane: str
    priority: int
    task: str
    run_at: int
    claimed_at: int
    worker: WorkerId
    keyed: bool
    expires_at: int | None
    cancel_at: int | None
    progress: float | None
    progress_note: str | None
    claim: ClaimId


def _progress_columns(progress: Progress) -> ProgressColumns:
    return progress.fraction, storable_text(progress.note)


def finish(transaction: Transaction, endings: Sequence[Finish], guard: str) -> dict[JobId, str]:
    """Close attempts and apply their transitions; return the jobs whose attempt was closed, with their workers.

    The statement `guard` selects the attempts that may be closed; others are skipped. Results and retries are written
    in batches; holds (uses of limit keys) are freed last, which opens the keys for the jobs that they hold.
    """
    rows: list[_HeldRow] = []
    left = endings
    while left:
        claims = {finish.job_id: finish.claim for finish in left}
        rows += map(_HeldRow._make, transaction.run(guard, {"claims": as_json(claims), "now": transaction.now}))
        # Two finishes of one job in a batch are rare, and only one of them can be current: find the others in another
        # pass.
        left = [] if len(claims) == len(left) else [one for one in left if claims[one.job_id] != one.claim]
    transaction.run_many("leave_running", [(row.job_id,) for row in rows])
    closed = {row.job_id: row for row in rows}
    ended, tried, queued, returned = [], [], [], set()
    for one in endings:
        row = closed.get(one.job_id)
        if row is None or row.claim != one.claim:
            continue
        outcome = one.transition if row.cancel_at is None else cancelled(one.transition)
        report = (row.progress, row.progress_note) if one.progress is None else _progress_columns(one.progress)
        began, error = row.claimed_at + one.waited_us, storable_text(outcome.error)
        if outcome.job is JobState.QUEUED:
            times = (began, transaction.now)
            tried.append((row.job_id, row.attempt, outcome.attempt, row.worker, *times, error, *report))
            queued.append(_queued(transaction, row, outcome))
            returned.add(row.job_id)
            continue
        ended.append(_finished_row(row, outcome, transaction.now, began=began, error=error, report=report))
        if row.keyed:
            _release_key(transaction, row.job_id)
    transaction.insert_many("enter_finished", ended)
    transaction.insert_many("enter_attempts", tried)
    transaction.insert_many("enter_queue", queued)
    _free_holds(transaction, [row.job_id for row in rows if ":" in row.lane], returned)
    return {row.job_id: row.worker for row in rows}


def _finished_row(
    row: _HeldRow, outcome: Transition, now: int, *, began: int, error: str | None, report: ProgressColumns
) -> tuple[Any, ...]:
    """Return the row of a job that has ended."""
    result = None if outcome.result is None else outcome.result.decode()
    return (
        row.job_id,
        outcome.job,
        now,
        row.run_at,
        row.attempt,
        outcome.attempt,
        row.worker,
        began,
        outcome.failures,
        outcome.crashes,
        result,
        error,
        *report,
        outcome.losses,
    )


def _free_holds(transaction: Transaction, job_ids: Sequence[str], returned: Set[str]) -> None:
    """Free the uses of limit keys of ended attempts, and open these keys.

    A job that was `returned` to the queue keeps its position in a sequence.
    """
    holds = transaction.run("holds_of", (as_json(job_ids),)) if job_ids else []
    freed = [
        (name, job_id, attempt)
        for name, job_id, attempt, on_retry in holds
        if on_retry is None or job_id not in returned
    ]
    transaction.run_many("free_hold", freed)
    names = [name for name, job_id, _, on_retry in holds if on_retry != "wait" or job_id not in returned]
    _open(transaction, names)


def _open(transaction: Transaction, names: Sequence[str]) -> None:
    """Open these limit keys, so that the jobs that they hold are checked again. Do nothing if no key holds jobs."""
    if not names or not transaction.value("any_waits"):
        return
    if transaction.run("open_freed", {"names": as_json(names), "now": transaction.now}):
        transaction.opened = True


def _leave_sequences(transaction: Transaction, job_id: JobId, lane: str) -> None:
    """Open the sequences of a job that has left the queue, so that the next job of each may start."""
    if read_lane(lane).in_order:
        _, _, job_limits = transaction.first("belongs", (job_id,))
        _open(transaction, limit_keys_of(job_limits))


def cancelled(outcome: Transition) -> Transition:
    """Return the transition of a job whose cancellation was requested, whatever its attempt returned."""
    error = "cancelled while it ran" if outcome.error is None else outcome.error
    return Transition(AttemptState.CANCELLED, JobState.CANCELLED, outcome.failures, outcome.crashes, error=error)


def _queued(transaction: Transaction, row: _HeldRow, outcome: Transition) -> tuple[Any, ...]:
    """Return the queue row of a job that is queued again after an attempt."""
    check(outcome.delay is not None, f"Job {row.job_id} is to be queued again without a time.")
    again_at = transaction.now + duration_us(outcome.delay or timedelta(0))
    counts = (outcome.failures, outcome.crashes, int(outcome.alone))
    place = (row.lane, returned_priority(row.priority, row.lane), again_at, row.job_id, row.task, row.attempt)
    return (*place, *counts, row.keyed, row.expires_at, outcome.losses)


def _release_key(transaction: Transaction, job_id: JobId) -> None:
    """Free the key of an ended job, or keep it taken for as long as the job's policy says."""
    stays = decode_policy(transaction.value("policy", (job_id,))).key_for
    if stays is None:
        transaction.run("free_key", (job_id,))
    else:
        transaction.run("release_key", {"job_id": job_id, "until": transaction.now + duration_us(stays)})


def append(transaction: Transaction, logs: Iterable[NewLog]) -> None:
    """Store log lines of current attempts; drop lines of other attempts."""
    for log in logs:
        values = {"job_id": log.job_id, "claim": log.claim, "seq": log.seq, "at": transaction.now}
        transaction.run("append_log", {**values, "text": storable_text(log.text), "shared": log.shared})


def open_attempt(row: Any) -> OpenAttempt:
    """Decode the row of an attempt that has not ended."""
    job_id, attempt, claim, worker, policy, failures, crashes, alone, run, step, losses, begun = row
    return OpenAttempt(
        job_id=job_id,
        attempt=attempt,
        claim=claim,
        worker=worker,
        policy=decode_policy(policy),
        failures=failures,
        crashes=crashes,
        alone=alone == 1,
        run=run,
        step=step,
        losses=losses,
        begun=begun == 1,
    )


# -- what callers do to jobs


def cancel(transaction: Transaction, job_id: JobId) -> bool:
    """Cancel a queued job, or request the cancellation of a running one; return False if it is neither."""
    row = transaction.first("dequeue", (job_id,))
    if row is not None:
        end_unstarted(transaction, DequeuedRow(job_id, *row), JobState.CANCELLED, "cancelled before it was started")
        return True
    return bool(transaction.run("request_cancel", {"job_id": job_id, "now": transaction.now}))


def drop(transaction: Transaction, job_id: JobId) -> bool:
    """End a queued job because a gate drops it; return False if it is not queued."""
    row = transaction.first("dequeue", (job_id,))
    if row is not None:
        end_unstarted(transaction, DequeuedRow(job_id, *row), JobState.DROPPED, "a gate dropped it")
    return row is not None


class DequeuedRow(NamedTuple):
    """The columns of a row that was deleted from the queue."""

    job_id: JobId
    run_at: int
    attempt: int
    failures: int
    crashes: int
    keyed: bool
    lane: str


def end_unstarted(transaction: Transaction, row: DequeuedRow, state: JobState, error: str) -> None:
    """End a job whose queue row was deleted.

    Record its end, release its key, and open the sequences that it has left.
    """
    counts = (row.attempt, row.failures, row.crashes)
    transaction.run("finish_unstarted", (row.job_id, state, transaction.now, row.run_at, *counts, error))
    if row.keyed:
        _release_key(transaction, row.job_id)
    _leave_sequences(transaction, row.job_id, row.lane)


def retry(transaction: Transaction, job_id: JobId, run_at: int) -> bool:
    """Queue an ended job again, or make a queued job due earlier; return False if neither is possible."""
    if transaction.run("hurry", {"job_id": job_id, "run_at": run_at, "now": transaction.now}):
        return True
    return queue_again(transaction, job_id, run_at, unless=JobState.SUCCEEDED)


def reschedule(transaction: Transaction, job_id: JobId, run_at: int) -> bool:
    """Make a queued job due at `run_at`, in its home lane, where no limit holds it.

    Return False if it is not queued.
    """
    row = transaction.first("take_out", (job_id,))
    if row is None:
        return False
    before, task, attempt, failures, crashes, alone, keyed, expires_at, losses = row
    queue, priority, job_limits = transaction.first("belongs", (job_id,))
    stamp = decode_job_limits(job_limits)
    if expires_at is not None:
        expires_at += run_at - before
        transaction.run("set_deadline", (expires_at, job_id))
    lane, urgency = home_lane(queue, stamp), row_priority(priority, stamp)
    urgency = returned_priority(urgency, lane) if attempt else urgency
    place = (lane, urgency, run_at, job_id, task, attempt)
    transaction.run("enter_queue", (*place, failures, crashes, alone, keyed, expires_at, losses))
    _leave_sequences(transaction, job_id, lane)
    return True


def queue_again(transaction: Transaction, job_id: JobId, run_at: int, unless: str = "") -> bool:
    """Queue an ended job again; return False if it has not ended, ended in the state `unless`, or its key is taken."""
    row = transaction.first("ended_job", (job_id, unless))
    if row is None:
        return False
    attempt, attempt_state, worker, started_at, ended_at, error, queue, priority, task, key, job_limits, *progress = row
    if key is not None:
        holder = transaction.first("key_holder", (key, transaction.now))
        if holder is not None and KeyOwner(*holder).job_id != job_id:
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
