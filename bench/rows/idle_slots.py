"""Benchmark of idle slots: the share of time in which slots are idle although enough jobs are due.

Jobs take 50 ms without CPU, with always more free keys than slots. The idle time is the time between the end of one
handler and the start of the next, from the start of all workers until few jobs are left. For fleets of single slots,
the same number of threads sleeps for the same time in a loop, which shows what this machine can reach. For other
fleets, these threads would use CPU time that is measured.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import NamedTuple

from bench import witness
from bench.places import Database
from bench.rows.base import LOOK_S, START_LIMIT_S, Sample, Sizes, fill_with, opened
from bench.tasks import SPAN_LINE, SPAN_S
from bench.worker import running_worker, wait_until
from tickwork import Tickwork

Put = Callable[[Tickwork, int, int], None]

_WARM_NS = 300_000_000  # after the first start of the last worker
_TENANTS = 4
_SLOWEST = 4  # time limit as a multiple of the expected time


class Span(NamedTuple):
    """The start and end of a handler in nanoseconds, and its process."""

    began: int
    ended: int
    pid: int


class Fleet(NamedTuple):
    workers: int
    slots: int

    @property
    def all_slots(self) -> int:
        return self.workers * self.slots

    @property
    def keys(self) -> int:
        return max(40, 3 * self.all_slots)


FLEETS = tuple(Fleet(workers, slots) for slots in (1, 8) for workers in (1, 2, 4, 8, 16))


def plain(app: Tickwork, jobs: int, keys: int) -> None:
    fill_with(app.tasks["span"], [(number, 0) for number in range(jobs)], 1000)


def keyed(app: Tickwork, jobs: int, keys: int) -> None:
    fill_with(app.tasks["span_keyed"], [(number, number % keys) for number in range(jobs)], 1000)


def in_order(app: Tickwork, jobs: int, keys: int) -> None:
    fill_with(app.tasks["span_in_order"], [(number, number % keys) for number in range(jobs)], 1000)


def tenants(app: Tickwork, jobs: int, keys: int) -> None:
    for tenant in range(_TENANTS):
        task = app.tasks["span"].options(tenant=f"tenant{tenant}")
        fill_with(task, [(number, 0) for number in range(tenant, jobs, _TENANTS)], 1000)


LOADS: dict[str, Put] = {"plain": plain, "keyed": keyed, "sequence": in_order, "tenants": tenants}


def idle_slots(database: Database, sizes: Sizes) -> Sample:
    """Measure the largest idle share of all fleets for each load; the single figures are in the extra ones."""
    extra: dict[str, float] = {}
    for load, put in LOADS.items():
        for fleet in FLEETS[: sizes.idle_fleets]:
            idle, ratio = _measured(database, put, fleet, sizes.idle_slots_s)
            extra[f"{load}_{fleet.workers}x{fleet.slots}_percent"] = idle
            if load == "plain" and fleet.slots == 1:
                extra[f"{load}_{fleet.workers}x{fleet.slots}_ratio"] = ratio
    worst = {load: max(value for name, value in extra.items() if _is_of(name, load)) for load in LOADS}
    return Sample({f"{load}_percent": value for load, value in worst.items()}, extra)


def _is_of(name: str, load: str) -> bool:
    return name.startswith(f"{load}_") and name.endswith("_percent")


_runs = count()


def _measured(database: Database, put: Put, fleet: Fleet, seconds: float) -> tuple[float, float]:
    """Return the idle share of slots in percent, and the number of starts relative to bare threads."""
    left = max(100, 2 * fleet.keys)
    jobs = left + round(fleet.all_slots * seconds / SPAN_S)
    folder = database.folder / f"fleet{next(_runs)}"
    folder.mkdir()
    path = witness.make(folder)
    with ExitStack() as stack:
        app = stack.enter_context(opened(database))
        put(app, jobs, fleet.keys)
        bare = stack.enter_context(_Bare(fleet.all_slots if fleet.slots == 1 else 0))
        for number in range(fleet.workers):
            (folder / str(number)).mkdir()
            options = ["-c", str(fleet.slots), "--processes", "1"]
            worker = stack.enter_context(running_worker(database.url, folder / str(number), witness.env(path), options))
        limit_s = START_LIMIT_S + _SLOWEST * seconds
        wait_until(lambda: _ended(path) >= jobs - left, "most jobs done", limit_s, worker, LOOK_S)
        spans = sorted(_spans(path))[: jobs - left]
        wait_until(lambda: not database.queued(), "all jobs taken", limit_s, worker, LOOK_S)
    firsts: dict[int, int] = {}
    for span in spans:
        firsts.setdefault(span.pid, span.began)
    since, until = max(firsts.values()) + _WARM_NS, spans[-1].began
    busy = sum(max(0, min(span.ended, until) - max(span.began, since)) for span in spans)
    started = sum(since <= span.began < until for span in spans)
    share = busy / (fleet.all_slots * (until - since))
    return 100 * (1 - share), started / bare.between(since, until)


def _ended(path: Path) -> int:
    return path.stat().st_size // SPAN_LINE


def _spans(path: Path) -> list[Span]:
    lines = path.read_text().split("\n")[:-1]
    return [Span(*(int(word) for word in line.split(" ")[1:])) for line in lines]


class _Bare:
    """Threads that sleep for the duration of a job in a loop."""

    def __init__(self, threads: int) -> None:
        self._over = threading.Event()
        self._ends: list[int] = []
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(threads)]

    def _run(self) -> None:
        while not self._over.is_set():
            time.sleep(SPAN_S)
            self._ends.append(time.time_ns())

    def between(self, since: int, until: int) -> int:
        """Return how many sleeps were made between two times."""
        return max(1, sum(since <= end < until for end in self._ends))

    def __enter__(self) -> _Bare:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
