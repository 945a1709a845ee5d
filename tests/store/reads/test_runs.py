"""Runs as they are read: pages of them, when their steps ran, and what failed."""

from collections.abc import Callable

import msgspec
import pytest

from tests.store.builders import MINUTE, SECOND, a_job, an_id, claim, ended, failed, succeeded
from tickwork.core.dag.graph import Graph, Map, Param, Step, Template
from tickwork.core.ids import JobId
from tickwork.core.job import RUN, Claimed, JobFilter, JobState, Policy
from tickwork.core.retry import RetryPolicy
from tickwork.store.attempt_types import Finish
from tickwork.store.base import Store
from tickwork.testing import VirtualClock

ONCE = Policy(retry=RetryPolicy(retries=0))
TASK = Template("t", policy=ONCE)


def a_graph(name: str = "etl", **changes: object) -> Graph:
    steps = (
        Step(name="first", job=TASK),
        Step(name="each", parents=("first",), job=TASK, map=Map({"x": Param("xs")})),
        Step(name="last", parents=("each",), job=TASK),
    )
    return msgspec.structs.replace(Graph(name=name, steps=steps, run=Template(name, policy=ONCE)), **changes)


def a_run(store: Store, graph: Graph | None = None, args: bytes = b'{"xs": [1, 2]}') -> JobId:
    """A run that stands in the queue."""
    graph = graph or a_graph()
    version = store.dags.put_dag(graph)
    return store.insert_jobs([a_job(graph.name, args=args, version=version, policy=ONCE)])[0]


def work(store: Store, how: Callable[[Claimed], Finish] = succeeded) -> None:
    """Claim all that is due, runs included, and end it."""
    claimed = claim(store, tasks=["t", RUN])
    store.finish_attempts([of_step(one, how) for one in claimed])


def of_step(claimed: Claimed, how: Callable[[Claimed], Finish] = succeeded) -> Finish:
    return msgspec.structs.replace(how(claimed), run=claimed.run, step=claimed.step)


def work_to_the_end(store: Store, how: Callable[[Claimed], Finish] = succeeded) -> None:
    """Begin what is to begin, and work through three steps, one after the other."""
    for _ in range(4):
        work(store, how)


class TestLists:
    def test_runs_are_listed_without_their_steps(self, store: Store) -> None:
        first, second = a_run(store), a_run(store, a_graph("other"))
        plain = ended(store)
        work(store)
        assert [view.id for view in store.reads.list_jobs(JobFilter(runs=True), 10)] == [second, first]
        assert [view.id for view in store.reads.list_jobs(JobFilter(runs=True, task="etl"), 10)] == [first]
        assert [view.id for view in store.reads.list_jobs(JobFilter(runs=True), 10, second)] == [first]
        assert plain in [view.id for view in store.reads.list_jobs(JobFilter(), 10)]

    @pytest.mark.parametrize("state", list(JobState))
    def test_a_state_finds_runs_wherever_they_stand(self, store: Store, state: JobState) -> None:
        wanted: dict[JobState, JobId] = {}
        wanted[JobState.SUCCEEDED] = a_run(store)
        work_to_the_end(store)
        wanted[JobState.FAILED] = a_run(store)
        work_to_the_end(store, failed)
        wanted[JobState.RUNNING] = a_run(store)
        claim(store, tasks=["t", RUN])
        wanted[JobState.QUEUED], wanted[JobState.CANCELLED] = a_run(store), a_run(store)
        store.cancel_jobs([wanted[JobState.CANCELLED]])
        found = [view.id for view in store.reads.list_jobs(JobFilter(runs=True, state=state), 10)]
        assert found == ([wanted[state]] if state in wanted else [])


class TestTimes:
    def test_steps_say_when_their_jobs_ran(self, store: Store, clock: VirtualClock) -> None:
        run = a_run(store)
        assert store.dags.step_times(run) == []
        began = clock.now()
        work(store)
        times = {one.step: one for one in store.dags.step_times(run)}
        assert times["first"][:5] == ("first", 1, 0, None, None)
        (claimed,) = claim(store, tasks=["t", RUN])
        assert {one.step: one for one in store.dags.step_times(run)}["first"][:5] == ("first", 0, 1, began, None)
        clock.advance(SECOND)
        store.finish_attempts([of_step(claimed)])
        times = {one.step: one for one in store.dags.step_times(run)}
        assert times["first"][:5] == ("first", 0, 0, began, began + SECOND)
        assert times["each"][:5] == ("each", 2, 0, None, None)
        assert "last" not in times

    def test_instances_come_in_order_a_page_at_a_time(self, store: Store) -> None:
        run = a_run(store)
        work_to_the_end(store)
        every = store.dags.run_instances(run, 10)
        assert [(one.step, one.idx) for one in every] == [("each", 0), ("each", 1), ("first", 0), ("last", 0)]
        assert {one.state for one in every} == {"succeeded"}
        assert all(one.started_at == one.ended_at is not None for one in every)
        assert store.dags.run_instances(run, 2) == every[:2]
        assert store.dags.run_instances(run, 10, every[1][:2]) == every[2:]

    def test_what_an_earlier_generation_had_beyond_the_list_of_this_one_is_not_shown(self, store: Store) -> None:
        run = a_run(store)
        work_to_the_end(store)
        assert store.dags.rerun(run, ["first"], b'{"xs": [7]}')
        work_to_the_end(store)
        assert [one.idx for one in store.dags.run_instances(run, 10) if one.step == "each"] == [0]

    def test_a_step_that_is_run_again_in_part_started_when_that_did(self, store: Store, clock: VirtualClock) -> None:
        run, first = a_run(store), clock.now()
        work_to_the_end(store)
        clock.advance(MINUTE)
        assert store.dags.rerun(run, ["each[1]"])
        work(store)
        times = {one.step: one for one in store.dags.step_times(run)}
        assert times["first"].started_at == first
        assert times["each"][:5] == ("each", 1, 0, first, first)
        clock.advance(SECOND)
        work_to_the_end(store)
        times = {one.step: one for one in store.dags.step_times(run)}
        assert times["each"].started_at == times["each"].ended_at == first + MINUTE + SECOND

    def test_nothing_is_known_of_a_run_that_is_not_there(self, store: Store) -> None:
        for run in (an_id(), JobId("not an id")):
            assert store.dags.step_times(run) == []
            assert store.dags.run_instances(run, 10) == []
            assert store.dags.run_failures(run, 10) == []


def test_failures_name_the_step_and_its_error(store: Store) -> None:
    run = a_run(store)
    work_to_the_end(store, failed)
    assert store.dags.run_failures(run, 10) == [("first", "it broke")]
    assert store.dags.run_failures(run, 0) == []


def test_a_definition_that_comes_back_is_a_new_version(store: Store) -> None:
    first, second = a_graph(), a_graph(description="other")
    assert [store.dags.put_dag(one) for one in (first, first, second, first)] == [1, 1, 2, 3]
    assert [view.version for view in store.dags.list_dags("etl")] == [3, 2, 1]
    definition = store.reads.task_definition("etl")
    assert definition is not None
    assert definition.version == 3


def test_a_parameter_that_a_run_was_not_given_has_its_default(store: Store) -> None:
    params = {"properties": {"xs": {"default": [1, 2, 3]}}}
    run = a_run(store, a_graph(params=params), b"{}")
    work_to_the_end(store)
    assert len(store.dags.step_jobs(run, "each", 0, 10)) == 3
