"""Glances: what a page shows of many things at once is what the other verbs say of each of them."""

from datetime import timedelta

import pytest

from tests.store.builders import (
    MINUTE,
    SECOND,
    a_job,
    again,
    an_id,
    claim,
    failed,
    register,
    running,
    succeeded,
    with_retries,
)
from tests.store.effort import PostgresEffort, SqliteEffort, effort_on
from tests.store.runs.dag_builders import a_graph, a_mapped_step, a_step, begin_run, drain, enqueue_run, take
from tickwork.core.dag.graph import ApprovalStep, Graph, Param, Step
from tickwork.core.ids import JobId
from tickwork.core.recurrence.interval import every
from tickwork.core.schedule.spec import new_spec
from tickwork.store.admin.hooks import DeclaredThing
from tickwork.store.base import Store
from tickwork.store.reads.ui_page_queries import LOOKED_AT, FireCount, RunEvent
from tickwork.store.schedules import Fired, ScheduleMove
from tickwork.testing import VirtualClock

GRAPH = a_graph(a_step("a"), a_mapped_step("m", "a", over=Param("xs")), a_step("z", "m"))
XS = b'{"xs": [1, 2, 3]}'
TWICE = with_retries(1)
ASKS = a_graph(Step(name="ok", approval=ApprovalStep("Go?", ("ada",))), a_step("go", "ok"))


def named(name: str, *steps: Step) -> Graph:
    return Graph(name=name, steps=steps)


class TestRuns:
    def test_the_newest_runs_of_each_dag_come_newest_first(self, store: Store, clock: VirtualClock) -> None:
        one, other = named("one", a_step("x")), named("other", a_step("x"))
        first, second, third = (enqueue_run(store, one) for _ in range(3))
        lonely = enqueue_run(store, other)
        store.insert_jobs([a_job("t")])
        found = store.reads.newest_runs(["other", "nothing", "one"], 2)
        assert [(run.dag, run.id) for run in found] == [("other", lonely), ("one", third), ("one", second)]
        assert [run.id for run in store.reads.newest_runs(["one"], 5, second)] == [first]
        assert {run.state for run in found} == {"queued"}
        assert store.reads.newest_runs([], 5) == []
        store.cancel_jobs([first, second, third])
        began = clock.now()
        drain(store)
        (brief,) = store.reads.newest_runs(["other"], 1)
        assert (brief.state, brief.version, brief.started_at, brief.ended_at) == ("succeeded", 1, began, began)

    def test_a_job_that_is_no_run_is_not_among_them(self, store: Store) -> None:
        run = enqueue_run(store, named("one", a_step("x")))
        store.insert_jobs([a_job("one")])
        assert [brief.id for brief in store.reads.newest_runs(["one"], 5)] == [run]


class TestGrid:
    def test_a_cell_says_how_a_step_stands_in_a_run(self, store: Store, clock: VirtualClock) -> None:
        run, waiting = begin_run(store, GRAPH, XS), enqueue_run(store, GRAPH, XS)
        cells = {cell.step: cell for cell in store.reads.grid([run, waiting], ["a", "m", "z", "nothing"])}
        assert {name: cell.state for name, cell in cells.items()} == {"a": "queued", "m": "waiting", "z": "waiting"}
        assert {cell.run for cell in cells.values()} == {run}
        store.cancel_jobs([waiting])
        claimed = take(store)
        clock.advance(SECOND)
        (a,) = store.reads.grid([run], ["a"])
        assert (a.state, a.attempt, a.took(clock.now())) == ("running", 1, SECOND)
        store.finish_attempts([succeeded(claimed["a"])])
        clock.advance(SECOND)
        (a,) = store.reads.grid([run], ["a"])
        assert (a.state, a.took(clock.now())) == ("succeeded", SECOND)
        claimed = take(store)
        store.finish_attempts([succeeded(claimed["m[0]"]), failed(claimed["m[1]"])])
        (m,) = store.reads.grid([run], ["m"])
        assert (m.state, m.mapped, m.total, m.ended, m.bad) == ("running", True, 3, 2, 1)

    def test_it_agrees_with_the_overview_of_each_run(self, store: Store) -> None:
        run = begin_run(store, GRAPH, XS)
        drain(store)
        times = {one.step: one for one in store.dags.step_times(run)}
        for cell in store.reads.grid([run], ["a", "m", "z"]):
            assert (cell.state, cell.started_at) == ("succeeded", times[cell.step].started_at)

    def test_an_open_approval_waits(self, store: Store) -> None:
        run = begin_run(store, ASKS)
        assert [(cell.step, cell.state, cell.took(store.now())) for cell in store.reads.grid([run], ["ok"])] == [
            ("ok", "waiting", None)
        ]

    @pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=True)
    def test_it_costs_no_more_with_more_instances_and_other_runs(self, open_store: object, kind: str) -> None:
        with effort_on(kind) as effort:
            store: Store = open_store()  # type: ignore[operator]
            assert isinstance(effort, SqliteEffort | PostgresEffort)
            small = begin_run(store, GRAPH, _xs(LOOKED_AT))
            drain(store)
            large = begin_run(store, GRAPH, _xs(20 * LOOKED_AT))
            drain(store)
            first = effort.of(lambda: store.reads.grid([small], ["a", "m", "z"]))
            second = effort.of(lambda: store.reads.grid([large], ["a", "m", "z"]))
        assert first > 0
        assert second <= 1.2 * first + 10, f"{first} for few instances, {second} for many"


def _xs(n: int) -> bytes:
    return f'{{"xs": {list(range(n))}}}'.encode()


class TestTimes:
    def test_steps_say_how_many_jobs_are_in_which_state(self, store: Store) -> None:
        run = begin_run(store, GRAPH, XS)
        store.finish_attempts([succeeded(take(store)["a"])])
        claimed = take(store)
        store.finish_attempts([succeeded(claimed["m[0]"]), failed(claimed["m[1]"])])
        times = {one.step: one for one in store.dags.step_times(run)}
        assert (times["m"].queued, times["m"].running, times["m"].ends) == (0, 1, {"succeeded": 1, "failed": 1})
        assert times["a"].job_id == store.dags.step_jobs(run, "a", 0, 1)[0].id
        assert times["m"].job_id == store.dags.step_jobs(run, "m", 0, 1)[0].id

    def test_they_say_when_something_last_changed(self, store: Store, clock: VirtualClock) -> None:
        graph = a_graph(a_step("x", policy=TWICE), a_step("y"))
        run, began = begin_run(store, graph), clock.now()

        def changed() -> dict[str, timedelta]:
            return {one.step: (one.changed_at or began) - began for one in store.dags.step_times(run)}

        clock.advance(MINUTE)
        assert changed() == {"x": timedelta(0), "y": timedelta(0)}
        claimed = take(store)
        assert set(changed().values()) == {MINUTE}
        clock.advance(MINUTE)
        store.finish_attempts([succeeded(claimed["y"]), again(claimed["x"])])
        clock.advance(MINUTE)
        assert changed() == {"x": 3 * MINUTE, "y": 2 * MINUTE}, "when it failed is not kept in its row, so it is now"
        assert {one.step: one.attempt for one in store.dags.step_times(run)} == {"x": 1, "y": 1}


class TestEvents:
    def test_what_happened_comes_in_its_order(self, store: Store, clock: VirtualClock) -> None:
        run = enqueue_run(store, a_graph(a_step("x", policy=TWICE), a_step("y", "x")))
        clock.advance(SECOND)
        take(store)
        for how in (again, succeeded, failed):
            clock.advance(SECOND)
            (claimed,) = take(store).values()
            clock.advance(SECOND)
            store.finish_attempts([how(claimed)])  # type: ignore[operator]
        assert [(one.event, one.step, one.place.attempt, one.state) for one in store.reads.run_events(run, 100)] == [
            ("run_created", None, 0, None),
            ("run_started", None, 1, None),
            ("step_started", "x", 1, None),
            ("step_retried", "x", 1, "failed"),
            ("step_started", "x", 2, None),
            ("step_ended", "x", 2, "succeeded"),
            ("step_started", "y", 1, None),
            ("step_ended", "y", 1, "failed"),
            ("run_ended", None, 1, "failed"),
        ]

    def test_a_page_begins_after_the_one_before(self, store: Store) -> None:
        run = begin_run(store, GRAPH, XS)
        drain(store)
        whole = store.reads.run_events(run, 100)
        found: list[RunEvent] = []
        while page := store.reads.run_events(run, 2, found[-1].place if found else None):
            found += page
        assert found == whole
        assert len(whole) == 3 + 2 * 5

    def test_approvals_and_what_was_skipped_are_told(self, store: Store) -> None:
        run = begin_run(store, ASKS)
        assert [(one.event, one.step) for one in store.reads.run_events(run, 100)][2:] == [("step_asked", "ok")]
        assert store.dags.answer(run, "ok", False, "ada", "not today")
        ends = [one for one in store.reads.run_events(run, 100) if one.event == "step_ended"]
        assert [(one.step, one.state, one.detail) for one in ends][-1] == ("ok", "failed", "rejected by ada: not today")
        assert {one.step for one in ends} == {"ok", "go"}

    def test_of_what_is_no_run_nothing_is_told(self, store: Store) -> None:
        (plain,) = store.insert_jobs([a_job()])
        for id in (plain, an_id(), JobId("nothing")):
            assert store.reads.run_events(id, 10) == []


class TestApprovals:
    def test_those_that_wait_are_found(self, store: Store, clock: VirtualClock) -> None:
        since = clock.now()
        asked, answered = begin_run(store, ASKS), begin_run(store, ASKS)
        store.dags.answer(answered, "ok", True, "ada")
        places = [(run, step) for run in (asked, answered, JobId("nothing")) for step in ("ok", "other")]
        assert store.reads.asked(places) == [(asked, "ok", since, None, None)]
        assert store.reads.asked([]) == []


class TestDags:
    def test_a_version_is_found_and_those_that_can_be_started_are_listed(self, store: Store) -> None:
        store.dags.put_dag(named("b", a_step("x")))
        store.dags.put_dag(named("b", a_step("y")))
        store.dags.put_dag(named("a", a_step("x")))
        store.dags.put_dag(named("gone", a_step("x")))
        store.dags.delete_dag("gone")
        view = store.reads.dag_version("b", 1)
        assert view is not None
        assert [step.name for step in view.graph.steps] == ["x"]
        assert store.reads.dag_version("b", 3) is None
        assert [(one.name, one.version) for one in store.reads.newest_dags(10)] == [("a", 1), ("b", 2)]
        assert [one.name for one in store.reads.newest_dags(1, "a")] == ["b"]
        assert store.reads.newest_dags(10) == [one for one in store.dags.list_dags() if one.name != "gone"]


class TestFires:
    def fire(self, store: Store, clock: VirtualClock, action: str = "start", *, late: bool = False) -> JobId | None:
        """Fire the schedule `s` with an action, and return the job that it started."""
        (seen,) = (one for one in store.schedules.look_at_schedules(10).schedules if one.name == "s")
        job = a_job(at=clock.now()) if action == "start" else None
        fired = Fired(clock.now(), action, late, None if job is None else job.id)
        move = ScheduleMove(
            name="s",
            version=seen.version,
            standing=seen.standing,
            wake_at=clock.now(),
            fires=(fired,),
            jobs=() if job is None else (job,),
        )
        assert store.schedules.move_schedules([move]) == {"s"}
        clock.advance(SECOND)
        return None if job is None else job.id

    def test_the_latest_are_told_with_what_became_of_their_jobs(self, store: Store, clock: VirtualClock) -> None:
        store.schedules.put_schedules([new_spec("s", "t", every("1h")), new_spec("quiet", "t", every("1h"))])
        done = self.fire(store, clock)
        store.finish_attempts([succeeded(one) for one in claim(store)])
        self.fire(store, clock, "skip")
        live = self.fire(store, clock)
        found = store.reads.recent_fires(["quiet", "s"], 2)
        assert [(one.schedule, one.action, one.job_id, one.state) for one in found] == [
            ("s", "start", live, "queued"),
            ("s", "skip", None, None),
        ]
        (_, _, first) = store.reads.recent_fires(["s"], 3)
        assert (first.job_id, first.state, first.is_run) == (done, "succeeded", False)
        assert first.started_at is not None

    def test_they_are_counted_by_what_they_came_to(self, store: Store, clock: VirtualClock) -> None:
        store.schedules.put_schedules([new_spec("s", "t", every("1h"))])
        began = clock.now()
        for how, late in ((succeeded, False), (succeeded, True), (failed, False)):
            self.fire(store, clock, late=late)
            store.finish_attempts([how(one) for one in claim(store)])
        self.fire(store, clock, "skip")
        self.fire(store, clock)
        quarter = began.replace(minute=began.minute // 15 * 15, second=0, microsecond=0)
        outcomes = ("failed", "late", "live", "ok", "skipped")
        assert store.reads.fire_counts("s", began, 100) == [FireCount(quarter, outcome, 1) for outcome in outcomes]
        assert sum(one.fires for one in store.reads.fire_counts("s", began, 2)) == 2
        assert store.reads.fire_counts("s", clock.now(), 100) == []

    def test_schedules_are_found_by_what_they_start(self, store: Store) -> None:
        specs = [new_spec("a", "t", every("1h")), new_spec("b", "u", every("1h")), new_spec("c", "t", every("1h"))]
        store.schedules.put_schedules(specs)
        assert [view.name for view in store.reads.schedules_of(["t"], 10)] == ["a", "c"]
        assert [view.name for view in store.reads.schedules_of(["t", "u"], 2)] == ["a", "b"]
        assert store.reads.schedules_of([], 10) == []

    def test_how_late_the_scheduler_is_follows_from_who_waits_the_longest(
        self, store: Store, clock: VirtualClock
    ) -> None:
        assert store.reads.schedules_late() == timedelta(0)
        store.schedules.put_schedules([new_spec("s", "t", every("1h"))])
        clock.advance(MINUTE)
        assert store.reads.schedules_late() == MINUTE
        self.fire(store, clock)
        assert store.reads.schedules_late() == SECOND

    def test_the_files_of_things_are_known(self, store: Store) -> None:
        store.hooks.mark_declared("shop.yaml", [DeclaredThing("schedule", "a"), DeclaredThing("dag", "b")])
        assert store.reads.sources_of("schedule", ["a", "b"]) == {"a": "shop.yaml"}


def test_what_a_worker_runs_is_told_without_arguments(store: Store, clock: VirtualClock) -> None:
    worker = register(store)
    first = running(store, worker)
    clock.advance(SECOND)
    second = running(store, worker)
    running(store)
    assert [view.id for view in store.reads.held_jobs(worker, 10)] == [first.job_id, second.job_id]
    assert [view.id for view in store.reads.held_jobs(worker, 1)] == [first.job_id]
    assert store.reads.held_jobs(worker, 1)[0].args == b"null"
