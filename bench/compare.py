"""`python -m bench.compare REV`: measure this tree and an earlier revision alternately, and print each change.

Each tree is measured by its own `bench/`, since a benchmark imports modules by names that change; a file of rows that
differs is named. Each turn is one run of `python -m bench` on either tree. Every other turn begins with the other tree,
so that a change in the load of the machine affects both alike.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from bench.__main__ import STORES
from bench.report import with_unit
from bench.rows import ROWS
from bench.worker import ROOT

TURNS = 7
ALLOWED = 0.07  # how much worse a figure may be
MEASURED = ("src", "bench", "tests")  # the tests have the PostgreSQL server that a benchmark starts
Key = tuple[str, str, str]  # row, store, figure


@dataclass(frozen=True, slots=True)
class Compared:
    """The medians of one figure on both trees. `change` is the change for the better: -0.1 is 10 % worse."""

    row: str
    store: str
    figure: str
    before: float
    after: float

    @property
    def change(self) -> float:
        if not self.before or not self.after:
            return 0.0
        return self.after / self.before - 1 if self.figure.endswith("per_s") else self.before / self.after - 1

    @property
    def is_worse(self) -> bool:
        return self.change < -ALLOWED


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare; 1 when a figure is worse by more than is allowed."""
    asked = _parse(arguments)
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory() as folder:
        before = extract(asked.revision, Path(folder))
        if not (before / "bench" / "compare.py").exists():
            sys.exit(f"{asked.revision} cannot be compared: its bench does not have the options that this one needs.")
        for name in changed_rows(asked.revision):
            console.print(f"{name} is not the same in {asked.revision}: compare its rows with care.", highlight=False)
        samples: dict[Path, list[dict[Key, float]]] = {before: [], ROOT: []}
        for turn in range(asked.turns):
            for tree in (before, ROOT) if turn % 2 == 0 else (ROOT, before):
                name = asked.revision if tree is before else "this tree"
                console.print(f"Turn {turn + 1} of {asked.turns}: {name}", highlight=False)
                samples[tree].append(measure(tree, asked.store, asked.only or [], Path(folder) / "out.json"))
    found, missing = compared(samples[before], samples[ROOT])
    Console().print(table(found, asked.revision))
    for row, store in missing:
        console.print(f"{row} on {store} was not measured in every turn, so it is not compared.")
    return int(bool(missing) or any(one.is_worse for one in found))


def extract(revision: str, folder: Path) -> Path:
    """Unpack what a benchmark of a revision needs; return the folder that holds it."""
    packed = subprocess.run(
        ["git", "archive", "--format=tar", revision, *MEASURED], cwd=ROOT, check=True, capture_output=True
    )
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def changed_rows(revision: str) -> list[str]:
    """Return the files of rows that differ from a revision in more than the names that they import."""
    diff = ["git", "diff", "--unified=0", revision, "--", "bench/rows"]
    text = subprocess.run(diff, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    found: dict[str, None] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("+++ "):
            name = line.removeprefix("+++ b/")
        elif line[:1] in "+-" and not line.startswith("---") and not line[1:].startswith(("from ", "import ")):
            found[name] = None
    return list(found)


def measure(tree: Path, store: str, rows: Sequence[str], out: Path) -> dict[Key, float]:
    """Measure each row of a tree once. A row that fails has no figures."""
    only = [argument for row in rows for argument in ("--only", row)]
    command = [sys.executable, "-m", "bench", "--repeat", "1", "--no-raw", "--store", store, "--out", str(out), *only]
    out.unlink(missing_ok=True)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree / "src"), str(tree)])}
    subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.DEVNULL, check=False)
    if not out.exists():  # an earlier revision may not know a row
        return {}
    document: dict[str, Any] = msgspec.json.decode(out.read_bytes())
    return {(row["row"], row["store"], name): value for row in document["rows"] for name, value in row["ours"].items()}


def compared(
    before: Sequence[Mapping[Key, float]], after: Sequence[Mapping[Key, float]]
) -> tuple[list[Compared], list[tuple[str, str]]]:
    """Return the medians of the figures that every turn has, and the rows and stores of which a turn lacks a figure."""
    turns = (*before, *after)
    keys = dict.fromkeys(key for turn in turns for key in turn)
    whole = [key for key in keys if all(key in turn for turn in turns)]
    found = [Compared(*key, median(one[key] for one in before), median(one[key] for one in after)) for key in whole]
    return found, list(dict.fromkeys(key[:2] for key in keys if key not in whole))


def table(found: Sequence[Compared], revision: str) -> Table:
    """Format each figure as a line, and mark those that are worse than allowed."""
    made = Table("row", "store", "figure", revision, "this tree", "change", "")
    for one in found:
        texts = [with_unit(one.figure, value) or f"{value:,.2f}" for value in (one.before, one.after)]
        made.add_row(one.row, one.store, one.figure, *texts, f"{one.change:+.1%}", "WORSE" if one.is_worse else "")
    return made


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description="Measure two revisions alternately.")
    parser.add_argument("revision", help="the revision to compare with")
    parser.add_argument("--store", choices=STORES, default="both")
    parser.add_argument("--only", action="append", choices=[row.name for row in ROWS], metavar="ROW")
    parser.add_argument("--turns", type=int, default=TURNS, help=f"measurements on each tree (default {TURNS})")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
