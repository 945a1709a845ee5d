"""Measure repeated bursts of jobs: the time from the first enqueue to the last completion of each burst."""

from __future__ import annotations

import time

from bench import witness
from bench.long.base import Result, Series, Sizes, Tell
from bench.long.watch import watching
from bench.places import Database, Place
from bench.rows.base import LOOK_S, SLOWEST, START_LIMIT_S, WARM_UP, fill, serving
from bench.worker import BenchFailed, WorkerProcess, wait_until

_AT_ONCE = 10_000  # jobs in one call; a burst consists of several calls


def burst(place: Place, sizes: Sizes, tell: Tell) -> Result:
    """Time several bursts, with an idle worker between them."""
    enqueued: Series = []
    drained: Series = []
    with place.fresh() as database, serving(database) as (app, _, worker):
        with watching(worker, database, sizes.look_s) as watch:
            first = time.monotonic()
            for number in range(sizes.bursts):
                tell(f"burst {number + 1} of {sizes.bursts}")
                began = time.monotonic()
                fill(app, "stamp", sizes.burst, _AT_ONCE, first=number * sizes.burst)
                enqueued.append((began - first, time.monotonic() - began))
                _wait_for(database, worker, WARM_UP + (number + 1) * sizes.burst)
                drained.append((began - first, time.monotonic() - began))
                time.sleep(sizes.burst_pause_s)
        if database.unsuccessful():
            raise BenchFailed(f"{database.unsuccessful()} jobs did not succeed.\n{worker.log_tail()}")
    took = [value for _, value in drained]
    figures = {
        "burst_count": float(sizes.burst),
        "first_enqueued_s": enqueued[0][1],
        "first_drained_s": took[0],
        "last_drained_s": took[-1],
        "slowest_drained_s": max(took),
        "last_per_s": sizes.burst / took[-1],
        **watch.figures(),
    }
    return Result(figures, {"enqueued_s": enqueued, "drained_s": drained, **watch.series()})


def _wait_for(database: Database, worker: WorkerProcess, count: int) -> None:
    """Wait for `count` completions. Polls the witness file first, because counting rows would slow down the worker."""
    path, limit_s = database.folder / "witness", START_LIMIT_S + count / SLOWEST
    wait_until(lambda: witness.count(path) >= count, f"{count} jobs started", limit_s, worker, LOOK_S)
    wait_until(lambda: database.finished() >= count, f"{count} jobs done", limit_s, worker, LOOK_S)
