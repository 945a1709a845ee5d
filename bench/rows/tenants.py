"""Benchmark of fairness: a small tenant with a steady rate of short jobs, beside a large tenant in the same queue.

It compares start latency on one worker with default options: alone, with slots always free, and with the large tenant,
whose jobs could use all slots all the time. Jobs take 1 ms. A running job is never stopped for another tenant's, so a
new job always waits for a free slot; with jobs of 5 ms, this wait would exceed the effect of fair turns.

Start latency is counted from just before `enqueue` is called. The part of the queue is also shown separately: the wait
from when the job is due, which is when its row is written. The rest is the caller's wait for the database, which is
busy with the jobs of the large tenant.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from bench.feeder import paced
from bench.places import Database
from bench.rows.base import LOOK_S, START_LIMIT_S, Sample, Sizes, fill_with, serving
from bench.rows.promptness import promptness
from bench.stats import percentiles
from bench.worker import BenchFailed, WorkerProcess, wait_until
from tickwork import Tickwork

Seen = Callable[[], dict[int, int]]

_LARGE_FROM = 1_000_000  # the first job number of the large tenant


def beside_large(database: Database, sizes: Sizes) -> Sample:
    """Measure the small tenant alone, then beside the large one, which has jobs for the whole measurement."""
    with serving(database) as (app, seen, worker):
        alone = _waits(app, seen, worker, sizes, 0)
        rows = [(_LARGE_FROM + number,) for number in range(sizes.tenant_jobs)]
        fill_with(app.tasks["short"].options(tenant="large"), rows, sizes.batch)
        before, began = database.finished(), time.monotonic()
        beside = _waits(app, seen, worker, sizes, _LARGE_FROM // 2)
        done, took = database.finished() - before, time.monotonic() - began
        if not database.queued():
            raise BenchFailed("The large tenant had no more jobs before the end.")
    sample = promptness(beside.started_ms)
    quiet = {f"alone_{name}_ms": value for name, value in percentiles(alone.started_ms).items()}
    queued = {
        "queued_p95_ms": percentiles(beside.queued_ms)["p95"],
        "alone_queued_p95_ms": percentiles(alone.queued_ms)["p95"],
    }
    moved = {
        "moved_ratio": sample.figures["p95"] / quiet["alone_p95_ms"],
        "queued_ratio": queued["queued_p95_ms"] / queued["alone_queued_p95_ms"],
    }
    return Sample({**sample.figures, **moved}, {**sample.extra, **quiet, **queued, "all_per_s": done / took})


class Waits(NamedTuple):
    """The waits of jobs for their start: from just before they were enqueued, and from when they were due."""

    started_ms: list[float]
    queued_ms: list[float]


def _waits(app: Tickwork, seen: Seen, worker: WorkerProcess, sizes: Sizes, first: int) -> Waits:
    """Return how long each job of the small tenant waited, numbered from `first` on."""
    small, sent, jobs = app.tasks["short"].options(tenant="small"), {}, {}
    for step in paced(sizes.tenant_s, sizes.tenant_per_s):
        sent[first + step] = time.time_ns()
        jobs[first + step] = small.enqueue(first + step)
    wait_until(lambda: sent.keys() <= seen().keys(), "all jobs started", START_LIMIT_S, worker, LOOK_S)
    started = seen()
    ahead_ns = app.store.now().timestamp() * 1e9 - time.time_ns()  # how far the store's clock is ahead of ours
    due = {number: job.view.run_at.timestamp() * 1e9 - ahead_ns for number, job in jobs.items()}
    return Waits(
        [(started[number] - at) / 1e6 for number, at in sent.items()],
        [(started[number] - at) / 1e6 for number, at in due.items()],
    )
