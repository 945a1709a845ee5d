"""Approvals over REST: the steps of runs that wait for an answer."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from tickwork.core.dag.graph import ApprovalStep
from tickwork.core.ids import JobId, is_id
from tickwork.core.job import JobFilter, JobState, JobView
from tickwork.http.framework.pagination import bad_cursor
from tickwork.http.framework.route import Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.store.base import Store
from tickwork.store.reads.page_queries import PendingApprovalView

routes = Routes("runs")
RUNS = 500  # running runs that a page reads
PLACES = 5_000  # approvals of these runs that a page reads; the last run may exceed it

Place = tuple[JobId, str]


class ApprovalQuery(Struct):
    """`cursor` is the `next_cursor` of the page before."""

    cursor: str | None = None


class ApprovalBody(Struct):
    """A step that waits for an answer. `who` may give it; if it is empty, every caller with the scope `operate`.

    At `answered_at` the `default` becomes the answer. `may_answer`: whether the caller may answer.
    """

    run_id: str
    dag: str
    step: str
    text: str
    who: list[str]
    since: datetime
    answered_at: datetime | None
    default: Literal["approve", "reject"]
    may_answer: bool


class ApprovalPage(Struct):
    """Some waiting approvals, of the newest runs first. A page may be empty while there are more."""

    items: list[ApprovalBody]
    next_cursor: str | None


@routes.get("/approvals", Scope.READ)
def list_approvals(call: Call, query: ApprovalQuery) -> ApprovalPage:
    """List the steps of running runs that wait for an answer. POST /runs/{id}/approve answers."""
    if query.cursor is not None and not is_id(query.cursor):
        raise bad_cursor()
    store = call.app.store
    before = None if query.cursor is None else JobId(query.cursor)
    page = store.reads.find_jobs(JobFilter(runs=True, state=JobState.RUNNING), RUNS, before)
    places, last = _places(store, page.jobs)
    dags = {view.id: view.task for view in page.jobs}
    asked = {(one.run, one.step): one for one in store.reads.asked(list(places))} if places else {}
    items = [
        _body(call, dags[place[0]], asked[place], approval) for place, approval in places.items() if place in asked
    ]
    return ApprovalPage(items, last or page.next)


def _places(store: Store, runs: list[JobView]) -> tuple[dict[Place, ApprovalStep], JobId | None]:
    """Return the approval steps of runs, whether they wait or not; and the last run read if PLACES was reached."""
    found: dict[Place, ApprovalStep] = {}
    known: dict[tuple[str, int], dict[str, ApprovalStep]] = {}
    for run in runs:
        version = (run.task, run.version or 0)
        if version not in known:
            known[version] = _approvals(store, *version)
        found |= {(run.id, step): approval for step, approval in known[version].items()}
        if len(found) >= PLACES:
            return found, run.id
    return found, None


def _approvals(store: Store, dag: str, version: int) -> dict[str, ApprovalStep]:
    view = store.reads.dag_version(dag, version)
    steps = () if view is None else view.graph.steps
    return {step.name: step.approval for step in steps if step.approval is not None}


def _body(call: Call, dag: str, one: PendingApprovalView, approval: ApprovalStep) -> ApprovalBody:
    may_answer = Scope.OPERATE in call.who.scopes and (not approval.who or call.who.name in approval.who)
    return ApprovalBody(
        run_id=one.run,
        dag=dag,
        step=one.step,
        text=one.text or approval.text,
        who=list(approval.who),
        since=one.since,
        answered_at=one.answered_at,
        default=approval.default,
        may_answer=may_answer,
    )
