"""Tasks to call in dags, and ways to read the traced graph."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tickwork import Dag, InvalidDag, Tickwork
from tickwork.core.dag.graph import Step, decode_graph, encode_graph

app = Tickwork()


@app.task
def extract(day: str) -> list[int]:
    return [1, 2, 3]


@app.task
def transform(part: int, factor: int = 2, *, note: str = "") -> int:
    return part * factor


@app.task(retries=0)
def load(parts: list[int]) -> int:
    return sum(parts)


@app.task
def tell(text: str) -> str:
    return text


@app.task
def look(what: Any = None, more: Any = None) -> Any:
    return {"rows": 5, "where": {"path": "/a"}}


@app.task
def collect(*parts: Any, **named: Any) -> None: ...


@app.task
def is_there(path: str) -> bool:
    return True


Made = Callable[..., Dag[Any, Any]]


def steps(dag: Dag[Any, Any]) -> dict[str, Step]:
    """The steps of a dag as they are stored and read again."""
    graph = decode_graph(encode_graph(dag.graph))
    assert graph == dag.graph
    return graph.by_name


def parents(dag: Dag[Any, Any]) -> dict[str, list[str]]:
    return {name: list(step.parents) for name, step in steps(dag).items()}


def arguments(step: Step) -> tuple[Any, dict[tuple[str | int, ...], Any]]:
    """Return the arguments of a step as JSON, and its placeholders."""
    return json.loads(bytes(step.args.json)), {hole.where: hole.value for hole in step.args.holes}


def refusal(dag: Dag[Any, Any], kind: type[Exception] = InvalidDag) -> str:
    with pytest.raises(kind) as refused:
        dag.validate()
    assert isinstance(refused.value, ValueError)
    return str(refused.value)


def nested_dags() -> tuple[Dag[Any, Any], Dag[Any, Any]]:
    inner = Tickwork()

    @inner.dag
    def sums(day: str, factor: int = 3) -> int:
        return load(transform.map(extract(day), factor=factor))

    @inner.dag
    def several(day: str) -> Any:
        return {"sum": sums(day), "day": day, "list": [look()]}

    return sums, several
