"""Graphs as they are sent: nodes and edges, of a dag or of a run of it."""

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
    """As nodes and edges, or as a Mermaid flowchart."""

    format: Literal["json", "mermaid"] = "json"


class NodeBody(Struct, omit_defaults=True):
    """A step: what it runs, when, and where to draw it. `level` steps come before it. Of a run, it has a `state`.

    What is as it is by default is left out: a run of 1,000 steps is read often.
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
    """That a step waits for another. It is "data" where it wants its result, otherwise "order"."""

    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    kind: str


class GraphBody(Struct):
    """Steps and who waits for whom."""

    nodes: list[NodeBody]
    edges: list[EdgeBody]


class PlacedEdge(Struct, array_like=True):
    """An edge as an array: the places of both steps among the nodes, from 0 on, and its kind."""

    source: int
    target: int
    kind: str


class RunGraphBody(Struct):
    """The steps of a run and who waits for whom. Where `structure` is the same, a drawing of it is, but for states."""

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
