"""Command line of the long benchmarks, `python -m bench.long`: measure, print tables, write JSON and a plot."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence

from rich.console import Console

from bench.__main__ import STORES, introduce, leave
from bench.long import report
from bench.long.base import FULL, QUICK, Part, Result, Sizes
from bench.long.burst import burst
from bench.long.held import held, held_limited
from bench.long.lists import lists
from bench.long.pages import pages
from bench.long.reads import reads
from bench.long.scale import scale
from bench.long.sleepers import sleepers
from bench.long.sustained import sustained
from bench.places import Place, opened_places
from bench.report import WIDE, facts_of
from bench.run import FAILURES

PARTS: dict[str, Part] = {
    "held": held,
    "held-limited": held_limited,
    "burst": burst,
    "sustained": sustained,
    "sleepers": sleepers,
    "scale": scale,
    "lists": lists,
    "pages": pages,
    "reads": reads,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the selected parts; return 1 if one failed."""
    asked = _parse(arguments)
    signal.signal(signal.SIGTERM, leave)
    console, out = Console(stderr=True), Console(width=None if sys.stdout.isatty() else WIDE)
    sizes = QUICK if asked.quick else FULL
    sizes = sizes if asked.minutes is None else sizes.lasting(asked.minutes)
    failed = False
    with opened_places(STORES[asked.store]) as places:
        facts = facts_of(places, sizes, 1)
        introduce(console, facts)
        for name in asked.only or PARTS:
            results = {place.name: _run(console, name, place, sizes) for place in places}
            found = {store: result for store, result in results.items() if result is not None}
            failed |= len(found) < len(results)
            if found:
                _show(out, name, found)
            report.write(facts, {name: found})  # write after each part, so that later failures lose nothing
    console.print(f"Everything that was measured is in {report.LONG}, drawn in {report.draw()}")
    return int(failed)


def _show(out: Console, name: str, found: dict[str, Result]) -> None:
    out.print(report.table(name, found))
    for line in report.verdicts(found):
        out.print(line, highlight=False)


def _run(console: Console, name: str, place: Place, sizes: Sizes) -> Result | None:
    """Measure one part on one store. If it fails, print the error and return None."""
    began = time.monotonic()

    def tell(what: str) -> None:
        console.print(f"  {time.monotonic() - began:4.0f} s  {name} on {place.name}: {what}", highlight=False)

    try:
        return PARTS[name](place, sizes, tell)
    except FAILURES as error:
        console.print(f"{name} on {place.name} failed. {type(error).__name__}: {error}", markup=False)
        return None


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.long", description="Measure what takes long to find out.")
    parser.add_argument("--store", choices=STORES, default="both")
    parser.add_argument("--only", action="append", choices=PARTS, help="measure only this; may be given several times")
    parser.add_argument("--minutes", type=_minutes, help="how long the sustained load lasts (default 10)")
    parser.add_argument("--quick", action="store_true", help="small numbers: does it run at all?")
    return parser.parse_args(arguments)


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of minutes")
    return minutes


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
