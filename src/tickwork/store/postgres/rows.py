"""Convert PostgreSQL rows to core values, and ids to parameters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from tickwork.core.ids import ClaimId, JobId, WorkerId, is_id
from tickwork.core.job import Claimed, WorkerView
from tickwork.store.attempts import OpenAttempt
from tickwork.store.postgres import params
from tickwork.store.rows.jobs import decode_policy
from tickwork.store.rows.workers import decode_names, decode_offer


def as_claimed(row: Any, claim: ClaimId) -> Claimed:
    job_id, attempt, task, queue, priority, args, policy, run_at, now, failures, crashes, alone, occurrence, *rest = row
    _, run, step, inputs, trace, losses, *_ = rest
    part = (run, step, inputs, trace)
    rules = decode_policy(policy)
    what = (job_id, attempt, claim, task, queue, priority, args.encode(), rules)
    return Claimed(*what, run_at, now, failures, crashes, alone, occurrence, None, False, *part, None, losses)


def open_attempt(row: Any) -> OpenAttempt:
    job_id, attempt, claim, worker, policy, failures, crashes, alone, run, step, losses, begun = row
    held = (JobId(job_id), attempt, claim, WorkerId(worker), decode_policy(policy))
    return OpenAttempt(*held, failures, crashes, alone, run, step, losses, begun)


def worker_view(row: Any) -> WorkerView:
    id, host, pid, version, queues, tasks, slots, schedules, offer, state, began, until, running, asked = row
    names = (decode_names(queues), decode_names(tasks))
    serves = (decode_names(schedules), decode_offer(offer))
    return WorkerView(id, host, pid, version, *names, slots, state, utc(began), utc(until), running, *serves, asked)


def id_document(ids: Sequence[JobId]) -> str:
    """Return ids as a JSON document.

    Texts that are not ids are left out: they name no job, and PostgreSQL refuses them.
    """
    return params.document(job_id for job_id in ids if is_id(job_id))


def utc(instant: datetime) -> datetime:
    """Return an instant in UTC. PostgreSQL returns instants in the zone of the session."""
    return instant.astimezone(UTC)


def instant(instant: datetime | None) -> datetime | None:
    return None if instant is None else utc(instant)


def sooner(one: float | None, other: float | None) -> float | None:
    """Return the smaller of two numbers; None counts as absent."""
    return min((given for given in (one, other) if given is not None), default=None)
