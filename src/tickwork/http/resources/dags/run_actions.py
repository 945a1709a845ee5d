"""What may be done to runs over REST: cancel, rerun, clear, approve. And the assets that runs make anew."""

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
    """What starts again: these steps (or instances, `transform[3]`), else what failed; with some changed parameters.

    With changed parameters everything runs again, unless steps are named or `only_failed` is said.
    """

    steps: list[str] = msgspec.field(name="from", default_factory=list)
    only_failed: bool = False
    with_inputs: dict[str, Any] | None = None


class ClearBody(Struct):
    """The steps to forget."""

    steps: Annotated[list[str], msgspec.Meta(min_length=1)]


class ApproveBody(Struct):
    """The answer to a step that waits for one."""

    step: str
    approved: bool = True
    note: Annotated[str, msgspec.Meta(max_length=1000)] | None = None


class AssetBody(Struct):
    """What jobs and runs make anew: when that was last, and by which of them."""

    name: str
    made_at: datetime
    made_by: str


class AssetPage(Struct):
    """Some assets, by name."""

    items: list[AssetBody]
    next_cursor: str | None


@routes.post("/runs/{id}/cancel", Scope.OPERATE)
def cancel_run(call: Call, id: str) -> RunBody:
    """Cancel a run: what waits ends, what runs is asked to stop, and teardowns follow. 409 when it has ended."""
    run = found_run(call, id)
    if not call.app.store.cancel_jobs([run.id]):
        raise Problem(409, "ended", f"run {run.id} has ended ({run.state}). Nothing was changed.")
    call.changed(f"run {run.id}", before={"state": run.seen.state.value}, after={"cancelled": True})
    return run_body(run)


@routes.post("/runs/{id}/rerun", Scope.OPERATE)
def rerun_run(call: Call, id: str, body: RerunBody) -> RunBody:
    """Run what failed of an ended run again, or other steps, and what depends on them. The rest keeps its results."""
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
    """Forget how steps of an ended run ended: they and what depends on them run again. As rerun from these steps."""
    run = found_run(call, id)
    _check_ended(run)
    before = {"state": run.seen.state.value}
    run.rerun(*body.steps)
    call.changed(f"run {run.id}", before, after={"from": body.steps})
    return run_body(run)


@routes.post("/runs/{id}/approve", Scope.OPERATE)
def approve_step(call: Call, id: str, body: ApproveBody) -> RunBody:
    """Answer a step that waits for approval, in your name. 403 when others may, 409 when it does not wait for one."""
    run = found_run(call, id)
    step = run.graph.by_name.get(body.step)
    if step is None or step.approval is None:
        raise JobNotFound(f"step {body.step!r} of run {run.id} is no approval.")
    who = step.approval.who
    if who and call.who.name not in who:
        raise Problem(403, "not-allowed", f"{call.who.name} may not answer step {body.step!r}; {', '.join(who)} may.")
    if not call.app.store.answer(run.id, body.step, body.approved, call.who.name, body.note):
        said = run.why(body.step)
        raise Problem(409, "not-waiting", f"step {body.step!r} of run {run.id} does not wait for an answer: {said}.")
    call.changed(f"run {run.id}", after={"step": body.step, "approved": body.approved, "note": body.note})
    return run_body(run)


@routes.get("/assets", Scope.READ)
def list_assets(call: Call, query: PageQuery) -> AssetPage:
    """List what tasks and dags have made anew, by name."""
    after = name_after(query)
    found = [one for one in call.app.assets() if one.name > after]
    page = found[: query.limit]
    items = [AssetBody(one.name, one.made_at, one.made_by) for one in page]
    return AssetPage(items, page[-1].name if len(found) > len(page) else None)


def _check_ended(run: Run) -> None:
    state = run.view.state
    if not state.ended:
        raise Problem(409, "not-ended", f"run {run.id} has not ended ({state.value}), so it cannot be run again.")
