"""Requests that wait for work: whatever clients and the store do, each job runs once."""

import asyncio
import random
import time
from collections.abc import Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from tests.http.work import open_polls
from tickwork import Tickwork
from tickwork.clock import SystemClock
from tickwork.core.outcome import Succeeded
from tickwork.errors import StoreError, StoreUnreachable
from tickwork.http.remote.claim_and_finish import LeasedAttempt, LeaseRequest, WantedJobs
from tickwork.http.remote.long_poll import LongPolls
from tickwork.observe.counters import Counters

WORKERS, JOBS = 12, 120
LEASE = timedelta(minutes=1)


def a_hub(app: Tickwork) -> LongPolls:
    return LongPolls(app.store, SystemClock(), random.Random(1), Counters())


def never() -> Coroutine[Any, Any, object]:
    return asyncio.Event().wait()


def an_asker(most: int = 1) -> LeaseRequest:
    return LeaseRequest("w", "key:w", LEASE, most)


def test_each_job_is_done_once_by_workers_that_come_and_hang_up(app: Tickwork) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    task = app.named("t").options(queue="q", retries=0, on_lost="fail")
    done: list[str] = []

    async def work(long_polls: LongPolls) -> None:
        wanted = WantedJobs(("q",), rng.choice([(), ("t",)]))
        while len(done) < JOBS:
            hangs_up = asyncio.to_thread(_pause, rng.random() / 50) if rng.random() < 0.5 else never()
            wait_s = rng.choice([0.0, rng.random() / 20, 1.0])
            for one in await long_polls.poll(
                wanted, LeaseRequest("w", "key:w", LEASE, rng.randint(1, 5)), wait_s, hangs_up
            ):
                await asyncio.to_thread(finish, long_polls, one)

    def finish(long_polls: LongPolls, one: LeasedAttempt) -> None:
        assert long_polls.ends.end(one.job, Succeeded(b"null"), one.worker)
        done.append(one.job.job_id)

    async def bring() -> None:
        for _ in range(JOBS // 10):
            await asyncio.to_thread(task.enqueue_many, [{}] * 10)

    async def all_of_it() -> None:
        long_polls = a_hub(app)
        async with asyncio.timeout(50), asyncio.TaskGroup() as group:
            group.create_task(bring())
            for _ in range(WORKERS):
                group.create_task(work(long_polls))
        await long_polls.close()

    asyncio.run(all_of_it())
    jobs = app.jobs(queue="q", limit=1000)
    assert sorted(done) == sorted(job.id for job in jobs)
    assert {job.state for job in jobs} == {"succeeded"}
    ends = [one.state.value for job in jobs for one in job.attempts()]
    assert set(ends) <= {"succeeded", "released"}
    assert app.store.reads.workers() == []


def _pause(seconds: float) -> None:
    time.sleep(seconds)


def test_one_whose_request_is_cancelled_leaves_nothing_behind(app: Tickwork) -> None:
    async def all_of_it() -> None:
        long_polls = a_hub(app)
        waiting = asyncio.create_task(long_polls.poll(WantedJobs(("q",)), an_asker(), 30, never()))
        await asyncio.sleep(0)  # the request begins to wait
        assert open_polls(long_polls) == 1
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        assert open_polls(long_polls) == 0
        await long_polls.close()

    asyncio.run(all_of_it())


def test_while_the_store_fails_those_who_do_not_wait_are_told_and_the_others_wait(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = True

    def due(queues: Any) -> Any:
        if broken:
            raise StoreUnreachable("the store is away")
        return app.store.remote.due_work(queues)

    async def all_of_it() -> None:
        nonlocal broken
        long_polls = a_hub(app)
        # The claimer of long polls is not public; only its store read shall fail.
        monkeypatch.setattr(long_polls._claimer, "due", due)
        patient = asyncio.create_task(long_polls.poll(WantedJobs(("q",)), an_asker(), 30, never()))
        with pytest.raises(StoreError, match="the store is away"):
            await long_polls.poll(WantedJobs(("q",)), an_asker(), 0, never())
        broken = False
        job = await asyncio.to_thread(lambda: app.named("t").options(queue="q").enqueue())
        (leased,) = await asyncio.wait_for(patient, 10)
        assert leased.job.job_id == job.id
        await long_polls.close()

    asyncio.run(all_of_it())


def test_a_claim_whose_grant_failed_is_under_a_lease_that_is_not_renewed(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server goes on under another name, so that what was claimed comes back by itself."""

    def fail(*grants: Any) -> Any:
        raise StoreUnreachable("the store is away")

    async def all_of_it() -> None:
        long_polls = a_hub(app)
        first = app.named("t").options(queue="q").enqueue()
        with monkeypatch.context() as patch:
            patch.setattr(app.store.remote, "grant_leases", fail)
            with pytest.raises(StoreError):
                await long_polls.poll(WantedJobs(("q",)), an_asker(), 0, never())
        claimed_by = first.view.worker
        second = app.named("t").options(queue="q").enqueue()
        (leased,) = await long_polls.poll(WantedJobs(("q",)), an_asker(), 0, never())
        assert leased.job.job_id == second.id
        assert claimed_by is not None
        assert long_polls._claimer._me not in (None, claimed_by)
        assert [one.job_id for one in app.store.open_attempts(claimed_by)] == [first.id]  # type: ignore[arg-type]
        await long_polls.close()

    asyncio.run(all_of_it())


def test_those_who_want_different_things_are_served_in_the_order_they_came(app: Tickwork) -> None:
    async def all_of_it() -> None:
        long_polls = a_hub(app)
        wants = [WantedJobs(("q",), ("a",)), WantedJobs(("q",), ("b", "a")), WantedJobs(("q",))]
        waiting = []
        for wanted in wants:
            waiting.append(asyncio.create_task(long_polls.poll(wanted, an_asker(), 20, never())))
            await asyncio.sleep(0)  # the request begins to wait
        jobs = [await asyncio.to_thread(app.named("a").options(queue="q").enqueue) for _ in range(3)]
        got = [await asyncio.wait_for(one, 10) for one in waiting]
        assert [one.job.job_id for leased in got for one in leased] == [job.id for job in jobs]
        await long_polls.close()

    asyncio.run(all_of_it())
