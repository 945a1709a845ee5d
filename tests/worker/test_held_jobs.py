"""The jobs that a worker holds, and their timers."""

from datetime import timedelta
from unittest.mock import Mock

import pytest

from tests.worker.quiet import bare_worker
from tickwork.core.ids import ClaimId, JobId
from tickwork.core.job import Claimed, Policy, TaskDefinition
from tickwork.store.attempt_types import Claims, Exchange
from tickwork.testing import VirtualClock
from tickwork.worker.held_jobs import HeldJobs
from tickwork.worker.lease import Lease
from tickwork.worker.worker import Worker


def a_claim(number: int, *, wait_us: int = 0) -> Claimed:
    return Claimed(
        JobId(f"job{number}"), 1, ClaimId(1), "t", "default", 5, b"{}", Policy(), 1000 + wait_us, 1000, 0, 0, False
    )


def test_limits_of_jobs_that_have_ended_do_not_pile_up() -> None:
    """The entry of a long job must not keep the entries of the short jobs after it."""
    holdings = HeldJobs({})
    holdings.take([a_claim(0)], 0.0)
    holdings.kill_at(1.0, "job0", 1)
    for number in range(1, 5000):
        holdings.take([a_claim(number)], 0.0)
        holdings.kill_at(3600.0 + number, f"job{number}", 1)
        holdings.forget(f"job{number}")
    # The size of its memory has no public count.
    assert len(holdings._kills) < 200
    assert [held.job.job_id for held in holdings.overdue(2.0)] == ["job0"]


def test_a_wait_that_is_counted_again_only_gets_shorter() -> None:
    holdings = HeldJobs({})
    holdings.take([a_claim(1, wait_us=200_000)], 10.0)
    holdings.reckon(1000 + 50_000, 10.0)
    assert holdings.start_times() == [pytest.approx(10.15)]
    holdings.reckon(1000, 10.1)
    assert holdings.start_times() == [pytest.approx(10.15)]
    assert holdings.start_due(10.149) == []
    assert [held.job.job_id for held in holdings.start_due(10.151)] == ["job1"]


class Looks:
    """A store that says when to look again, for the shared and for the solo tasks."""

    def __init__(self, again_s: dict[str, float | None], jobs: list[Claimed]) -> None:
        self.again_s = again_s
        self.jobs = jobs
        self.reads = Mock(**{"due_tasks.return_value": set()})
        self.operations = Mock(**{"asked_of.return_value": None})

    def exchange(self, worker: str, endings: object, logs: object, *, tasks: tuple[str, ...], **_: object):  # type: ignore[no-untyped-def]
        jobs, self.jobs = self.jobs, []
        return Exchange(set(), Claims(jobs, None, self.again_s[tasks[0]]))

    def __getattr__(self, verb: str) -> Mock:
        return Mock(return_value=set())


def a_worker(looks: Looks, slots: int) -> tuple[Worker, VirtualClock]:
    clock, pools = VirtualClock(), Mock()
    pools.poll.return_value, pools.stalled.return_value, pools.solo_room.return_value = [], False, 1
    tasks = [TaskDefinition(name, "default", 5, Policy(), b"{}") for name in ("t", "solo")]
    lease = Lease(timedelta(minutes=1))
    return bare_worker(looks, pools, tasks, lease, clock, slots=slots, solo_tasks=frozenset({"solo"})), clock


@pytest.mark.parametrize("again_s", [{"t": 0.7, "solo": None}, {"t": None, "solo": 0.7}, {"t": 0.7, "solo": 3.0}])
def test_it_looks_again_when_the_first_of_its_claims_wants_it(again_s: dict[str, float | None]) -> None:
    worker, clock = a_worker(Looks(again_s, []), slots=5)
    assert worker.tick(clock.monotonic()) == pytest.approx(0.7)


def test_without_a_free_slot_it_does_not_look_again_without_end() -> None:
    worker, clock = a_worker(Looks({"t": 0.7, "solo": 0.7}, [a_claim(1)]), slots=1)
    worker.tick(clock.monotonic())
    clock.advance(timedelta(seconds=2))
    assert worker.tick(clock.monotonic()) >= 0.5
