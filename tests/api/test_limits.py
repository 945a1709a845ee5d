"""Flow control as users hold it: what decorators and options say is stamped, kept by workers, and told by why()."""

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.waiting import eventually
from tickwork import Tickwork, breaker, concurrency, debounce, every, rate, throttle
from tickwork.core.limits.job_limits import JobLimits, LimitUse
from tickwork.core.why import RUNNABLE
from tickwork.errors import InvalidArguments, InvalidOption


def tell_store(app: Tickwork) -> None:
    """Register the tasks of the app with a worker that ends at once."""
    with app.worker():
        eventually(app.store.reads.workers)


class Crowd:
    """Counts how many are inside at once, until they are let out."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.most = 0
        self._inside = 0
        self._lock = threading.Lock()

    def __call__(self) -> None:
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)
        assert self.open.wait(20)
        with self._lock:
            self._inside -= 1

    @property
    def inside(self) -> int:
        return self._inside


@pytest.fixture
def crowd() -> Any:
    made = Crowd()
    yield made
    made.open.set()


class TestStamping:
    def test_a_task_without_limits_and_a_call_without_a_tenant_make_plain_jobs(self, app: Tickwork) -> None:
        @app.task
        def add(a: int) -> None: ...

        assert add.enqueue(1).view.job_limits is None
        assert add.options(tenant="acme").enqueue(1).view.job_limits == JobLimits(tenant="acme")
        assert add.options(needs={"gpu": True}).enqueue(1).view.job_limits == JobLimits(needs="gpu")

    def test_keys_come_from_arguments_by_position_by_name_and_by_default(self, app: Tickwork) -> None:
        @app.task(limits=[concurrency(2, key="account")], tenant="house", needs={"mem": "1GB"})
        def sync(n: int, account: str = "all") -> None: ...

        jobs = [sync.enqueue(1, "a"), sync.enqueue(1, account="b"), sync.enqueue(1), *sync.enqueue_many([(1, "c")])]
        flows = [job.view.job_limits for job in jobs]
        assert [job_limits.uses[0].key for job_limits in flows if job_limits] == ["a", "b", "all", "c"]
        assert {(job_limits.tenant, job_limits.needs) for job_limits in flows if job_limits} == {
            ("house", "mem=1000000000")
        }

    def test_hints_say_how_a_default_is_written(self, app: Tickwork) -> None:
        @app.task(limits=[concurrency(2, key="day")])
        def sync(day: datetime = datetime(2026, 11, 15, tzinfo=UTC)) -> None: ...

        keys = [job.view.job_limits for job in (sync.enqueue(), sync.enqueue(datetime(2026, 11, 15, tzinfo=UTC)))]
        assert keys[0] == keys[1] == JobLimits(uses=(LimitUse("task:sync#1", "2026-11-15T00:00:00Z", 1),))

    def test_a_caller_by_name_stamps_as_the_task_does(self, app: Tickwork, store_url: str) -> None:
        app.queue("slow", limits=[rate("10/s", name="slowly")])

        @app.task(limits=[concurrency(2, key="account")], breaker=breaker(), queue="slow", tenant="house")
        def sync(n: int, account: str = "all") -> None: ...

        tell_store(app)
        other = Tickwork(store_url)
        here, there = sync.enqueue(1).view.job_limits, other.enqueue("sync", 1).view.job_limits
        other.close()
        assert here == there
        assert here is not None
        assert [tuple(use) for use in here.uses] == [
            ("task:sync#1", "all", 1),
            ("slowly", "", 1),
            ("task:sync#breaker", "", 1),
        ]

    def test_jobs_of_schedules_are_stamped_too(self, app: Tickwork) -> None:
        @app.task(limits=[concurrency(2, key="account")])
        def sync(account: str = "all") -> None: ...

        tell_store(app)
        schedule = app.schedule("nightly", sync, every("1h"), tenant="acme")
        assert schedule.run().view.job_limits == JobLimits(uses=(LimitUse("task:sync#1", "all", 1),), tenant="acme")
        with app.worker():
            app.schedule("often", sync, every("50ms"), kwargs={"account": "a"}, overlap="allow")
            fired = eventually(lambda: [fire.job_id for fire in app.schedules["often"].fires() if fire.job_id])
            app.schedules["often"].delete()
        job = app.job(fired[0])
        assert job is not None
        assert job.view.job_limits == JobLimits(uses=(LimitUse("task:sync#1", "a", 1),))

    def test_limits_of_a_queue_hold_for_tasks_that_were_declared_before_and_after(self, app: Tickwork) -> None:
        @app.task(queue="mail")
        def early() -> None: ...

        assert early.enqueue().view.job_limits is None
        app.queue("mail", limits=[concurrency(5)])

        @app.task
        def late() -> None: ...

        limited = JobLimits(uses=(LimitUse("queue:mail#1", "", 1),))
        assert early.enqueue().view.job_limits == limited
        assert late.enqueue().view.job_limits is None
        assert late.options(queue="mail").enqueue().view.job_limits == limited
        assert app.enqueue("late").view.job_limits is None

    def test_workers_declare_what_tasks_and_queues_say(self, app: Tickwork) -> None:
        app.queue("mail", limits=[rate("5/s")])

        @app.task(limits=[concurrency(2)], limit="stripe", breaker=breaker(failures=3))
        def sync() -> None: ...

        tell_store(app)
        rules = {view.name: view.rule and view.rule.said for view in app.limits()}
        assert rules == {
            "queue:mail#1": "5/s",
            "task:sync#1": "2 at once",
            "task:sync#breaker": "3 failures in 1m pause 5m",
        }


class TestRefusals:
    def test_a_key_that_is_no_parameter_is_refused_at_the_decorator(self, app: Tickwork) -> None:
        with pytest.raises(
            InvalidOption, match="limits of task:sync: 'tennant' is no parameter of the task; did you mean"
        ):

            @app.task(limits=[concurrency(2, key="tennant")])
            def sync(tenant: str) -> None: ...

    def test_the_connection_of_a_transactional_task_is_no_parameter(self, app: Tickwork) -> None:
        with pytest.raises(InvalidOption, match="'connection' is no parameter of the task"):

            @app.task(limits=[concurrency(2, key="connection")], transactional=True)
            def sync(connection: Any, tenant: str) -> None: ...

    def test_one_name_cannot_mean_two_limits(self, app: Tickwork) -> None:
        @app.task(limits=[rate("10/s", name="stripe", key="account")])
        def charge(account: str) -> None: ...

        @app.task(limits=[rate("10/s", name="stripe", key="customer")])
        def refund(customer: str) -> None: ...

        with pytest.raises(InvalidOption, match="declare the limit 'stripe', and not the same one"):

            @app.task(limits=[rate("20/s", name="stripe")])
            def report() -> None: ...

        with pytest.raises(InvalidOption, match="queue 'mail' declare the limit 'stripe'"):
            app.queue("mail", limits=[concurrency(1, name="stripe")])

    def test_a_queue_has_its_limits_from_one_place(self, app: Tickwork) -> None:
        app.queue("mail", limits=[concurrency(5)])
        app.queue("mail", limits=[concurrency(5)])
        with pytest.raises(InvalidOption, match="queue 'mail' has other limits already"):
            app.queue("mail", limits=[concurrency(6)])

    def test_a_job_that_is_too_heavy_is_refused_and_nothing_is_stored(self, app: Tickwork) -> None:
        @app.task(limits=[concurrency(4, weight="size")])
        def load(size: int) -> None: ...

        with pytest.raises(InvalidArguments, match="a weight of 5 is above what the limit 'task:load#1' lets through"):
            load.enqueue_many([(1,), (5,)])
        assert app.jobs() == []

    def test_a_dag_does_not_stick_but_its_tasks_do(self, app: Tickwork) -> None:
        with pytest.raises(InvalidOption, match="a run of dag 'nightly' runs nowhere itself: say sticky= of the tasks"):

            @app.dag(sticky="shop")
            def nightly(shop: str) -> None: ...

    @pytest.mark.parametrize(
        "options", [{"limits": [concurrency(1)]}, {"sequence": "a"}, {"sticky": "a"}, {"debounce": "5s"}]
    )
    def test_what_belongs_to_the_decorator_is_refused_of_a_call(self, app: Tickwork, options: dict[str, Any]) -> None:
        @app.task
        def sync(a: int) -> None: ...

        with pytest.raises(InvalidOption, match="is set where the task is declared"):
            sync.options(**options)

    @pytest.mark.parametrize(
        ("rule", "message"),
        [
            (5, "a limit is set to concurrency"),
            (concurrency(5, key="tenant"), "key is stamped on jobs as they are enqueued"),
            (rate("5/s", weight=2), "weight is stamped on jobs"),
        ],
    )
    def test_a_limit_is_set_to_how_many_and_to_nothing_else(self, app: Tickwork, rule: Any, message: str) -> None:
        with pytest.raises(InvalidOption, match=message):
            app.set_limit("stripe", rule)

    def test_gates_and_weights(self, app: Tickwork) -> None:
        with pytest.raises(InvalidOption, match="a gate says what it is for"):
            app.pause()
        with pytest.raises(InvalidOption, match="has a colon"):
            app.divert(task="mail", to="a:b")
        with pytest.raises(InvalidOption, match="which has passed"):
            app.pause(task="mail", until=datetime(2020, 1, 1, tzinfo=UTC))
        with pytest.raises(InvalidOption, match="resume says what it is for"):
            app.resume()
        with pytest.raises(InvalidOption, match="the weight of a tenant must be a whole number from 1 to 100"):
            app.set_weight("acme", 0)


class TestHabits:
    def test_calls_of_a_debounced_task_become_one_job_with_the_last_arguments(self, app: Tickwork) -> None:
        @app.task(debounce=debounce("1h", key="account"))
        def sync(account: str, n: int) -> None: ...

        first, other = sync.enqueue("a", 1), sync.enqueue("b", 2)
        assert sync.enqueue("a", 3).id == first.id
        assert sync.enqueue_many([("a", 4), ("b", 5)])[1].id == other.id
        assert [job.view.args for job in (first, other)] == [b'{"account":"a","n":4}', b'{"account":"b","n":5}']
        assert first.run_at > app.store.now() + timedelta(minutes=59)

    def test_a_call_while_the_debounced_job_runs_is_run_after_it(self, app: Tickwork) -> None:
        began, goes_on, done = threading.Event(), threading.Event(), []

        @app.task(debounce=debounce("1ms", key="account"))
        def sync(account: str, n: int) -> None:
            began.set()
            assert goes_on.wait(20)
            done.append(n)

        first = sync.enqueue("a", 1)
        with app.worker():
            assert began.wait(20)
            calls = [sync.enqueue("a", n) for n in (2, 3)]
            goes_on.set()
            assert {call.id for call in calls} != {first.id}
            for call in (first, *calls):
                call.result(timeout=20)
        assert done[0] == 1
        assert done[-1] == 3

    def test_a_throttled_task_runs_once_in_a_while(self, app: Tickwork) -> None:
        @app.task(throttle=throttle("1h"))
        def sync() -> None: ...

        job = sync.enqueue()
        with app.worker():
            job.wait(timeout=20)
            assert sync.enqueue().id == job.id

    def test_a_key_of_ones_own_is_refused(self, app: Tickwork) -> None:
        with pytest.raises(InvalidOption, match="task 'sync' is throttled, which says what key is: leave key= out"):

            @app.task(throttle="1h", key="x")
            def sync() -> None: ...


class TestWorking:
    def test_no_more_than_a_limit_says_run_at_once_for_each_key(self, app: Tickwork, crowd: Crowd) -> None:
        @app.task(limits=[concurrency(2, key="account")])
        def sync(account: str) -> None:
            crowd()

        with app.worker(concurrency=8):
            jobs = [sync.enqueue(account) for account in "aaaab"]
            eventually(lambda: crowd.inside == 3)
            time.sleep(0.1)
            crowd.open.set()
            for job in jobs:
                job.result(timeout=20)
        assert crowd.most == 3  # two of a, one of b

    def test_a_limit_is_raised_while_jobs_wait_and_brought_back(self, app: Tickwork, crowd: Crowd) -> None:
        @app.task(limits=[concurrency(1, name="one")])
        def work() -> None:
            crowd()

        with app.worker(concurrency=8):
            jobs = work.enqueue_many([()] * 4)
            eventually(lambda: crowd.inside == 1)
            assert app.set_limit("one", concurrency(3))
            eventually(lambda: crowd.inside == 3)
            (view,) = app.limits()
            assert (view.live, view.declared and view.declared.said, view.rule and view.rule.said) == (
                3,
                "1 at once",
                "3 at once",
            )
            assert app.set_limit("one", None)
            assert not app.set_limit("nobody's", None)
            crowd.open.set()
            for job in jobs:
                job.result(timeout=20)
        assert app.limits()[0].override is None

    def test_a_sequence_runs_in_the_order_of_its_calls(self, app: Tickwork) -> None:
        done: list[tuple[str, int]] = []

        @app.task(sequence="account")
        def step(account: str, n: int) -> None:
            done.append((account, n))

        jobs = [step.options(priority=9 - n).enqueue(account, n) for n in range(4) for account in "ab"]
        with app.worker(concurrency=4):
            for job in jobs:
                job.result(timeout=20)
        assert [n for account, n in done if account == "a"] == [0, 1, 2, 3]
        assert [n for account, n in done if account == "b"] == [0, 1, 2, 3]


class TestGates:
    def test_a_pause_holds_a_task_until_it_is_resumed(self, app: Tickwork) -> None:
        @app.task
        def mail(to: str) -> str:
            return to

        @app.task
        def other() -> None: ...

        with app.worker():
            app.pause(task=mail, reason="the provider is down", by="ada")
            held = mail.enqueue("eve")
            other.enqueue().result(timeout=20)
            eventually(lambda: app.gates()[0].held == 1)
            assert held.state == "queued"
            assert held.why() == (
                "the gate 'pause task=mail' (by ada, the provider is down) pauses it until it is resumed"
            )
            assert app.resume(task="mail") == 1
            assert held.result(timeout=20) == "eve"
        assert app.resume(task="mail") == 0

    def test_who_set_a_gate_is_known_without_saying(self, app: Tickwork) -> None:
        gate = app.pause(queue="mail", until="2h")
        (view,) = app.gates()
        assert view.gate == gate
        assert "@" in gate.by

    def test_all_kinds_are_listed_and_resume_lifts_those_of_exactly_its_selectors(self, app: Tickwork) -> None:
        app.pause(task="mail")
        app.drop(task="mail", label="bulk")
        app.slow(task="mail", rate="5/s")
        app.divert(tenant="acme", to="spare", until=timedelta(hours=1))
        assert sorted(view.gate.name for view in app.gates()) == [
            "divert tenant=acme",
            "drop task=mail label=bulk",
            "pause task=mail",
            "slow task=mail",
        ]
        assert app.resume(task="mail") == 2
        assert app.resume(task="mail", label="bulk") == 1
        assert [view.gate.to for view in app.gates()] == ["spare"]

    def test_dropped_jobs_end_as_dropped(self, app: Tickwork) -> None:
        @app.task
        def mail(to: str) -> None: ...

        app.drop(collection="campaign-7")
        job = mail.options(collection="campaign-7").enqueue("bob")
        assert "drops it; it is about to end as dropped" in job.why()
        with app.worker():
            assert job.wait(timeout=20) == "dropped"

    def test_the_calls_have_asyncio_twins(self, app: Tickwork) -> None:
        async def calls() -> list[Any]:
            await app.pause_async(task="mail")
            await app.set_limit_async("one", concurrency(1))
            await app.set_weight_async("acme", 3)
            held, limits = await app.gates_async(), await app.limits_async()
            return [len(held), len(limits), await app.weights_async(), await app.resume_async(task="mail")]

        assert asyncio.run(calls()) == [1, 1, {"acme": 3}, 1]


class TestWhy:
    def test_a_full_limit_is_named_with_who_holds_it_and_how_many_are_ahead(self, app: Tickwork, crowd: Crowd) -> None:
        @app.task(limits=[concurrency(1, key="account")])
        def sync(account: str) -> None:
            crowd()

        with app.worker(concurrency=4):
            first = sync.enqueue("acme")
            eventually(lambda: crowd.inside == 1)
            second, third = sync.enqueue("acme"), sync.enqueue("acme")
            eventually(lambda: "ahead" in third.why())
            waits = f"it waits for the limit 'task:sync#1', 1 at once for 'acme': 1 taken, by {first.id}"
            assert (second.why(), third.why()) == (waits, f"{waits}; 1 job waits ahead of it")
            crowd.open.set()
            third.result(timeout=20)

    def test_a_rate_says_when_it_opens(self, app: Tickwork) -> None:
        @app.task(limits=[rate("1/h", name="hourly")])
        def report() -> None: ...

        with app.worker():
            first, second = report.enqueue(), report.enqueue()
            first.result(timeout=20)
            eventually(lambda: "hourly" in second.why())
            assert second.why().startswith("it waits for the limit 'hourly', 1/h: it opens in 59m")

    def test_needs_that_no_worker_offers_are_named(self, app: Tickwork) -> None:
        @app.task(needs={"gpu": True, "mem": "8GB"})
        def train() -> None: ...

        with app.worker():
            job = train.enqueue()
            eventually(app.store.reads.workers)
            assert job.why() == (
                f"{RUNNABLE}, but no worker that knows its task has what it needs (gpu mem=8000000000); "
                f"start one with --label gpu --resource mem=8000000000"
            )
