"""A task that runs once on each worker that lives."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta

import pytest

from tests.store.builders import MINUTE, a_worker, register
from tests.waiting import eventually
from tickwork import Job, Tickwork, current_job, debounce
from tickwork.core.ids import WorkerId
from tickwork.errors import InvalidOption


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def start(app: Tickwork, stack: ExitStack, count: int, **options: object) -> None:
    """Start workers of this app, and return when all are known."""
    before = len(app.store.reads.workers())
    for _ in range(count):
        stack.enter_context(app.worker(concurrency=2, **options))  # type: ignore[arg-type]
    eventually(lambda: len(app.store.reads.workers()) == before + count)


def workers_of(jobs: list[Job]) -> list[str | None]:
    return [job.view.worker for job in jobs]


def test_it_runs_once_on_each_worker_which_knows_its_number(app: Tickwork, stack: ExitStack) -> None:
    @app.task
    def reload(what: str) -> tuple[str, int, int]:
        broadcast = current_job().broadcast
        assert broadcast is not None
        return what, broadcast.index, broadcast.total

    start(app, stack, 3)
    jobs = app.broadcast(reload, what="prices")
    assert [job.result(timeout=10) for job in jobs] == [("prices", n, 3) for n in range(3)]
    assert sorted(filter(None, workers_of(jobs))) == sorted(one.id for one in app.store.reads.workers())


def test_it_reaches_a_busy_worker_when_that_has_a_free_slot(app: Tickwork, stack: ExitStack) -> None:
    go = threading.Event()

    @app.task
    def hold() -> None:
        go.wait(20)

    @app.task
    def ping() -> None: ...

    start(app, stack, 2)
    holds = [hold.enqueue() for _ in range(4)]
    eventually(lambda: all(job.state == "running" for job in holds))
    jobs = ping.broadcast()
    other = ping.enqueue()
    go.set()
    for job in [*jobs, other]:
        job.result(timeout=10)
    assert len(set(workers_of(jobs))) == 2
    assert other.attempts()[0].worker is not None


def test_only_those_are_addressed_that_could_run_it(app: Tickwork, stack: ExitStack) -> None:
    @app.task(needs={"gpu": True})
    def train() -> None: ...

    store = app.store
    start(app, stack, 1)
    start(app, stack, 1, labels=["gpu"])
    register(store)  # it does not know the task
    drains = a_worker("drains", ["train"])
    store.register_worker(drains, [], MINUTE)
    store.drain_worker(WorkerId("drains"))
    (job,) = train.broadcast()
    job.result(timeout=10)
    assert train.options(queue="nobody's").broadcast() == []


def test_a_job_for_a_worker_that_died_expires(app: Tickwork, stack: ExitStack) -> None:
    @app.task
    def ping() -> None: ...

    app.store.register_worker(a_worker("silent", ["ping"]), [], MINUTE)
    (job,) = app.broadcast(ping)
    assert job.view.policy.expires == timedelta(minutes=10)
    (brief,) = ping.options(expires="1s").broadcast()
    start(app, stack, 1)
    assert ping.enqueue().result(timeout=10) is None, "others run"
    eventually(lambda: brief.state == "expired", 10)
    assert job.state == "queued"


def test_other_jobs_are_no_broadcast(app: Tickwork, stack: ExitStack) -> None:
    @app.task
    def ping() -> bool:
        return current_job().broadcast is None

    start(app, stack, 1)
    assert ping.enqueue().result(timeout=10) is True


def test_without_workers_there_is_nothing_to_do(app: Tickwork) -> None:
    @app.task
    def ping() -> None: ...

    assert app.broadcast(ping) == []
    assert asyncio.run(app.broadcast_async(ping)) == []
    assert asyncio.run(ping.broadcast_async()) == []


def test_a_key_is_refused(app: Tickwork) -> None:
    @app.task
    def ping() -> None: ...

    @app.task(debounce=debounce("1s"))
    def pong() -> None: ...

    app.store.register_worker(a_worker("w", ["ping", "pong"]), [], MINUTE)
    for meant in (ping.options(key="x"), pong):
        with pytest.raises(InvalidOption, match="a broadcast makes many jobs, and there is one live job per key"):
            meant.broadcast()
