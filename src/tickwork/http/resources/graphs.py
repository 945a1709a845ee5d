"""Graphs as they are sent: nodes and edges, of a dag or of a run of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec
from starlette.responses import Response

from tickwork.core.dag import drawing
from tickwork.core.dag.graph import Graph
from tickwork.http.route import Struct

MERMAID = "text/vnd.mermaid"


class GraphQuery(Struct):
    """As nodes and edges, or as a Mermaid flowchart."""

    format: Literal["json", "mermaid"] = "json"


class NodeBody(Struct):
    """A step: what it runs, when, and where to draw it. `level` steps come before it. Of a run, it has a `state`."""

    name: str
    kind: str
    task: str | None
    mapped: bool
    run_if: str
    when: list[str]
    group: str
    level: int
    state: str | None = None


class EdgeBody(Struct):
    """That a step waits for another. It is "data" where it wants its result, otherwise "order"."""

    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    kind: str


class GraphBody(Struct):
    """Steps and who waits for whom."""

    nodes: list[NodeBody]
    edges: list[EdgeBody]


def graph_body(graph: Graph, states: Mapping[str, str] | None = None) -> GraphBody:
    found = drawing.graph_json(graph)
    nodes = [NodeBody(**node, state=(states or {}).get(node["name"])) for node in found["nodes"]]
    return GraphBody(nodes, [EdgeBody(edge["from"], edge["to"], edge["kind"]) for edge in found["edges"]])


def flowchart(text: str) -> Response:
    return Response(text, media_type=f"{MERMAID}; charset=utf-8")
