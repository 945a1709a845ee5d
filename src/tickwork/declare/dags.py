"""Read dags from a file into `Graph` objects; docs/dags-yaml.md describes the format.

Names, types, expressions and cycles are checked here, because errors can then be reported with their lines. All errors
are reported, and a dag with errors is not created.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from tickwork.core.dag.cycles import find_cycles
from tickwork.core.dag.graph import Graph, JsonTemplate, Step, Template
from tickwork.core.dag.validate import check
from tickwork.core.job_options import Options, task_name
from tickwork.core.schedule.spec import ScheduleSpec
from tickwork.declare.context import ReadContext
from tickwork.declare.dag_fields import AllAssets, DagFields, ParamFields
from tickwork.declare.dag_steps import listed, read_steps
from tickwork.declare.expressions import NameScope, PlaceholderWriter
from tickwork.declare.node import Node
from tickwork.declare.problems import Problems
from tickwork.declare.read_struct import read_struct
from tickwork.declare.schedules import made, param_misfits, read_dag_schedule

_KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


class DeclaredDag(NamedTuple):
    """A dag of a file, and its schedule, if any."""

    graph: Graph
    schedule: ScheduleSpec | None


def read_dag(place: Node, reading: ReadContext) -> DeclaredDag | None:
    """Read a dag; report its errors and return None if it has any. Raises UnusableNode."""
    before = len(reading.problems)
    name = made(place, lambda: task_name(place.path[-1]))
    said = read_struct(place, DagFields, reading.problems)
    if place["steps"].is_there and not place["steps"].names():
        reading.problems.add(place["steps"], "it has no steps.")
    params = _params(place["params"], said, reading.problems)
    steps = read_steps(place["steps"], said.steps or {}, place["params"].names(), reading)
    schedule = _schedule(place, params, reading.problems)
    result = _result(place, reading)
    _check_cycles(place["steps"], steps, reading.problems)
    if len(reading.problems) > before:
        return None
    graph = Graph(
        name=name,
        steps=tuple(steps.values()),
        run=Template(name, policy=Options(retries=0).policy()),
        params=params,
        result=result,
        description=said.description or "",
        on=_on(said),
        produce=tuple(listed(said.produce)),
    )
    for problem in check(graph):
        reading.problems.add(place["steps"], f"{problem}.")
    return DeclaredDag(graph, schedule)


def _result(place: Node, reading: ReadContext) -> JsonTemplate:
    """Return the template of the result of a run; JSON null if the dag declares none."""
    steps = place["steps"]
    mapped = {name for name in steps.names() if steps[name].has("map")}
    filler = PlaceholderWriter(NameScope(place["params"].names(), set(steps.names()), mapped), reading)
    value = filler.fill(place["result"]) if place.has("result") else None
    return JsonTemplate(msgspec.Raw(msgspec.json.encode(value)), tuple(filler.holes))


def _on(said: DagFields) -> tuple[tuple[str, ...], ...]:
    """Return sets of assets; a run starts when all assets of any set were updated."""
    match said.on:
        case AllAssets(all=assets):
            return (tuple(assets),)
        case list(assets):
            return tuple((asset,) for asset in assets)
        case str(asset):
            return ((asset,),)
        case _:
            return ()


def _schedule(dag: Node, params: Mapping[str, Any], problems: Problems) -> ScheduleSpec | None:
    """Return the schedule of a dag; None if it has none or the schedule has errors, which are reported."""
    place = dag["schedule"]
    if not isinstance(place.value, dict) or not problems.is_sound(place):
        return None
    # An invalid declaration of a parameter is reported elsewhere. Here the parameter exists, and takes any value.
    declared: dict[str, Any] = {name: {} for name in dag["params"].names()}
    schema = {**params, "properties": {**declared, **params.get("properties", {})}}
    for misfit in param_misfits(place, schema):
        problems.add(misfit.field, str(misfit))
    with problems.gathered():
        return read_dag_schedule(str(dag.path[-1]), place)
    return None


def _params(place: Node, said: DagFields, problems: Problems) -> dict[str, Any]:
    """Return the JSON Schema of the parameters; empty if there are none."""
    if said.params is UNSET or not said.params:
        return {}
    properties, required = {}, []
    for name, param in said.params.items():
        fields = ParamFields(type=param) if isinstance(param, str) else param
        _check_default(place[name], fields, problems)
        properties[name] = msgspec.to_builtins(fields)
        if fields.default is UNSET:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _check_default(place: Node, param: ParamFields, problems: Problems) -> None:
    """Report a default that does not have the type of its parameter or is not in its enum."""
    default = param.default
    if default is UNSET:
        return
    kinds = object if param.type is UNSET else _KINDS[param.type]
    if not isinstance(default, kinds) or (isinstance(default, bool) and param.type in ("integer", "number")):
        problems.note(place["default"].misfit(f"must be of the type {param.type}"))
    elif param.enum is not UNSET and default not in param.enum:
        problems.note(place["default"].misfit("must be one of enum"))


def _check_cycles(place: Node, steps: Mapping[str, Step], problems: Problems) -> None:
    """Report cycles, at the entry in `needs` that closes the cycle if there is one."""
    known = {name: tuple(one for one in step.parents if one in steps) for name, step in steps.items()}
    for cycle in find_cycles(known):
        name, waits_for = cycle[0], cycle[-2]
        needs = place[name]["needs"]
        named = [one for one in needs.items() if one.value == waits_for] if isinstance(needs.value, list) else [needs]
        where = named[0] if named and named[0].is_there else place[name]
        problems.add(where, f"a cycle: {' -> '.join(cycle)}. Each of them waits for the one before it.")
