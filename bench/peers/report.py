"""Report the results of a run: a sorted table for each workload with Tickwork marked, and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
from rich import box
from rich.table import Table

from bench.peers import environments
from bench.peers.catalog import Peer
from bench.peers.run import Result
from bench.peers.workloads import Workload

LATEST = Path(__file__).parent.parent / "results" / "peers.json"
WIDE = 150  # terminal columns that the full table needs
_STORES = {"sqlite": "SQLite", "postgres": "PostgreSQL", "redis": "Redis"}


def headline(facts: Mapping[str, Any]) -> str:
    """Return the facts about the machine and the stores that a reader of the tables needs."""
    machine = facts["machine"]
    where = f"{machine['cpu']}, {machine['cores']} cores for everything, fsync {machine['fsync_ms']} ms"
    stores = [f"{store['version']}: {store['settings']}" for store in facts["stores"].values()]
    return "\n".join([where, *stores, f"Medians of {facts['settings']['repeat']}."])


def tables(results: Sequence[Result]) -> Iterator[Table]:
    """Yield a table for each workload, in the order of the run."""
    for workload in {result.workload.name: result.workload for result in results}.values():
        yield _table(workload, [result for result in results if result.workload is workload])


def ranked(results: Sequence[Result]) -> list[Result]:
    """Sort results: best first, then peers without the feature, then failures."""

    def place(result: Result) -> tuple[int, float]:
        figures = list(result.figures().values())
        if not figures:
            return (1 if not result.able else 2), 0.0
        return 0, abs(figures[0]) if result.workload.best == "least" else -figures[0]

    return sorted(results, key=place)


def _table(workload: Workload, results: Sequence[Result]) -> Table:
    made = Table(title=f"{workload.title} (* ours)", box=box.SIMPLE_HEAD, title_justify="left")
    made.add_column("peer", no_wrap=True)
    made.add_column("store", no_wrap=True)
    for column in workload.columns.values():
        made.add_column(column, justify="right", no_wrap=True)
    made.add_column("spread", justify="right", no_wrap=True)
    counts = workload.name == "drain"
    for column in ["jobs", "counted"] if counts else []:
        made.add_column(column, justify="right", no_wrap=True)
    made.add_column("shape, or why not", overflow="fold")
    for result in ranked(results):
        made.add_row(*_line(result, counts), style="bold" if result.peer.ours else None)
    return made


def _line(result: Result, counts: bool) -> list[str]:
    peer, figures = result.peer, result.figures()
    shown = [_figure(figures.get(name)) for name in result.workload.columns]
    apart = f"{result.spread():.0%}" if figures and len(result.samples) > 1 else ""
    extra = [f"{result.jobs() or 0:,}", peer.counted] if counts else []
    return [f"{peer.name}{' *' if peer.ours else ''}", _STORES[peer.store], *shown, apart, *extra, _remark(result)]


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    places = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{places}f}"


def _remark(result: Result) -> str:
    if result.error is not None:
        lines = result.error.splitlines()
        return " ... ".join([f"failed: {lines[0]}", *lines[1:][-1:]])
    return result.peer.shape if result.able else "has nothing of the kind"


def write(results: Sequence[Result], facts: Mapping[str, Any], path: Path = LATEST) -> Path:
    """Write all results as JSON, including each single measurement."""
    peers = {result.peer.name: result.peer for result in results}
    document = {
        **facts,
        "peers": [_peer(peer) for peer in peers.values()],
        "rows": [_document(result) for result in results],
    }
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
    return path


def _peer(peer: Peer) -> dict[str, Any]:
    versions = [] if peer.environment is None else environments.pins(peer.environment)
    return {
        "peer": peer.name,
        "ours": peer.ours,
        "store": peer.store,
        "shape": peer.shape,
        "counted": peer.counted,
        "versions": versions,
    }


def _document(result: Result) -> dict[str, Any]:
    return {
        "workload": result.workload.name,
        "peer": result.peer.name,
        "able": result.able,
        "error": result.error,
        "figures": result.figures(),
        "spread": result.spread(),
        "jobs": result.jobs(),
        "samples": [asdict(sample) for sample in result.samples],
    }
