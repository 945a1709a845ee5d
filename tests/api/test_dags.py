"""Runs of dags as users hold them: traced, run by a worker in this process, read back, run again."""

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.waiting import eventually
from tickwork import (
    Run,
    Tickwork,
    approve,
    batch,
    concurrency,
    current_job,
    every,
    group,
    if_,
    loop,
    teardown,
    this_run,
)
from tickwork.errors import InvalidArguments, InvalidDag, InvalidInput, InvalidOption, JobFailed

WAIT_S = 20


def states(run: Run) -> dict[str, str]:
    return {name: step.state for name, step in run.steps.items()}


class Etl:
    """The pipeline of the tour, whose warehouse can be down."""

    def __init__(self, app: Tickwork) -> None:
        self.calls: list[str] = []
        self.down = True

        @app.task
        def extract(day: str) -> list[int]:
            self.calls.append("extract")
            return [1, 2, 3]

        @app.task(retries=0)
        def transform(part: int, factor: int) -> int:
            self.calls.append(f"transform{part}")
            if self.down and part == self.bad_part:
                raise ValueError(f"part {part} is bad")
            return part * factor

        @app.task(retries=0)
        def load(parts: list[int]) -> int:
            self.calls.append("load")
            if self.down:
                raise RuntimeError("the warehouse is down")
            return sum(parts)

        @app.task
        def tell(text: str) -> str:
            self.calls.append("tell")
            return text

        @app.dag
        def etl(day: str, factor: int = 10) -> int:
            parts = transform.map(extract(day), factor=factor)
            total = load(parts)
            tell.options(run_if="any_failed")("load failed").after(total)
            return total

        self.bad_part = 0
        self.dag = etl


@pytest.fixture
def etl(app: Tickwork) -> Etl:
    return Etl(app)


def test_a_failed_run_says_which_step_failed_and_a_rerun_runs_only_that_and_what_depends_on_it(
    app: Tickwork, etl: Etl
) -> None:
    with app.worker():
        run = etl.dag.enqueue("today")
        assert run.wait(timeout=WAIT_S) == "failed"
        assert states(run) == {"extract": "succeeded", "transform": "succeeded", "load": "failed", "tell": "succeeded"}
        assert "1 step failed" in str(run.error)
        assert "load: RuntimeError: the warehouse is down" in str(run.error)
        assert "the warehouse is down" in str(run.steps["load"].error)
        with pytest.raises(JobFailed):
            run.result(timeout=WAIT_S)
        etl.down = False
        etl.calls.clear()
        assert run.rerun().result(timeout=WAIT_S) == 60
        assert etl.calls == ["load"]
        assert states(run)["tell"] == "skipped"
        assert [one.state for one in run.steps["load"].job.attempts()] == ["failed", "succeeded"]
        assert [one.state for one in run.attempts()] == ["failed", "succeeded"]


def test_of_a_mapped_step_a_rerun_runs_the_instances_that_failed(app: Tickwork, etl: Etl) -> None:
    etl.bad_part = 2
    with app.worker():
        run = etl.dag.enqueue("today")
        assert run.wait(timeout=WAIT_S) == "failed"
        assert [run.steps[f"transform[{n}]"].state for n in range(3)] == ["succeeded", "failed", "succeeded"]
        assert run.steps["transform"].result == [10, None, 30]
        assert states(run) == {"extract": "succeeded", "transform": "failed", "load": "skipped", "tell": "succeeded"}
        etl.down = False
        etl.calls.clear()
        assert run.rerun().result(timeout=WAIT_S) == 60
        assert sorted(etl.calls) == ["load", "transform2"]


def test_a_rerun_from_a_step_runs_it_although_it_succeeded(app: Tickwork, etl: Etl) -> None:
    etl.down = False
    with app.worker():
        run = etl.dag.enqueue("today")
        assert run.result(timeout=WAIT_S) == 60
        etl.calls.clear()
        run.rerun("transform[1]")
        assert run.result(timeout=WAIT_S) == 60
        assert sorted(etl.calls) == ["load", "transform2"]
        etl.calls.clear()
        assert run.rerun(params={"factor": 1}).result(timeout=WAIT_S) == 6
        assert len(etl.calls) == 5
        with pytest.raises(InvalidInput, match="no step 'lod'"):
            run.rerun("lod")
        with pytest.raises(InvalidInput, match="no parameter 'fctor'"):
            run.rerun(params={"fctor": 1})


def test_retrying_the_job_of_a_step_is_a_rerun_from_it(app: Tickwork, etl: Etl) -> None:
    with app.worker():
        run = etl.dag.enqueue("today")
        assert run.wait(timeout=WAIT_S) == "failed"
        etl.down = False
        etl.calls.clear()
        job = run.steps["load"].job
        assert job is not None
        assert job.retry()
        assert run.result(timeout=WAIT_S) == 60
        assert etl.calls == ["load"]
        assert not job.retry(), "it succeeded"


def test_dead_letters_are_redriven_as_runs(app: Tickwork, etl: Etl) -> None:
    with app.worker():
        run = etl.dag.enqueue("today")
        assert run.wait(timeout=WAIT_S) == "failed"
        etl.down = False
        assert app.redrive(task="etl") == 1
        assert run.result(timeout=WAIT_S) == 60


def test_a_run_is_found_again_and_asked_why(app: Tickwork) -> None:
    inside, out = threading.Event(), threading.Event()

    @app.task
    def slow() -> int:
        inside.set()
        out.wait(WAIT_S)
        return 1

    @app.task
    def after(n: int) -> int:
        return n

    @app.dag
    def waits() -> int:
        return after(slow())

    with app.worker():
        run = waits.enqueue()
        assert inside.wait(WAIT_S)
        found = app.run(run.id)
        assert found is not None
        assert (found.dag, found.version, found.state) == ("waits", 1, "running")
        assert found.why() == "runs: 0 of 2 steps have ended; now slow"
        assert found.why("after") == "waits for slow"
        assert "running" in found.why("slow")
        assert states(found) == {"slow": "running", "after": "waiting"}
        with pytest.raises(InvalidInput, match="has not ended"):
            found.rerun()
        out.set()
        assert found.result(timeout=WAIT_S) == 1
    assert app.run(run.steps["slow"].job.id) is None, "a step is no run"


def test_conditions_choose_and_what_was_not_chosen_counts_as_skipped(app: Tickwork) -> None:
    @app.task
    def count(n: int) -> int:
        return n

    @app.task
    def say(text: str) -> str:
        return text

    @app.dag
    def choose(n: int) -> Any:
        found = count(n)
        with if_(found > 5) as big:
            large = say("large")
        with big.otherwise:
            small = say.options(name="small")("small")
        return say.options(name="end", run_if="none_failed")(f"{found}: {large}").after(small)

    with app.worker():
        assert choose.enqueue(9).result(timeout=WAIT_S) == "9: large"
        run = choose.enqueue(1)
        assert run.result(timeout=WAIT_S) == "1: null"
        assert states(run) == {"count": "succeeded", "say": "skipped", "small": "succeeded", "end": "succeeded"}


def test_a_loop_ends_when_its_condition_holds(app: Tickwork) -> None:
    @app.task
    def count(n: int) -> int:
        return n + 1

    @app.dag
    def up(n: int) -> Any:
        return loop(count, n, until=lambda found: found >= 3, max=5)

    with app.worker():
        run = up.enqueue(0)
        assert run.result(timeout=WAIT_S) == 3
        assert list(states(run).values()) == ["succeeded"] * 3 + ["skipped"] * 2


def test_maps_go_side_by_side_and_as_a_product_and_an_empty_one_succeeds(app: Tickwork) -> None:
    @app.task
    def times(a: int, b: int) -> int:
        return a * b

    @app.dag
    def tables(xs: list[int], ys: list[int]) -> Any:
        return [times.map(xs, ys), times.product(xs, ys)]

    with app.worker():
        assert tables.enqueue([1, 2], [3, 4]).result(timeout=WAIT_S) == [[3, 8], [3, 4, 6, 8]]
        assert tables.enqueue([], []).result(timeout=WAIT_S) == [[], []]
        uneven = tables.enqueue([1], [1, 2])
        assert uneven.wait(timeout=WAIT_S) == "failed"
        assert "'a' has 1, 'b' has 2 elements" in str(uneven.steps["times"].error)


def test_no_more_instances_run_at_once_than_max_parallel(app: Tickwork) -> None:
    lock, inside, most = threading.Lock(), [0], [0]

    @app.task
    def one(n: int) -> int:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        time.sleep(0.02)
        with lock:
            inside[0] -= 1
        return n

    @app.dag
    def many(ns: list[int]) -> Any:
        return one.options(max_parallel=2).map(ns)

    with app.worker(concurrency=8):
        assert many.enqueue(list(range(12))).result(timeout=WAIT_S) == list(range(12))
    assert most[0] == 2


def test_a_limit_of_a_dag_lasts_until_its_run_has_ended(app: Tickwork) -> None:
    inside, out = threading.Event(), threading.Event()

    @app.task
    def slow() -> None:
        inside.set()
        out.wait(WAIT_S)

    @app.dag(limits=[concurrency(1)])
    def alone() -> Any:
        return slow()

    with app.worker(concurrency=8):
        first, second = alone.enqueue(), alone.enqueue()
        assert inside.wait(WAIT_S)
        eventually(lambda: "waits for the limit" in second.why(), WAIT_S)
        assert first.id in second.why()
        out.set()
        assert [run.wait(timeout=WAIT_S) for run in (first, second)] == ["succeeded"] * 2


def test_an_approval_waits_for_one_who_may_and_no_slot_is_held(app: Tickwork) -> None:
    @app.task
    def deploy() -> str:
        return "deployed"

    @app.dag
    def release() -> Any:
        return deploy().after(approve("deploy to production?", who=["ann", "bob"]))

    with app.worker():
        run = release.enqueue()
        eventually(lambda: "waits for approval by ann, bob: deploy to production?" in run.why("approve"), WAIT_S)
        with pytest.raises(InvalidInput, match="eve may not answer"):
            run.approve("approve", by="eve")
        run.approve("approve", by="ann", note="fine")
        assert run.result(timeout=WAIT_S) == "deployed"
        with pytest.raises(InvalidInput, match="does not wait for an answer"):
            run.reject("approve", by="bob")
        other = release.enqueue()
        eventually(lambda: "waits for approval" in other.why("approve"), WAIT_S)
        other.reject("approve", by="bob", note="not today")
        assert other.wait(timeout=WAIT_S) == "failed"
        assert "rejected by bob: not today" in str(other.error)
        assert states(other) == {"approve": "failed", "deploy": "skipped"}


def test_an_approval_without_an_answer_is_answered_by_its_default(app: Tickwork) -> None:
    @app.task
    def go() -> str:
        return "gone"

    @app.dag
    def soon() -> Any:
        return go().after(approve("go?", timeout="200ms", default="approve"))

    with app.worker():
        assert soon.enqueue().result(timeout=WAIT_S) == "gone"


def test_cancelling_a_run_cancels_its_steps_and_its_teardown_runs_all_the_same(app: Tickwork) -> None:
    inside, torn = threading.Event(), threading.Event()

    @app.task
    def create() -> str:
        return "cluster"

    @app.task
    async def slow() -> None:
        inside.set()
        await asyncio.sleep(60)

    @app.task
    def never() -> None:
        raise AssertionError("it must not run")

    @app.task
    def delete(what: str) -> None:
        torn.set()

    @app.dag
    def work() -> Any:
        cluster = create()
        with teardown(delete(cluster)):
            never().after(slow())

    with app.worker():
        run = work.enqueue()
        assert inside.wait(WAIT_S)
        assert run.cancel()
        assert run.wait(timeout=WAIT_S) == "cancelled"
        assert torn.wait(WAIT_S)
        assert states(run) == {
            "create": "succeeded",
            "slow": "cancelled",
            "never": "cancelled",
            "delete": "succeeded",
        }
        assert not run.cancel(), "it has ended"


def test_a_run_that_has_not_begun_is_cancelled_like_any_job(app: Tickwork, etl: Etl) -> None:
    run = etl.dag.options(delay="1h").enqueue("today")
    assert run.state == "queued"
    assert run.cancel()
    assert run.state == "cancelled"
    assert states(run) == dict.fromkeys(run.steps, "waiting")


def test_a_sensor_runs_again_until_it_is_true_and_expires(app: Tickwork) -> None:
    looks = [0]

    @app.task
    def is_there(after: int) -> bool:
        looks[0] += 1
        return looks[0] >= after

    @app.task
    def use() -> str:
        return "used"

    @app.dag
    def sense(after: int) -> Any:
        return use().after(is_there.until(every="100ms", timeout="1s")(after))

    with app.worker():
        assert sense.enqueue(3).result(timeout=WAIT_S) == "used"
        run = sense.enqueue(10**6)
        assert run.wait(timeout=WAIT_S) == "failed"
        assert states(run) == {"is_there": "expired", "use": "skipped"}


def test_transactional_tasks_and_batches_are_steps_like_others(app: Tickwork) -> None:
    @app.task(transactional=True)
    def write(tx: Any, n: int) -> int:
        return n + 1

    @app.task(batch=batch(max=10, wait="10ms"))
    def total(items: list[int]) -> list[int]:
        return [item * 2 for item in items]

    @app.dag
    def both(n: int) -> Any:
        return total(write(n))

    with app.worker():
        assert both.enqueue(4).result(timeout=WAIT_S) == 10


def test_a_reference_that_leads_nowhere_fails_its_step_and_says_why(app: Tickwork) -> None:
    @app.task
    def find() -> dict[str, int]:
        return {"a": 1}

    @app.task
    def use(n: int) -> int:
        return n

    @app.dag
    def wrong() -> Any:
        return use(find()["b"])

    with app.worker():
        run = wrong.enqueue()
        assert run.wait(timeout=WAIT_S) == "failed"
        assert "the result of step 'find' has no 'b': it is {\"a\":1}" in str(run.steps["use"].error)
        assert len(run.steps["use"].job.attempts()) == 1, "no retry can help"


def test_a_dag_is_started_by_its_name_and_its_parameters_are_checked(app: Tickwork, etl: Etl) -> None:
    etl.down = False
    other = Tickwork(app.url)
    with app.worker():
        eventually(app.store.reads.workers)
        eventually(lambda: app.store.reads.task_definition("etl"), WAIT_S)
        run = other.enqueue("etl", day="x")
        assert isinstance(run, Run)
        assert run.result(timeout=WAIT_S) == 60
        assert other.enqueue("etl", "x", 1).result(timeout=WAIT_S) == 6
        for given, said in (
            ({}, "dag 'etl' needs 'day'"),
            ({"day": 1}, "parameter 'day' of dag 'etl' is of type string, not 1"),
            ({"day": "x", "factr": 1}, "no parameter 'factr' .did you mean 'factor'"),
        ):
            with pytest.raises(InvalidArguments, match=said):
                other.enqueue("etl", **given)
    other.close()


def test_the_parameters_of_its_schedules_are_checked(app: Tickwork, etl: Etl) -> None:
    app.dags["etl"].put()
    other = Tickwork(app.url)
    for given in ({}, {"day": 1}, {"day": "x", "factr": 1}):
        for one, target in ((app, app.dags["etl"]), (app, "etl"), (other, "etl")):
            with pytest.raises(InvalidArguments, match="'etl'"):
                one.schedule("s", target, every("1h"), kwargs=given)
    assert len(app.schedules) == 0
    other.close()


def test_its_schedules_say_that_they_start_a_dag(app: Tickwork) -> None:
    @app.task
    def say() -> None: ...

    @app.dag(schedule=every("1h"))
    def greet() -> None:
        say()

    app.dags["greet"].put()
    other = Tickwork(app.url)
    for name, one, target in (("a", app, greet), ("b", app, "greet"), ("c", other, "greet"), ("d", app, "say")):
        one.schedule(name, target, every("1h"))
    with app.worker():
        eventually(lambda: "greet" in app.schedules, WAIT_S)
    kinds = {name: schedule.spec.kind for name, schedule in app.schedules.items()}
    assert kinds == {"a": "dag", "b": "dag", "c": "dag", "d": "task", "greet": "dag"}
    with pytest.raises(InvalidOption, match="kind"):
        app.schedule("e", "greet", every("1h"), kind="task")
    other.close()


def test_a_changed_dag_is_a_new_version_and_runs_keep_theirs(app: Tickwork) -> None:
    @app.task
    def say(text: str) -> str:
        return text

    def define(text: str) -> Any:
        def greet() -> Any:
            return say(text)

        return app.dag(name="greet")(greet)

    old = define("old").options(delay="1h").enqueue()
    app.dags.clear()
    new = define("new")
    with app.worker():
        run = new.enqueue()
        assert run.result(timeout=WAIT_S) == "new"
        assert (old.version, run.version) == (1, 2)
        assert old.retry()  # now, and not in an hour
        assert old.result(timeout=WAIT_S) == "old"
    assert [view.version for view in app.store.dags.list_dags("greet")] == [2, 1]


def test_an_invalid_dag_is_refused_at_enqueue_and_stops_no_worker(app: Tickwork) -> None:
    @app.task
    def say(text: str) -> str:
        return text

    @app.dag
    def circular() -> None:
        first = say("a")
        second = say("b").after(first)
        first.after(second)

    with app.worker():
        assert say.enqueue("works").result(timeout=WAIT_S) == "works"
        with pytest.raises(InvalidDag, match="a cycle: say -> say_2 -> say"):
            circular.enqueue()


def test_a_schedule_starts_a_dag_with_the_defaults_of_its_parameters(app: Tickwork) -> None:
    said: list[str] = []

    @app.task
    def say(text: str) -> str:
        said.append(text)
        return text

    @app.dag(schedule=every("200ms"))
    def greet(who: str = "cat") -> Any:
        return say(f"hello {who}")

    with app.worker():
        eventually(lambda: said.count("hello cat") >= 2, WAIT_S)
        app.schedule("greet a dog", greet, every("200ms"), kwargs={"who": "dog"})
        eventually(lambda: "hello dog" in said, WAIT_S)


def test_assets_start_the_dags_that_wait_for_them(app: Tickwork) -> None:
    said: list[str] = []

    @app.task(produce="raw")
    def fetch(ok: bool = True) -> int:
        if not ok:
            raise ValueError("nothing there")
        return 1

    @app.task
    def note(text: str) -> str:
        said.append(text)
        return text

    @app.dag(on="raw", produce="clean")
    def clean(n: int = 7) -> Any:
        return note(f"clean {n}")

    @app.dag(on=[("raw", "clean")])
    def both() -> Any:
        return note("both")

    @app.dag
    def maker() -> Any:
        return note("made").after(fetch())

    with app.worker():
        eventually(lambda: {view.name for view in app.store.dags.list_dags()} == {"clean", "both", "maker"}, WAIT_S)
        fetch.options(retries=0).enqueue(False).wait(timeout=WAIT_S)
        fetch.enqueue().result(timeout=WAIT_S)
        eventually(lambda: sorted(said) == ["both", "clean 7"], WAIT_S)
        assert maker.enqueue().result(timeout=WAIT_S) == "made"
        eventually(lambda: sorted(said) == ["both", "both", "clean 7", "clean 7", "made"], WAIT_S)
    assert [asset.name for asset in app.assets()] == ["clean", "raw"]


def test_a_dag_that_an_asset_starts_needs_defaults(app: Tickwork) -> None:
    @app.task
    def say(text: str) -> str:
        return text

    @app.dag(on="raw")
    def wants(who: str) -> Any:
        return say(who)

    with pytest.raises(InvalidDag, match="'who' has no default"):
        wants.validate()


def test_nested_dags_and_groups_are_steps_of_one_run(app: Tickwork) -> None:
    @app.task
    def inc(n: int) -> int:
        return n + 1

    @app.dag
    def twice(n: int) -> Any:
        return inc(inc(n))

    @app.dag
    def outer(n: int) -> Any:
        with group("first"):
            one = inc(n)
        return twice(one)

    with app.worker():
        run = outer.enqueue(0)
        assert run.result(timeout=WAIT_S) == 3
        assert set(states(run)) == {"inc", "twice.inc", "twice.inc_2"}


async def run_and_wait(etl: Etl) -> Any:
    run = await etl.dag.enqueue_async("today")
    assert isinstance(run, Run)
    return await run.result_async(timeout=WAIT_S)


def test_the_asyncio_twins_do_the_same(app: Tickwork, etl: Etl) -> None:
    etl.down = False
    with app.worker():
        assert asyncio.run(run_and_wait(etl)) == 60


def test_the_steps_of_a_backfilled_dag_know_their_occurrence(app: Tickwork) -> None:
    known: list[tuple[Any, ...]] = []

    @app.task
    def note(day: datetime, since: datetime, text: str) -> None:
        job = current_job()
        known.append((day, since, text, job.scheduled_for, job.schedule, job.is_catchup, job.interval))

    @app.dag
    def etl() -> None:
        note(this_run.scheduled_for, this_run.interval_from, f"{this_run.schedule} until {this_run.interval_to}")

    noon, hour = datetime(2026, 11, 16, 12, tzinfo=UTC), timedelta(hours=1)
    schedule = app.schedule("nightly", etl, every("1h"), paused=True)
    with app.worker():
        schedule.backfill(noon - hour, noon)
    assert sorted(known) == [
        (at, at - hour, f"nightly until {at:%Y-%m-%dT%H:%M:%SZ}", at, "nightly", True, (at - hour, at))
        for at in (noon - hour, noon)
    ]
    assert [run.seen.occurrence.scheduled_for for run in app.runs("etl") if run.seen.occurrence] == [noon, noon - hour]


def test_the_values_of_a_run_belong_into_a_dag() -> None:
    with pytest.raises(InvalidDag, match=r"this_run belongs inside of a function with @app\.dag"):
        _ = this_run.scheduled_for
