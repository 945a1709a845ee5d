"""Benchmarks of start latency: of single jobs on an idle worker, of timers, and at a steady rate."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from bench import witness
from bench.feeder import feeding, paced
from bench.places import Database
from bench.raw import loops
from bench.rows.base import LOOK_S, SLOWEST, START_LIMIT_S, WARM_UP, Sample, Sizes, raw_of, serving
from bench.stats import per_job, percentiles
from bench.worker import BenchFailed, wait_until


def start_latency(database: Database, sizes: Sizes) -> Sample:
    """Measure the time from just before `enqueue` to the handler's first line, on an idle worker."""
    with serving(database) as (app, seen, worker):
        sent: dict[int, int] = {}
        for number in paced(sizes.latency_s, sizes.latency_per_s):
            sent[number] = time.time_ns()
            app.tasks["stamp"].enqueue(number)
        wait_until(lambda: sent.keys() <= seen().keys(), "all jobs started", START_LIMIT_S, worker, LOOK_S)
        started = seen()
    return promptness([(started[number] - sent[number]) / 1e6 for number in sent])


def timer_lateness(database: Database, sizes: Sizes) -> Sample:
    """Measure the time from the due time to the handler's first line, for timers set while the worker ran."""
    with serving(database) as (app, seen, worker):
        stamp, began, jobs = app.tasks["stamp"], time.monotonic(), {}
        for number in range(sizes.timers):
            due_s = sizes.timers_lead_s + number * sizes.timers_s / sizes.timers
            delay = timedelta(seconds=max(0.0, began + due_s - time.monotonic()))
            jobs[number] = stamp.options(delay=delay).enqueue(number)
        limit_s = sizes.timers_lead_s + sizes.timers_s + START_LIMIT_S
        wait_until(lambda: jobs.keys() <= seen().keys(), "all timers started", limit_s, worker, LOOK_S)
        started, views = seen(), app.store.reads.get_jobs([job.id for job in jobs.values()])
    due_ns = {number: round(views[job.id].run_at.timestamp() * 1e6) * 1000 for number, job in jobs.items()}
    return promptness([(started[number] - due_ns[number]) / 1e6 for number in jobs])


def steady(database: Database, sizes: Sizes) -> Sample:
    """Measure start latency while another process enqueues batches at a steady rate."""
    batch, path = sizes.steady_batch, database.folder / "witness"
    with serving(database) as (_, _, worker):
        before = database.counters()
        with feeding(database.url, database.folder, "stamp", sizes.steady_per_s, batch, sizes.steady_s) as feeder:
            feeder.join()
        sent = feeder.sent_ns(batch)
        wait_until(
            lambda: database.finished() >= WARM_UP + len(sent),
            f"{len(sent)} jobs done",
            START_LIMIT_S + len(sent) / SLOWEST,
            worker,
            LOOK_S,
        )
        after = database.counters()
    started = witness.started_ns(path, len(sent))
    sample = promptness(latencies_ms(sent, started))
    figures = {**sample.figures, "per_s": len(sent) / (max(started) - sent[0]) * 1e9}
    enqueued = {"enqueued_per_s": _sending_rate(sent, batch)}
    return Sample(figures, {**sample.extra, **enqueued, **per_job(before, after, len(sent))})


def latencies_ms(sent: array[int], started: array[int]) -> list[float]:
    """Return how long each job waited for its start. Raises BenchFailed if a job did not start."""
    if not all(started):
        raise BenchFailed(f"{started.count(0)} of {len(started)} jobs never started.")
    return [(start - send) / 1e6 for send, start in zip(sent, started, strict=True)]


def _sending_rate(sent: array[int], batch: int) -> float:
    """Return the rate from the first call to the last, without the jobs of the last call."""
    return (len(sent) - batch) / (sent[-1] - sent[0]) * 1e9


def promptness(milliseconds: list[float]) -> Sample:
    return Sample(percentiles(milliseconds), {"earliest_ms": min(milliseconds), "latest_ms": max(milliseconds)})


def raw_latency(database: Database, sizes: Sizes) -> Sample:
    def enqueue(put: Callable[[float], None]) -> None:
        for _ in paced(sizes.latency_s, sizes.latency_per_s):
            put(time.time())

    return _raw_promptness(database, sizes.latency_s, round(sizes.latency_s * sizes.latency_per_s), enqueue)


def raw_lateness(database: Database, sizes: Sizes) -> Sample:
    def enqueue(put: Callable[[float], None]) -> None:
        first = time.time() + sizes.timers_lead_s
        for number in range(sizes.timers):
            put(first + number * sizes.timers_s / sizes.timers)

    return _raw_promptness(database, sizes.timers_lead_s + sizes.timers_s, sizes.timers, enqueue)


def _raw_promptness(database: Database, seconds: float, count: int, enqueue: Callable[[Any], None]) -> Sample:
    lates = loops.serve(raw_of(database), seconds + 2.0, enqueue)
    if len(lates) != count:
        raise BenchFailed(f"The raw loop ran {len(lates)} of {count} jobs.")
    return promptness([late * 1000 for late in lates])
