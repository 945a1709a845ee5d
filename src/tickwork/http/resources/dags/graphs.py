"""Graphs in the API: the nodes and edges of a dag or of a run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Literal

import msgspec
from starlette.responses import Response

from tickwork.core.dag import graph_view
from tickwork.core.dag.graph import Graph
from tickwork.http.framework.route import Struct

MERMAID = "text/vnd.mermaid"


class GraphQuery(Struct):
    """The format: nodes and edges as JSON, or a Mermaid flowchart."""

    format: Literal["json", "mermaid"] = "json"


class NodeBody(Struct, omit_defaults=True):
    """A step. `level` is the length of the longest chain of steps before it, for drawing. In a run, it has a `state`.

    Default values are left out, since a run of 1,000 steps is read often.
    """

    name: str
    level: int
    kind: str = "job"
    task: str | None = None
    mapped: bool = False
    run_if: str = "all_succeeded"
    when: list[str] = msgspec.field(default_factory=list)
    group: str = ""
    state: str | None = None
    may_fail: bool = False


class EdgeBody(Struct):
    """A dependency of a step on another step: "data" if it uses the result of the other step, otherwise "order"."""

    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    kind: str


class GraphBody(Struct):
    """Steps and their dependencies."""

    nodes: list[NodeBody]
    edges: list[EdgeBody]


class PlacedEdge(Struct, array_like=True):
    """An edge as an array: the indexes of both steps among the nodes, from 0 on, and its kind."""

    source: int
    target: int
    kind: str


class RunGraphBody(Struct):
    """The steps of a run and their dependencies. Runs with the same `structure` differ only in the states of steps."""

    version: int
    structure: str
    nodes: list[NodeBody]
    edges: list[PlacedEdge]


def run_graph(graph: Graph, states: Mapping[str, str], version: int) -> RunGraphBody:
    found = graph_body(graph)
    places = {node.name: place for place, node in enumerate(found.nodes)}
    edges = [PlacedEdge(places[edge.source], places[edge.target], edge.kind) for edge in found.edges]
    structure = hashlib.sha256(msgspec.json.encode((found.nodes, edges))).hexdigest()[:16]
    for node in found.nodes:
        node.state = states.get(node.name)
    return RunGraphBody(version, structure, found.nodes, edges)


def graph_body(graph: Graph) -> GraphBody:
    found = graph_view.graph_json(graph)
    nodes = [NodeBody(**node) for node in found["nodes"]]
    return GraphBody(nodes, [EdgeBody(edge["from"], edge["to"], edge["kind"]) for edge in found["edges"]])


def flowchart(text: str) -> Response:
    return Response(text, media_type=f"{MERMAID}; charset=utf-8")
