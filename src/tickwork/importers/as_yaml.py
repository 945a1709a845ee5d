"""Specs as the YAML that `tickwork apply` takes: to be looked at, changed and kept beside the code."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import msgspec

from tickwork.core.schedule.cron import Cron
from tickwork.core.schedule.interval import Every
from tickwork.core.schedule.policy import Policies
from tickwork.core.schedule.rule import RuleValue
from tickwork.core.schedule.spec import Spec
from tickwork.core.yaml_text import write_yaml
from tickwork.errors import InvariantBroken


def specs_as_yaml(specs: Iterable[Spec]) -> str:
    """Return a file with these schedules, all of which run commands."""
    return write_yaml({"schedules": {spec.name: _schedule(spec) for spec in specs}})


def _schedule(spec: Spec) -> dict[str, Any]:
    said = {"description": spec.description, **_command(json.loads(spec.args)), **_rule(spec.rule)}
    said |= _changed(spec.policies, Policies())
    said |= _changed(spec.options, type(spec.options)())
    said |= {"paused": True} if spec.paused else {}
    return {name: value for name, value in said.items() if value is not None}


def _command(arguments: dict[str, Any]) -> dict[str, Any]:
    """The command by itself where that says all, else with what it is given."""
    return {"shell": arguments.pop("command"), **arguments}


def _rule(rule: RuleValue) -> dict[str, Any]:
    match rule:
        case Cron():
            return {"cron": rule.expression, "tz": None if rule.tz == "UTC" else rule.tz}
        case Every(step=step):
            return {"every": _duration(step)}
        case _:
            raise InvariantBroken(f"no importer makes a {type(rule).__name__}.")


def _changed(said: msgspec.Struct, default: msgspec.Struct) -> dict[str, Any]:
    """The fields that are not as they are by default."""
    fields = {name: getattr(said, name) for name in said.__struct_fields__}
    return {name: _plain(value) for name, value in fields.items() if value != getattr(default, name)}


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return _duration(value)
    return list(value) if isinstance(value, tuple) else value


def _duration(value: timedelta) -> str:
    milliseconds = value // timedelta(milliseconds=1)
    return f"{milliseconds}ms" if milliseconds % 1000 else f"{milliseconds // 1000}s"
