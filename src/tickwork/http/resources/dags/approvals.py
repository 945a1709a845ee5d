"""Approvals over REST: which steps of which runs wait for an answer, and who may give it."""

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
RUNS = 500  # so many running runs a page looks at
PLACES = 5_000  # and at so many approvals of them, and those of one run more

Place = tuple[JobId, str]


class ApprovalQuery(Struct):
    """From where on to look: `next_cursor` of the page before."""

    cursor: str | None = None


class ApprovalBody(Struct):
    """A step that waits for an answer, since when, and what is asked. `who` may give it; empty: anybody who operates.

    At `answered_at` it is answered by its `default`. `may_answer`: whether you may.
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
    """Some approvals that wait, those of the newest runs first. A page may be empty while there are more."""

    items: list[ApprovalBody]
    next_cursor: str | None


@routes.get("/approvals", Scope.READ)
def list_approvals(call: Call, query: ApprovalQuery) -> ApprovalPage:
    """List the steps of running runs that wait for an answer. POST /runs/{id}/approve gives it."""
    if query.cursor is not None and not is_id(query.cursor):
        raise bad_cursor()
    store = call.app.store
    before = None if query.cursor is None else JobId(query.cursor)
    page = store.find_jobs(JobFilter(runs=True, state=JobState.RUNNING), RUNS, before)
    places, last = _places(store, page.jobs)
    dags = {view.id: view.task for view in page.jobs}
    asked = {(one.run, one.step): one for one in store.asked(list(places))} if places else {}
    items = [
        _body(call, dags[place[0]], asked[place], approval) for place, approval in places.items() if place in asked
    ]
    return ApprovalPage(items, last or page.next)


def _places(store: Store, runs: list[JobView]) -> tuple[dict[Place, ApprovalStep], JobId | None]:
    """The approvals that these runs have, whether they wait or not; and the last run, where that was not all."""
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
    view = store.dag_version(dag, version)
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
