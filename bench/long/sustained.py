"""Measure a steady load for minutes at a share of the worker's full rate, to find degradation over time."""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass

from bench import witness
from bench.feeder import feeding
from bench.long.base import Result, Series, Sizes, Tell, microseconds, over_time, windows
from bench.long.watch import Watch, watching
from bench.places import Place
from bench.rows.base import LOOK_S, SLOWEST, START_LIMIT_S, WARM_UP, fill, opened, serving
from bench.rows.drain import finish_some
from bench.rows.promptness import latencies_ms
from bench.stats import per_job, percentile
from bench.worker import BenchFailed, wait_until


@dataclass(frozen=True, slots=True)
class Load:
    """The results of a steady load: rates in wide and narrow windows, latency, costs, memory and size."""

    rates: list[float]
    narrow_rates: list[float]
    p99_ms: Series
    costs: dict[str, float]
    watch: Watch


def sustained(place: Place, sizes: Sizes, tell: Tell) -> Result:
    """Measure the full rate of enqueueing and draining; then enqueue at a share of it for minutes."""
    if sizes.sustained_s < 2 * sizes.sustained_window_s:
        raise BenchFailed(f"A sustained load takes at least {2 * sizes.sustained_window_s:.0f} s; ask for more.")
    tell("how fast are enqueueing and draining?")
    full = _full_rate(place, sizes)
    per_s = max(1, round(full * sizes.sustained_share / sizes.sustained_batch)) * sizes.sustained_batch
    tell(f"{per_s:,}/s of {full:,.0f}/s for {sizes.sustained_s:.0f} s")
    load = _load(place, sizes, per_s)
    ratio = load.rates[-1] / load.rates[1]
    figures = {
        "full_per_s": full,
        "offered_per_s": float(per_s),
        "second_window_per_s": load.rates[1],
        "last_window_per_s": load.rates[-1],
        "last_to_second_ratio": ratio,
        "second_window_p99_ms": load.p99_ms[1][1],
        "last_window_p99_ms": load.p99_ms[-1][1],
        "worst_window_p99_ms": max(value for _, value in load.p99_ms),
        **load.watch.figures(),
        **load.costs,
    }
    series = {"per_s": over_time(load.narrow_rates, sizes.look_s), "p99_ms": load.p99_ms, **load.watch.series()}
    return Result(figures, series, {"the last minute is within 10 % of the second": abs(ratio - 1) <= 0.1})


def _full_rate(place: Place, sizes: Sizes) -> float:
    """Return the rate of enqueueing and draining in turn; on SQLite, the two would wait for each other."""
    with place.fresh() as database:
        with opened(database) as app:
            began = time.perf_counter()
            fill(app, "noop", sizes.calibration, sizes.sustained_batch)
            enqueued_s = time.perf_counter() - began
        database.settle()
        drained = finish_some(database, sizes.calibration).figures["per_s"]
        return sizes.calibration / (enqueued_s + sizes.calibration / drained)


def _load(place: Place, sizes: Sizes, per_s: int) -> Load:
    batch, wide_s, seconds = sizes.sustained_batch, sizes.sustained_window_s, sizes.sustained_s
    with place.fresh() as database, serving(database) as (app, _, worker):
        path = database.folder / "witness"
        with watching(worker, database, sizes.look_s) as watch:
            before, began_us = database.counters(), microseconds(app.store.now())
            with feeding(database.url, database.folder, "stamp", per_s, batch, seconds) as feeder:
                feeder.join()
            sent = feeder.sent_ns(batch)
            all_in = WARM_UP + len(sent)
            limit_s = START_LIMIT_S + len(sent) / SLOWEST
            wait_until(lambda: witness.count(path) >= all_in, f"{all_in} jobs started", limit_s, worker, LOOK_S)
            wait_until(lambda: database.finished() >= all_in, f"{all_in} jobs done", limit_s, worker, LOOK_S)
        began_us = database.first_end_us(began_us)  # the feeder needs some time to start
        costs = per_job(before, database.counters(), len(sent))
        rates = windows(database.ended_in(began_us, wide_s), wide_s, seconds)
        narrow = windows(database.ended_in(began_us, sizes.look_s), sizes.look_s, seconds)
        p99 = p99_by_window(sent, witness.started_ns(path, len(sent)), wide_s)
    return Load(rates, narrow, p99, costs, watch)


def p99_by_window(sent: array[int], started: array[int], window_s: float) -> Series:
    """Return the 99th percentile of the start latency of jobs sent in each window, at the window's end."""
    latencies: dict[int, list[float]] = {}
    for send, latency in zip(sent, latencies_ms(sent, started), strict=True):
        latencies.setdefault(int((send - sent[0]) / 1e9 / window_s), []).append(latency)
    return [((number + 1) * window_s, percentile(values, 99)) for number, values in sorted(latencies.items())]
