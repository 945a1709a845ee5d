"""Command line of the simulator. `python -m sim --seeds N --from K --jobs J` runs seeds K to K+N-1 in J processes."""

from __future__ import annotations

import argparse
import os
import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sim.run import Outcome, Report, quiet, run_seeds

_LINE_EVERY_S = 5.0


def main() -> int:
    """Run the seeds; return 0 if every invariant held and all required events occurred."""
    parser = argparse.ArgumentParser(prog="python -m sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, metavar="N", help="how many seeds to run (300)")
    parser.add_argument("--from", type=int, default=0, metavar="K", dest="first", help="the first of them (0)")
    parser.add_argument("--failures", type=int, default=1, metavar="F", help="stop after so many that failed (1)")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parser.add_argument("--jobs", type=int, default=cores, metavar="J", help=f"processes (one for each core: {cores})")
    given = parser.parse_args()
    quiet()
    console = Console(highlight=False, soft_wrap=True)
    began = time.monotonic()
    report = _run(console, given.first, given.seeds, given.failures, min(given.jobs, given.seeds))
    _tell(console, report, given.first, given.seeds, time.monotonic() - began)
    return 0 if _good(report, given.seeds) else 1


def _run(console: Console, first: int, count: int, most_failures: int, jobs: int) -> Report:
    seeds = range(first, first + count)
    if not console.is_terminal:
        return run_seeds(seeds, _Lines(console, count), most_failures=most_failures, jobs=jobs)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("seeds", total=count)
        return run_seeds(
            seeds, lambda report: progress.update(task, completed=report.seeds), most_failures=most_failures, jobs=jobs
        )


class _Lines:
    """Reports progress as a line every few seconds, for logs."""

    def __init__(self, console: Console, count: int) -> None:
        self._console = console
        self._count = count
        self._next = time.monotonic() + _LINE_EVERY_S

    def __call__(self, report: Report) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _LINE_EVERY_S
            self._console.print(f"{report.seeds} of {self._count} seeds, {report.hours:.1f} virtual hours")


def _tell(console: Console, report: Report, first: int, count: int, took_s: float) -> None:
    for failure in report.failures:
        _tell_failure(console, failure)
    for what in sorted(report.counts):
        console.print(f"{report.counts[what]:>9,}  {what}", markup=False)
    if _enough(count) and report.unseen:
        console.print(f"RED: this run never saw: {', '.join(report.unseen)}")
    console.print(
        f"{report.seeds} of {count} seeds ({first} to {first + report.seeds - 1}), {report.hours:.2f} virtual hours, "
        f"{report.seeds / max(took_s, 1e-9):.1f} seeds/s, {len(report.failures)} failed"
    )


def _tell_failure(console: Console, failure: Outcome) -> None:
    for line in failure.told[-30:]:
        console.print(line, markup=False)
    console.print(f"seed {failure.seed} broke {failure.broken}: {failure.message}", markup=False)
    console.print(f"replay: make sim SEEDS=1 FROM={failure.seed}\n", markup=False)


def _enough(count: int) -> bool:
    """Return whether a run of `count` seeds must have seen all required events; a replay of one seed need not."""
    return count >= 100


def _good(report: Report, count: int) -> bool:
    return not report.failures and not (_enough(count) and report.unseen)


if __name__ == "__main__":
    sys.exit(main())
