"""Actions on runs over REST: cancel, rerun, clear and approve; and the list of assets."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec

from tickwork.api.runs import Run
from tickwork.errors import InvalidInput, JobNotFound
from tickwork.http.framework.pagination import PageQuery, name_after
from tickwork.http.framework.problems import Problem
from tickwork.http.framework.route import Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.http.resources.dags.runs import RunBody, found_run, run_body

routes = Routes("runs")


class RerunBody(Struct):
    """The steps to run again (or instances, `transform[3]`; by default the failed ones), and changed parameters.

    With changed parameters everything runs again, unless steps are named or `only_failed` is set.
    """

    steps: list[str] = msgspec.field(name="from", default_factory=list)
    only_failed: bool = False
    with_inputs: dict[str, Any] | None = None


class ClearBody(Struct):
    """The steps to clear."""

    steps: Annotated[list[str], msgspec.Meta(min_length=1)]


class ApproveBody(Struct):
    """The answer to a step that waits for one."""

    step: str
    approved: bool = True
    note: Annotated[str, msgspec.Meta(max_length=1000)] | None = None


class AssetBody(Struct):
    """An asset that jobs and runs produce: when it was last produced, and by which of them."""

    name: str
    made_at: datetime
    made_by: str


class AssetPage(Struct):
    """Some assets, by name."""

    items: list[AssetBody]
    next_cursor: str | None


@routes.post("/runs/{id}/cancel", Scope.OPERATE)
def cancel_run(call: Call, id: str) -> RunBody:
    """Cancel a run: waiting steps end, running ones are asked to stop, and teardowns follow. 409 if it has ended."""
    run = found_run(call, id)
    if not call.app.store.cancel_jobs([run.id]):
        raise Problem(409, "ended", f"run {run.id} has ended ({run.state}). Nothing was changed.")
    call.changed(f"run {run.id}", before={"state": run.seen.state.value}, after={"cancelled": True})
    return run_body(run)


@routes.post("/runs/{id}/rerun", Scope.OPERATE)
def rerun_run(call: Call, id: str, body: RerunBody) -> RunBody:
    """Run the failed steps of an ended run again, or other steps, and their dependents. Other results are kept."""
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
    """Clear the outcomes of steps of an ended run: they and their dependents run again, as rerun does."""
    run = found_run(call, id)
    _check_ended(run)
    before = {"state": run.seen.state.value}
    run.rerun(*body.steps)
    call.changed(f"run {run.id}", before, after={"from": body.steps})
    return run_body(run)


@routes.post("/runs/{id}/approve", Scope.OPERATE)
def approve_step(call: Call, id: str, body: ApproveBody) -> RunBody:
    """Answer a step that waits for approval. 403 if only others may, 409 if it does not wait for one."""
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
