"""Read dags from a file into `Graph` objects; docs/dags-yaml.md describes the format.

Names, types, expressions and cycles are checked here, because errors can then be reported with their lines. All errors
are reported, and a dag with errors is not created. The parents of a step are the steps in its `needs`, and the steps
whose results its expressions use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tickwork.core.dag.graph import Condition, Expression, Graph, JsonTemplate, Map, Step, Template, Text, steps_in
from tickwork.core.dag.validate import check, find_cycles
from tickwork.core.job_options import Options, task_name
from tickwork.core.schedule.spec import ScheduleSpec
from tickwork.core.text.suggestions import guess
from tickwork.declare.dag_fields import AllAssets, DagFields, ParamFields, StepFields
from tickwork.declare.document_nodes import Node, Problems, ReadContext, UnusableNode, read_struct
from tickwork.declare.expressions import (
    ONE_ITEM,
    RESERVED,
    Inexpressible,
    NameScope,
    PlaceholderWriter,
    read_condition,
    value_of,
)
from tickwork.declare.schedules import made, param_misfits, read_dag_schedule
from tickwork.declare.step_work import ARGUMENTS, check_company, kind_of, read_approval, read_arguments, read_template

Said = TypeVar("Said")

_NAME = re.compile(r"\w[\w.-]{0,199}")
_ASKS_FOR_PARENTS = ("any_failed", "any_succeeded")
_WITH_MAP = ("product", "max_parallel")


def read_steps(
    place: Node, said: Mapping[str, StepFields], params: Iterable[str], reading: ReadContext
) -> dict[str, Step]:
    """Return the steps by name. Parts that cannot be read are reported as problems and left out."""
    for name in place.names():
        if not is_step_name(name):
            reading.problems.add(place[name], _misnamed(name))
    mapped = {name for name in place.names() if place[name].has("map")}
    scope = NameScope(set(params), set(place.names()), mapped)
    return {name: _StepReader(place[name], fields, scope, reading).read() for name, fields in said.items()}


def is_step_name(name: str) -> bool:
    """Return whether a name is valid for a step, so that expressions can refer to it unambiguously."""
    return _NAME.fullmatch(name) is not None and name not in RESERVED and ".result" not in name


def _misnamed(name: str) -> str:
    if name in RESERVED or ".result" in name:
        return f"a step cannot be called {name!r}, since expressions could not name it."
    return f"{name!r} is not a name for a step: use letters, digits and _ . - (up to 200)."


class _StepReader:
    """Reads one step of a dag."""

    def __init__(self, place: Node, said: StepFields, scope: NameScope, reading: ReadContext) -> None:
        self._place = place
        self._said = said
        self._scope = scope
        self._reading = reading
        self._problems = reading.problems

    def read(self) -> Step:
        """Return the step; parts that cannot be read are reported as problems and left out."""
        said, place = self._said, self._place
        needs, map, when = list(self._needs()), self._map(), tuple(self._when())
        template, args, approval = None, JsonTemplate(Raw(b"{}")), None
        with self._problems.gathered():
            kind = kind_of(place)
            check_company(place, kind, self._reading)
            if not all(self._problems.is_sound(place[name]) for name in (kind, *ARGUMENTS)):
                pass  # fields have wrong types, which was already reported
            elif kind != "approve":
                template, args = self._job(kind)
            elif said.approve is not UNSET:
                approval, args = read_approval(place["approve"], said.approve, self._scope, self._reading)
        wanted = [hole.value for hole in args.holes] + [one.value for one in when]
        wanted += [one for one in map.over.values() if not isinstance(one, list)] if map else []
        return Step(
            name=str(place.path[-1]),
            parents=self._parents([*needs, *(name for one in wanted for name in steps_in(one))]),
            job=template,
            approval=approval,
            args=args,
            map=map,
            run_if=said.run_if,
            when=when,
            group=said.group or "",
            produce=tuple(listed(said.produce)),
            may_fail=said.may_fail,
        )

    def _parents(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the names without duplicates; report a `run_if` that needs parents if there are none."""
        parents = tuple(dict.fromkeys(names))
        if not parents and self._said.run_if in _ASKS_FOR_PARENTS and not self._place.has("needs"):
            rule = self._said.run_if
            self._problems.add(self._place["run_if"], f"it waits for no step, so {rule} can never hold; say needs.")
        return parents

    def _job(self, kind: str) -> tuple[Template, JsonTemplate]:
        inside = replace(self._scope, items=self._items()) if self._place.has("map") else self._scope
        task, args = read_arguments(self._place, kind, inside, self._reading)
        return read_template(self._place, self._said, task, self._reading), args

    def _needs(self) -> Iterator[str]:
        """Yield the steps in `needs`; report unknown and repeated ones."""
        seen: set[str] = set()
        for place, name in self._texts("needs"):
            if name not in self._scope.steps:
                self._problems.add(place, f"there is no step {name!r}{guess(name, self._scope.steps)}.")
            elif name in seen:
                self._problems.add(place, f"{name!r} is named twice.")
            else:
                yield name
            seen.add(name)

    def _when(self) -> Iterator[Condition]:
        for place, text in self._texts("when"):
            with self._problems.gathered():
                yield _expressed(place, lambda: read_condition(text, self._scope))  # noqa: B023

    def _texts(self, name: str) -> Iterator[tuple[Node, str]]:
        """Yield the texts of a field that is a text or a list of texts."""
        if not self._place.has(name):
            return
        place = self._place[name]
        for one in place.items() if isinstance(place.value, list) else [place]:
            if isinstance(one.value, str):
                yield one, one.value

    def _items(self) -> list[str]:
        """Return the names of the map's elements, even if its values cannot be read."""
        place = self._place["map"]
        return place.names() if isinstance(place.value, dict) else [ONE_ITEM]

    def _map(self) -> Map | None:
        """Return the map of the step, or None if it has none; report errors in the map."""
        said = self._said
        if not self._place.has("map"):
            for name in _WITH_MAP:
                if self._place.has(name):
                    self._problems.add(self._place[name], "it goes with map, which this step does not have.")
            return None
        place = self._place["map"]
        if said.max_parallel is not UNSET and said.max_parallel < 1:
            self._problems.note(self._place["max_parallel"].misfit("must be 1 or more"))
        named = {name: place[name] for name in place.names()} if isinstance(place.value, dict) else {ONE_ITEM: place}
        if not named:
            self._problems.add(place, "it names nothing to map over.")
        over = {}
        for name, one in named.items():
            with self._problems.gathered():
                over[name] = self._over(one)
        lengths = {len(one) for one in over.values() if isinstance(one, list)}
        if len(lengths) > 1 and not said.product:
            self._problems.add(place, "lists that are mapped side by side must be of one length; or say product: true.")
        return Map(over, said.product, None if said.max_parallel is UNSET else said.max_parallel)

    def _over(self, place: Node) -> Expression | list[Any]:
        """Return the values of a map: an expression or a literal list. Raises UnusableNode."""
        if isinstance(place.value, list):
            if "${" in repr(place.value):
                raise UnusableNode(place, "a list that is written out holds values, not expressions.")
            return place.value
        value = _expressed(place, lambda: value_of(str(place.value), self._scope))
        if isinstance(value, str | Text):
            raise place.misfit("must be one expression, such as ${fetch.result.lines}, or a list")
        return value


def _expressed(place: Node, read: Callable[[], Said]) -> Said:
    try:
        return read()
    except Inexpressible as error:
        raise UnusableNode(place, str(error)) from None


def listed(said: str | list[str] | UnsetType) -> list[str]:
    """Return a field that is a text or a list of texts as a list."""
    if said is UNSET:
        return []
    return [said] if isinstance(said, str) else said


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
    """Read a dag; report its errors and return None if there are any. Raises UnusableNode."""
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
