"""The executor at the moments that are hard to hit: an end and an interruption at the same time."""

import threading
import time
from collections.abc import Iterator

import pytest

from tests.waiting import eventually
from tickwork import Tickwork
from tickwork.clock import SystemClock
from tickwork.errors import Interrupted
from tickwork.worker.ipc.protocol import Assignment, AttemptEnd, FromExecutor, Stuck
from tickwork.worker.run import executor as module
from tickwork.worker.run.executor import Executor


class Bench:
    """An executor with one slot, and what it said."""

    def __init__(self, *, replaces_threads: bool) -> None:
        self.app = Tickwork("sqlite:///unused.db")
        self.said: list[FromExecutor] = []
        self.ends: list[AttemptEnd] = []
        self.executor = Executor(
            tasks=self.app.tasks,
            store=lambda: self.app.store,
            slots=1,
            emit=self.said.append,
            ended=lambda ends, idle: self.ends.extend(ends),
            clock=SystemClock(),
            stirred=lambda sink: None,
            replaces_threads=replaces_threads,
        )

    def run(self, *tasks: str, timeout_s: float | None = None) -> None:
        now = time.monotonic()
        jobs = [
            Assignment(f"job{n}", 1, 1, task, "default", b"{}", timeout_s, (), (), 0, 0, now)
            for n, task in enumerate(tasks)
        ]
        self.executor.run(jobs)

    def ended(self, count: int = 1) -> list[str]:
        eventually(lambda: len(self.ends) >= count, 5)
        return [end.kind for end in self.ends]


@pytest.fixture(params=[True, False], ids=["in the user's process", "in a child"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    bench = Bench(replaces_threads=request.param)
    yield bench
    bench.executor.stop()


def test_an_interruption_that_comes_while_the_end_is_sealed_loses_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can hit the thread as late as at the call that would have taken it back."""
    hits = []

    def too_late(thread: int, exception: type[BaseException] | None) -> None:
        if exception is None and not hits:
            hits.append(thread)
            raise Interrupted

    # The race is between two statements of the executor.
    monkeypatch.setattr(module, "_raise_in", too_late)

    @bench.app.task
    def work() -> int:
        bench.executor.interrupt("job0", 1, "stop")
        return 1

    bench.run("work", "work", "work")
    assert bench.ended(3) == ["succeeded"] * 3, "it had ended, and its thread goes on"
    assert len(hits) == 1


def test_an_attempt_that_was_stopped_before_it_began_never_begins(bench: Bench) -> None:
    go_on, ran = threading.Event(), []

    @bench.app.task
    def first() -> None:
        go_on.wait(10)

    @bench.app.task
    def second() -> None:
        ran.append(1)

    bench.run("first", "second", "first")
    bench.executor.interrupt("job1", 1, "cancel")
    assert bench.ended() == ["cancelled"], "at once, though its thread is busy"
    go_on.set()
    assert bench.ended(3) == ["cancelled", "succeeded", "succeeded"]
    assert ran == []


def test_what_was_not_begun_is_given_back(bench: Bench) -> None:
    go_on = threading.Event()

    @bench.app.task
    def work() -> None:
        go_on.wait(10)

    bench.run("work", "work", "work")
    eventually(lambda: bench.executor._ready.qsize() == 2)
    bench.executor.interrupt("job2", 1, "stop")
    assert bench.executor.recall() == ["job1"], "what has ended is not given back"
    go_on.set()
    assert bench.ended(2) == ["released", "succeeded"]
    assert not bench.executor.busy()


def test_a_slot_is_never_idle_while_an_attempt_waits() -> None:
    """A thread that has just taken one attempt must not be counted as free for the next."""
    bench = Bench(replaces_threads=False)
    bench.executor._slots = 2
    both = threading.Barrier(2)

    @bench.app.task
    def meet() -> None:
        both.wait(5)

    for n in range(1, 101):
        bench.run("meet")
        bench.run("meet")
        assert bench.ended(2 * n) == ["succeeded"] * 2 * n
    bench.executor.stop()


def test_a_handler_that_cannot_be_interrupted_is_reported_or_given_up(bench: Bench) -> None:
    threads: list[threading.Thread] = []

    @bench.app.task
    def sleeps() -> None:
        threads.append(threading.current_thread())
        time.sleep(1.5)

    @bench.app.task
    def work() -> None: ...

    bench.run("sleeps", "work", timeout_s=0.1)
    if bench.executor._replaces_threads:
        assert bench.ended(2) == ["timed_out", "succeeded"]
        threads[0].join(5)
        assert len(bench.ends) == 2, "the thread that was given up says nothing any more"
    else:
        stuck = eventually(lambda: [said for said in bench.said if isinstance(said, Stuck)], 5)
        assert [(one.job_id, one.kind) for one in stuck] == [("job0", "timed_out")]


def test_an_unknown_task_fails_its_own_attempt(bench: Bench) -> None:
    @bench.app.task
    def work() -> None: ...

    bench.run("no_such_task", "work")
    assert bench.ended(2) == ["failed", "succeeded"]
    assert "this worker has no task named 'no_such_task'" in (bench.ends[0].error or "")


def test_what_ended_before_a_handler_blocked_the_loop_is_said_all_the_same(bench: Bench) -> None:
    """The end is reported at the end of a turn of the event loop, which may not come."""
    go_on = threading.Event()

    @bench.app.task
    async def quick() -> None:
        pass

    @bench.app.task
    async def blocks() -> None:
        go_on.wait(10)

    bench.run("quick", "blocks", timeout_s=0.1)
    assert bench.ended()[0] == "succeeded"
    if bench.executor._replaces_threads:
        bench.run("quick")
        assert bench.ended(3).count("succeeded") == 2, "on another loop"
    else:
        eventually(lambda: any(isinstance(message, Stuck) for message in bench.said), 5)
    go_on.set()
