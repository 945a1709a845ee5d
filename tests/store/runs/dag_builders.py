"""Small pieces that tests of runs are made of: graphs, runs, and looks at them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Raw

from tests.store.builders import a_job, register, succeeded, with_retries
from tickwork.core.dag.graph import Graph, Item, JsonTemplate, Map, Placeholder, Step, Template
from tickwork.core.ids import JobId, WorkerId
from tickwork.core.job import RUN, Claimed, JobFilter, JobView, Policy
from tickwork.store.base import Store
from tickwork.store.dags import StepView

TASKS = ("t", RUN)


def a_step(name: str, *parents: str, task: str = "t", policy: Policy | None = None, **fields: Any) -> Step:
    """A step that is tried once, unless its policy says otherwise."""
    template = fields.pop("job", Template(task=task, policy=policy or with_retries(0)))
    return Step(name=name, parents=parents, job=None if "approval" in fields else template, **fields)


def a_mapped_step(name: str, *parents: str, over: Any, **fields: Any) -> Step:
    args = JsonTemplate(Raw(b'{"x":null}'), (Placeholder(("x",), Item("x")),))
    return a_step(name, *parents, map=Map({"x": over}), args=args, **fields)


def a_graph(*steps: Step, **fields: Any) -> Graph:
    return Graph(name="dag", steps=steps, **fields)


def enqueue_run(store: Store, graph: Graph, args: bytes = b"{}", **changes: Any) -> JobId:
    job = a_job(graph.name, args=args, version=store.dags.put_dag(graph), **{"policy": with_retries(0), **changes})
    (run,) = store.insert_jobs([job])
    return run


def take(store: Store, worker: WorkerId | None = None, limit: int = 100) -> dict[str, Claimed]:
    """Claim what is due, by the names of its instances: "a", or "m[0]" of a mapped step."""
    claimed = store.claim_jobs(worker or register(store), ["default"], TASKS, limit).jobs
    names = _names(store, list(store.reads.get_jobs([one.job_id for one in claimed]).values())) if claimed else {}
    found = {names[one.job_id]: one for one in claimed}
    assert len(found) == len(claimed), "of two runs, some have the same names"
    return found


def _names(store: Store, views: Sequence[JobView]) -> dict[JobId, str]:
    steps = {(run, one.standing.step): one for run in {view.run for view in views} for one in _steps(store, run)}
    mapped = {place for place, one in steps.items() if one.standing.mapped}
    return {
        view.id: f"{view.step}[{view.idx}]" if (view.run, view.step) in mapped else str(view.step) for view in views
    }


def _steps(store: Store, run: str | None) -> list[StepView]:
    return store.dags.run_steps(JobId(run or ""))


def begin_run(store: Store, graph: Graph, args: bytes = b"{}", **changes: Any) -> JobId:
    """A run that has begun, with its first steps in the queue."""
    run = enqueue_run(store, graph, args, **changes)
    assert take(store) == {}
    return run


def jobs_of(store: Store, run: JobId) -> dict[str, str]:
    """The states of the jobs of a run, by the names of instances."""
    views = store.reads.list_jobs(JobFilter(parent=run), 1000)
    names = _names(store, views)
    found = {names[view.id]: view.state.value for view in views}
    assert len(found) == len(views), "each instance exists once"
    return found


def steps_of(store: Store, run: JobId) -> dict[str, str]:
    return {one.standing.step: one.standing.state for one in store.dags.run_steps(run)}


def drain(store: Store) -> list[str]:
    """Run to its end whatever there is; the names of what ran, in order. A claim that begins a run brings nothing."""
    ran: list[str] = []
    for _ in range(1000):
        claimed = take(store) or take(store)
        if not claimed:
            return ran
        ran += sorted(claimed)
        store.finish_attempts([succeeded(one) for one in claimed.values()])
    raise AssertionError(f"there is always more: {ran}")


def recount(store: Store, run: JobId, graph: Graph) -> None:
    """Check that the counters of parents and instances match the rows, and that an ended run has no open step."""
    standings = {one.standing.step: one.standing for one in store.dags.run_steps(run)}
    views = store.reads.list_jobs(JobFilter(parent=run), 1000)
    for step in graph.steps:
        one = standings[step.name]
        assert one.pending == sum(not standings[name].is_over for name in step.parents), one
        mine = [view for view in views if view.step == step.name and (view.idx or 0) < one.total]
        if one.state == "open" and step.approval is None:
            assert len(mine) == one.total, one
            assert one.ended == sum(view.state.ended for view in mine) < one.total, one
            assert one.bad == sum(view.state.ended and view.state != "succeeded" for view in mine), one
        else:
            assert all(view.state.ended for view in mine), one
    is_over = all(one.is_over for one in standings.values())
    assert store.reads.get_jobs([run])[run].state.ended == is_over
