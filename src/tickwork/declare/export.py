"""Export schedules, calendars and hooks in the form in which files declare them; reading the result gives equal ones.

Schedules are also exported as a YAML file for `tickwork apply`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, assert_never

import msgspec

from tickwork.core.hooks import WINDOW, Hook
from tickwork.core.recurrence.calendar import Calendar
from tickwork.core.recurrence.combine import AllOf, AnyOf, AnyRule
from tickwork.core.recurrence.cron import Cron
from tickwork.core.recurrence.interval import After, At, Every
from tickwork.core.recurrence.rrule import Rrule
from tickwork.core.schedule.policy import SchedulePolicies
from tickwork.core.schedule.spec import ScheduleSpec
from tickwork.core.text.yaml_loader import write_yaml
from tickwork.declare.schedules import SHELL, SHELL_ARGUMENTS

Said = dict[str, Any]  # JSON's own types

_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
_MILLISECOND = timedelta(milliseconds=1)
_MICROSECOND = timedelta(microseconds=1)


def declared_schedule(spec: ScheduleSpec) -> Said:
    """Return the declaration of a schedule, without fields that have their default value."""
    said: Said = {"description": spec.description, **_started(spec), **_rule(spec.rule)}
    said |= _changed(spec.policies, SchedulePolicies())
    said |= _changed(spec.options, type(spec.options)())
    if "needs" in said:
        parts = (part.partition("=") for part in said["needs"].split())
        said["needs"] = {name: value if equals else True for name, equals, value in parts}
    said |= {"paused": True} if spec.paused else {}
    return {name: value for name, value in said.items() if value is not None}


def declared_calendar(value: Calendar) -> Said:
    """Return the declaration of a calendar, without fields that have their default value."""
    return _changed(value, Calendar())


def declared_hook(hook: Hook) -> Said:
    """Return the declaration of a hook, without fields that have their default value."""
    said = {
        "description": hook.description,
        hook.kind: hook.target,
        "style": hook.style,
        "secret": hook.secret,
        "args": json.loads(hook.args) or None,
        "key": hook.key,
        "events": list(hook.events) or None,
        "window": None if hook.window == WINDOW else duration_text(hook.window),
    }
    return {name: value for name, value in said.items() if value is not None}


def duration_text(value: timedelta) -> str:
    """Return a duration as text that parses to exactly the same duration."""
    if not value % _SECOND:
        return f"{value // _SECOND}s"
    whole, rest = divmod(value, _MILLISECOND)
    return f"{whole}.{rest // _MICROSECOND:03d}ms" if rest else f"{whole}ms"


def _started(spec: ScheduleSpec) -> Said:
    """Return the target of a schedule: in the short form for a command if possible, otherwise as a task or a dag."""
    arguments: Said = json.loads(spec.args)
    if spec.target == SHELL and "command" in arguments and not set(arguments) - {"command", *SHELL_ARGUMENTS}:
        return {SHELL: arguments.pop("command"), **arguments}
    return {spec.kind: spec.target, "args": arguments or None}


def _rule(rule: AnyRule) -> Said:
    """Return the declaration of a schedule rule."""
    match rule:
        case Cron():
            return {"cron": rule.expression, **_modifiers(rule), "spread_by": rule.name}
        case Rrule():
            return {"rrule": _rrule(rule), **_modifiers(rule)}
        case Every():
            return {"every": _every(rule)}
        case After(delay=delay):
            return {"after": duration_text(delay)}
        case At(instants=instants):
            return {"at": [instant.isoformat() for instant in instants]}
        case AnyOf(rules=rules):
            return {"any_of": [_part(one) for one in rules]}
        case AllOf(rules=rules, calendars=calendars):
            days = [{"except_on": _plain(calendars)}] if calendars else []
            return {"all_of": [*map(_part, rules), *days]}
    assert_never(rule)


def _part(rule: AnyRule) -> Said:
    return {name: value for name, value in _rule(rule).items() if value is not None}


def _modifiers(rule: Cron | Rrule) -> Said:
    usual = {"tz": "UTC", "dst": "once", "dialect": "standard"}
    said = {name: getattr(rule, name, None) for name in usual}
    return {name: value for name, value in said.items() if value != usual[name]}


def _rrule(rule: Rrule) -> str:
    return rule.rule if rule.start is None else f"DTSTART:{rule.start:%Y%m%dT%H%M%S}\nRRULE:{rule.rule}"


def _every(rule: Every) -> str:
    if rule.start is None:
        return duration_text(rule.step)
    days, rest = divmod(rule.step, _DAY)
    seconds = f"T{rest // _SECOND}.{rest % _SECOND // _MICROSECOND:06d}S".replace(".000000", "") if rest else ""
    step = f"P{f'{rule.months}M' if rule.months else ''}{f'{days}D' if days else ''}{seconds}"
    return f"R{rule.times or ''}/{rule.start.isoformat()}/{step}"


def _changed(said: msgspec.Struct, default: msgspec.Struct) -> Said:
    """Return the fields that differ from their default value."""
    fields = {name: getattr(said, name) for name in said.__struct_fields__}
    return {name: _plain(value) for name, value in fields.items() if value != getattr(default, name)}


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, Calendar):
        return declared_calendar(value)
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return value.isoformat() if hasattr(value, "isoformat") else value


def specs_as_yaml(specs: Iterable[ScheduleSpec]) -> str:
    """Return the text of a YAML file that declares these schedules."""
    return write_yaml({"schedules": {spec.name: declared_schedule(spec) for spec in specs}})
