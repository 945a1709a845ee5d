"""Build jobs with limits, tenants and needs, claim them under limits, and set gates."""

from __future__ import annotations

from typing import Any

from tests.store.builders import (
    a_job,
)
from tickwork.core.ids import JobId, WorkerId
from tickwork.core.job import Claimed, NewJob
from tickwork.core.limits.gates import read_gate
from tickwork.core.limits.job_limits import JobLimits, LimitUse
from tickwork.core.placement import read_needs
from tickwork.store.attempt_types import Claims
from tickwork.store.base import Store
from tickwork.store.limits import LimitedCapacity
from tickwork.store.rows.instants import to_us


def limited(key: str = "", limit: str = "two", weight: int = 1, **changes: Any) -> NewJob:
    return a_job(job_limits=JobLimits(uses=(LimitUse(limit, key, weight),)), **changes)


def in_order(key: str, **changes: Any) -> NewJob:
    return a_job(job_limits=JobLimits(uses=(LimitUse("line", key, 1),), sequence=True), **changes)


def of_tenant(tenant: str, **changes: Any) -> NewJob:
    return a_job(job_limits=JobLimits(tenant=tenant), **changes)


def needing(**needs: Any) -> NewJob:
    return a_job(job_limits=JobLimits(needs=read_needs(needs).text))


def claims(
    store: Store,
    worker: WorkerId,
    limit: int = 100,
    capacity: LimitedCapacity | None = None,
    queues: tuple[str, ...] = ("default",),
) -> Claims:
    return store.claim_jobs(worker, list(queues), ["t", "other"], limit, capacity=capacity)


def take(store: Store, worker: WorkerId, limit: int = 100, **how: Any) -> list[Claimed]:
    return claims(store, worker, limit, **how).jobs


def ids(claimed: list[Claimed]) -> list[JobId]:
    return [one.job_id for one in claimed]


def gate(store: Store, kind: str, **given: Any) -> None:
    store.limits.put_gate(read_gate(kind, given, to_us(store.now())))
