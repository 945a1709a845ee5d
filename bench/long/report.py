"""Report the results of a long run as tables, JSON and a plot; results of other runs are kept in the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
from rich import box
from rich.table import Table

from bench.long.base import Result
from bench.long.plot import Curve, Panel, plot
from bench.report import RESULTS, with_unit

LONG = RESULTS / "long.json"
PLOT = RESULTS / "long.svg"

Found = dict[str, dict[str, dict[str, Any]]]  # by part, and by store
_PLOTTED = {"per_s": "jobs/s", "rss_mb": "memory of the worker, MB", "size_mb": "size of the store, MB"}


def table(part: str, results: Mapping[str, Result]) -> Table:
    """Return a table of the figures of a part, with a column for each store."""
    made = Table(title=part, box=box.SIMPLE_HEAD, title_justify="left")
    made.add_column("figure")
    for store in results:
        made.add_column(store, justify="right", no_wrap=True)
    names = dict.fromkeys(name for result in results.values() for name in [*result.figures, *result.pairs])
    for name in names:
        made.add_row(name, *(_shown(name, result) for result in results.values()))
    return made


def _shown(name: str, result: Result) -> str:
    if name in result.pairs:
        small, large = result.pairs[name]
        growth = f" ({large / small:.2f}x)" if small else ""
        return f"{with_unit(name, small)} → {with_unit(name, large)}{growth}"
    return with_unit(name, result.figures[name]) if name in result.figures else ""


def verdicts(results: Mapping[str, Result]) -> list[str]:
    """Return the promised limits that were not kept, and how many were kept."""
    lines: list[str] = []
    for store, result in results.items():
        broken = [promise for promise, kept in result.promises.items() if not kept]
        lines += [f"{store}: NOT kept: {promise}" for promise in broken]
        if result.promises:
            lines.append(f"{store}: {len(result.promises) - len(broken)} of {len(result.promises)} promises kept")
    return lines


def write(facts: Mapping[str, Any], found: Mapping[str, Mapping[str, Result]], path: Path = LONG) -> Path:
    """Add results to the file. A part that was measured again on a store replaces its earlier result."""
    everything = read(path)
    for part, results in found.items():
        for store, result in results.items():
            everything.setdefault(part, {})[store] = {**facts, **asdict(result)}
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(everything), indent=2) + b"\n")
    return path


def read(path: Path = LONG) -> Found:
    return msgspec.json.decode(path.read_bytes(), type=Found) if path.exists() else {}


def draw(path: Path = PLOT, source: Path = LONG) -> Path:
    """Plot all series over time of the file."""
    panels = [
        Panel(f"{part}: {label}", curves)
        for part, stores in read(source).items()
        for ending, label in _PLOTTED.items()
        if (curves := _curves(stores, ending))
    ]
    path.write_text(plot(panels))
    return path


def _curves(stores: Mapping[str, Mapping[str, Any]], figure: str) -> list[Curve]:
    found: list[Curve] = []
    for store, result in stores.items():
        for name, series in result["series"].items():
            base, _, variant = name.partition(", ")
            if base == figure:
                found.append(Curve(f"{store}, {variant}" if variant else store, [(at, value) for at, value in series]))
    return found
