"""A worker that the test ticks, mostly on a clock that it moves, and whose handlers do only what the test says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from itertools import count
from random import Random
from typing import Any

from tickwork.clock import Clock
from tickwork.core.job import Policy, TaskDefinition
from tickwork.store.base import Store
from tickwork.worker.autoscale import Autoscaler
from tickwork.worker.ipc.protocol import AskReply, Assignment, AttemptEnd, AttemptsEnded, ChildDied, FromExecutor
from tickwork.worker.lease import Lease
from tickwork.worker.worker import Worker
from tickwork.worker.worker_types import AttemptRunner, WorkerCode, WorkerOptions, WorkerParts

_numbers = count(1)


class Nobody:
    def send(self, message: AskReply) -> None:
        raise AssertionError("nobody asked")


class QuietPools:
    """Holds what it is given, until the test ends it."""

    def __init__(self, solo_room: int = 1) -> None:
        self.given: dict[str, Assignment] = {}
        self._solo_room = solo_room
        self._news: list[tuple[AttemptRunner, FromExecutor | ChildDied]] = []

    def end(self, job_ids: Iterable[str], kind: Any = "succeeded", took: float = 1.0, settled: bool = False) -> None:
        """End attempts this way; the worker learns of it at its next tick."""
        ends = []
        for job_id in list(job_ids):
            one = self.given.pop(job_id)
            began = one.claimed_mono
            ends.append(AttemptEnd(job_id, one.claim, kind, began, b"null", "it broke", settled=settled, took=took))
        self._news.append((Nobody(), AttemptsEnded(ends)))

    def submit(self, assignments: Sequence[Assignment], alone: bool) -> None:
        self.given.update((one.job_id, one) for one in assignments)

    def poll(self) -> list[tuple[AttemptRunner, FromExecutor | ChildDied]]:
        news, self._news = self._news, []
        return news

    def interrupt(self, job_id: str, claim: int, reason: str) -> None:
        raise AssertionError("nothing is interrupted here")

    def kill_holder(self, job_id: str) -> list[str]:
        raise AssertionError("nothing is killed here")

    def kill_all(self) -> None:
        self.given.clear()

    def abandon(self) -> None:
        self.given.clear()

    def solo_room(self) -> int:
        return self._solo_room

    def tend(self, now: float) -> None: ...

    def stalled(self) -> bool:
        return False

    def filenos(self) -> list[int]:
        return []

    def unsent(self) -> list[int]:
        return []


def a_worker(
    store: Store,
    clock: Clock,
    tasks: Sequence[str] = ("t",),
    autoscaler: Autoscaler | None = None,
    **options: Any,
) -> tuple[Worker, QuietPools]:
    """A worker that serves these tasks; it registers at its first tick."""
    pools = QuietPools()
    known = [TaskDefinition(name, "default", 5, Policy(), b"{}") for name in tasks]
    parts = WorkerParts(
        store=store,
        pools=pools,
        code=WorkerCode(tasks=known),
        options=WorkerOptions(**options),
        lease=Lease(timedelta(hours=10)),
        new_id=lambda: f"w{next(_numbers)}",
        clock=clock,
        rng=Random(0),
        autoscaler=autoscaler,
    )
    return Worker(parts), pools


def bare_worker(
    store: Any, pools: Any, tasks: Sequence[TaskDefinition], lease: Lease, clock: Any, **how: Any
) -> Worker:
    """A worker "w" on these parts. `how`: solo_tasks, and options of a worker."""
    code = WorkerCode(tasks=tasks, solo_tasks=how.pop("solo_tasks", frozenset()))
    parts = WorkerParts(
        store=store,
        pools=pools,
        code=code,
        options=WorkerOptions(**how),
        lease=lease,
        new_id=lambda: "w",
        clock=clock,
        rng=Random(0),
    )
    return Worker(parts)
