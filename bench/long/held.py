"""Measure full load with and without a snapshot that another session holds open.

Meanwhile, PostgreSQL cannot remove rows that were deleted since, and SQLite cannot reset its log.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from statistics import fmean

from bench import witness
from bench.long.base import Result, Series, Sizes, Tell, microseconds, over_time, windows
from bench.long.watch import watching
from bench.places import Database, Place
from bench.rows.base import WARM_UP, fill, fill_with, serving
from bench.stats import per_job
from bench.worker import WorkerProcess
from tickwork import Tickwork

_NAP_S = 0.02
KEYS = 1_000
FillUp = Callable[[Tickwork, int], list[str]]  # enqueues a round of jobs, numbered from a number on


@dataclass(frozen=True, slots=True)
class Run:
    """One run: the rate in each window, the cost per job in the store, memory and size over time."""

    rates: list[float]
    costs: dict[str, float]
    series: dict[str, Series]
    last_size_mb: float
    stolen_percent: float


def held(place: Place, sizes: Sizes, tell: Tell) -> Result:
    """Enqueue and drain at full speed, without and with a snapshot held, and compare."""
    return _compare(place, sizes, tell, lambda app, first: fill(app, "stamp", sizes.held_round, sizes.batch, first))


def held_limited(place: Place, sizes: Sizes, tell: Tell) -> Result:
    """Do the same as `held` with jobs under a limit of one for each of a thousand keys in rotation."""

    def fill_limited(app: Tickwork, first: int) -> list[str]:
        rows = [(number, f"key-{number % KEYS}") for number in range(first, first + sizes.held_round)]
        return fill_with(app.tasks["stamp_limited"], rows, sizes.batch)

    return _compare(place, sizes, tell, fill_limited)


def _compare(place: Place, sizes: Sizes, tell: Tell, fill_up: FillUp) -> Result:
    tell(f"without a snapshot, {sizes.held_s:.0f} s")
    plain = _run(place, sizes, fill_up, hold=False)
    tell(f"without: {fmean(plain.rates):,.0f}/s. With a snapshot held, {sizes.held_s:.0f} s")
    kept = _run(place, sizes, fill_up, hold=True)
    late = -(-len(kept.rates) // 3)  # the last third, where the effect is largest
    ratio = fmean(kept.rates[-late:]) / fmean(plain.rates[-late:])
    figures = {
        "plain_per_s": fmean(plain.rates),
        "plain_first_window_per_s": plain.rates[0],
        "plain_last_window_per_s": plain.rates[-1],
        "held_per_s": fmean(kept.rates),
        "held_first_window_per_s": kept.rates[0],
        "held_last_window_per_s": kept.rates[-1],
        "held_to_plain_ratio": fmean(kept.rates) / fmean(plain.rates),
        "held_to_plain_last_third_ratio": ratio,
        "plain_last_size_mb": plain.last_size_mb,
        "held_last_size_mb": kept.last_size_mb,
        "plain_stolen_percent": plain.stolen_percent,
        "held_stolen_percent": kept.stolen_percent,
        **{f"plain_{name}": value for name, value in plain.costs.items()},
        **{f"held_{name}": value for name, value in kept.costs.items()},
    }
    series = {f"{name}, held": value for name, value in kept.series.items()}
    series |= {f"{name}, plain": value for name, value in plain.series.items()}
    return Result(figures, series, {"at the end, at least 90 % of the rate without a snapshot": ratio >= 0.9})


def _run(place: Place, sizes: Sizes, fill_up: FillUp, *, hold: bool) -> Run:
    with place.fresh() as database, serving(database) as (app, _, worker):
        snapshot = database.holding_snapshot() if hold else nullcontext()
        with snapshot, watching(worker, database, sizes.look_s) as watch:
            before, began_us = database.counters(), microseconds(app.store.now())
            _keep_busy(app, database, worker, sizes, fill_up)
            after = database.counters()
        ended = database.ended_in(began_us, sizes.held_window_s)
    rates = windows(ended, sizes.held_window_s, sizes.held_s)
    costs = per_job(before, after, sum(ended.values()))
    series = {"per_s": over_time(rates, sizes.held_window_s), **watch.series()}
    return Run(rates, costs, series, watch.size_mb[-1][1], watch.mean_stolen_percent())


def _keep_busy(app: Tickwork, database: Database, worker: WorkerProcess, sizes: Sizes, fill_up: FillUp) -> None:
    """Enqueue a round whenever half of the one before has started, so that the worker never waits."""
    path, sent, until = database.folder / "witness", 0, time.monotonic() + sizes.held_s
    while time.monotonic() < until:
        if witness.count(path) - WARM_UP < sent - sizes.held_round // 2:
            worker.check()
            time.sleep(_NAP_S)
            continue
        fill_up(app, sent)
        sent += sizes.held_round
