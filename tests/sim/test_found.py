"""What the simulator found that no planted bug stands for: each as small as it can be told."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from random import Random
from unittest.mock import Mock

import pytest

from tickwork.core.ids import JobId
from tickwork.core.job import NewJob, Policy, TaskDefinition
from tickwork.store.sqlite import SqliteStore
from tickwork.testing import VirtualClock
from tickwork.worker.base import WorkerOptions
from tickwork.worker.children import Child, ChildLimits, Children
from tickwork.worker.heartbeat import Lease
from tickwork.worker.messages import Assignment, End, Ended
from tickwork.worker.worker import Worker

TASK = TaskDefinition("t", "default", 5, Policy(), b"{}")


class Pools(Mock):
    """Runs nothing by itself; `news` is what is said next."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[Assignment] = []
        self.news: list[tuple[object, object]] = []
        self.stalled.return_value = False

    def submit(self, assignments: Sequence[Assignment], alone: bool) -> None:
        self.given += assignments

    def poll(self) -> list[tuple[object, object]]:
        news, self.news = self.news, []
        return news

    def _get_child_mock(self, /, **given: object) -> Mock:
        return Mock(**given)


def insert(store: SqliteStore, number: int, **how: timedelta) -> None:
    store.insert_jobs([NewJob(JobId(f"019a8f3e-1c2d-7abc-8def-{number:012x}"), "t", b"{}", **how)])


def test_a_worker_without_a_free_slot_does_not_ask_without_end_for_what_is_due_soon() -> None:
    """Seeds 10032 and 10924: 1,000 claims in the 125 ms before a job was due, as fast as the store answered."""
    clock, pools = VirtualClock(), Pools()
    store = SqliteStore(":memory:", clock=clock)
    options = WorkerOptions(slots=1)
    worker = Worker(
        store, pools, [TASK], frozenset(), options, Lease(timedelta(minutes=1)), lambda: "w", clock, Random(0)
    )
    for number in range(40):  # short ones, after which the worker takes ahead
        insert(store, number)
        worker.tick(clock.monotonic())
        (one,) = pools.given
        pools.given.clear()
        end = End(one.job_id, one.claim, "succeeded", clock.monotonic(), result=b"null", took=0.001)
        pools.news.append((None, Ended([end])))
    insert(store, 1000)
    worker.tick(clock.monotonic())  # which takes the only slot, for long
    insert(store, 1001, delay=timedelta(milliseconds=100))
    worker.called = True
    assert worker.tick(clock.monotonic()) == pytest.approx(0.1)


class CountedChildren(Children):
    """Children that are not there, and say nothing."""

    spawned = 0

    def _spawn(self, target: str, *, solo: bool) -> Child:
        self.spawned += 1
        connection = Mock(**{"recv.side_effect": BlockingIOError, "send.side_effect": len})
        child = Child(str(self.spawned), Mock(**{"poll.return_value": None}), connection, solo, target)
        child.kill = Mock()  # type: ignore[method-assign]
        self._children.append(child)
        return child


def test_a_job_that_waited_for_a_child_is_not_begun_by_a_worker_that_leaves() -> None:
    """Hard seed 92062: the worker gave the job back, started a child for it, and let it run to its end."""
    children = CountedChildren(lambda task: "sim", lambda task: False, [], 1, 1, VirtualClock(), ChildLimits())
    jobs = [Assignment(f"job{number}", 1, 1, "t", "default", b"{}", None, (), (), 0, 0, 0.0) for number in (1, 2)]
    children.submit(jobs, alone=True)
    assert children.spawned == 1, "the second one waits"
    children.kill_all()
    children.poll()
    assert children.spawned == 1
