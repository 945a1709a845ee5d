"""Command line, `python -m bench.peers`: install peers, measure them and Tickwork, print tables, write JSON."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console
from rich.status import Status

from bench.peers import environments, report
from bench.peers.catalog import PEERS, Peer
from bench.peers.redis import RedisPlace
from bench.peers.run import Result, run_all
from bench.peers.workloads import FULL, QUICK, WORKLOADS, Place
from bench.places import PostgresPlace, SqlitePlace, temporary_folder
from bench.report import facts_of
from bench.worker import BenchFailed
from tests.postgres_server import PostgresServer


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the selected workloads; return 1 if a measurement failed."""
    asked = _parse(arguments)
    signal.signal(signal.SIGTERM, _leave)
    console = Console(stderr=True)
    sizes, repeat = QUICK if asked.quick else FULL, asked.repeat or (1 if asked.quick else 3)
    peers = [peer for peer in PEERS if not asked.only or peer.name in asked.only]
    missing = _install(peers, console)
    with _opened(peers, missing) as places:
        facts = {**facts_of([], sizes, repeat), "stores": {name: place.facts() for name, place in places.items()}}
        with Teller(console, len(peers) * len(WORKLOADS) * repeat) as teller:
            results = run_all(peers, places, missing, WORKLOADS, sizes, repeat, teller)
    out = Console(width=None if sys.stdout.isatty() else report.WIDE)
    out.print(report.headline(facts), highlight=False)
    for table in report.tables(results):
        out.print(table)
    console.print(f"Everything that was measured is in {report.write(results, facts)}")
    return int(any(result.error for result in results))


class Teller:
    """Shows the progress of a run: a live line on a terminal, and a line for each finished measurement."""

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

    def begins(self, result: Result, turn: int) -> None:
        went = time.monotonic() - self._began
        what = f"{result.workload.title}: {result.peer.name}, turn {turn + 1} ({went:.0f} s)"
        self._status.update(f"[{self._done}/{self._total}] {what}")

    def ended(self, result: Result) -> None:
        self._done += 1
        shown = result.error or "has nothing of the kind"
        if result.error is None and result.able:
            shown = ", ".join(f"{name} {value:,.2f}" for name, value in result.samples[-1].figures.items())
        self._console.print(f"  {result.workload.name}, {result.peer.name}: {shown}", highlight=False, markup=False)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description="Measure Tickwork beside its peers.")
    names = [peer.name for peer in PEERS]
    only = "measure only this one; may be given several times: " + ", ".join(names)
    parser.add_argument("--only", action="append", choices=names, metavar="PEER", help=only)
    parser.add_argument("--repeat", type=_count, help="measurements of each workload (default 3, with --quick 1)")
    parser.add_argument("--quick", action="store_true", help="small numbers, once: does it run at all?")
    return parser.parse_args(arguments)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def _install(peers: Sequence[Peer], console: Console) -> dict[str, str]:
    """Create missing environments; return the reason for each peer that cannot be installed."""
    failed: dict[str, str] = {}
    for name in dict.fromkeys(peer.environment for peer in peers if peer.environment is not None):
        if environments.is_installed(name):
            continue
        console.print(f"Installing {environments.pins(name)[0]} ...", highlight=False)
        try:
            environments.install(name)
        except BenchFailed as error:
            failed[name] = str(error)
    return {peer.name: failed[peer.environment] for peer in peers if peer.environment in failed}


@contextmanager
def _opened(peers: Sequence[Peer], missing: dict[str, str]) -> Iterator[dict[str, Place]]:
    """Start the stores that these peers need. A peer whose store is not available is added to `missing`."""
    needed = {peer.store for peer in peers}
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        places: dict[str, Place] = {"sqlite": SqlitePlace(folder)} if "sqlite" in needed else {}
        if "postgres" in needed:
            places["postgres"] = PostgresPlace(stack.enter_context(PostgresServer(fsync=True)), folder)
        if "redis" in needed:
            places |= _redis(folder, peers, missing)
        yield places


def _redis(folder: Path, peers: Sequence[Peer], missing: dict[str, str]) -> dict[str, Place]:
    try:
        return {"redis": RedisPlace(folder)}
    except BenchFailed as error:
        missing |= {peer.name: str(error) for peer in peers if peer.store == "redis"}
        return {}


def _leave(number: int, frame: object) -> None:
    raise SystemExit(128 + number)  # unwinding the stack stops all started processes


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
