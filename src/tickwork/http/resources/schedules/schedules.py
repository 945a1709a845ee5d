"""Schedules over REST: their definitions, as in declaration files, and their current state."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Literal, cast
from zoneinfo import ZoneInfo

import msgspec

from tickwork.api.backfill import check_storable_at_once
from tickwork.api.schedules import Schedule
from tickwork.core.job import JobState
from tickwork.core.recurrence.base_rule import Calendars
from tickwork.core.schedule.spec import ScheduleSpec, encode_spec
from tickwork.core.schedule.upcoming import clock_change, state_of, upcoming
from tickwork.declare.dag_fields import TaskScheduleFields
from tickwork.declare.document_nodes import Known, Node, Problems
from tickwork.declare.export import declared_schedule
from tickwork.declare.schedules import param_misfits, read_schedule, stored_params
from tickwork.errors import InvalidOption, ScheduleNotFound
from tickwork.http.declared_bodies import read_body, request_reader
from tickwork.http.framework.conditional import changed_meanwhile, etag_of, is_conditional
from tickwork.http.framework.params import Limit, PageQuery, is_storable_name, name_after
from tickwork.http.framework.problems import Problem
from tickwork.http.framework.route import API, HandlerResult, ListBody, Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.http.resources.jobs.jobs import warning_of
from tickwork.http.resources.schedules.calendars import OccurrenceBody
from tickwork.http.work_scopes import check_work, work_of_spec
from tickwork.store.reads.ui_page_queries import FireSummary
from tickwork.store.schedules import ScheduleView

routes = Routes("schedules")
BACKFILL_LIMIT = 10_000  # occurrences in one request
LATEST = 10  # fires of each schedule, from which its average duration is computed
_SHOWN_DUES = 1000


class LastFire(Struct):
    """The latest occurrence: its outcome, the delay of that decision, and the state of the job or run that it
    started.

    `state` is null if nothing was started, or the job was pruned.
    """

    due_at: datetime
    action: str
    late_s: float
    reason: str | None
    job_id: str | None
    is_run: bool
    state: str | None


class ScheduleBody(Struct):
    """A schedule. `spec` is its definition, as in declaration files; the other fields are its current state.

    `state` is active, paused, ended, or troubled while a calendar that it uses is missing. `owner` is where it is
    defined: "code", "file" (named by `source`), or "api". `average_s` is the average duration of its latest jobs that
    succeeded.
    """

    name: str
    spec: TaskScheduleFields
    explanation: str
    zone: str
    state: str
    next_due_at: datetime | None
    last: LastFire | None
    average_s: float | None
    owner: Literal["code", "file", "api"]
    source: str | None
    is_declared: bool
    run_count: int
    live_count: int
    paused_at: datetime | None
    paused_until: datetime | None
    paused_by: str | None
    paused_why: str | None
    created_at: datetime
    edited_at: datetime


class SchedulePage(ListBody[ScheduleBody]):
    """Some schedules, by name."""


class NextQuery(Struct):
    """The number of occurrences to list."""

    n: Limit = 10


class NextBody(Struct):
    """The next occurrences of a schedule."""

    items: list[OccurrenceBody]


class SchedulePauseBody(Struct):
    """The end of a pause: an instant, or a duration such as "2h" (by default, until it is resumed); and a reason."""

    until: str | None = None
    reason: Annotated[str, msgspec.Meta(max_length=1000)] | None = None


class BackfillBody(Struct):
    """The time range of the occurrences to run, and how many of them run at a time."""

    start: datetime = msgspec.field(name="from")
    end: datetime = msgspec.field(name="to")
    parallel: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    dry_run: bool = False
    force: bool = False


class BackfillAnswer(Struct):
    """The number of occurrences that have jobs now, or would have; and the first 1,000 times and job ids."""

    count: int
    dry_run: bool
    due_at: list[datetime]
    job_ids: list[str]


class StartedBody(Struct):
    """The job or run that was started, and its URL."""

    id: str
    url: str


@routes.get("/schedules", Scope.READ)
def list_schedules(call: Call, query: PageQuery) -> SchedulePage:
    """List schedules by name, each with its latest and its next occurrence."""
    views = call.app.store.schedules.list_schedules(query.limit, name_after(query))
    last = views[-1].name if len(views) == query.limit else None
    return SchedulePage(_bodies(call, views), last)


@routes.get("/schedules/{name}", Scope.READ)
def get_schedule(call: Call, name: str) -> ScheduleBody | HandlerResult:
    """Return a schedule. Send its ETag back as If-Match with an edit."""
    return _answer(call, found_schedule(call, name).view)


@routes.put("/schedules/{name}", Scope.OPERATE, also={201: ScheduleBody})
def put_schedule(call: Call, name: str, body: TaskScheduleFields) -> ScheduleBody | HandlerResult:
    """Store a schedule, or replace the one of that name. Fields that are left out get their defaults.

    412 if the condition in If-Match (an ETag) or If-None-Match (*) does not hold. A new rule applies from now on; it
    fires no past occurrences.
    """
    app = call.app
    known = cache(app.store.reads.task_definition)
    spec = read_body(msgspec.to_builtins(body), lambda place: _read_spec(name, place, known))
    check_work(call, [work_of_spec(spec)])
    app.schedules.check_calendars([spec])
    old = app.store.schedules.get_schedules([name]).get(name)
    if not is_conditional(call.request, None if old is None else _etag(old.spec)):
        app.put_schedules([spec])
    elif app.store.schedules.replace_schedule(spec, None if old is None else old.spec):
        app.schedules.nudge()
    else:
        raise changed_meanwhile()
    app.schedules.pause_as_said([spec])
    call.changed(f"schedule {name}", None if old is None else declared_schedule(old.spec), declared_schedule(spec))
    target = [spec.target]
    warning = warning_of(call, target) if spec.kind == "task" else warning_of(call, [], dags=target)
    return _answer(call, app.schedules[name].view, 201 if old is None else 200, warning)


@routes.delete("/schedules/{name}", Scope.OPERATE)
def delete_schedule(call: Call, name: str) -> None:
    """Delete a schedule and the record of its fires. Its jobs continue.

    Code that declares the schedule creates it again.
    """
    schedule = found_schedule(call, name)
    before = declared_schedule(schedule.spec)
    schedule.delete()
    call.changed(f"schedule {name}", before)


@routes.get("/schedules/{name}/next", Scope.READ)
def next_of_schedule(call: Call, name: str, query: NextQuery) -> NextBody:
    """List the next occurrences of a schedule, even while it is paused. Days with clock changes are marked."""
    schedule = found_schedule(call, name)
    zone = schedule.spec.rule.zone
    return NextBody(
        [
            OccurrenceBody(due, due.astimezone(ZoneInfo(zone)).isoformat(), clock_change(zone, due))
            for due in schedule.next(query.n)
        ]
    )


@routes.post("/schedules/{name}/trigger", Scope.OPERATE, status=201)
def trigger_schedule(call: Call, name: str) -> StartedBody | HandlerResult:
    """Start a schedule now, regardless of its rule and its policies. The schedule is otherwise unchanged."""
    job = found_schedule(call, name).run()
    url = f"{API}/{'jobs' if job.view.version is None else 'runs'}/{job.id}"
    call.changed(f"schedule {name}", after={"started": job.id})
    return HandlerResult(StartedBody(job.id, url), headers={"Location": url})


@routes.post("/schedules/{name}/pause", Scope.OPERATE)
def pause_schedule(call: Call, name: str, body: SchedulePauseBody) -> ScheduleBody | HandlerResult:
    """Pause a schedule, for a while or until it is resumed. Live jobs and runs continue. 409 if it is paused."""
    schedule = found_schedule(call, name)
    until = None if body.until is None else _until(body.until)
    if not schedule.pause(body.reason, by=call.who.name, until=until):
        raise Problem(409, "paused", f"schedule {name!r} is paused already. Nothing was changed.")
    view = schedule.view
    call.changed(f"schedule {name}", {"is_paused": False}, _pause(view))
    return _answer(call, view)


@routes.post("/schedules/{name}/resume", Scope.OPERATE)
def resume_schedule(call: Call, name: str) -> ScheduleBody | HandlerResult:
    """Resume a paused schedule. Its catch-up policy decides about occurrences that were missed meanwhile."""
    schedule = found_schedule(call, name)
    before = _pause(schedule.view)
    if not schedule.resume():
        raise Problem(409, "not-paused", f"schedule {name!r} is not paused. Nothing was changed.")
    call.changed(f"schedule {name}", before, {"is_paused": False})
    return _answer(call, schedule.view)


@routes.post("/schedules/{name}/backfill", Scope.OPERATE, status=202, also={200: BackfillAnswer})
def backfill_schedule(call: Call, name: str, body: BackfillBody) -> BackfillAnswer | HandlerResult:
    """Run a schedule for its occurrences in a time range; a dry run (200) only lists them.

    The jobs are stored at once, oldest first, and a limit lets `parallel` of them run at a time. The limit does not
    keep their order. An occurrence that was backfilled in the last 30 days is not run again, unless its job failed,
    or with `force`. 422 for a schedule with `wait_for_previous`: jobs that are stored at once do not wait for each
    other.
    """
    schedule = found_schedule(call, name)
    check_storable_at_once(schedule.spec)
    dues = schedule.occurrences(body.start, body.end)
    if len(dues) > BACKFILL_LIMIT:
        raise InvalidOption(f"that is {len(dues):,} occurrences; {BACKFILL_LIMIT:,} are the most. Do it in parts.")
    if body.dry_run:
        call.changed_nothing()
        return HandlerResult(BackfillAnswer(len(dues), True, dues[:_SHOWN_DUES], []), status=200)
    ids = schedule.backfilling(dues, body.parallel, force=body.force).enqueue()
    span = {"from": body.start, "to": body.end, "parallel": body.parallel, "count": len(dues)}
    call.changed(f"schedule {name}", after={"backfill": span})
    return BackfillAnswer(len(dues), False, dues[:_SHOWN_DUES], list(ids[:_SHOWN_DUES]))


def _read_spec(name: str, place: Node, known: Known) -> ScheduleSpec:
    """Read a schedule, and check its parameters if it starts a stored dag. Raises UnusableNode and BadFile."""
    spec = read_schedule(name, place, known, request_reader(known))
    params = stored_params(spec.target, known) if spec.kind == "dag" else None
    if params is not None:
        problems = Problems("")
        for misfit in param_misfits(place, params):
            problems.note(misfit)
        problems.raise_if_any()
    return spec


def found_schedule(call: Call, name: str) -> Schedule:
    """Return the schedule of this name. Raises ScheduleNotFound."""
    if not is_storable_name(name):
        raise ScheduleNotFound(f"there is no schedule {name!r} in this store.")
    return call.app.schedules[name]


def _answer(
    call: Call, view: ScheduleView, status: int | None = None, headers: Mapping[str, str] | None = None
) -> HandlerResult:
    return HandlerResult(_bodies(call, [view])[0], status, {"ETag": _etag(view.spec), **(headers or {})})


def _etag(spec: ScheduleSpec) -> str:
    return etag_of(encode_spec(spec))


def _bodies(call: Call, views: list[ScheduleView]) -> list[ScheduleBody]:
    """Return the bodies of schedules; their latest fires are read together."""
    store, names = call.app.store, [view.name for view in views]
    now = store.now()
    calendars = store.schedules.calendars() if any(view.spec.calendar_names for view in views) else {}
    sources = store.reads.sources_of("schedule", names)
    fires: dict[str, list[FireSummary]] = {name: [] for name in names}
    for fire in store.reads.recent_fires(names, LATEST):
        fires[fire.schedule].append(fire)
    return [_body(view, now, calendars, fires[view.name], sources.get(view.name)) for view in views]


def _last(fire: FireSummary) -> LastFire:
    late_s = round(max(0.0, (fire.fired_at - fire.due_at).total_seconds()), 3)
    return LastFire(fire.due_at, fire.action, late_s, fire.reason, fire.job_id, fire.is_run, fire.state)


def _average_s(fires: list[FireSummary]) -> float | None:
    """Return the average duration of the fires that succeeded; None if there are none."""
    took = [
        (fire.ended_at - fire.started_at).total_seconds()
        for fire in fires
        if fire.state == JobState.SUCCEEDED and fire.started_at is not None and fire.ended_at is not None
    ]
    return round(sum(took) / len(took), 3) if took else None


def _body(
    view: ScheduleView, now: datetime, calendars: Calendars, fires: list[FireSummary], source: str | None
) -> ScheduleBody:
    spec, standing = view.spec, view.standing
    said: Any = declared_schedule(spec)
    return ScheduleBody(
        name=view.name,
        spec=cast("TaskScheduleFields", said),
        explanation=spec.rule.explain(),
        zone=spec.rule.zone,
        state=state_of(spec, standing, now, calendars),
        next_due_at=next(iter(upcoming(spec, standing, 1, now, calendars)), None),
        last=_last(fires[0]) if fires else None,
        average_s=_average_s(fires),
        owner="file" if source is not None else "code" if view.is_declared else "api",
        source=source,
        is_declared=view.is_declared,
        run_count=standing.run_count,
        live_count=standing.live_count,
        paused_at=view.paused_at,
        paused_until=view.paused_until,
        paused_by=view.paused_by,
        paused_why=view.paused_why,
        created_at=view.created_at,
        edited_at=view.edited_at,
    )


def _pause(view: ScheduleView) -> dict[str, Any]:
    """Return the pause of a schedule, for the audit log."""
    said = {"until": view.paused_until, "by": view.paused_by, "reason": view.paused_why}
    return {"is_paused": view.paused_at is not None, **said}


def _until(text: str) -> datetime | str:
    """Return the end of a pause: an instant, or else a duration, which is parsed later."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return text
