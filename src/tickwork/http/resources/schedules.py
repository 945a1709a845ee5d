"""Schedules over REST: in the shape that files declare them in, with how they stand."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Annotated, Any, cast
from zoneinfo import ZoneInfo

import msgspec

from tickwork.core.schedule.preview import clock_change
from tickwork.core.schedule.rule import Calendars
from tickwork.core.schedule.spec import Spec, encode_spec
from tickwork.core.schedule.upcoming import state_of, upcoming
from tickwork.errors import InvalidOption, ScheduleNotFound
from tickwork.http.call import Call
from tickwork.http.declared import read_body, request_reader
from tickwork.http.lists import (
    Limit,
    PageQuery,
    bad_cursor,
    changed_meanwhile,
    etag_of,
    is_conditional,
    is_sayable,
    name_after,
)
from tickwork.http.problems import Problem
from tickwork.http.resources.calendars import OccurrenceBody
from tickwork.http.route import API, Answer, Routes, Scope, Struct
from tickwork.importers.as_declared import declared_schedule
from tickwork.importers.dag_fields import TaskScheduleFields
from tickwork.importers.schedules import read_schedule
from tickwork.schedules import Schedule
from tickwork.store.schedules import ScheduleView

routes = Routes("schedules")
BACKFILL_LIMIT = 10_000  # occurrences in one request
_SHOWN_DUES = 1000


class ScheduleBody(Struct):
    """A schedule. `spec` is what defines it, as files say it; the rest is how it stands.

    `state` is active, paused, ended, or troubled while a calendar that it heeds is not there.
    """

    name: str
    spec: TaskScheduleFields
    explanation: str
    state: str
    next_due_at: datetime | None
    is_declared: bool
    run_count: int
    live_count: int
    paused_at: datetime | None
    paused_until: datetime | None
    paused_by: str | None
    paused_why: str | None
    created_at: datetime
    edited_at: datetime


class SchedulePage(Struct):
    """Some schedules, by name."""

    items: list[ScheduleBody]
    next_cursor: str | None


class NextQuery(Struct):
    """How many occurrences to list."""

    n: Limit = 10


class NextBody(Struct):
    """The next occurrences of a schedule."""

    items: list[OccurrenceBody]


class PauseBody(Struct):
    """For how long, if not until it is resumed: an instant, or a duration from now such as "2h"; and why."""

    until: str | None = None
    reason: Annotated[str, msgspec.Meta(max_length=1000)] | None = None


class BackfillBody(Struct):
    """From which instant to which occurrences are run, and how many of them at a time."""

    start: datetime = msgspec.field(name="from")
    end: datetime = msgspec.field(name="to")
    parallel: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    dry_run: bool = False


class BackfillAnswer(Struct):
    """For how many occurrences jobs are there now, or would be; the first thousand of both."""

    count: int
    dry_run: bool
    due_at: list[datetime]
    job_ids: list[str]


class FireBody(Struct):
    """What became of an occurrence."""

    due_at: datetime
    action: str
    job_id: str | None
    fired_at: datetime
    is_catchup: bool
    reason: str | None


class FirePage(Struct):
    """What became of some occurrences, the latest first."""

    items: list[FireBody]
    next_cursor: str | None


class StartedBody(Struct):
    """What was started, and where to look at it."""

    id: str
    url: str


@routes.get("/schedules", Scope.READ)
def list_schedules(call: Call, query: PageQuery) -> SchedulePage:
    """List schedules by name."""
    store = call.app.store
    views = store.list_schedules(query.limit, name_after(query))
    now, calendars = store.now(), store.calendars()
    last = views[-1].name if len(views) == query.limit else None
    return SchedulePage([_body(view, now, calendars) for view in views], last)


@routes.get("/schedules/{name}", Scope.READ)
def get_schedule(call: Call, name: str) -> ScheduleBody | Answer:
    """Return a schedule. Its ETag is for edits: send it back as If-Match."""
    return _answer(call, _found(call, name).view)


@routes.put("/schedules/{name}", Scope.OPERATE, also={201: ScheduleBody})
def put_schedule(call: Call, name: str, body: TaskScheduleFields) -> ScheduleBody | Answer:
    """Store a schedule, or change the one of that name. What it does not say is as it is by default.

    With If-Match (an ETag) or If-None-Match (*) only where that holds, and otherwise 412. A change of when it is due
    holds from now on, and fires nothing of the time before.
    """
    app = call.app
    known = cache(app.store.task_definition)
    request = request_reader(known)
    spec = read_body(msgspec.to_builtins(body), lambda place: read_schedule(name, place, known, request))
    app.schedules.check_calendars([spec])
    old = app.store.get_schedules([name]).get(name)
    if not is_conditional(call, None if old is None else _etag(old.spec)):
        app.put_schedules([spec])
    elif app.store.replace_schedule(spec, None if old is None else old.spec):
        app.schedules.nudge()
    else:
        raise changed_meanwhile()
    app.schedules.pause_as_said([spec])
    call.changed(f"schedule {name}", None if old is None else declared_schedule(old.spec), declared_schedule(spec))
    return _answer(call, app.schedules[name].view, 201 if old is None else 200)


@routes.delete("/schedules/{name}", Scope.OPERATE)
def delete_schedule(call: Call, name: str) -> None:
    """Delete a schedule and the record of its fires. Its jobs go on; one that code declares comes back with it."""
    schedule = _found(call, name)
    before = declared_schedule(schedule.spec)
    schedule.delete()
    call.changed(f"schedule {name}", before)


@routes.get("/schedules/{name}/next", Scope.READ)
def next_of_schedule(call: Call, name: str, query: NextQuery) -> NextBody:
    """Say when a schedule is next due; a paused one, when it would be. Days on which clocks change are marked."""
    schedule = _found(call, name)
    zone = schedule.spec.rule.zone
    return NextBody(
        [
            OccurrenceBody(due, due.astimezone(ZoneInfo(zone)).isoformat(), clock_change(zone, due))
            for due in schedule.next(query.n)
        ]
    )


@routes.post("/schedules/{name}/trigger", Scope.OPERATE, status=201)
def trigger_schedule(call: Call, name: str) -> StartedBody | Answer:
    """Start a schedule now, outside of its rule and whatever its policies say. Nothing else of it changes."""
    job = _found(call, name).run()
    url = f"{API}/{'jobs' if job.view.version is None else 'runs'}/{job.id}"
    call.changed(f"schedule {name}", after={"started": job.id})
    return Answer(StartedBody(job.id, url), headers={"Location": url})


@routes.post("/schedules/{name}/pause", Scope.OPERATE)
def pause_schedule(call: Call, name: str, body: PauseBody) -> ScheduleBody | Answer:
    """Have a schedule start nothing from now on, or for a while. Runs that live go on. 409 if it is paused."""
    schedule = _found(call, name)
    until = None if body.until is None else _until(body.until)
    if not schedule.pause(body.reason, by=call.who.name, until=until):
        raise Problem(409, "paused", f"schedule {name!r} is paused already. Nothing was changed.")
    call.changed(f"schedule {name}", after={"paused_until": schedule.view.paused_until, "reason": body.reason})
    return _answer(call, schedule.view)


@routes.post("/schedules/{name}/resume", Scope.OPERATE)
def resume_schedule(call: Call, name: str) -> ScheduleBody | Answer:
    """Have a paused schedule go on. What came due meanwhile was missed: its catch-up policy judges it."""
    schedule = _found(call, name)
    if not schedule.resume():
        raise Problem(409, "not-paused", f"schedule {name!r} is not paused. Nothing was changed.")
    call.changed(f"schedule {name}", after={"paused_until": None})
    return _answer(call, schedule.view)


@routes.post("/schedules/{name}/backfill", Scope.OPERATE, status=202, also={200: BackfillAnswer})
def backfill_schedule(call: Call, name: str, body: BackfillBody) -> BackfillAnswer | Answer:
    """Run a schedule for its occurrences of a time, the oldest first; a dry run (200) only says for which.

    Its jobs are stored at once, and a limit has so many of them run at a time. An occurrence that was backfilled in the
    last 30 days is not run again, unless that failed.
    """
    schedule = _found(call, name)
    dues = schedule.backfill(body.start, body.end, dry_run=True)
    if len(dues) > BACKFILL_LIMIT:
        raise InvalidOption(f"that is {len(dues):,} occurrences; {BACKFILL_LIMIT:,} are the most. Do it in parts.")
    if body.dry_run:
        return Answer(BackfillAnswer(len(dues), True, dues[:_SHOWN_DUES], []), status=200)
    ids = schedule.backfilling(dues, body.parallel).enqueue()
    span = {"from": body.start, "to": body.end, "parallel": body.parallel, "count": len(dues)}
    call.changed(f"schedule {name}", after={"backfill": span})
    return BackfillAnswer(len(dues), False, dues[:_SHOWN_DUES], list(ids[:_SHOWN_DUES]))


@routes.get("/schedules/{name}/fires", Scope.READ)
def list_fires(call: Call, name: str, query: PageQuery) -> FirePage:
    """Say what became of a schedule's occurrences, the latest first."""
    fires = _found(call, name).fires(query.limit, None if query.cursor is None else _instant(query.cursor))
    items = [FireBody(one.due_at, one.action, one.job_id, one.fired_at, one.is_catchup, one.reason) for one in fires]
    return FirePage(items, fires[-1].due_at.isoformat() if len(fires) == query.limit else None)


def _found(call: Call, name: str) -> Schedule:
    if not is_sayable(name):
        raise ScheduleNotFound(f"there is no schedule {name!r} in this store.")
    return call.app.schedules[name]


def _answer(call: Call, view: ScheduleView, status: int | None = None) -> Answer:
    store = call.app.store
    calendars = store.calendars() if view.spec.calendar_names else {}
    return Answer(_body(view, store.now(), calendars), status, {"ETag": _etag(view.spec)})


def _etag(spec: Spec) -> str:
    return etag_of(encode_spec(spec))


def _body(view: ScheduleView, now: datetime, calendars: Calendars) -> ScheduleBody:
    spec, standing = view.spec, view.standing
    said: Any = declared_schedule(spec)
    return ScheduleBody(
        name=view.name,
        spec=cast("TaskScheduleFields", said),
        explanation=spec.rule.explain(),
        state=state_of(spec, standing, now, calendars),
        next_due_at=next(iter(upcoming(spec, standing, 1, now, calendars)), None),
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


def _until(text: str) -> datetime | str:
    """When a pause ends: an instant, or else a duration, which is read later."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return text


def _instant(cursor: str) -> datetime:
    try:
        found = datetime.fromisoformat(cursor)
    except ValueError:
        raise bad_cursor() from None
    if found.tzinfo is None or not 1970 <= found.year < 9000:
        raise bad_cursor()
    return found
