"""The memory of a child process can be limited, and a child is replaced after a number of jobs or megabytes."""

import pytest

from tests.process.harness import Workers, gone, settled
from tests.waiting import eventually
from tickwork import JobFailed

pytestmark = pytest.mark.process


def test_an_allocation_beyond_the_cap_fails_its_own_attempt(workers: Workers) -> None:
    worker = workers.start("--memory-mb", "400", slots=2, processes=1)
    (child,) = worker.children()
    with pytest.raises(JobFailed, match="MemoryError"):
        workers.job("allocates", megabytes=2000).result(timeout=20)
    assert workers.job("allocates", megabytes=20).result(timeout=20) == child, "the process went on"


def test_a_child_is_replaced_after_a_number_of_jobs(workers: Workers) -> None:
    worker = workers.start("--max-jobs", "10", slots=2, processes=1)
    jobs = workers.app.named("work").enqueue_many([{"n": n, "seconds": 0.02} for n in range(60)])
    settled(jobs, within_s=40)
    pids = [job.result()["pid"] for job in jobs]
    assert 3 <= len(set(pids)) <= 7
    assert [job.attempt for job in jobs] == [1] * 60, "it happens between jobs"
    eventually(lambda: len(worker.children()) == 1, 10, "the old ones are gone")
    eventually(lambda: all(gone(pid) for pid in set(pids[:-12])), 10)


def test_a_child_is_replaced_when_it_has_grown_too_large(workers: Workers) -> None:
    worker = workers.start("--recycle-mb", "150", slots=1, processes=1)
    (child,) = worker.children()
    assert workers.job("allocates", megabytes=200, keeps=True).result(timeout=20) == child
    eventually(lambda: gone(child), 10, "it was replaced")
    (other,) = eventually(lambda: len(found := worker.children()) == 1 and found, 10)
    assert other != child
    assert workers.job("allocates", megabytes=20).result(timeout=20) == other


def test_a_thread_that_a_handler_left_behind_does_not_keep_a_replaced_child(workers: Workers) -> None:
    workers.start("--max-jobs", "1", slots=1, processes=1)
    child = workers.job("leaves_a_thread_behind").result(timeout=20)
    eventually(lambda: gone(child), 10)
    settled([workers.job("work", n=1)], within_s=10)
