"""Read schedules from a file. Rules, policies and job options have the same names as in Python."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from tickwork.core.arguments.encode_by_schema import StoredSignature, fits, told
from tickwork.core.job_options import task_name
from tickwork.core.recurrence.base_rule import RuleValue
from tickwork.core.recurrence.calendar import Calendar, calendar
from tickwork.core.recurrence.combine import ExceptOn, all_of, any_of
from tickwork.core.recurrence.cron import cron
from tickwork.core.recurrence.interval import after, at, every
from tickwork.core.recurrence.rrule import rrule
from tickwork.core.schedule.policy import POLICIES
from tickwork.core.schedule.spec import ScheduledJobOptions, ScheduleSpec, TargetKind, new_spec
from tickwork.core.text.suggestions import closest, guess
from tickwork.declare.document_nodes import Known, Node, UnusableNode
from tickwork.errors import InvalidInput

Made = TypeVar("Made")


SHELL = "shell"
HTTP = "http"
SHELL_ARGUMENTS = ("env", "cwd", "stdin", "interpreter")
_RULES = ("cron", "every", "after", "at", "rrule", "any_of", "all_of")
_MODIFIERS = {"cron": ("tz", "dst", "dialect", "spread_by"), "rrule": ("tz", "dst")}
_OF_RULES = ("tz", "dst", "dialect", "spread_by")
_TARGETS = ("task", "dag", SHELL, HTTP)
_ERRORS = ("retry_on", "give_up_on")
_OTHERS = (*_TARGETS, "args", *SHELL_ARGUMENTS, *_OF_RULES, "paused", "description")
CALENDAR = ("dates", "yearly", "weekdays", "ics", "tz")
FIELDS = frozenset([*_RULES, *_OTHERS, *POLICIES, *ScheduledJobOptions.__struct_fields__])


def read_schedule(name: str, place: Node, known: Known, request: Callable[[Node], dict[str, Any]]) -> ScheduleSpec:
    """Read a schedule of a task, a dag, a command, or a request, whose arguments `request` reads.

    The parameters of a dag are not checked here, because the dag may be declared later. See `param_misfits`. Raises
    UnusableNode.
    """
    check_names(place, FIELDS, "is not a field of a schedule")
    kind, target, arguments = _target(place, request)
    if kind == "dag":
        return made(place, lambda: _spec(name, place, target, encode(_unknown, target, arguments), kind="dag"))
    return made(place, lambda: _spec(name, place, target, encode(known, target, arguments)))


def read_dag_schedule(dag: str, place: Node) -> ScheduleSpec:
    """Read the schedule of a dag, which has the dag's name; `args` are parameters of its runs. Raises UnusableNode."""
    return made(place, lambda: _spec(dag, place, dag, encode(_unknown, dag, arguments_of(place)), kind="dag"))


def param_misfits(place: Node, params: Mapping[str, Any], unchecked: Collection[str] = ()) -> Iterator[UnusableNode]:
    """Yield the errors in the parameters that a schedule or a hook passes to its dag.

    `params` is the JSON Schema of the dag's parameters. The values of `unchecked` parameters are not known yet.
    """
    given, known = place["args"], params.get("properties", {})
    for name in given.names():
        if name not in known:
            yield UnusableNode(given[name], f"there is no parameter {name!r}{guess(name, known)}.")
        elif name not in unchecked and not fits(given[name].value, known[name], params):
            kind = told(known[name], params)
            yield given[name].misfit(f"must be {'one of' if 'enum' in known[name] else 'of the type'} {kind}")
    for name in params.get("required", ()):
        if name not in given.names():
            yield UnusableNode(place, f"the parameter {name!r} has no default, and args does not say what it is.")


def stored_params(dag: str, known: Known) -> Mapping[str, Any] | None:
    """Return the JSON Schema of the parameters of a stored dag; None if no dag of that name is stored."""
    definition = known(dag)
    if definition is None or definition.version is None:
        return None
    params: dict[str, Any] = msgspec.json.decode(definition.schema)
    return params


def _unknown(dag: str) -> None:
    """Return None as the definition of a dag, which may be declared in the same file as its schedule."""


def encode(known: Known, task: str, arguments: dict[str, Any], unchecked: Collection[str] = ()) -> bytes:
    """Return the encoded arguments of a job of a task. The values of `unchecked` arguments are not known yet.

    Raises InvalidArguments.
    """
    return StoredSignature(known(task)).encode((), arguments, task, unchecked)


def _spec(name: str, place: Node, target: str, args: bytes, kind: TargetKind = "task") -> ScheduleSpec:
    """Return a schedule with the rule, policies and job options of a node. Raises UnusableNode."""
    rule = _rule(place)
    options = [one for one in ScheduledJobOptions.__struct_fields__ if one not in _ERRORS]
    given = {one: place[one].value for one in place.names() if one in POLICIES or one in options}
    for instant in ("start", "end"):
        if place[instant].is_there:
            given[instant] = _instant(place[instant])
    if isinstance(place["calendars"].value, list):
        given["calendars"] = [_days(one) for one in place["calendars"].items()]
    given["paused"] = place["paused"].flag(False)
    given["description"] = place["description"].text("") or None
    spec = new_spec(name, target, rule, args, kind, **given)
    errors = {one: tuple(error.text() for error in place[one].items()) for one in _ERRORS if place[one].is_there}
    return msgspec.structs.replace(spec, options=msgspec.structs.replace(spec.options, **errors)) if errors else spec


def arguments_of(place: Node) -> dict[str, Any]:
    """Return the arguments in the field `args`. Raises UnusableNode."""
    arguments = place["args"]
    if arguments.is_there and not isinstance(arguments.value, dict):
        raise arguments.misfit("must name the arguments, like {to: ada}")
    return {name: arguments[name].value for name in arguments.names()}


def _target(place: Node, request: Callable[[Node], dict[str, Any]]) -> tuple[str, str, dict[str, Any]]:
    """Return the kind, name and arguments of a schedule's target: a task, a dag, a command or a request."""
    said = [name for name in _TARGETS if place[name].is_there]
    if len(said) != 1:
        raise UnusableNode(place, f"say what it starts: one of {', '.join(_TARGETS)}{', not several' if said else ''}.")
    if said[0] == HTTP:
        return HTTP, HTTP, _alone(place, request)
    if said[0] != SHELL:
        wrong = [name for name in SHELL_ARGUMENTS if place[name].is_there]
        if wrong:
            raise UnusableNode(place[wrong[0]], f"it goes with {SHELL}; the arguments of a {said[0]} stand under args.")
        target = made(place[said[0]], lambda: task_name(place[said[0]].value))
        return said[0], target, arguments_of(place)
    if place["args"].is_there:
        raise UnusableNode(place["args"], f"it goes with task; {SHELL} has {', '.join(SHELL_ARGUMENTS)}.")
    given = {name: place[name].value for name in SHELL_ARGUMENTS if place[name].is_there}
    return SHELL, SHELL, {"command": place[SHELL].value, **given}


def _alone(place: Node, request: Callable[[Node], dict[str, Any]]) -> dict[str, Any]:
    """Return the arguments of a request. Raises UnusableNode if there are other arguments."""
    for name in ("args", *SHELL_ARGUMENTS):
        if place[name].is_there:
            raise UnusableNode(place[name], f"it does not go with {HTTP}, which says all of the request.")
    return request(place[HTTP])


def _rule(place: Node) -> RuleValue:
    """Read exactly one rule with its modifiers. Raises UnusableNode."""
    said = [name for name in _RULES if place[name].is_there]
    if len(said) != 1:
        raise UnusableNode(place, f"say when it is due: one of {', '.join(_RULES)}{', not several' if said else ''}.")
    kind = said[0]
    takes = _MODIFIERS.get(kind, ())
    for name in _OF_RULES:
        if place[name].is_there and name not in takes:
            raise UnusableNode(place[name], f"it does not go with {kind}; a rule inside of it may have one of its own.")
    modifiers = {name: place[name].text() for name in takes if place[name].is_there}
    return made(place[kind], lambda: _rule_of(kind, place[kind], modifiers))


def _rule_of(kind: str, value: Node, modifiers: dict[str, Any]) -> RuleValue:
    """Read a rule of a given kind."""
    match kind:
        case "cron":
            spread_by = modifiers.pop("spread_by", None)
            return cron(value.text(), name=spread_by, **modifiers)
        case "rrule":
            return rrule(value.text(), **modifiers)
        case "every":
            return every(value.text())
        case "after":
            return after(value.text())
        case "at":
            instants = list(value.items()) if isinstance(value.value, list) else [value]
            return at(*(_instant(one) for one in instants))
        case "any_of":
            return any_of(*(_part(one) for one in value.items()))
        case _:
            return all_of(*(_part_or_days(one) for one in value.items()))


def _part(place: Node) -> RuleValue:
    check_names(place, (*_RULES, *_OF_RULES), "is not a field of a rule")
    return _rule(place)


def _part_or_days(place: Node) -> RuleValue | ExceptOn:
    if not place["except_on"].is_there:
        return _part(place)
    days = [_days(one) for one in place["except_on"].items()]
    return made(place, lambda: ExceptOn(tuple(days)))


def _days(place: Node) -> str | Calendar:
    """Read a calendar: the name of a declared one, or an inline calendar."""
    return read_calendar(place) if isinstance(place.value, dict) else place.text()


def read_calendar(place: Node) -> Calendar:
    """Read a calendar. Raises UnusableNode."""
    check_names(place, CALENDAR, "is not a field of a calendar")
    return made(place, lambda: calendar(**{name: place[name].value for name in place.names()}))


def _instant(place: Node) -> datetime:
    try:
        return datetime.fromisoformat(place.text())
    except ValueError:
        raise place.misfit("must be an instant like 2026-12-24T18:00:00+01:00") from None


def made(place: Node, make: Callable[[], Made]) -> Made:
    """Call `make` and return its value; raise its errors as UnusableNode of this node."""
    try:
        return make()
    except UnusableNode:
        raise
    except (InvalidInput, TypeError) as error:
        raise UnusableNode(place, str(error)) from None


def check_names(place: Node, known: Collection[str], what: str) -> None:
    """Raise UnusableNode for the first unknown field."""
    if not isinstance(place.value, dict):
        raise place.misfit("must have fields")
    for name in place.names():
        if name not in known:
            near = closest(name, known)
            hint = f"did you mean {near!r}?" if near else f"there are {', '.join(sorted(known))}."
            raise UnusableNode(place[name], f"it {what}; {hint}")
