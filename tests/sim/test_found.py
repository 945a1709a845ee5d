"""Bugs that the simulator found and that no planted bug covers, each as a minimal test."""

from __future__ import annotations

from datetime import timedelta
from unittest.mock import Mock

import pytest

from tests.worker.mock_pools import TASK, Pools, SlowStore, insert
from tests.worker.quiet import bare_worker
from tickwork.core.ids import WorkerId
from tickwork.store import base
from tickwork.store.limits import LimitedCapacity
from tickwork.store.sqlite import SqliteStore
from tickwork.testing import VirtualClock
from tickwork.worker.ipc.protocol import Assignment, AttemptEnd, AttemptsEnded
from tickwork.worker.lease import Lease
from tickwork.worker.process.child_handle import Child
from tickwork.worker.process.child_output import OutputAttribution
from tickwork.worker.process.child_pool import ChildPool
from tickwork.worker.process.child_starter import ChildSetup
from tickwork.worker.process.console import PassedOnOutput


def test_a_worker_without_a_free_slot_does_not_ask_without_end_for_what_is_due_soon() -> None:
    """Seeds 10032 and 10924: 1,000 claims in the 125 ms before a job was due, as fast as the store answered."""
    clock, pools = VirtualClock(), Pools()
    store = SqliteStore(":memory:", clock=clock)
    worker = bare_worker(store, pools, [TASK], Lease(timedelta(minutes=1)), clock, slots=1)
    for number in range(40):  # short ones, after which the worker takes ahead
        insert(store, number)
        worker.tick(clock.monotonic())
        (one,) = pools.given
        pools.given.clear()
        end = AttemptEnd(one.job_id, one.claim, "succeeded", clock.monotonic(), result=b"null", took=0.001)
        pools.news.append((None, AttemptsEnded([end])))
    insert(store, 1000)
    worker.tick(clock.monotonic())  # which takes the only slot, for long
    insert(store, 1001, delay=timedelta(milliseconds=100))
    worker.called = True
    assert worker.tick(clock.monotonic()) == pytest.approx(0.1)


def test_a_lease_that_ends_during_a_tick_stops_handlers_at_the_next_one() -> None:
    """Seed 661983187: the lease ended while the worker claimed, and it then waited for a second with a handler that was
    not told to stop."""
    clock, pools = VirtualClock(), Pools()
    slow = SlowStore(SqliteStore(":memory:", clock=clock), clock)
    lease = Lease(timedelta(seconds=10))
    worker = bare_worker(slow, pools, [TASK], lease, clock, slots=2)
    insert(slow, 1)
    worker.tick(clock.monotonic())
    clock.advance(timedelta(seconds=8.9))  # a tenth of a lease before its end it counts as over
    slow.takes = timedelta(seconds=0.2)
    assert worker.tick(clock.monotonic()) == 0.0
    worker.tick(clock.monotonic())
    pools.interrupt.assert_called_once()
    assert worker.tick(clock.monotonic()) > 0


class CountedChildren(ChildPool):
    """Children that are not there, and say nothing."""

    spawned = 0

    def _spawn(self, target: str, *, solo: bool) -> Child:
        self.spawned += 1
        connection = Mock(**{"recv.side_effect": BlockingIOError, "send.side_effect": len})
        console = PassedOnOutput(self._reader.show, lambda: 0, self._clock.monotonic, as_json=False)
        output, credit = Mock(**{"take.return_value": []}), OutputAttribution(console)
        output.board.unsent.return_value = []
        self._reader._outputs.append(output)
        process = Mock(**{"poll.return_value": None})
        child = Child(
            name=str(self.spawned),
            process=process,
            connection=connection,
            solo=solo,
            target=target,
            output=output,
            credit=credit,
            clock=self._clock,
        )
        child.kill = Mock()  # type: ignore[method-assign]
        self._children.append(child)
        return child


def test_a_job_that_waited_for_a_child_is_not_begun_by_a_worker_that_leaves() -> None:
    """Hard seed 92062: the worker gave the job back, started a child for it, and let it run to its end."""
    children = CountedChildren(
        ChildSetup(general=[], slots=1),
        VirtualClock(),
        target_of=lambda task: "sim",
        solo_tasks=(),
        solo_limit=1,
    )
    jobs = [Assignment(f"job{number}", 1, 1, "t", "default", b"{}", None, (), (), 0, 0, 0.0) for number in (1, 2)]
    children.submit(jobs, alone=True)
    assert children.spawned == 1, "the second one waits"
    children.kill_all()
    children.poll()
    assert children.spawned == 1


def test_a_search_takes_nothing_less_urgent_because_a_job_of_its_priority_waited_long() -> None:
    """Seeds 771113, 771295, 2600104 and 3700011: the store's clock was set an hour forward, and what was then stored in
    the places of jobs that had become aged was claimed with them, before more urgent jobs that were due."""
    clock = VirtualClock()
    store = SqliteStore(":memory:", clock=clock)
    worker = base.WorkerRegistration(WorkerId("w"), "host", 1, "0", ("default",), ("t",), 2)
    insert(store, 1, priority=9)
    clock.advance(timedelta(hours=1))
    store.register_worker(worker, [TASK], timedelta(minutes=1))
    insert(store, 2, priority=9)
    insert(store, 3, priority=2)
    clock.advance(timedelta(seconds=1))
    claims = store.claim_jobs(worker.id, ["default"], ["t"], 2, capacity=LimitedCapacity(2, search="all"))
    assert [job.priority for job in claims.jobs] == [9, 2]
