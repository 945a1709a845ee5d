"""Cache the dag definitions that a store has read, and the version that each run uses."""

from __future__ import annotations

from typing import Any

from tickwork.blobs import LargeResults
from tickwork.core.dag.graph import Graph, decode_graph

_GRAPHS_KEPT, _RUNS_KEPT = 64, 10_000


class GraphCache:
    """A cache of graphs by dag and version, and of the version that each run uses. Neither ever changes.

    `large_results` reads and writes results that are kept in blobs.
    """

    def __init__(self, large_results: LargeResults) -> None:
        self.large_results = large_results
        self._known: dict[tuple[str, int], Graph] = {}
        self._of_runs: dict[str, tuple[str, int]] = {}

    def get(self, dag: str, version: int) -> Graph | None:
        """Return a graph; None if it is not cached."""
        return self._known.get((dag, version))

    def of_run(self, run: str) -> Graph | None:
        """Return the graph of a run; None if it is not cached."""
        place = self._of_runs.get(run)
        return None if place is None else self._known.get(place)

    def put(self, dag: str, version: int, text: str) -> Graph:
        """Decode a graph, cache it, and return it."""
        _make_room(self._known, _GRAPHS_KEPT)
        graph = self._known[dag, version] = decode_graph(text)
        return graph

    def note(self, run: str, dag: str, version: int) -> None:
        """Remember which version of a dag a run uses."""
        _make_room(self._of_runs, _RUNS_KEPT)
        self._of_runs[run] = (dag, version)


def _make_room(known: dict[Any, Any], most: int) -> None:
    """Evict the oldest entries until there is room for one more."""
    while len(known) >= most:
        known.pop(next(iter(known)), None)  # Another thread may have removed it.
