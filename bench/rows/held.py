"""Benchmarks with many jobs that a full limit or a paused task holds: start latency of other jobs, and claim time.

There is a store for each number of held jobs. The jobs are enqueued and parked once, with startable jobs in between;
then the stores are measured in turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from itertools import count
from statistics import median
from typing import Any

from bench import witness
from bench.feeder import paced
from bench.places import Database, Place
from bench.rows.base import LOOK_S, START_LIMIT_S, WARM_UP, Block, Measure, Sample, Sizes, fill_with, opened
from bench.stats import percentiles
from bench.worker import BenchFailed, WorkerProcess, running_worker, wait_until
from tickwork import Tickwork
from tickwork.core.ids import WorkerId
from tickwork.core.job_stamper import declared_rules
from tickwork.store.base import WorkerRegistration

_OURS = WorkerId("bench")  # holds the limit and makes the timed claims; runs no jobs
_LEASE = timedelta(hours=1)
_CLAIM = 10
_PARKED_PER_S = 500  # slower parking aborts the measurement
_FULL = "full"

Hold = Callable[[Tickwork], tuple[str, tuple[Any, ...]]]
"""Has something hold jobs, and returns of which task and with which arguments after their number."""


def by_limit(app: Tickwork) -> tuple[str, tuple[Any, ...]]:
    """Hold jobs by a limit of one: claim a job of a key, so that other jobs of the key are held."""
    app.tasks["stamp_limited"].enqueue(-1, _FULL)
    _claim(app, 1)
    return "stamp_limited", (_FULL,)


def by_gate(app: Tickwork) -> tuple[str, tuple[Any, ...]]:
    """Hold jobs by pausing their task."""
    app.pause(task="noop", reason="the benchmark")
    return "noop", ()


def behind(hold: Hold) -> Block:
    """Return a block that measures with held jobs and without."""

    @contextmanager
    def block(place: Place, sizes: Sizes) -> Iterator[Measure]:
        with ExitStack() as stack:
            stores = {held: stack.enter_context(_store(place, hold, held, sizes)) for held in sizes.held}

            def once() -> Sample:
                found = {held: store.measure(sizes) for held, store in stores.items()}
                most, least = found[max(found)], found[min(found)]
                figures = {name: most[name] for name in ("p50", "p95", "p99", "claim_ms")}
                growth = {"claim_growth_ratio": most["claim_ms"] / least["claim_ms"]}
                extra = {f"held_{held}_{name}": value for held, one in found.items() for name, value in one.items()}
                return Sample({**figures, **growth}, extra)

            yield once

    return block


@contextmanager
def _store(place: Place, hold: Hold, held: int, sizes: Sizes) -> Iterator[_Store]:
    with place.fresh() as database, opened(database) as app:
        store = _Store(database, app)
        definitions = [task.definition() for task in app.tasks.values()]
        app.store.register_worker(WorkerRegistration(_OURS, "bench", 1, "0", (), (), 1), definitions, _LEASE)
        app.store.limits.declare_limits(declared_rules(definitions))
        task, arguments = hold(app)
        store.park(task, [(-2 - number, *arguments) for number in range(held)], sizes)
        yield store


class _Store:
    """A store with held jobs, on which workers are started as needed."""

    def __init__(self, database: Database, app: Tickwork) -> None:
        self._database = database
        self._app = app
        self._witness = witness.make(database.folder)
        self._numbers = count()
        self._burst: dict[str, float] = {}

    def park(self, task: str, rows: Sequence[tuple[Any, ...]], sizes: Sizes) -> None:
        """Enqueue jobs that are held, with a startable one from time to time, and wait until all are parked."""
        if not rows:
            return
        with self._serving() as worker:
            sent: dict[int, int] = {}
            began = time.monotonic()
            for start in range(0, len(rows), sizes.batch):
                fill_with(self._app.tasks[task], rows[start : start + sizes.batch], sizes.batch)
                sent |= self._send("stamp", ())
            filled = time.monotonic()
            limit_s = START_LIMIT_S + len(rows) / _PARKED_PER_S
            for _ in paced(limit_s, sizes.latency_per_s):
                if self._database.parked() >= len(rows):
                    break
                worker.check()
                sent |= self._send("stamp", ())
            if self._database.parked() < len(rows):
                raise BenchFailed(f"{self._database.parked()} of {len(rows)} jobs were parked in {limit_s:.0f} s.")
            parked = time.monotonic()
            waits = self._waits_ms(sent, worker)
        self._burst = {f"burst_{name}_ms": value for name, value in percentiles(waits).items()}
        self._burst |= {"filled_s": filled - began, "parked_s": parked - began, "burst_latest_ms": max(waits)}
        self._database.settle()

    def measure(self, sizes: Sizes) -> dict[str, float]:
        """Measure start latency of plain jobs and of startable jobs of the held task in turn, and claim times."""
        with self._serving() as worker:
            plain: dict[int, int] = {}
            limited: dict[int, int] = {}
            for number in paced(sizes.latency_s, sizes.latency_per_s * 2):
                if number % 2:
                    limited |= self._send("stamp_limited", (f"key {number}",))
                else:
                    plain |= self._send("stamp", ())
            waits, limited_waits = self._waits_ms(plain, worker), self._waits_ms(limited, worker)
        figures = {**percentiles(waits), "latest_ms": max(waits)}
        figures |= {f"limited_{name}_ms": value for name, value in percentiles(limited_waits).items()}
        return {**figures, **self._claims(sizes), **self._burst}

    def _claims(self, sizes: Sizes) -> dict[str, float]:
        """Measure the duration of a claim of ten jobs without a running worker."""
        app, jobs = self._app, sizes.claims * _CLAIM
        nothing = [_timed_ms(lambda: _claim(app, _CLAIM, 0)) for _ in range(sizes.claims)]
        fill_with(app.tasks["noop_async"], [(number,) for number in range(jobs)], sizes.batch)
        self._database.settle()
        plain = [_timed_ms(lambda: _claim(app, _CLAIM)) for _ in range(sizes.claims)]
        keys = [(number, f"claim {next(self._numbers)}") for number in range(jobs)]
        fill_with(app.tasks["stamp_limited"], keys, sizes.batch)
        self._database.settle()
        limited = [_timed_ms(lambda: _claim(app, _CLAIM)) for _ in range(sizes.claims)]
        return {"claim_ms": median(plain), "limited_claim_ms": median(limited), "empty_claim_ms": median(nothing)}

    @contextmanager
    def _serving(self) -> Iterator[WorkerProcess]:
        """Run a warm worker."""
        with running_worker(self._database.url, self._database.folder, witness.env(self._witness)) as worker:
            self._waits_ms({one: at for _ in range(WARM_UP) for one, at in self._send("stamp", ()).items()}, worker)
            yield worker

    def _send(self, task: str, arguments: tuple[Any, ...]) -> dict[int, int]:
        """Enqueue a job that may start; return the time, by its number."""
        number, now = next(self._numbers), time.time_ns()
        self._app.tasks[task].enqueue(number, *arguments)
        return {number: now}

    def _waits_ms(self, sent: dict[int, int], worker: WorkerProcess) -> list[float]:
        def all_started() -> bool:
            return sent.keys() <= witness.read(self._witness).keys()

        wait_until(all_started, "all jobs that may start started", START_LIMIT_S, worker, LOOK_S)
        started = witness.read(self._witness)
        return [(started[number] - at) / 1e6 for number, at in sent.items()]


def _claim(app: Tickwork, room: int, there: int | None = None) -> None:
    """Claim up to `room` jobs. Raises BenchFailed if their number is not the expected one."""
    claimed = app.store.claim_jobs(_OURS, ["default"], list(app.tasks), room).jobs
    expected = room if there is None else there
    if len(claimed) != expected:
        raise BenchFailed(f"A claim brought {len(claimed)} jobs and not {expected}.")


def _timed_ms(call: Callable[[], None]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000
