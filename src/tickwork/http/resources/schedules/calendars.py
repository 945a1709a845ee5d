"""Calendars over REST, and explanations of cron expressions."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from tickwork.core.recurrence.base_rule import RuleValue
from tickwork.core.recurrence.calendar import Calendar
from tickwork.core.recurrence.parse_rule import Kind, kind_of, place_of, read_expression
from tickwork.core.recurrence.zones import zone_name
from tickwork.core.schedule.upcoming import preview
from tickwork.declare.dag_fields import CalendarFields
from tickwork.declare.export import declared_calendar
from tickwork.declare.schedules import read_calendar
from tickwork.errors import InvalidInput, InvalidOption
from tickwork.http.declared_bodies import read_body
from tickwork.http.framework.params import PageQuery, is_storable_name, name_after
from tickwork.http.framework.problems import Problem, ProblemDetail, required
from tickwork.http.framework.route import ListBody, Routes, Scope, Struct
from tickwork.http.request import Call

routes = Routes("schedules")


class CalendarBody(Struct):
    """A calendar: days on which schedules that use it have no occurrences."""

    name: str
    dates: list[str]
    yearly: list[str]
    weekdays: list[str]
    tz: str | None


class CalendarPage(ListBody[CalendarBody]):
    """Some calendars, by name."""


class CronBody(Struct):
    """An expression to explain: cron, a rate ("90s"), an ISO 8601 repeating interval, or an RFC 5545 rule.

    `name` is the name of the schedule, from which the value of H is derived.
    """

    expression: str
    tz: str = "UTC"
    n: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 20
    dialect: Literal["standard", "quartz", "aws"] = "standard"
    dst: Literal["once", "skip", "both", "shift"] = "once"
    name: str | None = None


class OccurrenceBody(Struct):
    """An occurrence, and its local time. `clock_change` describes how a clock change on that day affects it."""

    due_at: datetime
    local: str
    clock_change: str | None


class CronExplained(Struct):
    """The meaning of an expression in words, and its next occurrences."""

    expression: str
    kind: Kind
    tz: str
    dialect: str
    dst: str
    explanation: str
    next: list[OccurrenceBody]
    warning: str | None = None


@routes.get("/calendars", Scope.READ)
def list_calendars(call: Call, query: PageQuery) -> CalendarPage:
    """List calendars by name."""
    after = name_after(query)
    found = [(name, value) for name, value in sorted(call.app.calendars().items()) if name > after]
    page = found[: query.limit]
    return CalendarPage([_body(*one) for one in page], page[-1][0] if len(found) > len(page) else None)


@routes.get("/calendars/{name}", Scope.READ)
def get_calendar(call: Call, name: str) -> CalendarBody:
    """Return a calendar."""
    return _body(name, _found(call, name))


@routes.put("/calendars/{name}", Scope.OPERATE)
def put_calendar(call: Call, name: str, body: CalendarFields) -> CalendarBody:
    """Store a calendar, or replace the one of that name, which changes future occurrences of schedules that use it."""
    value = read_body(msgspec.to_builtins(body), read_calendar)
    old = call.app.calendars().get(name)
    call.app.put_calendar(name, value)
    call.changed(f"calendar {name}", None if old is None else declared_calendar(old), declared_calendar(value))
    return _body(name, value)


@routes.delete("/calendars/{name}", Scope.OPERATE)
def delete_calendar(call: Call, name: str) -> None:
    """Delete a calendar. 409 while a schedule uses it."""
    old = _found(call, name)
    try:
        call.app.delete_calendar(name)
    except InvalidInput as error:
        raise Problem(409, "in-use", str(error)) from None
    call.changed(f"calendar {name}", declared_calendar(old))


@routes.post("/cron/explain", Scope.READ)
def explain_cron(call: Call, body: CronBody) -> CronExplained:
    """Explain an expression in words, and list its next occurrences; days with clock changes are marked.

    A syntax error has its place in the expression: `start` and `end` of the error.
    """
    rule = _read(body)
    if rule.needs_name:
        raise InvalidOption(f"cron {body.expression!r}: H is spread by the name of the schedule; say name.")
    found = preview(rule, body.n, after=call.app.store.now())
    dues = [OccurrenceBody(one.due_at, one.local.isoformat(), one.clock_change) for one in found]
    kind = kind_of(body.expression)
    return CronExplained(body.expression, kind, rule.zone, body.dialect, body.dst, rule.explain(), dues, rule.idle_dst)


def _read(body: CronBody) -> RuleValue:
    """Return the rule of an expression. Raises Problem with the place of the error."""
    given, zone = body.expression, zone_name(body.tz)
    try:
        return read_expression(given, tz=zone, dst=body.dst, dialect=body.dialect, name=body.name)
    except InvalidOption as error:
        start, end = place_of(given, str(error)) or (0, len(given))
        fault = ProblemDetail(str(error), pointer="/expression", start=start, end=end)
        raise Problem(422, "invalid", str(error), faults=[fault]) from None


def _found(call: Call, name: str) -> Calendar:
    return required(
        call.app.calendars().get(name) if is_storable_name(name) else None,
        Problem(404, "not-found", f"there is no calendar {name!r}."),
    )


def _body(name: str, value: Calendar) -> CalendarBody:
    dates = [day.isoformat() for day in value.dates]
    return CalendarBody(name, dates, list(value.yearly), list(value.weekdays), value.tz)
