"""The steps of a run over REST: their states, jobs and events, and the steps of all runs that wait for approval."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from tickwork.core.dag.graph import ApprovalStep
from tickwork.core.dag.overview import StepLine
from tickwork.core.ids import JobId, is_id
from tickwork.core.job import JobFilter, JobState, JobView
from tickwork.core.recurrence.zones import EPOCH
from tickwork.core.stats.error_groups import last_line
from tickwork.http.framework.params import PageQuery, Text, bad_cursor, instant, is_storable_name
from tickwork.http.framework.route import ListBody, Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.http.resources.dags.runs import found_run
from tickwork.store.base import Store
from tickwork.store.dags import InstanceView
from tickwork.store.reads.ui_page_queries import EventPlace, PendingApprovalView, RunEvent

routes = Routes("runs")
OVERLAP = timedelta(seconds=10)  # a write may become visible this long after its own timestamp
_MICROSECOND = timedelta(microseconds=1)
LOOK = 1_000  # jobs of a run that a page reads to find jobs in a state
RUNS = 500  # running runs that a page reads
PLACES = 5_000  # approvals of these runs that a page reads; the last run may exceed it


class StepsQuery(PageQuery):
    """A page of steps. With `changed_since`, only steps that may have changed since the `at` of an earlier answer."""

    changed_since: datetime | None = None


class StepBody(Struct):
    """A step. For a mapped step, `total` is its number of jobs, of which `ended` have ended and `bad` did not
    succeed.

    `counts` are its jobs by state. `job_id` is its first job; the other jobs are at /runs/{id}/instances. `attempts`
    is the highest number of attempts of any job.
    """

    name: str
    task: str | None
    state: str
    is_mapped: bool
    is_approval: bool
    is_asking: bool
    total: int
    ended: int
    bad: int
    counts: dict[str, int]
    job_id: str | None
    attempts: int
    started_at: datetime | None
    ended_at: datetime | None
    duration_s: float | None
    reason: str | None


class StepPage(ListBody[StepBody]):
    """A page of the steps of a run, in the order of the dag, as of `at`.

    Pass `at` as `changed_since` in the next request.
    """

    at: datetime


class InstancesQuery(PageQuery):
    """A page of the jobs of steps, of one step or in one state. A page may be short before `next_cursor` is null."""

    step: Text | None = None
    state: JobState | None = None


class InstanceBody(Struct):
    """A job of a step. `idx` is its index among the jobs of a mapped step."""

    step: str
    idx: int
    job_id: str
    state: str
    attempt: int
    started_at: datetime | None
    ended_at: datetime | None


class InstancePage(ListBody[InstanceBody]):
    """A page of the jobs of a run's steps, by step and index."""


class RunEventBody(Struct):
    """An event of a run: run_created, run_started, run_ended, step_started, step_retried, step_ended.

    A request for approval is step_asked, and its step_ended says who answered. A rerun is run_retried. `state` is the
    final state, `detail` the last line of the error, or the reason.
    """

    at: datetime
    event: str
    step: str | None
    idx: int | None
    job_id: str | None
    attempt: int | None
    state: str | None
    detail: str | None


class RunEventPage(ListBody[RunEventBody]):
    """The events of a run, in their order."""


@routes.get("/runs/{id}/steps", Scope.READ)
def list_steps(call: Call, id: str, query: StepsQuery) -> StepPage:
    """List the steps of a run and their states, in the order of the dag; or only the steps that have changed."""
    run, now = found_run(call, id), call.app.store.now()
    first = 0 if query.cursor is None else _number(query.cursor)
    since = instant("changed_since", query.changed_since)
    wanted = [(place, line) for place, line in enumerate(run.overview()) if place >= first and _is_changed(line, since)]
    page = wanted[: query.limit]
    return StepPage(
        [_step(line, now) for _, line in page], str(page[-1][0] + 1) if len(wanted) > len(page) else None, now
    )


def _is_changed(line: StepLine, since: datetime | None) -> bool:
    return since is None or (line.changed_at is not None and line.changed_at + OVERLAP >= since)


@routes.get("/runs/{id}/instances", Scope.READ)
def list_instances(call: Call, id: str, query: InstancesQuery) -> InstancePage:
    """List the jobs of a run's steps so far, by step and index; or only those of one step, or in one state."""
    run = found_run(call, id)
    looks = query.limit if query.state is None else LOOK
    found = call.app.store.dags.run_instances(run.id, looks, _after(query))
    of_step = [one for one in found if query.step is None or one.step == query.step]
    page = [one for one in of_step if query.state is None or one.state == query.state.value][: query.limit]
    is_all = len(of_step) < looks and len(page) < query.limit
    last = page[-1] if len(page) == query.limit else of_step[-1] if of_step else None
    return InstancePage([InstanceBody(*one) for one in page], None if is_all or last is None else _told(last))


def _after(query: InstancesQuery) -> tuple[str, int]:
    """Return the step and index after which a page begins."""
    if query.cursor is None:
        return (query.step or "", -1)
    number, _, step = query.cursor.partition(":")
    if not is_storable_name(step):
        raise bad_cursor()
    return step, _number(number)


def _told(one: InstanceView) -> str:
    return f"{one.idx}:{one.step}"


@routes.get("/runs/{id}/events", Scope.READ)
def list_run_events(call: Call, id: str, query: PageQuery) -> RunEventPage:
    """List the events of a run in order: when it and its steps started, were retried, asked for approval, and ended."""
    run = found_run(call, id)
    found = call.app.store.reads.run_events(run.id, query.limit, None if query.cursor is None else _place(query.cursor))
    last = _cursor(found[-1].place) if len(found) == query.limit else None
    return RunEventPage([_event(one) for one in found], last)


def _event(one: RunEvent) -> RunEventBody:
    detail = None if one.detail is None else last_line(one.detail) or None
    attempt = one.place.attempt or None
    return RunEventBody(one.place.at, one.event, one.step, one.idx, one.job_id, attempt, one.state, detail)


def _cursor(place: EventPlace) -> str:
    return f"{(place.at - EPOCH) // _MICROSECOND}:{place.rank}:{place.attempt}:{place.name}"


def _place(cursor: str) -> EventPlace:
    at, rank, attempt, name = (*cursor.split(":", 3), "", "", "")[:4]
    if not (at.isascii() and at.isdigit() and len(at) < 17 and is_storable_name(name)):
        raise bad_cursor()
    return EventPlace(EPOCH + int(at) * _MICROSECOND, _number(rank), _number(attempt), name)


def _step(line: StepLine, now: datetime) -> StepBody:
    took = line.took(now)
    return StepBody(
        name=line.name,
        task=line.task,
        state=line.state,
        is_mapped=line.is_mapped,
        is_approval=line.is_approval,
        is_asking=line.is_asking,
        total=line.total,
        ended=line.ended,
        bad=line.bad,
        counts=dict(line.counts),
        job_id=line.job_id,
        attempts=line.attempt,
        started_at=line.started_at,
        ended_at=line.ended_at,
        duration_s=None if took is None else round(took.total_seconds(), 3),
        reason=line.reason,
    )


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise bad_cursor()
    return int(text)


Place = tuple[JobId, str]


class ApprovalQuery(Struct):
    """The page to return: `cursor` is the `next_cursor` of the previous page."""

    cursor: str | None = None


class ApprovalBody(Struct):
    """A step that waits for an answer.

    `who` lists the users that may answer; if empty, callers with the scope `operate`.

    At `answered_at` the `default` becomes the answer. `may_answer`: whether the caller of this request may answer.
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


class ApprovalPage(ListBody[ApprovalBody]):
    """A page of steps that wait for approval, newest runs first. A page may be empty although more pages follow."""


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
    """Return the approval steps of runs, waiting or not, and the last run that was read if PLACES was reached."""
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
