"""Report the results of the experiment as tables and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from rich import box
from rich.table import Table

from bench.places import Place
from bench.report import machine
from bench.shapes.measures import Sizes
from bench.shapes.run import Outcome

PATH = Path(__file__).parent.parent / "results" / "shapes.json"
WIDE = 122
# The measurement and figures of each column.
Columns = dict[str, tuple[str, tuple[str, ...]]]
_COSTS: Columns = {
    "insert": ("drain", ("insert_per_s",)),
    "drain": ("drain", ("per_s",)),
    "by two": ("drain_by_two", ("per_s",)),
    "start ms": ("latency", ("p50_ms", "p99_ms")),
    "WAL bytes": ("drain", ("wal_bytes_per_job",)),
    "commits": ("drain", ("commits_per_job",)),
    "dead": ("drain", ("dead_tuples_per_job",)),
}
_PRESSURE: Columns = {
    "many queued": ("backlog", ("per_s",)),
    "held": ("hold", ("first_per_s", "last_per_s")),
    "its claims ms": ("hold", ("first_claim_p99_ms", "last_claim_p99_ms", "claim_max_ms")),
    "beside readers": ("readers", ("per_s",)),
}
_COSTS_CAPTION = (
    "insert, drain (median), by two processes: jobs/s. Start: p50 / p99. WAL bytes, commits and dead rows: of one job "
    "from its insert to its end."
)
_PRESSURE_CAPTION = (
    "jobs/s: the first of many queued; the first / the last seconds beside a transaction that is held open; beside "
    "four readers. Its claims: p99 of the first / of the last seconds / the longest; fused, with the finish."
)


def tables(outcomes: Sequence[Outcome]) -> list[Table]:
    """Return two tables with a line for each variant: the cost of a job, and its change under load."""
    return [
        _table("Shapes: what a job costs", outcomes, _COSTS, _COSTS_CAPTION),
        _table("Shapes: under pressure", outcomes, _PRESSURE, _PRESSURE_CAPTION),
    ]


def _table(title: str, outcomes: Sequence[Outcome], columns: Columns, caption: str) -> Table:
    made = Table(title=title, caption=caption, box=box.SIMPLE_HEAD)
    made.title_justify = made.caption_justify = "left"
    made.add_column("store", no_wrap=True)
    made.add_column("shape", no_wrap=True)
    for column in columns:
        made.add_column(column, justify="right", no_wrap=True)
    for outcome in outcomes:
        made.add_row(outcome.variant.store, outcome.variant.name, *_line(outcome, columns))
    return made


def _line(outcome: Outcome, columns: Columns) -> list[str]:
    return [
        "failed" if measure in outcome.errors else _cell(outcome.figures(measure), names)
        for measure, names in columns.values()
    ]


def _cell(figures: Mapping[str, float], names: Sequence[str]) -> str:
    return " / ".join(_shown(name, figures[name]) for name in names if name in figures)


def _shown(name: str, value: float) -> str:
    if name.endswith("_ms"):
        return f"{value:.1f}" if value < 100 else f"{value:.0f}"
    if name in {"commits_per_job", "dead_tuples_per_job"}:
        return f"{value:.2g}"
    return f"{value:,.0f}"


def facts_of(places: Sequence[Place], sizes: Sizes) -> dict[str, Any]:
    """Return the facts besides the shapes that affect the figures."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "stores": {place.name: place.facts() for place in places},
        "sizes": asdict(sizes),
    }


def write(outcomes: Sequence[Outcome], facts: Mapping[str, Any], path: Path = PATH) -> Path:
    """Write all results as JSON, including each single sample."""
    document = {**facts, "variants": [_document(outcome) for outcome in outcomes]}
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
    return path


def _document(outcome: Outcome) -> dict[str, Any]:
    return {
        **asdict(outcome.variant),
        "name": outcome.variant.name,
        "figures": {measure: outcome.figures(measure) for measure in outcome.samples},
        "samples": outcome.samples,
        "errors": outcome.errors,
    }
