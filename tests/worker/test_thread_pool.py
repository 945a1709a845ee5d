"""Plain handlers on threads, async ones on a loop, CPU-bound ones in processes of their own."""

import asyncio
import importlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from tests.waiting import eventually
from tests.worker.job_helpers import output_of
from tickwork import JobCancelled, JobFailed, Tickwork
from tickwork.errors import InvalidInput

# -- threads


def test_plain_handlers_run_at_the_same_time_as_far_as_there_are_slots(app: Tickwork) -> None:
    everybody, at_once, most = threading.Barrier(5), [], []

    @app.task
    def meet() -> None:
        everybody.wait(10)

    @app.task
    def crowd(n: int) -> None:
        at_once.append(n)
        most.append(len(at_once))
        time.sleep(0.02)
        at_once.remove(n)

    with app.worker(concurrency=5):
        [job.result(timeout=10) for job in meet.enqueue_many([()] * 5)]
        [job.result(timeout=10) for job in crowd.enqueue_many([(n,) for n in range(40)])]
    assert max(most) == 5


def test_a_handler_may_wait_for_the_job_that_it_enqueued(app: Tickwork) -> None:
    @app.task
    def inner(n: int) -> int:
        return n

    @app.task
    def outer() -> int:
        return sum(inner.enqueue(n).result(timeout=10) for n in range(20))

    with app.worker(concurrency=2):
        assert outer.enqueue().result(timeout=20) == 190


def test_many_short_jobs_all_run_once(app: Tickwork) -> None:
    ran: list[int] = []

    @app.task
    def note(n: int) -> None:
        ran.append(n)

    with app.worker(concurrency=4):
        jobs = note.enqueue_many([(n,) for n in range(1000)])
        [job.result(timeout=30) for job in jobs]
    assert sorted(ran) == list(range(1000))


def test_short_jobs_do_not_wait_behind_slow_ones_while_another_worker_is_free(app: Tickwork, store_url: str) -> None:
    """Short jobs are taken ahead. What is taken behind a job that turns out slow is given back."""
    go_on = threading.Event()

    @app.task
    def work(slow: bool) -> None:
        if slow:
            print("slow")  # output is no sign of getting on
            go_on.wait(20)

    with app.worker(concurrency=2):
        [job.result(timeout=10) for job in work.enqueue_many([(False,)] * 400)]  # it learns that jobs are short
        jobs = work.enqueue_many([(True,)] * 2 + [(False,)] * 50)
        eventually(lambda: jobs[0].state == jobs[1].state == "running")
        other = Tickwork(store_url)
        other.task(work.function)
        with other.worker(concurrency=2):
            for job in jobs[2:]:
                job.result(timeout=10)
            assert jobs[0].state == "running"
            go_on.set()
    assert [job.view.failures for job in jobs] == [0] * 52


# -- a loop


def test_async_handlers_sleep_all_at_once(app: Tickwork) -> None:
    all_asleep = asyncio.Barrier(100)

    @app.task
    async def nap() -> str:
        await all_asleep.wait()
        return threading.current_thread().name

    with app.worker(concurrency=100):
        jobs = nap.enqueue_many([()] * 100)
        threads = {job.result(timeout=20) for job in jobs}
    assert len(threads) == 1


def test_async_handlers_can_wait_for_each_other(app: Tickwork) -> None:
    @app.task
    async def inner() -> str:
        return "inner"

    @app.task
    async def outer() -> str:
        job = await inner.enqueue_async()
        return await job.result_async(timeout=10)

    with app.worker():
        assert outer.enqueue().result(timeout=10) == "inner"


def test_a_worker_leaves_no_threads_loops_or_descriptors_behind(app: Tickwork) -> None:
    @app.task
    async def on_the_loop() -> None: ...

    @app.task
    def plain() -> None: ...

    def run() -> None:
        with app.worker():
            on_the_loop.enqueue().result(timeout=10)
            plain.enqueue().result(timeout=10)

    run()
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        run()
    eventually(lambda: threading.active_count() <= threads)
    spare = 6  # PostgreSQL's pool keeps what it opened when it was busy; a leak would have left ten or more
    eventually(lambda: len(os.listdir("/proc/self/fd")) <= descriptors + spare)


# -- processes


@pytest.fixture
def cpu(store_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The tasks of cpu_tasks.py on this test's store; children find it in their environment."""
    monkeypatch.setenv("TICKWORK_URL", store_url)
    for name in ("tests.worker.cpu_tasks", "tests.worker.other_cpu_tasks"):
        sys.modules.pop(name, None)
    module = importlib.import_module("tests.worker.cpu_tasks")
    importlib.import_module("tests.worker.other_cpu_tasks")
    yield module
    module.app.close()


def test_a_cpu_bound_task_runs_in_a_process_of_its_own(cpu: Any) -> None:
    with cpu.app.worker():
        assert cpu.where.enqueue().result(timeout=20) != os.getpid()
        job = cpu.count.enqueue(1000)
        assert job.result(timeout=20) == 499500
        assert output_of(job) == "counting to 1000\n"
        assert cpu.saves.enqueue().result(timeout=20) == 1
        (child,) = cpu.app.jobs(task="children")
        assert child.result(timeout=20) == child.view.parent


def test_cpu_bound_tasks_of_several_modules_get_their_turn(cpu: Any) -> None:
    for name in ("where", "elsewhere") * 3:
        cpu.app.enqueue(name)
    with cpu.app.worker():
        eventually(lambda: len(cpu.app.jobs(state="succeeded")) == 6, within_s=30)


def test_a_cpu_bound_task_can_be_ended_for_real(cpu: Any) -> None:
    with cpu.app.worker():
        job = cpu.sleeps.enqueue()
        with pytest.raises(JobFailed, match="timeout"):
            job.result(timeout=20)
        assert cpu.where.enqueue().result(timeout=20) != os.getpid()


def test_cpu_bound_jobs_that_wait_for_a_process_can_be_cancelled(cpu: Any) -> None:
    with cpu.app.worker(concurrency=10):
        jobs = cpu.waits.enqueue_many([(0.5,)] * 6)
        eventually(lambda: any(job.state == "running" for job in jobs), within_s=20)
        last = jobs[-1]
        assert last.cancel() is True
        with pytest.raises(JobCancelled):
            last.result(timeout=20)
        assert [job.result(timeout=20) for job in jobs[:-1]] == ["waited"] * 5


def test_a_process_that_dies_fails_its_job_after_three_crashes(cpu: Any) -> None:
    with cpu.app.worker():
        job = cpu.dies.enqueue()
        with pytest.raises(JobFailed, match=r"crashed: .* exited with code 7 \(crash 3 of 3"):
            job.result(timeout=30)
    assert (job.attempt, job.view.crashes, job.view.failures) == (3, 3, 0)


def test_what_no_child_could_import_is_refused_at_once(app: Tickwork, monkeypatch: pytest.MonkeyPatch) -> None:
    @app.task(pool="process")
    def work() -> None: ...

    monkeypatch.setattr(work.function, "__module__", "__main__")
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    with (
        pytest.raises(InvalidInput, match="task 'work' runs in a process of its own, which cannot import it"),
        app.worker(),
    ):
        pass
