"""Print the details page of one version of a dag."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import click

from tickwork.cli.output import console, count_of, instant_and_age, print_facts, print_head, print_table
from tickwork.core.arguments.encode_by_schema import told
from tickwork.core.dag.diff import dag_facts, step_facts
from tickwork.core.dag.graph import Graph, Step
from tickwork.store.dags import DagView

if TYPE_CHECKING:
    from tickwork.cli.output import Row

_STEPS_SHOWN = 200
_RUN_FACTS = ("limits", "breaker", "priority", "labels", "tenant", "needs", "timeout", "expires")
_STEP_FACTS = ("retries", "timeout", "queue", "limits", "priority", "tenant", "needs", "produce")
_USUAL = {"retries": 3, "queue": "default"}


def print_dag(view: DagView, newest: int, now: datetime) -> None:
    """Print the page."""
    graph, out = view.graph, console()
    of = "" if view.version == newest else f" (the newest is {newest})"
    steps = count_of(len(graph.steps), "step")
    print_head(out, view.name, f"version {view.version}{of}", steps, graph.description)
    print_facts(out, _facts(view, now))
    click.echo()
    print_table(["STEP", "RUNS", "AFTER", "HOW"], [_row(step) for step in graph.steps[:_STEPS_SHOWN]], out)
    if len(graph.steps) > _STEPS_SHOWN:
        click.echo(f"... and {len(graph.steps) - _STEPS_SHOWN:,} more; all with --json")


def _facts(view: DagView, now: datetime) -> list[tuple[str, str | None]]:
    """Return the facts about a dag that are shown above its steps."""
    graph, facts = view.graph, dag_facts(view.graph)
    return [
        ("stored", instant_and_age(view.created_at, now)),
        ("parameters", _params(graph)),
        ("result", json.dumps(facts["result"], ensure_ascii=False) if "result" in facts else None),
        ("runs on", " or ".join(" and ".join(one) for one in graph.on or ())),
        ("produces", ", ".join(graph.produce or ())),
        ("retries", str(facts["retries"]) if facts.get("retries") else None),
        *((name, _said(facts[name])) for name in _RUN_FACTS if name in facts),
    ]


def _params(graph: Graph) -> str:
    """Return the parameters as text, like "day: string, factor: integer = 10"."""
    parts = []
    for name, schema in graph.params.get("properties", {}).items():
        default = f" = {json.dumps(schema['default'], ensure_ascii=False)}" if "default" in schema else ""
        parts.append(f"{name}: {told(schema, graph.params)}{default}")
    return ", ".join(parts) or "none"


def _row(step: Step) -> Row:
    runs = step.job.task if step.job is not None else "approval"
    return [step.name, runs, ", ".join(step.parents), "; ".join(_how(step))]


def _how(step: Step) -> Iterator[str]:
    """Yield the properties of a step that differ from the defaults."""
    facts = step_facts(step)
    for name in ("map", "product"):
        if name in facts:
            at_once = f", {facts['max_parallel']:,} at once" if "max_parallel" in facts else ""
            yield f"{name} over {', '.join(map(_said, facts[name].values()))}{at_once}"
    if step.run_if != "all_succeeded":
        yield f"if {step.run_if}"
    if step.may_fail:
        yield "may fail"
    yield from (f"when {one}" for one in facts.get("when", ()))
    if step.approval is not None:
        asked = facts.get("args", {}).get("text", step.approval.text)
        yield f"by {', '.join(step.approval.who) or 'any user'}: {asked}"
    for name in _STEP_FACTS:
        if name in facts and facts[name] != _USUAL.get(name):
            yield f"{name} {_said(facts[name])}"


def _said(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) if len(value) <= 5 else f"{len(value):,} elements"
    return str(value)
