"""The ways to enqueue: one, many, by name, and their asyncio twins."""

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import pytest

from tests.waiting import eventually
from tickwork import Job, JobFailed, JobNotFound, Tickwork, current_job
from tickwork.errors import InvalidArguments, StoreUnreachable

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def test_a_task_is_still_a_plain_function(app: Tickwork) -> None:
    @app.task
    def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    assert add(2, b=3) == 5
    assert (add.__name__, add.__doc__) == ("add", "Add two numbers.")


def test_arguments_may_be_given_by_position_and_by_name(app: Tickwork) -> None:
    @app.task
    def told(a: int, b: int = 2, *more: int, c: str, **others: str) -> list[object]:
        return [a, b, list(more), c, others]

    with app.worker():
        assert told.enqueue(1, c="c").result(timeout=10) == [1, 2, [], "c", {}]
        assert told.enqueue(1, 5, 6, 7, c="c", d="d").result(timeout=10) == [1, 5, [6, 7], "c", {"d": "d"}]
        assert told.enqueue(c="c", a=9).result(timeout=10) == [9, 2, [], "c", {}]


def test_many_are_stored_in_order_by_position_or_by_name(app: Tickwork) -> None:
    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    jobs = add.enqueue_many([(1, 2), [3, 4], {"a": 5, "b": 6}])
    with app.worker():
        assert [job.result(timeout=10) for job in jobs] == [3, 7, 11]
    assert [job.id for job in jobs] == sorted(job.id for job in jobs)


def test_none_is_a_possible_many(app: Tickwork) -> None:
    assert app.named("work").enqueue_many([]) == []


def test_the_twins_do_the_same(app: Tickwork) -> None:
    @app.task
    def double(n: int) -> int:
        return 2 * n

    async def main() -> list[int]:
        one = await double.enqueue_async(1)
        delayed = await double.options(delay="10ms").enqueue_async(2)
        many = await double.enqueue_many_async([(3,), {"n": 4}])
        named = await app.enqueue_async("double", 5)
        return [await job.result_async(timeout=10) for job in (one, delayed, *many, named)]

    with app.worker():
        assert asyncio.run(main()) == [2, 4, 6, 8, 10]


def test_an_async_enqueue_leaves_the_event_loop_free(app: Tickwork) -> None:
    @app.task
    def work() -> None: ...

    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def main() -> None:
        counting = asyncio.create_task(count())
        await asyncio.sleep(0)
        before = turns
        await app.enqueue_async("work")
        await app.enqueue_async("other")  # one whose definition has to be read
        assert turns > before + 10
        counting.cancel()

    asyncio.run(main())


# -- by name


def test_a_task_of_this_app_is_enqueued_by_name_as_by_itself(app: Tickwork) -> None:
    @app.task(queue="mail", retries=7)
    def send(to: str) -> None: ...

    view = app.enqueue("send", "ada").view
    assert (view.queue, view.policy.retry.retries) == ("mail", 7)
    with pytest.raises(InvalidArguments, match="expected str"):
        app.enqueue("send", 3)
    assert app.enqueue(send, "ada").task == "send"


def test_an_unknown_name_is_accepted_and_checked_by_the_worker_that_knows_it(store_url: str, app: Tickwork) -> None:
    caller = Tickwork(store_url)
    good = caller.enqueue("double", n=4)
    bad = caller.enqueue("double", n="four")
    also_bad = caller.enqueue("double", m=4)

    @app.task
    def double(n: int) -> int:
        return 2 * n

    with app.worker():
        assert caller.job(good.id).result(timeout=10) == 8  # type: ignore[union-attr]
        for job in (bad, also_bad):
            with pytest.raises(JobFailed, match=r"the stored arguments do not fit .*double"):
                job.result(timeout=10)
            assert job.attempt == 1, "no retry can help"
    caller.close()


def test_what_workers_told_of_a_task_gives_the_defaults(store_url: str, app: Tickwork) -> None:
    @app.task(
        queue="mail",
        priority="high",
        retries=7,
        backoff="5s",
        timeout="30s",
        expires="1h",
        retry_on=[OSError],
        give_up_on=[ValueError],
        on_lost="fail",
    )
    def send(to: str, n: int = 1) -> str:
        return f"{to} {n}"

    with app.worker(queues="mail"):
        caller = Tickwork(store_url)
        eventually(lambda: caller.store.reads.task_definition("send"))
        job = caller.enqueue("send", "ada", n=2)
        assert job.result(timeout=10) == "ada 2"
        assert job.view.policy == send.enqueue("ada").view.policy
        assert job.view.priority == 2
        assert caller.named("send").options(queue="mail", retries=0).enqueue("eve").view.policy.retry.retries == 0
        caller.close()


def test_arguments_by_name_come_back_as_what_they_were(store_url: str, app: Tickwork) -> None:
    @app.task
    def told(when: datetime, id: UUID, price: Decimal, data: bytes, loose: object = None) -> list[object]:
        return [when, id, price, data, loose]

    values = [NOON, UUID(int=7), Decimal("1.50"), b"\0\xff", {"at": NOON}]
    with app.worker():
        told.enqueue(*values).result(timeout=10)  # so that the worker has told of it
        caller = Tickwork(store_url)
        job = caller.enqueue("told", *values[:3], data=values[3], loose=values[4])
        assert app.job(job.id).result(timeout=10) == values  # type: ignore[union-attr]
        caller.close()


def test_an_argument_given_twice_is_refused(store_url: str, app: Tickwork) -> None:
    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    with app.worker():
        add.enqueue(1, 2).result(timeout=10)
    caller = Tickwork(store_url)
    with pytest.raises(InvalidArguments, match="'a'"):
        caller.enqueue("add", 1, a=2)
    with pytest.raises(InvalidArguments, match="takes at most 2 arguments"):
        caller.enqueue("add", 1, 2, 3)
    caller.close()


# -- what an enqueue gives back


def test_a_job_knows_what_it_was_asked_for(app: Tickwork) -> None:
    @app.task(key="k")
    def work() -> None: ...

    job = work.enqueue()
    assert (job.task, job.key, job.state, job.attempt) == ("work", "k", "queued", 0)
    assert (job.progress, job.error) == (None, None)
    assert repr(job) == f"<Job {job.id}>"
    assert job.view.created_at <= job.run_at <= app.store.now()


def test_ids_rise_in_the_order_of_enqueueing(app: Tickwork) -> None:
    task = app.named("work")
    ids = [task.enqueue().id for _ in range(50)]
    assert ids == sorted(ids)


def test_an_enqueue_whose_reply_was_lost_is_repeated_and_gives_one_job(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert, calls = app.store.insert_jobs, []

    def loses_its_first_reply(*args: object) -> object:
        calls.append(args)
        done = insert(*args)  # type: ignore[arg-type]
        if len(calls) == 1:
            raise StoreUnreachable("the connection was reset")
        return done

    monkeypatch.setattr(app.store, "insert_jobs", loses_its_first_reply)
    job = app.named("work").options(key="k").enqueue()
    assert len(calls) == 2
    assert [found.id for found in app.jobs()] == [job.id]


def test_a_job_that_is_gone_says_so(app: Tickwork) -> None:
    job = Job(app.client, app.enqueue("work").id)
    with app.connection() as tx:
        lost = app.named("work").options(tx=tx).enqueue()
        tx.execute("ROLLBACK; BEGIN" if app.url.startswith("sqlite") else "ROLLBACK")
    with pytest.raises(JobNotFound, match=f"job {lost.id} is not in this store: it was never committed"):
        _ = lost.state
    assert job.state == "queued"


def test_a_handler_runs_with_the_options_of_its_job_not_of_its_task(app: Tickwork) -> None:
    @app.task(retries=0)
    def fails_twice() -> int:
        if current_job().attempt < 3:
            raise ConnectionError
        return current_job().attempt

    with app.worker():
        assert fails_twice.options(retries=2, backoff=timedelta(0)).enqueue().result(timeout=10) == 3
