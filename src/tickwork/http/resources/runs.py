"""Runs of dags over REST: start one, and look at how it stands."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

import msgspec
from starlette.responses import Response

from tickwork.core.dag.overview import StepLine
from tickwork.core.ids import JobId, is_id
from tickwork.core.job import JobView
from tickwork.errors import DagNotFound, JobNotFound
from tickwork.http.call import Call
from tickwork.http.lists import Limit, PageQuery, bad_cursor, is_sayable
from tickwork.http.problems import Problem
from tickwork.http.resources.graphs import MERMAID, GraphBody, GraphQuery, flowchart, graph_body
from tickwork.http.route import API, Answer, Routes, Scope, Struct
from tickwork.runs import Run

routes = Routes("runs")


class NewRunBody(Struct):
    """A run to start: the parameters of the dag by name, and options as in `dag.options(...)`."""

    params: dict[str, Any] = msgspec.field(default_factory=dict)
    key: str | None = None
    key_for: str | None = None
    delay: str | None = None
    at: datetime | None = None
    priority: int | str | None = None
    expires: str | None = None
    timeout: str | None = None
    collection: str | None = None
    labels: list[str] | None = None
    tenant: str | None = None


class RunItem(Struct):
    """A run, in a list."""

    id: str
    dag: str
    version: int
    state: str
    key: str | None
    collection: str | None
    labels: list[str]
    created_at: datetime
    run_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    error: str | None


class RunBody(RunItem):
    """A run. `generation` counts its beginnings, to which each rerun adds one. Its steps are at /runs/{id}/steps."""

    params: msgspec.Raw
    result: msgspec.Raw | None
    generation: int
    why: str


class RunPage(Struct):
    """Some runs, the newest first."""

    items: list[RunItem]
    next_cursor: str | None


class RunsQuery(Struct):
    """Which runs."""

    dag: str | None = None
    state: str | None = None
    key: str | None = None
    collection: str | None = None
    label: str | None = None
    limit: Limit = 50
    cursor: str | None = None


class StepBody(Struct):
    """A step as it stands. Of a mapped one `total` is how many jobs it has, of which `ended` have, `bad` badly."""

    name: str
    task: str | None
    state: str
    is_mapped: bool
    is_approval: bool
    is_asking: bool
    total: int
    ended: int
    bad: int
    started_at: datetime | None
    ended_at: datetime | None
    reason: str | None


class StepPage(Struct):
    """Some steps of a run, in the order of the dag."""

    items: list[StepBody]
    next_cursor: str | None


class InstanceBody(Struct):
    """A job of a step. `idx` is its number among those of a mapped step."""

    step: str
    idx: int
    job_id: str
    state: str
    attempt: int
    started_at: datetime | None
    ended_at: datetime | None


class InstancePage(Struct):
    """Some jobs of a run's steps, by step and number."""

    items: list[InstanceBody]
    next_cursor: str | None


class BarBody(Struct):
    """When an instance of a step ran, in seconds since the run began."""

    step: str
    idx: int
    started_at: datetime
    ended_at: datetime | None
    offset_s: float
    duration_s: float
    is_critical: bool = False


class LinkBody(Struct):
    """An instance on the critical path: how long it waited after the one before it had ended."""

    step: str
    idx: int
    started_at: datetime
    ended_at: datetime | None
    offset_s: float
    duration_s: float
    waited_s: float


class TimelineBody(Struct):
    """When the steps of a run ran, and which of them determined when it ended."""

    began_at: datetime
    ended_at: datetime
    duration_s: float
    bars: list[BarBody]
    critical_path: list[LinkBody]


class WhyBody(Struct):
    """What a step waits for, where it runs, or how it ended."""

    step: str
    state: str
    why: str


@routes.post("/dags/{name}/runs", Scope.ENQUEUE, status=201, also={200: RunBody})
def start_run(call: Call, name: str, body: NewRunBody) -> RunBody | Answer:
    """Start a run of a dag. 200 with the run that is there, when a live one holds the same key.

    Who may not read runs is not told its parameters, nor what it came to.
    """
    definition = call.app.store.task_definition(name) if is_sayable(name) else None
    if definition is None or definition.version is None:
        raise DagNotFound(f"there is no dag {name!r} in this store.")
    given = {option: value for option, value in msgspec.structs.asdict(body).items() if value is not None}
    params = given.pop("params")
    new = call.app.named(name).options(**given).new_job((), params)
    (job,) = call.app.client.enqueue([new])
    if job.view.version is None:
        raise Problem(409, "key-taken", f"the key {body.key!r} is that of job {job.id}, which is no run.")
    shown, is_new = run_body(Run(call.app.client, job.id)), job.id == new.id
    if not is_new and Scope.READ not in call.who.scopes:
        shown = msgspec.structs.replace(shown, params=msgspec.Raw(b"null"), result=None, error=None, why="")
    return Answer(shown, 201 if is_new else 200, {"Location": f"{API}/runs/{job.id}"})


@routes.get("/runs", Scope.READ)
def list_runs(call: Call, query: RunsQuery) -> RunPage:
    """List runs, the newest first."""
    if query.cursor is not None and not is_id(query.cursor):
        raise bad_cursor()
    names = ("state", "key", "collection", "label")
    which = {name: getattr(query, name) for name in names if getattr(query, name) is not None}
    page = call.app.runs(query.dag, limit=query.limit, cursor=query.cursor, **which)
    return RunPage([RunItem(**_common(run.seen)) for run in page], page.next_cursor)


@routes.get("/runs/{id}", Scope.READ)
def get_run(call: Call, id: str) -> RunBody:
    """Return a run, without its steps."""
    return run_body(found_run(call, id))


@routes.get("/runs/{id}/steps", Scope.READ)
def list_steps(call: Call, id: str, query: PageQuery) -> StepPage:
    """List the steps of a run as they stand, in the order of the dag."""
    run = found_run(call, id)
    first = 0 if query.cursor is None else _number(query.cursor)
    lines = run.overview()
    page = lines[first : first + query.limit]
    after = first + len(page)
    return StepPage([_step(line) for line in page], str(after) if after < len(lines) else None)


@routes.get("/runs/{id}/instances", Scope.READ)
def list_instances(call: Call, id: str, query: PageQuery) -> InstancePage:
    """List the jobs of a run's steps so far, by step and number."""
    run = found_run(call, id)
    after = ("", -1)
    if query.cursor is not None:
        number, _, step = query.cursor.partition(":")
        after = (step, _number(number))
        if not is_sayable(step):
            raise bad_cursor()
    found = call.app.store.run_instances(run.id, query.limit, after)
    last = f"{found[-1].idx}:{found[-1].step}" if len(found) == query.limit else None
    return InstancePage([InstanceBody(*one) for one in found], last)


@routes.get("/runs/{id}/graph", Scope.READ, streams=MERMAID)
def get_run_graph(call: Call, id: str, query: GraphQuery) -> GraphBody | Response:
    """Return the steps of a run, who waits for whom, and how they stand; or draw that."""
    run = found_run(call, id)
    if query.format == "mermaid":
        return flowchart(run.mermaid())
    return graph_body(run.graph, {line.name: line.state for line in run.overview()})


@routes.get("/runs/{id}/timeline", Scope.READ)
def get_timeline(call: Call, id: str) -> TimelineBody:
    """Say when the steps of a run ran, and which chain of them determined when it ended.

    It is that of its last generation: what a rerun has kept is not in it.
    """
    return msgspec.convert(found_run(call, id).timeline(), TimelineBody)


@routes.get("/runs/{id}/why/{step}", Scope.READ)
def why_of_step(call: Call, id: str, step: str) -> WhyBody:
    """Say in one sentence what a step, or an instance of one, waits for, where it runs, or how it ended."""
    run = found_run(call, id)
    try:
        found = run.steps[step]
    except KeyError as error:
        raise JobNotFound(f"{error.args[0]}.") from None
    return WhyBody(found.name, found.state, found.why())


def found_run(call: Call, id: str) -> Run:
    """The run with this id. Raises JobNotFound."""
    run = call.app.run(JobId(id)) if is_id(id) else None
    if run is None:
        raise JobNotFound(f"there is no run {id!r}: it was never committed, or it was pruned.")
    return run


def run_body(run: Run) -> RunBody:
    view = run.view
    return RunBody(
        **_common(view),
        params=msgspec.Raw(view.args),
        result=None if view.result is None else msgspec.Raw(view.result),
        generation=view.attempt,
        why=run.why(),
    )


def _common(view: JobView) -> dict[str, Any]:
    return {
        "id": view.id,
        "dag": view.task,
        "version": cast("int", view.version),
        "state": view.state.value,
        "key": view.key,
        "collection": view.collection,
        "labels": list(view.labels),
        "created_at": view.created_at,
        "run_at": view.run_at,
        "started_at": view.started_at,
        "ended_at": view.ended_at,
        "error": view.error,
    }


def _step(line: StepLine) -> StepBody:
    names = [name for name in StepBody.__struct_fields__ if name != "is_asking"]
    return StepBody(**{name: getattr(line, name) for name in names}, is_asking=line.is_asking)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise bad_cursor()
    return int(text)
