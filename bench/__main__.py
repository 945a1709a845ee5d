"""Command line of the benchmarks, `python -m bench`: measure, print a table, write JSON, and stop all processes."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.status import Status

from bench import report
from bench.places import opened_places
from bench.rows import FULL, QUICK, ROWS, Row, Sample
from bench.run import Outcome, run_rows

STORES = {"sqlite": ["sqlite"], "postgres": ["postgres"], "both": ["sqlite", "postgres"]}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the selected rows; return 1 if a row failed."""
    asked = _parse(arguments)
    signal.signal(signal.SIGTERM, leave)
    console = Console(stderr=True)
    sizes, repeat = QUICK if asked.quick else FULL, asked.repeat or (1 if asked.quick else 3)
    rows = [row for row in ROWS if not asked.only or row.name in asked.only]
    with opened_places(STORES[asked.store]) as places:
        facts = report.facts_of(places, sizes, repeat)
        introduce(console, facts)
        with Teller(console, len(rows) * len(places)) as teller:
            outcomes = list(run_rows(places, rows, sizes, repeat, teller, raw=asked.raw))
    out = Console(width=None if sys.stdout.isatty() else report.WIDE)
    out.print(report.table(outcomes, out.width))
    console.print(f"Everything that was measured is in {report.write(outcomes, facts, asked.out)}")
    return int(any(outcome.error for outcome in outcomes))


class Teller:
    """Shows the progress of a run: a live line on a terminal, and a line for each finished row."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._total = total
        self._done = 0
        self._began = time.monotonic()
        self._status = Status("", console=console)

    def __enter__(self) -> Teller:
        if self._console.is_terminal:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def begins(self, row: Row, store: str, what: str) -> None:
        went = time.monotonic() - self._began
        self._status.update(f"[{self._done}/{self._total}] {row.title} on {store}: {what} ({went:.0f} s)")

    def measured(self, row: Row, store: str, what: str, sample: Sample) -> None:
        shown = ", ".join(f"{name} {value:,.1f}" for name, value in sample.figures.items())
        self._console.print(f"  {row.name} on {store}, {what}: {shown}", style="dim", highlight=False)

    def ended(self, outcome: Outcome) -> None:
        self._done += 1
        if outcome.error is not None:
            self._console.print(f"{outcome.row.name} on {outcome.store} failed. {outcome.error}", markup=False)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Tickwork beside raw loops.")
    parser.add_argument("--store", choices=STORES, default="both")
    parser.add_argument("--only", action="append", choices=[row.name for row in ROWS], metavar="ROW", help=_only_help())
    parser.add_argument("--repeat", type=_count, help="measurements of each row (default 3, with --quick 1)")
    parser.add_argument("--quick", action="store_true", help="small numbers, once: does it run at all?")
    parser.add_argument("--no-raw", dest="raw", action="store_false", help="leave out the raw loops")
    parser.add_argument("--out", type=Path, default=report.LATEST, help="where the JSON goes (default %(default)s)")
    return parser.parse_args(arguments)


def _only_help() -> str:
    return "measure only this row; may be given several times: " + ", ".join(row.name for row in ROWS)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def introduce(console: Console, facts: dict[str, object]) -> None:
    machine = facts["machine"]
    assert isinstance(machine, dict)
    console.print(
        f"{machine['cpu']}, {machine['cores']} cores, fsync {machine['fsync_ms']} ms, Python {machine['python']}"
    )
    if machine["load_before"] > 0.3 * (os.cpu_count() or 1):
        console.print(f"Other programs are at work here (load {machine['load_before']}): take the figures as rough.")


def leave(number: int, frame: object) -> None:
    raise SystemExit(128 + number)  # unwinding the stack stops all started processes


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
