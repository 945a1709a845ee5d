"""Describe a dag and its steps as readable facts, and compare two versions of a dag."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from tickwork.core.blob_ref import Path
from tickwork.core.dag.graph import Graph, JsonTemplate, Map, Placeholder, Step, Template
from tickwork.core.dag.graph_view import condition_text, expression_text
from tickwork.core.limits.limits import Shared
from tickwork.core.limits.task_limits import decode_task_limits
from tickwork.core.retry import RetryPolicy
from tickwork.core.text.duration import format_duration

Facts = dict[str, Any]  # JSON's own types


class DagChange(NamedTuple):
    """A difference between two versions of a dag.

    `what` is "added" or "removed" (a step), or "changed" (a field). `step` is None for a field of the dag itself.
    """

    what: str
    step: str | None
    field: str | None = None
    old: Any = None
    new: Any = None


def changes(old: Graph, new: Graph) -> list[DagChange]:
    """Return the differences of two versions: of the dag, of its steps in the order of `new`, then removed steps."""
    found = [DagChange("changed", None, *one) for one in _differences(dag_facts(old), dag_facts(new))]
    for step in new.steps:
        before = old.by_name.get(step.name)
        if before is None:
            found.append(DagChange("added", step.name))
        else:
            found += [
                DagChange("changed", step.name, *one) for one in _differences(step_facts(before), step_facts(step))
            ]
    return found + [DagChange("removed", step.name) for step in old.steps if step.name not in new.by_name]


def _differences(old: Facts, new: Facts) -> Iterator[tuple[str, Any, Any]]:
    for name in {**old, **new}:
        if old.get(name) != new.get(name):
            yield name, old.get(name), new.get(name)


def dag_facts(graph: Graph) -> Facts:
    """Return the facts about a dag without its steps. Empty values are left out."""
    facts = {
        "description": graph.description,
        "params": graph.params.get("properties", {}),
        "result": shown(graph.result),
        "on": [list(one) for one in graph.on],
        "produce": list(graph.produce),
        **template_facts(graph.run),
    }
    return {name: value for name, value in facts.items() if value not in (None, "", [], {}) and name != "task"}


def step_facts(step: Step) -> Facts:
    """Return the facts about a step. Empty values are left out."""
    facts = {
        **({} if step.job is None else template_facts(step.job)),
        "after": list(step.parents),
        "run_if": None if step.run_if == "all_succeeded" else step.run_if,
        "when": [condition_text(one) for one in step.when],
        "args": shown(step.args),
        **({} if step.map is None else _map_facts(step.map)),
        **({} if step.approval is None else _plain(step.approval)),
        "group": step.group,
        "produce": list(step.produce),
        "may_fail": step.may_fail or None,
    }
    return {name: value for name, value in facts.items() if value not in (None, "", [], {})}


def template_facts(job: Template) -> Facts:
    """Return the facts about the jobs of a template, under the names of the job options."""
    policy = _plain(job.policy)
    retry = policy.pop("retry")
    task_limits = decode_task_limits(job.task_limits)
    return {
        "task": job.task,
        "queue": job.queue,
        "priority": job.priority,
        "labels": list(job.labels),
        "tenant": job.tenant,
        "needs": job.needs,
        "retries": retry["retries"],
        "backoff": f"{retry['base']} x {retry['factor']:g}, up to {retry['cap']}",
        **policy,
        "limits": [
            limit.name if isinstance(limit, Shared) else f"{limit.name}: {limit.said}" for limit in task_limits.limits
        ],
        "breaker": None if task_limits.breaker is None else task_limits.breaker.said,
    }


def shown(template: JsonTemplate) -> Any:
    """Return the value of a template with its expressions in their places, as in a YAML file."""
    value = msgspec.json.decode(template.json)
    for hole in template.holes:
        value = _put(value, hole.where, hole)
    return value


def _put(value: Any, where: Path, hole: Placeholder) -> Any:
    if not where:
        return expression_text(hole.value)
    key, *rest = where
    value[key] = _put(value.get(key) if isinstance(value, dict) else value[key], tuple(rest), hole)
    return value


def _map_facts(map: Map) -> Facts:
    over = {name: one if isinstance(one, list) else expression_text(one) for name, one in map.over.items()}
    return {"product" if map.product else "map": over, "max_parallel": map.max_parallel}


def _plain(value: Any) -> Any:
    """Return a value in JSON's own types; durations as users write them."""
    match value:
        case timedelta():
            return format_duration(value)
        case tuple() | list():
            return [_plain(one) for one in value]
        case RetryPolicy():
            return {name.name: _plain(getattr(value, name.name)) for name in fields(value)}
        case msgspec.Struct():
            return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
        case _:
            return value
