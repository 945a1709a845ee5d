"""Report the results of a run as a table and as JSON, with a description of the machine."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from rich import box
from rich.table import Table

from bench.places import Place, temporary_folder
from bench.run import Outcome
from bench.stats import percentile
from bench.worker import PROCESSES, ROOT
from tickwork.version import VERSION

RESULTS = Path(__file__).parent / "results"
LATEST = RESULTS / "latest.json"
_FSYNCS = 100


WIDE = 130  # terminal columns that the full table needs
_CAPTION = (
    "ms: p50/p95/p99. MB: PSS of all its processes. Ratio: ours to raw (p50). Spread: of our runs. "
    "WAL, commits, dead rows: of each job. Target: the most, where one is set."
)
_COSTS = {"wal_bytes_per_job": "WAL bytes", "commits_per_job": "commits", "dead_tuples_per_job": "dead rows"}
_FORMS = {
    "per_s": "{:,.0f}/s",
    "_ms": "{:,.2f} ms",
    "_s": "{:.2f} s",
    "_mb": "{:,.0f} MB",
    "_percent": "{:.2f} %",
    "_ratio": "{:.2f}",
    "_count": "{:,.0f}",
    "_per_job": "{:,.3g}",
}


def table(outcomes: Sequence[Outcome], width: int = WIDE) -> Table:
    """Return a table of our figures beside the raw ones, a line per row and store.

    On a narrow terminal, columns without figures are omitted first.
    """
    made = Table(title="Medians, beside raw loops on the same store", caption=_CAPTION, box=box.SIMPLE_HEAD)
    made.title_justify = made.caption_justify = "left"
    shown = ["ours", "target", "raw", "ratio", *(["spread", *_COSTS.values()] if width >= WIDE else [])]
    made.add_column("workload", min_width=10)
    made.add_column("store", no_wrap=True)
    for column in shown:
        made.add_column(column, justify="right", no_wrap=True)
    for outcome in outcomes:
        made.add_row(*_line(outcome)[: 2 + len(shown)])
    return made


def _line(outcome: Outcome) -> list[str]:
    row, extra = outcome.row, outcome.extra()
    ours = _figures(outcome.figures()) if outcome.error is None else "failed"
    ratio = next((f"{one:.2f}" for one in outcome.ratios().values()), "")
    apart = f"{outcome.spread():.0%}" if len(outcome.ours) > 1 else ""
    costs = [_cost(extra[name]) if name in extra else "" for name in _COSTS]
    return [row.title, outcome.store, ours, _target(outcome), _figures(outcome.raw_figures()), ratio, apart, *costs]


def _target(outcome: Outcome) -> str:
    """Return the targets of a row, with a mark if they were missed."""
    targets, figures = outcome.targets(), outcome.figures()
    missed = any(figures.get(name, most) > most for name, most in targets.items())
    return _figures(targets) + (" missed" if missed else "")


def _cost(value: float) -> str:
    return f"{value:.0f}" if value >= 10 or value == 0 else f"{value:.2g}"


def _figures(figures: Mapping[str, float]) -> str:
    """Format figures by the units at the end of their names; percentiles (in milliseconds) are put together."""
    ranks = [f"{value:.1f}" for name, value in figures.items() if name.startswith("p") and name[1:].isdecimal()]
    others = [shown for name, value in figures.items() if (shown := with_unit(name, value))]
    return ", ".join(["/".join(ranks) + " ms", *others] if ranks else others)


def with_unit(name: str, value: float) -> str:
    """Return a figure with its unit; empty if its name does not end in a unit."""
    for ending, form in _FORMS.items():
        if name.endswith(ending):
            return form.format(value)
    return ""


def write(outcomes: Sequence[Outcome], facts: Mapping[str, Any], path: Path = LATEST) -> Path:
    """Write all results as JSON, including each single measurement."""
    document = {**facts, "rows": [_document(outcome) for outcome in outcomes]}
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
    return path


def _document(outcome: Outcome) -> dict[str, Any]:
    return {
        "row": outcome.row.name,
        "title": outcome.row.title,
        "store": outcome.store,
        "unit": outcome.row.unit,
        "ours": outcome.figures(),
        "raw": outcome.raw_figures(),
        "ratio": outcome.ratios(),
        "spread": outcome.spread(),
        "extra": outcome.extra(),
        "targets": outcome.targets(),
        "error": outcome.error,
        "samples": {"ours": [asdict(one) for one in outcome.ours], "raw": [asdict(one) for one in outcome.raw]},
    }


# -- the machine


def machine() -> dict[str, Any]:
    """Return the properties of this machine that affect the figures."""
    return {
        "host": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": _first("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory": _first("/proc/meminfo", "MemTotal"),
        "python": platform.python_version(),
        "load_before": round(os.getloadavg()[0], 2),
        "fsync_ms": round(fsync_ms(), 3),
    }


def facts_of(places: Sequence[Place], sizes: Any, repeat: int) -> dict[str, Any]:
    """Return the facts that a reader needs to interpret the figures. `sizes` is a dataclass."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "tickwork": {"version": VERSION, "commit": _commit()},
        "machine": machine(),
        "stores": {place.name: place.facts() for place in places},
        "settings": {"worker": f"tickwork worker --processes {PROCESSES}, shipped defaults", "repeat": repeat},
        "sizes": asdict(sizes),
    }


def fsync_ms() -> float:
    """Return the median duration of a small durable write, which is the lower limit of every commit."""
    took: list[float] = []
    with temporary_folder() as folder, (folder / "probe").open("wb", buffering=0) as file:
        for _ in range(_FSYNCS):
            began = time.perf_counter()
            file.write(b"x" * 512)
            os.fsync(file.fileno())
            took.append((time.perf_counter() - began) * 1000)
    return percentile(took, 50)


def _first(path: str, name: str) -> str:
    lines = Path(path).read_text().splitlines() if Path(path).exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "unknown")


def _commit() -> str:
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(git, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"
