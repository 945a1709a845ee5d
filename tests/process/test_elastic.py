"""Real workers that have more children while jobs wait, and fewer when it is calm; nothing is lost by that."""

import signal

import pytest

from tests.process.harness import Workers, gone, settled
from tests.waiting import eventually

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]


def test_it_grows_while_jobs_wait_and_shrinks_when_it_is_calm(workers: Workers) -> None:
    worker = workers.start(slots=3, processes="1..3", calm_s=2.0)
    (first,) = worker.children()
    jobs = [workers.job("work", n=n, seconds=2.0) for n in range(12)]
    eventually(lambda: len(worker.children()) == 3, 24, "it has grown")
    settled(jobs, within_s=40)
    pids = {job.result()["pid"] for job in jobs}
    assert first in pids
    assert len(pids) == 3, "all of them worked"
    assert [job.attempt for job in jobs] == [1] * 12
    eventually(lambda: len(worker.children()) == 1, 20, "it has shrunk")
    said = worker.said()
    assert "slots      3 in 1 to 3 processes" in said
    assert "Growing from 1 to " in said
    assert "Shrinking from 3 to " in said
    assert workers.job("work", n=10).result(timeout=10)["attempt"] == 1


def test_a_child_that_is_too_many_finishes_what_it_runs(workers: Workers) -> None:
    """Long jobs run when the calm begins: the idle children leave, and those with work stay until it has ended."""
    worker = workers.start(slots=6, processes="1..3", calm_s=1.0)
    short = [workers.job("work", n=n, seconds=2.0) for n in range(24)]
    eventually(lambda: len(worker.children()) == 3, 24, "it has grown")
    long = [workers.job("work", n=100 + n, seconds=12.0) for n in range(2)]
    settled(short, within_s=40)
    for job in long:
        workers.witnessed(job)
    before = worker.children()
    eventually(lambda: "Shrinking" in worker.said(), 20, "it is calm")
    settled(long, within_s=30)
    assert [(job.attempt, job.state) for job in [*short, *long]] == [(1, "succeeded")] * 26
    eventually(lambda: len(worker.children()) == 1, 20, "it has shrunk")
    eventually(lambda: sum(gone(pid) for pid in before) >= 2, 10)
    worker.signal(signal.SIGTERM)
    assert worker.wait(15) == 0


@pytest.mark.parametrize("processes", ["3..1", "0..2", "few", "1..1000"])
def test_what_is_no_range_is_refused(workers: Workers, processes: str) -> None:
    worker = workers.start(processes=processes, wait=False)
    assert worker.wait(15) == 2
    assert "processes" in worker.said()
