"""Claim due jobs on SQLite without limits or gates. The caller begins and commits the transaction.

The SQL is in sql/claim_jobs.sql.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from tickwork.core.fairness import StarvationGuard, aged_before_us
from tickwork.core.ids import ClaimId, WorkerId
from tickwork.store.attempt_types import Claims
from tickwork.store.claim.picked_row import NOT_READ, PickedRow, claimed_job
from tickwork.store.reads.queue_counts import places_of
from tickwork.store.sqlite.transactions import Transaction, as_json


def claim(
    transaction: Transaction,
    worker: WorkerId,
    claim: ClaimId,
    *,
    queues: Sequence[str],
    tasks: Sequence[str],
    limit: int,
    ahead_us: int,
    starvation_guard: StarvationGuard,
) -> Claims:
    """Make a plain claim: take the oldest jobs of priorities that waited too long, then due jobs, then those due soon.

    Jobs that become due within `ahead_us` are taken if too few are due.
    """
    now = transaction.now
    places = places_of(queues)
    asked = {"places": as_json(places), "tasks": as_json(tasks), "now": now}
    picked: list[PickedRow] = []
    if (aged := starvation_guard.turn(now / 1e6)) is not None:
        lowest_first = as_json([(queue, priority) for priority in aged for queue in queues])
        picked = _take(transaction, {**asked, "places": lowest_first}, limit, 0, aged_before_us(now))
        starvation_guard.took(picked[0].priority if picked else None, now / 1e6)
    for after, until in ((0, now), (now, now + ahead_us)):
        if until > after and len(picked) < limit:
            picked += _take(transaction, asked, limit - len(picked), after, until)
    transaction.insert_many("enter_running", [running_row(row, row.lane, worker, claim, now) for row in picked])
    jobs = [claimed_job(row, queue=row.lane, claim=claim, now_us=now) for row in picked]
    return Claims(jobs, *_next_s(transaction, asked, ahead_us)) if len(picked) < limit else Claims(jobs)


def _take(transaction: Transaction, asked: dict[str, Any], limit: int, after: int, until: int) -> list[PickedRow]:
    """Pick jobs, delete their queue rows, and return them."""
    rows = pick(transaction, asked, limit, after, until)
    transaction.run_many("leave_queue", list(map(queue_key, rows)))
    return rows


def pick(transaction: Transaction, asked: dict[str, Any], limit: int, after: int, until: int) -> list[PickedRow]:
    """Return the most urgent jobs of each queue with run_at in (after, until], queue by queue."""
    rows = transaction.run("pick_due", {**asked, "limit": limit, "after": after, "until": until})
    return [PickedRow._make(row + NOT_READ) for row in rows]


# The primary key of the queue row of a picked job.
queue_key = attrgetter("lane", "priority", "run_at_us", "job_id")


def has_lease(transaction: Transaction, worker: WorkerId) -> bool:
    """Return whether a worker's lease has not expired."""
    until = transaction.value("worker_lease", (worker,))
    return until is not None and until > transaction.now


def running_row(row: PickedRow, lane: str, worker: WorkerId, claim: ClaimId, now: int) -> tuple[Any, ...]:
    """Return the running row of a picked job; `lane` is the lane to which the job returns if it is queued again."""
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
    """Return the seconds until the next job is due, and until the next limit key opens; None: none is known."""
    now = transaction.now
    next_us = transaction.first("next_due", {"places": asked["places"], "after": now + ahead_us, "now": now})
    due_s, opens_s = (None if at_us is None else (at_us - now) / 1e6 for at_us in next_us)
    return due_s, opens_s
