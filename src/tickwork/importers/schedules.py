"""Schedules as a file declares them: a rule, policies and options of jobs under the names that they have in Python."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from difflib import get_close_matches
from typing import Any, TypeVar

import msgspec

from tickwork.core.job import TaskDefinition
from tickwork.core.schedule.combine import ExceptOn, all_of, any_of
from tickwork.core.schedule.cron import cron
from tickwork.core.schedule.interval import after, at, every
from tickwork.core.schedule.policy import POLICIES
from tickwork.core.schedule.rrule import rrule
from tickwork.core.schedule.rule import RuleValue
from tickwork.core.schedule.spec import JobOptions, Spec, new_spec
from tickwork.core.stored_signature import StoredSignature
from tickwork.errors import InvalidInput
from tickwork.importers.field import Field, Misfit

Made = TypeVar("Made")
Known = Callable[[str], TaskDefinition | None]  # what workers have told of the task of that name

SHELL = "shell"
HTTP = "http"
SHELL_ARGUMENTS = ("env", "cwd", "stdin", "interpreter")
_RULES = ("cron", "every", "after", "at", "rrule", "any_of", "all_of")
_MODIFIERS = {"cron": ("tz", "dst", "dialect"), "rrule": ("tz", "dst")}
_OTHERS = ("task", SHELL, HTTP, "args", *SHELL_ARGUMENTS, "tz", "dst", "dialect", "paused", "description")
FIELDS = frozenset([*_RULES, *_OTHERS, *POLICIES, *JobOptions.__struct_fields__])


def read_schedule(name: str, place: Field, known: Known, request: Callable[[Field], dict[str, Any]]) -> Spec:
    """A schedule of a task, of a command, or of a request, whose arguments `request` reads. Raises Misfit."""
    check_names(place, FIELDS, "is not a field of a schedule")
    target, arguments = _target(place, request)
    return made(place, lambda: _spec(name, place, target, encode(known, target, arguments)))


def read_dag_schedule(dag: str, place: Field) -> Spec:
    """The schedule of a dag, which has its name; `args` are parameters of its runs. Raises Misfit."""
    spec = made(place, lambda: _spec(dag, place, dag, encode(lambda _: None, dag, arguments_of(place))))
    return msgspec.structs.replace(spec, kind="dag")


def encode(known: Known, task: str, arguments: dict[str, Any]) -> bytes:
    """Arguments as jobs of a task carry them."""
    return StoredSignature(known(task)).encode((), arguments, task)


def _spec(name: str, place: Field, target: str, args: bytes) -> Spec:
    rule = _rule(place)
    given = {one: place[one].value for one in place.names() if one in POLICIES or one in JobOptions.__struct_fields__}
    for instant in ("start", "end"):
        if place[instant].is_there:
            given[instant] = _instant(place[instant])
    given["paused"] = place["paused"].flag(False)
    given["description"] = place["description"].text("") or None
    return new_spec(name, target, rule, args, **given)


def arguments_of(place: Field) -> dict[str, Any]:
    """What stands under args."""
    arguments = place["args"]
    if arguments.is_there and not isinstance(arguments.value, dict):
        raise arguments.misfit("must name the arguments, like {to: ada}")
    return {name: arguments[name].value for name in arguments.names()}


def _target(place: Field, request: Callable[[Field], dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    """What is started: a task with its arguments, a command for the task `shell`, or a request for the task `http`."""
    if sum(place[kind].is_there for kind in ("task", SHELL, HTTP)) != 1:
        raise Misfit(place, f"say what it starts: one of task, {SHELL} and {HTTP}.")
    if place["task"].is_there:
        wrong = [name for name in SHELL_ARGUMENTS if place[name].is_there]
        if wrong:
            raise Misfit(place[wrong[0]], f"it goes with {SHELL}; the arguments of a task stand under args.")
        return place["task"].text(), arguments_of(place)
    if place[HTTP].is_there:
        return HTTP, _alone(place, request)
    if place["args"].is_there:
        raise Misfit(place["args"], f"it goes with task; {SHELL} has {', '.join(SHELL_ARGUMENTS)}.")
    given = {name: place[name].value for name in SHELL_ARGUMENTS if place[name].is_there}
    return SHELL, {"command": place[SHELL].value, **given}


def _alone(place: Field, request: Callable[[Field], dict[str, Any]]) -> dict[str, Any]:
    """The arguments of a request, beside which there are no others."""
    for name in ("args", *SHELL_ARGUMENTS):
        if place[name].is_there:
            raise Misfit(place[name], f"it does not go with {HTTP}, which says all of the request.")
    return request(place[HTTP])


def _rule(place: Field) -> RuleValue:
    said = [name for name in _RULES if place[name].is_there]
    if len(said) != 1:
        raise Misfit(place, f"say when it is due: one of {', '.join(_RULES)}{', not several' if said else ''}.")
    kind = said[0]
    takes = _MODIFIERS.get(kind, ())
    for name in ("tz", "dst", "dialect"):
        if place[name].is_there and name not in takes:
            raise Misfit(place[name], f"it does not go with {kind}; a rule inside of it may have one of its own.")
    modifiers = {name: place[name].text() for name in takes if place[name].is_there}
    return made(place[kind], lambda: _rule_of(kind, place[kind], modifiers))


def _rule_of(kind: str, value: Field, modifiers: dict[str, Any]) -> RuleValue:
    match kind:
        case "cron":
            return cron(value.text(), **modifiers)
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


def _part(place: Field) -> RuleValue:
    check_names(place, (*_RULES, "tz", "dst", "dialect"), "is not a field of a rule")
    return _rule(place)


def _part_or_days(place: Field) -> RuleValue | ExceptOn:
    if not place["except_on"].is_there:
        return _part(place)
    names = [one.text() for one in place["except_on"].items()]
    return made(place, lambda: ExceptOn(tuple(names)))


def _instant(place: Field) -> datetime:
    try:
        return datetime.fromisoformat(place.text())
    except ValueError:
        raise place.misfit("must be an instant like 2026-12-24T18:00:00+01:00") from None


def made(place: Field, make: Callable[[], Made]) -> Made:
    """Make a value; what is wrong with it is wrong in this place, unless it is known better."""
    try:
        return make()
    except Misfit:
        raise
    except (InvalidInput, TypeError) as error:
        raise Misfit(place, str(error)) from None


def check_names(place: Field, known: Collection[str], what: str) -> None:
    """Raise Misfit for the first field that is not known."""
    if not isinstance(place.value, dict):
        raise place.misfit("must have fields")
    for name in place.names():
        if name not in known:
            nearest = get_close_matches(name, known, n=1)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"there are {', '.join(sorted(known))}."
            raise Misfit(place[name], f"it {what}; {hint}")
