"""The grid of a dag over REST: its newest runs side by side, with the state of each step in each run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated

from msgspec import Meta

from tickwork.core.dag.graph import Graph
from tickwork.core.dag.overview import GridCell
from tickwork.core.ids import JobId, is_id
from tickwork.errors import DagNotFound
from tickwork.http.framework.params import bad_cursor, is_storable_name
from tickwork.http.framework.problems import Problem, ProblemDetail
from tickwork.http.framework.route import Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.store.base import Store
from tickwork.store.reads.ui_page_queries import RunBrief

routes = Routes("dags")


class GridQuery(Struct):
    """How many `runs` to return, older than `cursor`, and how many `steps`, after `steps_after`.

    At most 50 runs and 100 steps, which is an answer of 200 KB.
    """

    runs: Annotated[int, Meta(ge=1, le=50)] = 30
    cursor: str | None = None
    steps: Annotated[int, Meta(ge=1, le=100)] = 50
    steps_after: str | None = None


class GridRun(Struct):
    """A run: a column of the grid."""

    id: str
    state: str
    version: int
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


class CellBody(Struct, array_like=True):
    """A step of a run, as an array: its state, its duration, and its number of attempts.

    For a mapped step, three numbers follow: its instances, its ended instances, and those that ended without success.
    """

    state: str
    duration_s: float | None
    attempts: int
    total: int
    ended: int
    bad: int


class GridStep(Struct):
    """A step: a row of the grid, with a cell for each run in the order of the runs; null if the run has no such step.

    `is_current`: the newest version of the dag has the step.
    """

    name: str
    task: str | None
    is_mapped: bool
    is_current: bool
    cells: list[CellBody | None]


class GridBody(Struct):
    """Runs of a dag, newest first, and steps in the order of its newest version, followed by steps of older ones.

    `next_cursor` leads to older runs, `next_step` (as `steps_after`) to more of the `step_count` steps.
    """

    name: str
    newest: int
    at: datetime
    runs: list[GridRun]
    steps: list[GridStep]
    step_count: int
    next_cursor: str | None
    next_step: str | None


@routes.get("/dags/{name}/grid", Scope.READ)
def get_grid(call: Call, name: str, query: GridQuery) -> GridBody:
    """Return the newest runs of a dag side by side, with the states of their steps."""
    store = call.app.store
    newest = call.parts.registrations.task_definition(name) if is_storable_name(name) else None
    if newest is None or newest.version is None:
        raise DagNotFound(f"there is no dag {name!r} in this store.")
    if query.cursor is not None and not is_id(query.cursor):
        raise bad_cursor()
    now = store.now()
    runs = store.reads.newest_runs([name], query.runs, None if query.cursor is None else JobId(query.cursor))
    graphs = _graphs(store, name, [newest.version, *(run.version for run in runs)])
    rows = _rows(graphs)
    page, rest = _page(rows, query)
    found = {(cell.run, cell.step): cell for cell in store.reads.grid([run.id for run in runs], page)} if runs else {}
    return GridBody(
        name=name,
        newest=newest.version,
        at=now,
        runs=[_run(run) for run in runs],
        steps=[_step(graphs, step, runs, found, now) for step in page],
        step_count=len(rows),
        next_cursor=runs[-1].id if len(runs) == query.runs else None,
        next_step=page[-1] if rest else None,
    )


def _run(run: RunBrief) -> GridRun:
    return GridRun(run.id, run.state, run.version, run.created_at, run.started_at, run.ended_at)


def _graphs(store: Store, name: str, versions: Iterable[int]) -> list[Graph]:
    """Return the graphs of these versions, in their order, without duplicates."""
    views = (store.reads.dag_version(name, version) for version in dict.fromkeys(versions))
    return [view.graph for view in views if view is not None]


def _rows(graphs: Sequence[Graph]) -> list[str]:
    return list(dict.fromkeys(step.name for graph in graphs for step in graph.steps))


def _page(rows: list[str], query: GridQuery) -> tuple[list[str], bool]:
    """Return the steps of the requested page, and whether there are more."""
    first = 0
    if query.steps_after is not None:
        if query.steps_after not in rows:
            said = "these runs have no such step"
            raise Problem(
                422, "invalid", f"steps_after: {said}.", faults=[ProblemDetail(said, parameter="steps_after")]
            )
        first = rows.index(query.steps_after) + 1
    return rows[first : first + query.steps], len(rows) > first + query.steps


def _step(
    graphs: Sequence[Graph], name: str, runs: Sequence[RunBrief], found: dict[tuple[str, str], GridCell], now: datetime
) -> GridStep:
    step = next(graph.by_name[name] for graph in graphs if name in graph.by_name)
    return GridStep(
        name=name,
        task=None if step.job is None else step.job.task,
        is_mapped=step.map is not None,
        is_current=name in graphs[0].by_name,
        cells=[_cell(found.get((run.id, name)), now) for run in runs],
    )


def _cell(one: GridCell | None, now: datetime) -> CellBody | None:
    if one is None:
        return None
    took = one.took(now)
    duration_s = None if took is None else round(took.total_seconds(), 3)
    return CellBody(one.state, duration_s, one.attempt, one.total, one.ended, one.bad)
