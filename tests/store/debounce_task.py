"""A task that debounces or throttles its jobs, as the store sees it."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.store.builders import (
    DAY,
    SECOND,
    a_job,
    register,
)
from tickwork.core.ids import JobId, WorkerId
from tickwork.core.job import Claimed, JobFilter, NewJob
from tickwork.core.job_stamper import JobStamper
from tickwork.core.limits.debounce import Debounce, Throttle
from tickwork.core.limits.task_limits import TaskLimits, rules_of
from tickwork.store.base import Store

WAIT = 5 * SECOND


class Task:
    """A task with a debounce or throttle, as a store sees it: `call` is what an enqueue stores."""

    def __init__(self, store: Store, merging: Debounce | Throttle) -> None:
        job_limits = TaskLimits(merging=merging)
        self.store = store
        self.stamp = JobStamper("t", job_limits, queue="default", tenant=None, labels=(), needs="")
        store.limits.declare_limits(dict(rules_of("t", job_limits)))
        self.worker = register(store, lease=DAY)

    def job(self, n: int) -> NewJob:
        return self.stamp.on(a_job(args=msgspec.json.encode({"account": "a", "n": n})))

    def call(self, *numbers: int, tx: Any = None) -> list[JobId]:
        return [job_id for n in numbers for job_id in self.store.insert_jobs([self.job(n)], tx=tx)]

    def claim(self, worker: WorkerId | None = None) -> list[Claimed]:
        return self.store.claim_jobs(worker or self.worker, ["default"], ["t"], 100).jobs

    def start(self, worker: WorkerId | None = None) -> Claimed:
        (one,) = self.claim(worker)
        return one

    def lives(self) -> int:
        return sum(not view.state.ended for view in self.store.reads.list_jobs(JobFilter(), 100))


def number(claimed: Claimed) -> int:
    return int(msgspec.json.decode(claimed.args)["n"])
