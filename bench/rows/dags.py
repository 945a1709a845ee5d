"""Benchmarks of dags: duration of runs of a given shape, throughput of runs, and the time to trace a large dag."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from bench import proc
from bench.places import Database
from bench.rows.base import LOOK_S, SLOWEST, START_LIMIT_S, WARM_UP, Sample, Sizes, opened, rate, serving
from bench.stats import per_job
from bench.worker import BenchFailed, wait_until
from tickwork import Job, Tickwork
from tickwork.core.dag.graph import Graph

_NARROW_LOOK_S = 0.005
_WIDTH = 10  # steps in a layer of the dag that is traced
_PARTS = 3  # instances of a mapped step
_STEPS = 10  # steps of the dag that is run many times
_BATCH = 100  # runs that are enqueued at once


def chain(database: Database, sizes: Sizes) -> Sample:
    """Time a chain of steps, each of which uses the result of the previous step."""

    def steps(app: Tickwork) -> Any:
        given: Any = 0
        for _ in range(sizes.dag_chain):
            given = app.tasks["forward"](given)
        return given

    return _timed(database, steps, sizes.dag_chain)


def fan(width: Callable[[Sizes], int]) -> Callable[[Database, Sizes], Sample]:
    """Time a step, a map over its result, and a step that uses all results."""

    def measure(database: Database, sizes: Sizes) -> Sample:
        def steps(app: Tickwork) -> Any:
            numbers = app.tasks["count_up"](width(sizes))
            return app.tasks["gather"](app.tasks["forward"].map(numbers))

        return _timed(database, steps, width(sizes) + 2)

    return measure


def _timed(database: Database, steps: Callable[[Tickwork], Any], jobs: int) -> Sample:
    """Return the time from just before `enqueue` to the end of the run, as another reader of the store sees it."""
    with serving(database) as (app, _, worker):
        dag = app.dag(name="measured")(lambda: steps(app))
        app.store.dags.put_dag(dag.graph)
        before, began = database.counters(), time.monotonic()
        run = dag.enqueue()
        limit_s = START_LIMIT_S + jobs / SLOWEST
        wait_until(lambda: _has_ended(database, run), "the run ended", limit_s, worker, _NARROW_LOOK_S)
        took = time.monotonic() - began
        costs = per_job(before, database.counters(), jobs)
        _check_ends(database, WARM_UP + jobs + 1)
    return Sample({"ended_s": took}, costs)


def _has_ended(database: Database, run: Job) -> bool:
    return database.one(f"SELECT 1 FROM {database.table('finished')} WHERE job_id = '{run.id}'") is not None


def _check_ends(database: Database, jobs: int) -> None:
    if database.unsuccessful() or database.finished() != jobs:
        raise BenchFailed(f"{database.finished()} of {jobs} jobs ended, {database.unsuccessful()} without success.")


# -- many runs


def many_runs(database: Database, sizes: Sizes) -> Sample:
    """Measure many runs of a dag with a diamond and a map, and the worker's memory early and at the end."""
    jobs = sizes.dag_runs * (_STEPS + _PARTS)  # the run itself is one job, the mapped step is several
    with serving(database) as (app, _, worker):

        def wait_for(share: float) -> None:
            limit_s, count = START_LIMIT_S + jobs / SLOWEST, WARM_UP + round(jobs * share)
            wait_until(lambda: database.finished() >= count, f"{count} jobs ended", limit_s, worker, LOOK_S)

        dag, began = app.dag(name="measured")(lambda: _diamond(app)), time.monotonic()
        for start in range(0, sizes.dag_runs, _BATCH):
            dag.enqueue_many([()] * min(_BATCH, sizes.dag_runs - start))
        wait_for(0.1)
        first_mb = proc.pss_mb(worker.pid)
        wait_for(1.0)
        took, last_mb = time.monotonic() - began, proc.pss_mb(worker.pid)
        _check_ends(database, WARM_UP + jobs)
    figures = {**rate(jobs - sizes.dag_runs, took), "first_mb": first_mb, "last_mb": last_mb}
    return Sample(figures, {"runs_per_s": sizes.dag_runs / took})


def _diamond(app: Tickwork) -> Any:
    forward, gather = app.tasks["forward"], app.tasks["gather"]
    first = forward(1)
    joined = gather([forward(first), forward(first)])
    mapped = forward.map(app.tasks["count_up"](_PARTS).after(joined))
    return forward(gather([gather(mapped), forward(joined)]))


# -- tracing


def traced(database: Database, sizes: Sizes) -> Sample:
    """Time tracing and checking layered dags, whose steps wait for two of the layer before, and storing a large one."""
    with opened(database) as app:
        _, small_ms = _trace(app, "small", sizes.dag_small)
        graph, large_ms = _trace(app, "large", sizes.dag_large)
        began = time.perf_counter()
        app.store.dags.put_dag(graph)
        stored_ms = (time.perf_counter() - began) * 1000
    return Sample({"small_ms": small_ms, "large_ms": large_ms}, {"stored_ms": stored_ms})


def _trace(app: Tickwork, name: str, count: int) -> tuple[Graph, float]:
    dag = app.dag(name=name)(lambda: _layers(app, count))
    began = time.perf_counter()
    graph = dag.graph
    took = time.perf_counter() - began
    if len(graph.steps) != count:
        raise BenchFailed(f"{len(graph.steps)} of {count} steps were traced.")
    return graph, took * 1000


def _layers(app: Tickwork, count: int) -> None:
    forward, before = app.tasks["forward"], list[Any]()
    for start in range(0, count, _WIDTH):
        layer = [forward(start) for _ in range(min(_WIDTH, count - start))]
        for place, step in enumerate(layer if before else ()):
            step.after(before[place], before[place - 1])
        before = layer
