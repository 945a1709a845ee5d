"""Measure one worker that runs very many sleeping async jobs concurrently."""

from __future__ import annotations

import time

from bench import witness
from bench.long.base import Result, Sizes, Tell
from bench.long.watch import watching
from bench.places import Place
from bench.rows.base import LOOK_S, START_LIMIT_S, opened
from bench.worker import BenchFailed, running_worker, wait_until

_SLOWEST_START = 100  # jobs per second


def sleepers(place: Place, sizes: Sizes, tell: Tell) -> Result:
    """Start a worker with a slot for each job, and count how many jobs sleep at the same time."""
    with place.fresh() as database, opened(database) as app:
        enqueue_many = app.tasks["sleeper"].enqueue_many
        for first in range(0, sizes.sleepers, sizes.batch):
            stop = min(first + sizes.batch, sizes.sleepers)
            enqueue_many([(number, sizes.sleep_s) for number in range(first, stop)])
        path = witness.make(database.folder)
        tell(f"{sizes.sleepers:,} jobs that sleep {sizes.sleep_s:.0f} s")
        options = ["--concurrency", str(sizes.sleepers)]
        began, began_ns = time.monotonic(), time.time_ns()
        with (
            running_worker(database.url, database.folder, witness.env(path), options) as worker,
            watching(worker, database, sizes.look_s) as watch,
        ):
            limit_s = START_LIMIT_S + sizes.sleep_s + sizes.sleepers / _SLOWEST_START
            done = lambda: database.finished() >= sizes.sleepers  # noqa: E731
            wait_until(done, f"{sizes.sleepers} jobs done", limit_s, worker, LOOK_S)
            took = time.monotonic() - began
        if database.unsuccessful():
            raise BenchFailed(f"{database.unsuccessful()} jobs did not succeed.\n{worker.log_tail()}")
        started = sorted(witness.started_ns(path, sizes.sleepers))
    at_once = most_at_once(started, sizes.sleep_s)
    figures = {
        "held_at_once_count": float(at_once),
        "first_running_s": (started[0] - began_ns) / 1e9,
        "all_running_s": (started[-1] - began_ns) / 1e9,
        "all_done_s": took,
        **watch.figures(),
    }
    return Result(figures, watch.series(), {f"{sizes.sleepers:,} held at once": at_once == sizes.sleepers})


def most_at_once(started_ns: list[int], sleep_s: float) -> int:
    """Return the largest number of jobs that slept at the same time: each sleeps for `sleep_s` after its start."""
    most = first = 0
    for number, start in enumerate(started_ns):
        while started_ns[first] + sleep_s * 1e9 <= start:
            first += 1
        most = max(most, number + 1 - first)
    return most
