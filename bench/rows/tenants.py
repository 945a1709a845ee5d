"""A tenant with a steady trickle of short jobs, beside one that has very many of them in the same queue.

What is compared is start latency on one worker with shipped defaults: alone, where slots are always free; and with the
large tenant, which wants every slot all the time. Jobs take a millisecond: no job is stopped for another tenant's, so a
newcomer always waits until one of the slots is free, and jobs of 5 ms would add more by that than turns can.

Start latency begins before `enqueue` is called. What part of it is the queue's is told apart: the wait from when the
job is due, which is when its row is written. The rest is the caller's wait for the database, which is busy beside the
large tenant, whosever its jobs are.
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

_LARGE_FROM = 1_000_000  # its jobs have numbers from here on


def beside_large(database: Database, sizes: Sizes) -> Sample:
    """Measure the small tenant alone, and then beside the large one, whose jobs last for longer than it is measured."""
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
    """How long jobs waited for their start: from just before they were enqueued, and from when they were due."""

    started_ms: list[float]
    queued_ms: list[float]


def _waits(app: Tickwork, seen: Seen, worker: WorkerProcess, sizes: Sizes, first: int) -> Waits:
    """How long each job of the small tenant waited, numbered from `first` on."""
    small, sent, jobs = app.tasks["short"].options(tenant="small"), {}, {}
    for step in paced(sizes.tenant_s, sizes.tenant_per_s):
        sent[first + step] = time.time_ns()
        jobs[first + step] = small.enqueue(first + step)
    wait_until(lambda: sent.keys() <= seen().keys(), "all jobs started", START_LIMIT_S, worker, LOOK_S)
    started = seen()
    ahead_ns = app.store.now().timestamp() * 1e9 - time.time_ns()  # of the store's clock
    due = {number: job.view.run_at.timestamp() * 1e9 - ahead_ns for number, job in jobs.items()}
    return Waits(
        [(started[number] - at) / 1e6 for number, at in sent.items()],
        [(started[number] - at) / 1e6 for number, at in due.items()],
    )
