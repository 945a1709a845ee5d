"""Command line, `python -m bench.shapes`: measure every shape, print a table, write JSON, stop all processes."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from bench.places import opened_places
from bench.shapes import report
from bench.shapes.measures import Sizes
from bench.shapes.run import measure_all
from bench.shapes.variants import SHAPES, VARIANTS

STORES = {"sqlite": ["sqlite"], "postgres": ["postgres"], "both": ["sqlite", "postgres"]}
FULL = Sizes()
QUICK = Sizes(drain=4_000, latency=30, backlog=40_000, first=4_000, hold_s=4.0, read=4_000, repeat=1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the selected measurements; return 1 if one failed."""
    asked = _parse(arguments)
    signal.signal(signal.SIGTERM, _leave)
    console = Console(stderr=True)
    sizes = QUICK if asked.quick else FULL
    sizes = replace(sizes, hold_s=asked.hold_s or sizes.hold_s)
    with opened_places(STORES[asked.store]) as places:
        facts = report.facts_of(places, sizes)
        stores = {place.name for place in places}
        variants = [one for one in VARIANTS if one.store in stores and one.shape in (asked.only or SHAPES)]
        outcomes = measure_all(places, variants, sizes, console)
    out = Console(width=None if sys.stdout.isatty() else report.WIDE)
    out.print(*report.tables(outcomes), sep="\n")
    console.print(f"Everything that was measured is in {report.write(outcomes, facts)}")
    return int(any(outcome.errors for outcome in outcomes))


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.shapes", description="Compare shapes of tables for jobs.")
    parser.add_argument("--store", choices=STORES, default="both")
    parser.add_argument("--only", action="append", choices=SHAPES, metavar="SHAPE", help="wide, split or append")
    parser.add_argument("--quick", action="store_true", help="small numbers, once: does it run at all?")
    parser.add_argument("--hold-s", type=_seconds, help="how long a transaction is held open (default 180, --quick 4)")
    return parser.parse_args(arguments)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 1 to 3600")
    return seconds


def _leave(number: int, frame: object) -> None:
    raise SystemExit(128 + number)  # unwinding the stack stops all started processes


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
