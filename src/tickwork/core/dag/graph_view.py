"""Draw a graph: as a Mermaid flowchart, or as nodes and edges in JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tickwork.core.blob_ref import Path
from tickwork.core.dag.graph import (
    Condition,
    Expression,
    Graph,
    Item,
    Last,
    Param,
    Result,
    RunValue,
    Step,
    Text,
    steps_in,
)

_PLAIN_KEY = re.compile(r"[\w-]+")
_COMPARES = {"==", "!=", "<", "<=", ">", ">=", "in", "not in"}
_ENTITIES = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "`": "#96;"}
_STYLES = {
    "waiting": "fill:#fff,stroke:#999,color:#333",
    "queued": "fill:#fff,stroke:#36c,color:#333",
    "running": "fill:#cdf,stroke:#36c,color:#333",
    "succeeded": "fill:#cfc,stroke:#393,color:#333",
    "failed": "fill:#fcc,stroke:#c33,color:#333",
    "skipped": "fill:#eee,stroke:#999,color:#777,stroke-dasharray:4",
    "cancelled": "fill:#fec,stroke:#c83,color:#333",
    "dropped": "fill:#fec,stroke:#c83,color:#333",
    "expired": "fill:#fec,stroke:#c83,color:#333",
}


def mermaid(graph: Graph, states: Mapping[str, str] | None = None) -> str:
    """Return a Mermaid flowchart. Mapped steps have double sides, approvals are hexagons, conditions are dotted arrows.

    `states`, by step, colours each step by its state.
    """
    ids = {step.name: f"s{at}" for at, step in enumerate(graph.steps)}
    lines = ["flowchart TD", *_boxes(graph, ids)]
    for step in graph.steps:
        asked = {name for condition in step.when for name in steps_in(condition.value)}
        lines += [f"  {ids[one]} {'-.->' if one in asked else '-->'} {ids[step.name]}" for one in step.parents]
    return "\n".join([*lines, *_colours(ids, states or {})]) + "\n"


def _boxes(graph: Graph, ids: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of all steps, in a subgraph for each group."""
    groups = dict.fromkeys(step.group for step in graph.steps)
    for at, group in enumerate(groups):
        if group:
            yield f'  subgraph g{at}["{_label(group)}"]'
        for step in graph.steps:
            if step.group == group:
                yield f"  {ids[step.name]}{_box(step)}"
        if group:
            yield "  end"


def _box(step: Step) -> str:
    """Return the box of a step with its rules as label."""
    said = [step.name]
    if step.run_if != "all_succeeded":
        said.append(f"if {step.run_if}")
    if step.may_fail:
        said.append("may fail")
    said += [f"when {condition_text(condition)}" for condition in step.when]
    label = "<br/>".join(map(_label, said))
    if step.approval is not None:
        return f'{{{{"{label}"}}}}'
    return f'["{label}"]' if step.map is None else f'[["{label}"]]'


def _label(text: str) -> str:
    return "".join(_ENTITIES.get(one, one) for one in " ".join(text.split()))


def _colours(ids: Mapping[str, str], states: Mapping[str, str]) -> Iterator[str]:
    """Yield the styles of the states that occur, and the steps in each."""
    by_state: dict[str, list[str]] = {}
    for name, state in states.items():
        if name in ids and state in _STYLES:
            by_state.setdefault(state, []).append(ids[name])
    for state, members in by_state.items():
        yield f"  classDef {state} {_STYLES[state]}"
        yield f"  class {','.join(members)} {state}"


def graph_json(graph: Graph) -> dict[str, Any]:
    """Return the nodes and edges of a graph. `level` is the length of the longest path that leads to a node.

    The kind of an edge is "data" if the child uses the result of its parent, otherwise "order".
    """
    levels = _levels(graph)
    edges = []
    for step in graph.steps:
        wanted = set(_wanted(step))
        for parent in step.parents:
            edges.append({"from": parent, "to": step.name, "kind": "data" if parent in wanted else "order"})
    nodes = [_node(step, levels[step.name]) for step in graph.steps]
    return {"name": graph.name, "description": graph.description, "nodes": nodes, "edges": edges}


def _node(step: Step, level: int) -> dict[str, Any]:
    return {
        "name": step.name,
        "kind": "job" if step.approval is None else "approval",
        "task": None if step.job is None else step.job.task,
        "mapped": step.map is not None,
        "run_if": step.run_if,
        "when": [condition_text(condition) for condition in step.when],
        "group": step.group,
        "level": level,
        "may_fail": step.may_fail,
    }


def _wanted(step: Step) -> Iterator[str]:
    """Yield the steps whose results a step uses in its arguments, its map and its conditions."""
    over = [] if step.map is None else [one for one in step.map.over.values() if not isinstance(one, list)]
    for value in (*(hole.value for hole in step.args.holes), *over, *(one.value for one in step.when)):
        yield from steps_in(value)


def _levels(graph: Graph) -> dict[str, int]:
    """Return for each step the length of the longest path that leads to it."""
    levels = {step.name: 0 for step in graph.steps}
    waits_for = {step.name: len(step.parents) for step in graph.steps}
    free = [name for name, count in waits_for.items() if not count]
    for name in free:
        for child in graph.children[name]:
            levels[child] = max(levels[child], levels[name] + 1)
            waits_for[child] -= 1
            if not waits_for[child]:
                free.append(child)
    return levels


def condition_text(condition: Condition) -> str:
    """Return a condition in the syntax of a YAML file."""
    value = expression_text(condition.value)
    if condition.is_ == "true":
        return value
    if condition.is_ == "false":
        return f"not {value}"
    other = "" if condition.is_ not in _COMPARES else f" {msgspec.json.encode(condition.other).decode()}"
    return f"{value} {condition.is_}{other}"


def expression_text(expression: Expression) -> str:
    """Return an expression in the syntax of a YAML file. `Last` has no such syntax, and is shown as its first step."""
    match expression:
        case Text(parts):
            return "".join(
                part.replace("${", "$${") if isinstance(part, str) else expression_text(part) for part in parts
            )
        case Param(name, path):
            return f"${{params{_path_text((name, *path))}}}"
        case RunValue(path):
            return f"${{run{_path_text(path)}}}"
        case Result(step, path):
            return f"${{{step}.result{_path_text(path)}}}"
        case Item("item", path):
            return f"${{item{_path_text(path)}}}"
        case Item(name, path):
            return f"${{item{_path_text((name, *path))}}}"
        case Last(steps, path):
            return f"${{{steps[0]}.result{_path_text(path)}}}"


def _path_text(path: Path) -> str:
    return "".join(_part_text(part) for part in path)


def _part_text(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    if _PLAIN_KEY.fullmatch(part):
        return f".{part}"
    return f"['{part}']" if '"' in part else f'["{part}"]'
