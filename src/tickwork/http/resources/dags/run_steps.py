"""The steps of a run over REST: their states and recent changes, their jobs, and the events of the run."""

from __future__ import annotations

from datetime import datetime, timedelta

from tickwork.core.dag.overview import StepLine
from tickwork.core.job import JobState
from tickwork.core.recurrence.zones import EPOCH
from tickwork.core.stats.error_groups import last_line
from tickwork.http.framework.pagination import PageQuery, bad_cursor, is_storable_name
from tickwork.http.framework.params import Text, instant
from tickwork.http.framework.route import Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.http.resources.dags.runs import found_run
from tickwork.store.dags import InstanceView
from tickwork.store.reads.page_queries import EventPlace, RunEvent

routes = Routes("runs")
OVERLAP = timedelta(seconds=10)  # a write may become visible this long after its own timestamp
_MICROSECOND = timedelta(microseconds=1)
LOOK = 1_000  # jobs of a run that a page reads to find jobs in a state


class StepsQuery(PageQuery):
    """A page of steps. `changed_since`: only steps that may have changed since the `at` of an earlier answer."""

    changed_since: datetime | None = None


class StepBody(Struct):
    """A step. For a mapped one, `total` is its number of jobs, of which `ended` have ended and `bad` did not succeed.

    `counts` is how many of its jobs are in each state, `job_id` is the first one; the others are at
    /runs/{id}/instances. `attempts` is that of the job with the most of them.
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


class StepPage(Struct):
    """Some steps of a run, in the order of the dag, at an instant. Pass `at` as `changed_since` next time."""

    items: list[StepBody]
    next_cursor: str | None
    at: datetime


class InstancesQuery(PageQuery):
    """A page of jobs of steps: of one step, in one state. A page may be short before `next_cursor` is null."""

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


class InstancePage(Struct):
    """Some jobs of a run's steps, by step and index."""

    items: list[InstanceBody]
    next_cursor: str | None


class RunEventBody(Struct):
    """An event of a run: run_created, run_started, run_ended, step_started, step_retried, step_ended.

    An approval is step_asked, and its end says who answered. A run that was rerun has run_retried. `state` is the final
    state, `detail` the last line of the error, or the reason.
    """

    at: datetime
    event: str
    step: str | None
    idx: int | None
    job_id: str | None
    attempt: int | None
    state: str | None
    detail: str | None


class RunEventPage(Struct):
    """The events of a run, in their order."""

    items: list[RunEventBody]
    next_cursor: str | None


@routes.get("/runs/{id}/steps", Scope.READ)
def list_steps(call: Call, id: str, query: StepsQuery) -> StepPage:
    """List the steps of a run and their states, in the order of the dag; or only those that have changed."""
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
    """List the jobs of a run's steps so far, by step and index; or those of one step, or in one state."""
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
    """List the events of a run, in their order: when it and its steps started, were retried, asked, and ended."""
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
