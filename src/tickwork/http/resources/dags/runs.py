"""Runs of dags over REST: start, read, cancel, rerun, clear and approve them; and the list of assets."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, cast

import msgspec
from starlette.responses import Response

from tickwork.api.runs import Run
from tickwork.core.ids import JobId, is_id
from tickwork.core.job import IfExists, JobFilter, JobState, JobView
from tickwork.errors import DagNotFound, InvalidInput, JobNotFound
from tickwork.http.framework.params import Limit, PageQuery, Text, bad_cursor, instant, is_storable_name, name_after
from tickwork.http.framework.problems import Problem, required
from tickwork.http.framework.route import API, HandlerResult, ListBody, Routes, Scope, Struct
from tickwork.http.request import Call, recorded
from tickwork.http.resources.dags.graphs import MERMAID, GraphQuery, RunGraphBody, flowchart, run_graph
from tickwork.http.resources.jobs.job_bodies import IntervalBody, KnownJob, existing, occurrence_fields
from tickwork.http.resources.jobs.jobs import stored, taken_keys

routes = Routes("runs")


class NewRunBody(Struct):
    """A run to start: the parameters of the dag by name, and options as in `dag.options(...)`."""

    params: dict[str, Any] = msgspec.field(default_factory=dict)
    key: str | None = None
    key_for: str | None = None
    if_exists: IfExists | None = None
    delay: str | None = None
    at: datetime | None = None
    priority: int | str | None = None
    expires: str | None = None
    timeout: str | None = None
    collection: str | None = None
    labels: list[str] | None = None
    tenant: str | None = None


class RunItem(Struct):
    """A run in a list.

    If a schedule started it, `scheduled_for` is its occurrence, and `interval` the period of that.
    """

    id: str
    dag: str
    version: int
    state: str
    key: str | None
    collection: str | None
    labels: list[str]
    creator: str | None
    created_at: datetime
    run_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    error: str | None
    schedule: str | None
    scheduled_for: datetime | None
    is_catchup: bool
    interval: IntervalBody | None


class RunBody(RunItem):
    """A run. `generation` counts its starts: the first, and each rerun. Its steps are at /runs/{id}/steps."""

    params: msgspec.Raw
    result: msgspec.Raw | None
    generation: int
    why: str


ExistingRunBody = existing(RunBody)


class RunPage(ListBody[RunItem]):
    """Some runs, newest first."""


class RunsQuery(Struct):
    """A filter of runs."""

    dag: Text | None = None
    state: JobState | None = None
    key: Text | None = None
    collection: Text | None = None
    label: Text | None = None
    creator: Text | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    limit: Limit = 50
    cursor: str | None = None


class BarBody(Struct):
    """When an instance of a step ran, in seconds since the run began."""

    step: str
    idx: int
    started_at: datetime
    ended_at: datetime | None
    offset_s: float
    duration_s: float
    is_critical: bool = False


class CriticalStepBody(Struct):
    """A step instance on the critical path; `waited_s` is how long it waited after the previous instance had ended."""

    step: str
    idx: int
    started_at: datetime
    ended_at: datetime | None
    offset_s: float
    duration_s: float
    waited_s: float


class TimelineQuery(Struct):
    """With `bars=false`, only the critical path is returned, which is short even if many instances have run."""

    bars: bool = True


class TimelineBody(Struct):
    """When the steps of a run ran, and which steps determined when the run ended."""

    began_at: datetime
    ended_at: datetime
    duration_s: float
    bars: list[BarBody]
    critical_path: list[CriticalStepBody]


class WhyBody(Struct):
    """Why a step is in its state: what it waits for, where it runs, or how it ended."""

    step: str
    state: str
    why: str


@routes.post("/dags/{name}/runs", Scope.ENQUEUE, status=201, also={200: ExistingRunBody})
def start_run(call: Call, name: str, body: NewRunBody) -> RunBody | HandlerResult:
    """Start a run of a dag. 200 with the existing run if a live run holds its key.

    Callers without the scope `read` only get its id and state. 409 if a job that is not a run of this dag holds the
    key.
    """
    definition = call.parts.registrations.task_definition(name) if is_storable_name(name) else None
    if definition is None or definition.version is None:
        raise DagNotFound(f"there is no dag {name!r} in this store.")
    given = {option: value for option, value in msgspec.structs.asdict(body).items() if value is not None}
    params = given.pop("params")
    new = call.app.named(name).options(**given).new_job((), params)
    with taken_keys(call):
        view = recorded(call, "start_run", lambda: stored(call, [new])[0])
    is_new = view.id == new.id
    is_shown = is_new or Scope.READ in call.who.scopes
    shown = run_body(Run(call.app.client, view.id)) if is_shown else KnownJob(view.id, view.state)
    return HandlerResult(shown, 201 if is_new else 200, {"Location": f"{API}/runs/{view.id}"})


@routes.get("/runs", Scope.READ)
def list_runs(call: Call, query: RunsQuery) -> RunPage:
    """List runs, newest first. Follow `next_cursor` until it is null: a page may be short before that."""
    if query.cursor is not None and not is_id(query.cursor):
        raise bad_cursor()
    which = JobFilter(
        runs=True,
        task=query.dag,
        state=query.state,
        key=query.key,
        collection=query.collection,
        label=query.label,
        creator=query.creator,
        since=instant("created_after", query.created_after),
        until=instant("created_before", query.created_before),
    )
    page = call.app.store.reads.find_jobs(which, query.limit, None if query.cursor is None else JobId(query.cursor))
    return RunPage([RunItem(**_common(view)) for view in page.jobs], page.next)


@routes.get("/runs/{id}", Scope.READ)
def get_run(call: Call, id: str) -> RunBody:
    """Return a run, without its steps."""
    return run_body(found_run(call, id))


@routes.get("/runs/{id}/graph", Scope.READ, streams=MERMAID)
def get_run_graph(call: Call, id: str, query: GraphQuery) -> RunGraphBody | Response:
    """Return the steps of a run, their dependencies and states, or a flowchart."""
    run = found_run(call, id)
    if query.format == "mermaid":
        return flowchart(run.mermaid())
    return run_graph(run.graph, {line.name: line.state for line in run.overview()}, run.seen.version or 0)


@routes.get("/runs/{id}/timeline", Scope.READ)
def get_timeline(call: Call, id: str, query: TimelineQuery) -> TimelineBody:
    """Return when the steps of a run ran, and the chain of steps that determined when the run ended.

    It covers the last generation: results that a rerun has kept are not included.
    """
    found = found_run(call, id).timeline()
    return msgspec.convert(found if query.bars else {**found, "bars": []}, TimelineBody)


@routes.get("/runs/{id}/why/{step}", Scope.READ)
def why_of_step(call: Call, id: str, step: str) -> WhyBody:
    """Return in one sentence what a step or a step instance waits for, where it runs, or how it ended."""
    run = found_run(call, id)
    try:
        found = run.steps[step]
    except KeyError as error:
        raise JobNotFound(f"{error.args[0]}.") from None
    return WhyBody(found.name, found.state, found.why())


def found_run(call: Call, id: str) -> Run:
    """Return the run with this id. Raises JobNotFound."""
    return required(
        call.app.run(JobId(id)) if is_id(id) else None,
        JobNotFound(f"there is no run {id!r}: it was never committed, or it was pruned."),
    )


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
        "creator": view.creator,
        "created_at": view.created_at,
        "run_at": view.run_at,
        "started_at": view.started_at,
        "ended_at": view.ended_at,
        "error": view.error,
        **occurrence_fields(view.occurrence),
    }


class RerunBody(Struct):
    """The steps to run again (or instances, as `transform[3]`; by default the failed steps), and changed parameters.

    With changed parameters all steps run again, unless steps are named or `only_failed` is set.
    """

    steps: list[str] = msgspec.field(name="from", default_factory=list)
    only_failed: bool = False
    with_inputs: dict[str, Any] | None = None


class ClearBody(Struct):
    """The steps to run again, with all steps that depend on them."""

    steps: Annotated[list[str], msgspec.Meta(min_length=1)]


class ApproveBody(Struct):
    """The answer to a step that waits for approval."""

    step: str
    approved: bool = True
    note: Annotated[str, msgspec.Meta(max_length=1000)] | None = None


class AssetBody(Struct):
    """An asset that jobs and runs produce: when it was last produced, and by which job or run."""

    name: str
    made_at: datetime
    made_by: str


class AssetPage(ListBody[AssetBody]):
    """Some assets, by name."""


@routes.post("/runs/{id}/cancel", Scope.OPERATE)
def cancel_run(call: Call, id: str) -> RunBody:
    """Cancel a run: waiting steps end, running steps are asked to stop, and teardown steps run. 409 if it has ended."""
    run = found_run(call, id)
    if not call.app.store.cancel_jobs([run.id]):
        raise Problem(409, "ended", f"run {run.id} has ended ({run.state}). Nothing was changed.")
    call.changed(f"run {run.id}", before={"state": run.seen.state.value}, after={"cancelled": True})
    return run_body(run)


@routes.post("/runs/{id}/rerun", Scope.OPERATE)
def rerun_run(call: Call, id: str, body: RerunBody) -> RunBody:
    """Run the failed or other steps of an ended run again, with all steps that depend on them.

    Other results are kept.
    """
    if body.steps and body.only_failed:
        raise InvalidInput("from and only_failed both say what starts again: give one of them.")
    run = found_run(call, id)
    _check_ended(run)
    before = {"state": run.seen.state.value, "params": msgspec.Raw(run.seen.args)}
    run.rerun(*body.steps, params=body.with_inputs or None, only_failed=body.only_failed)
    call.changed(f"run {run.id}", before, after={"from": body.steps, "with_inputs": body.with_inputs})
    return run_body(run)


@routes.post("/runs/{id}/clear", Scope.OPERATE)
def clear_run(call: Call, id: str, body: ClearBody) -> RunBody:
    """Clear the results of steps of an ended run: they and all steps that depend on them run again, as in a rerun."""
    run = found_run(call, id)
    _check_ended(run)
    before = {"state": run.seen.state.value}
    run.rerun(*body.steps)
    call.changed(f"run {run.id}", before, after={"from": body.steps})
    return run_body(run)


@routes.post("/runs/{id}/approve", Scope.OPERATE)
def approve_step(call: Call, id: str, body: ApproveBody) -> RunBody:
    """Answer a step that waits for approval. 403 if only others may answer it, 409 if it does not wait for approval."""
    run = found_run(call, id)
    step = run.graph.by_name.get(body.step)
    if step is None or step.approval is None:
        raise JobNotFound(f"step {body.step!r} of run {run.id} is no approval.")
    who = step.approval.who
    if who and call.who.name not in who:
        raise Problem(403, "not-allowed", f"{call.who.name} may not answer step {body.step!r}; {', '.join(who)} may.")
    if not call.app.store.dags.answer(run.id, body.step, body.approved, call.who.name, body.note):
        said = run.why(body.step)
        raise Problem(409, "not-waiting", f"step {body.step!r} of run {run.id} does not wait for an answer: {said}.")
    call.changed(f"run {run.id}", after={"step": body.step, "approved": body.approved, "note": body.note})
    return run_body(run)


@routes.get("/assets", Scope.READ)
def list_assets(call: Call, query: PageQuery) -> AssetPage:
    """List the assets that tasks and dags have produced, by name."""
    after = name_after(query)
    found = [one for one in call.app.assets() if one.name > after]
    page = found[: query.limit]
    items = [AssetBody(one.name, one.made_at, one.made_by) for one in page]
    return AssetPage(items, page[-1].name if len(found) > len(page) else None)


def _check_ended(run: Run) -> None:
    state = run.view.state
    if not state.ended:
        raise Problem(409, "not-ended", f"run {run.id} has not ended ({state.value}), so it cannot be run again.")
