"""Dags over REST: list dags with their newest runs and next due time; declare, compare and delete versions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Literal

import msgspec
from starlette.responses import Response

from tickwork.api.apply import ApplyPlan, PlannedChange
from tickwork.core.dag import graph_view
from tickwork.core.dag.diff import changes, dag_facts, step_facts
from tickwork.core.job import JobState
from tickwork.core.schedule.upcoming import upcoming
from tickwork.core.text.yaml_loader import write_yaml
from tickwork.declare.document_nodes import BadFile
from tickwork.declare.read_declarations import DeclaredWork, read_declared
from tickwork.errors import DagNotFound, InvalidInput
from tickwork.http.declared_bodies import refused_text
from tickwork.http.framework.params import PageQuery, is_storable_name, name_after
from tickwork.http.framework.problems import Problem, required
from tickwork.http.framework.route import ListBody, Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.http.resources.dags.graphs import MERMAID, EdgeBody, GraphQuery, NodeBody, flowchart, graph_body
from tickwork.http.work_scopes import check_work, work_of_graph, work_of_spec
from tickwork.store.dags import DagView
from tickwork.store.reads.ui_page_queries import RunBrief

routes = Routes("dags")
TEXT_LIMIT = 16 * 1024 * 1024
RECENT = 10  # runs of each dag in a list
SCHEDULES = 1_000  # that start the dags of a page and are read


class DagItem(Struct):
    """A version of a dag. `params` is the JSON Schema of the parameters of its runs."""

    name: str
    version: int
    description: str
    steps: int
    params: dict[str, Any]
    created_at: datetime


class VersionPage(ListBody[DagItem]):
    """Some versions of a dag, newest first."""


class DagBody(Struct):
    """A version of a dag with its steps.

    `on` lists groups of assets: a run starts when all assets of one group were updated.
    """

    name: str
    version: int
    newest: int
    description: str
    params: dict[str, Any]
    on: list[list[str]]
    produce: list[str]
    nodes: list[NodeBody]
    edges: list[EdgeBody]
    created_at: datetime


class SourceQuery(Struct):
    """The version to return; by default, the newest."""

    version: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] | None = None


class SourceBody(Struct):
    """A stored version of a dag as YAML, in the format of declaration files, and the options that only code can set."""

    name: str
    version: int
    format: Literal["yaml"]
    text: str


class DiffQuery(Struct):
    """The versions to compare; by default, the newest version and the previous one."""

    old: Annotated[int, msgspec.Meta(ge=1)] | None = None
    new: Annotated[int, msgspec.Meta(ge=1)] | None = None


class StepChange(Struct):
    """A step that was added or removed, or a changed field of a step or of the dag itself (then `step` is null)."""

    what: str
    step: str | None
    field: str | None
    old: Any
    new: Any


class DiffBody(Struct):
    """The changes from one version of a dag to another."""

    name: str
    old: int
    new: int
    changes: list[StepChange]


class DeclaredBody(Struct):
    """A text in YAML or JSON, as `tickwork apply` reads it: dags, with their schedules and calendars."""

    text: str
    format: Literal["yaml", "json"] = "yaml"
    dry_run: bool = False


class PlannedChangeBody(Struct):
    """The change, or planned change, of one object in a text.

    For a dag, `version` is the new version, `was` the old one.
    """

    kind: str
    name: str
    change: str
    version: int | None
    was: int | None
    fields: list[FieldChange]


class FieldChange(Struct):
    """A changed field."""

    field: str
    old: Any
    new: Any


class DeclaredAnswer(Struct):
    """The changes of all objects that a text declares, and the secrets that it refers to."""

    dry_run: bool
    items: list[PlannedChangeBody]
    secrets: list[str]


@routes.post("/dags", Scope.OPERATE, body_limit=TEXT_LIMIT)
def declare_dags(call: Call, body: DeclaredBody) -> DeclaredAnswer:
    """Store the dags of a text, with its schedules and calendars; a dry run only returns what would change.

    Errors in a text have a JSON pointer and a line; nothing is stored if there are any.
    """
    found = _read(call, body)
    check_work(call, (work for dag in found.dags.values() for work in work_of_graph(dag.graph)))
    check_work(call, map(work_of_spec, found.all_specs))
    plan = ApplyPlan(call.app.schedules, found)
    call.changed_nothing()
    if not body.dry_run:
        for one in plan.told():
            call.changed(*one)
        plan.carry_out()
        for name in found.dags:
            call.parts.registrations.forget_task(name)
    return DeclaredAnswer(body.dry_run, [_change(one) for one in plan.changes], list(found.secrets))


@routes.get("/dags/{name}", Scope.READ, streams=MERMAID)
def get_dag(call: Call, name: str, query: GraphQuery) -> DagBody | Response:
    """Return the newest version of a dag, with its steps, or as a flowchart."""
    newest = _newest(call, name)
    return _drawn(newest, newest.version, query)


@routes.delete("/dags/{name}", Scope.OPERATE)
def delete_dag(call: Call, name: str) -> None:
    """Delete a dag, so that it is not started any more. Its runs continue. 409 while a schedule starts it."""
    view = _newest(call, name)
    try:
        call.app.store.dags.delete_dag(name)
    except InvalidInput as error:
        raise Problem(409, "in-use", str(error)) from None
    call.parts.registrations.forget_task(name)
    call.changed(f"dag {name}", {"version": view.version})


@routes.get("/dags/{name}/versions", Scope.READ)
def list_dag_versions(call: Call, name: str, query: PageQuery) -> VersionPage:
    """List the versions of a dag, newest first."""
    before = _number(query.cursor) if query.cursor is not None else None
    views = [view for view in _versions(call, name) if before is None or view.version < before]
    page = views[: query.limit]
    return VersionPage(
        [DagItem(**item_fields(view)) for view in page], str(page[-1].version) if len(views) > len(page) else None
    )


@routes.get("/dags/{name}/versions/{version}", Scope.READ, streams=MERMAID)
def get_dag_version(call: Call, name: str, version: str, query: GraphQuery) -> DagBody | Response:
    """Return a version of a dag, with its steps, or as a flowchart."""
    newest = _newest(call, name)
    return _drawn(_at(call, newest, _number(version)), newest.version, query)


@routes.get("/dags/{name}/source", Scope.READ)
def get_dag_source(call: Call, name: str, query: SourceQuery) -> SourceBody:
    """Return a version of a dag as YAML, in the format of declaration files."""
    newest = _newest(call, name)
    view = newest if query.version is None else _at(call, newest, query.version)
    steps = {step.name: step_facts(step) for step in view.graph.steps}
    text = write_yaml({"dags": {name: {**dag_facts(view.graph), "steps": steps}}})
    return SourceBody(name, view.version, "yaml", text)


@routes.get("/dags/{name}/diff", Scope.READ)
def diff_dag(call: Call, name: str, query: DiffQuery) -> DiffBody:
    """List the steps that were added, removed and changed from one version to another."""
    versions = _versions(call, name)
    new = versions[0] if query.new is None else _one(versions, query.new)
    if query.old is None and new is versions[-1]:
        raise InvalidInput(f"version {new.version} is the first one of dag {name!r}: say which to compare it with.")
    old = versions[versions.index(new) + 1] if query.old is None else _one(versions, query.old)
    found = [StepChange(*one) for one in changes(old.graph, new.graph)]
    return DiffBody(name, old.version, new.version, found)


def _read(call: Call, body: DeclaredBody) -> DeclaredWork:
    """Return the declarations in a text. Raises Problem, and InvalidInput if it has no dag or has hooks."""
    try:
        found = read_declared(body.text, cache(call.parts.registrations.task_definition), file=f"text.{body.format}")
    except BadFile as error:
        raise refused_text(error) from None
    if found.hooks:
        raise InvalidInput("hooks are not stored by this route: PUT /api/v1/hooks/NAME. Nothing was stored.")
    if not found.dags:
        raise InvalidInput("the text declares no dags. Nothing was stored.")
    return found


def _newest(call: Call, name: str) -> DagView:
    """Return the newest version of a dag that has not been deleted. Raises DagNotFound."""
    known = call.parts.registrations.task_definition(name) if is_storable_name(name) else None
    return required(
        None if known is None or known.version is None else call.app.store.reads.dag_version(name, known.version),
        DagNotFound(f"there is no dag {name!r} in this store."),
    )


def _at(call: Call, newest: DagView, number: int) -> DagView:
    return required(
        newest if number == newest.version else call.app.store.reads.dag_version(newest.name, number),
        DagNotFound(f"dag {newest.name!r} has no version {number}; the newest is {newest.version}."),
    )


def _versions(call: Call, name: str) -> list[DagView]:
    """Return the versions of a dag that has not been deleted, newest first. Raises DagNotFound."""
    known = call.parts.registrations.task_definition(name) if is_storable_name(name) else None
    found = call.app.dag_versions(name) if known is not None else []
    if not found:
        raise DagNotFound(f"there is no dag {name!r} in this store.")
    return found


def _one(versions: list[DagView], number: int) -> DagView:
    for view in versions:
        if view.version == number:
            return view
    raise DagNotFound(f"dag {versions[0].name!r} has no version {number}; the newest is {versions[0].version}.")


def _number(text: str) -> int:
    """Return a version number; 0, which no version has, for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def item_fields(view: DagView) -> dict[str, Any]:
    graph = view.graph
    return {
        "name": view.name,
        "version": view.version,
        "description": graph.description,
        "steps": len(graph.steps),
        "params": dict(graph.params),
        "created_at": view.created_at,
    }


def _drawn(view: DagView, newest: int, query: GraphQuery) -> DagBody | Response:
    """Return a version of a dag as a body, or as a flowchart."""
    if query.format == "mermaid":
        return flowchart(graph_view.mermaid(view.graph))
    graph, drawn = view.graph, graph_body(view.graph)
    return DagBody(
        name=view.name,
        version=view.version,
        newest=newest,
        description=graph.description,
        params=dict(graph.params),
        on=[list(one) for one in graph.on],
        produce=list(graph.produce),
        nodes=drawn.nodes,
        edges=drawn.edges,
        created_at=view.created_at,
    )


def _change(one: PlannedChange) -> PlannedChangeBody:
    fields = [FieldChange(field.field, field.old, field.new) for field in one.fields]
    return PlannedChangeBody(one.kind, one.name, one.change, one.version, one.was, fields)


class RecentRun(Struct):
    """A recent run: its state, and its duration if it has ended."""

    id: str
    state: str
    created_at: datetime
    duration_s: float | None


class DagLine(DagItem):
    """The newest version of a dag, with its newest runs, newest first.

    `success_rate` is the share of ended runs that succeeded, `average_s` the average duration of those. `next_due_at`
    is when one of its schedules starts it next.
    """

    recent: list[RecentRun]
    success_rate: float | None
    average_s: float | None
    schedules: list[str]
    next_due_at: datetime | None


class DagPage(ListBody[DagLine]):
    """Some dags, by name."""


@routes.get("/dags", Scope.READ)
def list_dags(call: Call, query: PageQuery) -> DagPage:
    """List dags by name, each in its newest version, with its newest runs and when it is due next."""
    store = call.app.store
    views = store.reads.newest_dags(query.limit, name_after(query))
    names = [view.name for view in views]
    recent: dict[str, list[RunBrief]] = {name: [] for name in names}
    for run in store.reads.newest_runs(names, RECENT):
        recent[run.dag].append(run)
    starting = _starting(call, names)
    lines = [_line(view, recent[view.name], starting.get(view.name, {})) for view in views]
    return DagPage(lines, names[-1] if len(names) == query.limit else None)


def _starting(call: Call, names: list[str]) -> dict[str, dict[str, datetime | None]]:
    """Return for each dag the schedules that start it, and when each is due next; None if paused or ended."""
    store = call.app.store
    views = store.reads.schedules_of(names, SCHEDULES) if names else []
    now, calendars = store.now(), store.schedules.calendars() if views else {}
    found: dict[str, dict[str, datetime | None]] = {}
    for view in views:
        dues = [] if view.standing.paused else upcoming(view.spec, view.standing, 1, now, calendars)
        found.setdefault(view.spec.target, {})[view.name] = dues[0] if dues else None
    return found


def _line(view: DagView, runs: list[RunBrief], starting: Mapping[str, datetime | None]) -> DagLine:
    """Return the body of a dag, with statistics of its newest runs."""
    ended = [run.state == JobState.SUCCEEDED for run in runs if run.ended_at is not None]
    recent = [RecentRun(run.id, run.state, run.created_at, _took_s(run)) for run in runs]
    took = [one.duration_s for one in recent if one.state == JobState.SUCCEEDED and one.duration_s is not None]
    return DagLine(
        **item_fields(view),
        recent=recent,
        success_rate=sum(ended) / len(ended) if ended else None,
        average_s=round(sum(took) / len(took), 3) if took else None,
        schedules=list(starting),
        next_due_at=min((due for due in starting.values() if due is not None), default=None),
    )


def _took_s(run: RunBrief) -> float | None:
    if run.started_at is None or run.ended_at is None:
        return None
    return round(max(0.0, (run.ended_at - run.started_at).total_seconds()), 3)
