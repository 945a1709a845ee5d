"""Work declared without Python: schedules and calendars in a YAML file, for `tickwork apply`.

    calendars:
      holidays: {yearly: ["12-25"], weekdays: [sat, sun]}
    schedules:
      report: {task: report, args: {to: ada@example.org}, cron: "0 8 * * *", tz: Europe/Berlin, calendars: [holidays]}
      heartbeat: {shell: date -u, every: 1m}

Policies and options of jobs stand beside the rule, under the names that they have in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from typing import Any, TypeVar

from tickwork.core.schedule.calendar import Calendar, calendar
from tickwork.core.schedule.combine import ExceptOn, all_of, any_of
from tickwork.core.schedule.cron import cron
from tickwork.core.schedule.interval import after, at, every
from tickwork.core.schedule.policy import POLICIES
from tickwork.core.schedule.rrule import rrule
from tickwork.core.schedule.rule import RuleValue
from tickwork.core.schedule.spec import JobOptions, Spec, new_spec
from tickwork.core.yaml_text import read_yaml
from tickwork.errors import InvalidInput
from tickwork.importers.field import Field, Misfit

Made = TypeVar("Made")
EncodeArguments = Callable[[str, Mapping[str, Any]], bytes]  # of the task of that name

_KINDS = ("schedules", "calendars")
_SHELL = "shell"
_SHELL_ARGUMENTS = ("env", "cwd", "stdin", "interpreter")
_CALENDAR = ("dates", "yearly", "weekdays", "ics", "tz")
_RULES = ("cron", "every", "after", "at", "rrule", "any_of", "all_of")
_MODIFIERS = {"cron": ("tz", "dst", "dialect"), "rrule": ("tz", "dst")}
_OTHERS = ("task", _SHELL, "args", *_SHELL_ARGUMENTS, "tz", "dst", "dialect", "paused", "description")
_SCHEDULE = frozenset([*_RULES, *_OTHERS, *POLICIES, *JobOptions.__struct_fields__])


@dataclass(frozen=True, slots=True)
class Declared:
    """What a file declares, by name."""

    calendars: dict[str, Calendar] = field(default_factory=dict)
    specs: list[Spec] = field(default_factory=list)


def read_declared(text: str, encode: EncodeArguments, *, file: str) -> Declared:
    """Read a file. Raises InvalidInput, which names the file, the line and the field, and reads nothing of it then."""
    found = Declared()
    for document in read_yaml(text, file=file):
        root = Field(document, (), document.value)
        try:
            _read_document(root, encode, found)
        except Misfit as misfit:
            raise InvalidInput(f"{file}:{misfit.field.line}: {misfit.field.name or 'the file'}: {misfit}") from None
    return found


def _read_document(root: Field, encode: EncodeArguments, found: Declared) -> None:
    if root.value is None:
        return
    _check_names(root, _KINDS, "is not read by this version of Tickwork")
    for place in _named(root["calendars"]):
        found.calendars[str(place.path[-1])] = _calendar(place)
    for place in _named(root["schedules"]):
        found.specs.append(_schedule(str(place.path[-1]), place, encode))


def _named(place: Field) -> list[Field]:
    """The fields of a place that may be missing."""
    if place.is_there and not isinstance(place.value, dict):
        raise place.misfit("must have fields")
    return [place[name] for name in place.names()]


def _check_names(place: Field, known: Any, what: str) -> None:
    if not isinstance(place.value, dict):
        raise place.misfit("must have fields")
    for name in place.names():
        if name not in known:
            nearest = get_close_matches(name, known, n=1)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"there are {', '.join(sorted(known))}."
            raise Misfit(place[name], f"it {what}; {hint}")


def _calendar(place: Field) -> Calendar:
    _check_names(place, _CALENDAR, "is not a field of a calendar")
    return _made(place, lambda: calendar(**{name: place[name].value for name in place.names()}))


def _schedule(name: str, place: Field, encode: EncodeArguments) -> Spec:
    _check_names(place, _SCHEDULE, "is not a field of a schedule")
    target, arguments = _target(place)
    rule = _rule(place)
    given = {one: place[one].value for one in place.names() if one in POLICIES or one in JobOptions.__struct_fields__}
    for instant in ("start", "end"):
        if place[instant].is_there:
            given[instant] = _instant(place[instant])
    given["paused"] = place["paused"].flag(False)
    given["description"] = place["description"].text("") or None
    return _made(place, lambda: new_spec(name, target, rule, encode(target, arguments), **given))


def _target(place: Field) -> tuple[str, dict[str, Any]]:
    """What is started: a task with its arguments, or a command for the task `shell`."""
    if place["task"].is_there == place[_SHELL].is_there:
        raise Misfit(place, f"say what it starts: either task or {_SHELL}.")
    if place["task"].is_there:
        wrong = [name for name in _SHELL_ARGUMENTS if place[name].is_there]
        if wrong:
            raise Misfit(place[wrong[0]], f"it goes with {_SHELL}; the arguments of a task stand under args.")
        arguments = place["args"]
        if arguments.is_there and not isinstance(arguments.value, dict):
            raise arguments.misfit("must name the arguments, like {to: ada}")
        return place["task"].text(), {name: arguments[name].value for name in arguments.names()}
    if place["args"].is_there:
        raise Misfit(place["args"], f"it goes with task; {_SHELL} has {', '.join(_SHELL_ARGUMENTS)}.")
    given = {name: place[name].value for name in _SHELL_ARGUMENTS if place[name].is_there}
    return _SHELL, {"command": place[_SHELL].value, **given}


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
    return _made(place[kind], lambda: _rule_of(kind, place[kind], modifiers))


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
    _check_names(place, (*_RULES, "tz", "dst", "dialect"), "is not a field of a rule")
    return _rule(place)


def _part_or_days(place: Field) -> RuleValue | ExceptOn:
    if not place["except_on"].is_there:
        return _part(place)
    names = [one.text() for one in place["except_on"].items()]
    return _made(place, lambda: ExceptOn(tuple(names)))


def _instant(place: Field) -> datetime:
    try:
        return datetime.fromisoformat(place.text())
    except ValueError:
        raise place.misfit("must be an instant like 2026-12-24T18:00:00+01:00") from None


def _made(place: Field, make: Callable[[], Made]) -> Made:
    """Make a value; what is wrong with it is wrong in this place, unless it is known better."""
    try:
        return make()
    except Misfit:
        raise
    except (InvalidInput, TypeError) as error:
        raise Misfit(place, str(error)) from None
