"""Workers that are paused for longer than their lease: they are fenced, and go on under a new name."""

import os
import signal
import time
from contextlib import suppress

import pytest

from tests.process.harness import WorkerProcess, Workers, consistent, settled
from tests.waiting import eventually

pytestmark = pytest.mark.process

LEASE_S = 2.0


def pause(worker: WorkerProcess, whom: str) -> list[int]:
    pids = [worker.pid] if whom == "supervisor" else [worker.pid, *worker.children()]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    return pids


def resume(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # the supervisor goes on first, and may have killed a child by now
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("whom", ["supervisor", "everything"])
def test_a_job_of_a_paused_worker_is_finished_by_another_and_the_late_result_is_refused(
    workers: Workers, whom: str
) -> None:
    paused = workers.start(lease_s=LEASE_S)
    jobs = [workers.job("work", n=n, seconds=1.5) for n in range(3)]
    for job in jobs:
        workers.witnessed(job)
    pids = pause(paused, whom)
    workers.start(lease_s=LEASE_S)
    settled(jobs, within_s=20)
    for job in jobs:
        consistent(job)
        assert job.attempt == 2
    before = [job.view for job in jobs]

    resume(pids)
    eventually(lambda: "dropped" in paused.said(), 10, "the paused worker notices that it was too late")
    assert [job.view for job in jobs] == before
    # It continues, under a new worker id.
    more = [workers.job("work", n=n, seconds=0.2) for n in range(12)]
    settled(more, within_s=20)
    eventually(
        lambda: paused.pid in {one.pid for one in workers.app.store.reads.workers() if one.state == "running"}, 10
    )
    assert [job.view for job in jobs] == before
    assert [one.state for job in jobs for one in job.attempts()] == ["lost", "succeeded"] * 3


def test_a_late_result_that_was_not_reclaimed_is_kept(workers: Workers) -> None:
    paused = workers.start(lease_s=LEASE_S)
    jobs = [workers.job("work", n=n, seconds=0.5) for n in range(3)]
    for job in jobs:
        workers.witnessed(job)
    began = time.monotonic()
    pids = pause(paused, "supervisor")
    for job in jobs:
        workers.witnessed(job, "end")  # its children were not paused
    eventually(lambda: time.monotonic() - began > LEASE_S + 1.5, 10, "the lease ran out")
    assert {job.state for job in jobs} == {"running"}
    resume(pids)
    settled(jobs, within_s=10)
    for job in jobs:
        consistent(job)
        assert job.attempt == 1, "it was late, but it was the only one"
    settled([workers.job("work", n=9)], within_s=10)


def test_a_short_pause_costs_nothing(workers: Workers) -> None:
    worker = workers.start(lease_s=4)
    jobs = [workers.job("work", n=n, seconds=1.5) for n in range(3)]
    for job in jobs:
        workers.witnessed(job)
    pids, began = pause(worker, "everything"), time.monotonic()
    eventually(lambda: time.monotonic() - began > 1, 5)
    resume(pids)
    settled(jobs, within_s=20)
    assert [job.attempt for job in jobs] == [1] * 3
