"""The rows of the table: what is measured, ours and raw. All with one configuration, the shipped defaults.

A row is measured several times. It gives, for ours and for raw, a block in which it can be measured: what is costly to
set up and is not used up by a measurement (a million queued jobs) is set up once, everything else each time anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from bench import witness
from bench.places import Database, Place
from bench.raw import loops
from bench.raw.base import Raw
from bench.raw.postgres import RawPostgres
from bench.raw.sqlite import RawSqlite
from bench.stats import per_job, percentiles
from bench.tasks import make_app
from bench.worker import BenchFailed, WorkerProcess, running_worker, wait_until
from tickwork import Tickwork

LOOK_S = 0.1  # how often completions are counted; seldom enough not to be felt
START_LIMIT_S = 30.0
SLOWEST = 200  # jobs per second; a drain that is slower is given up
WARM_UP = 10  # jobs before a latency is measured: both children have run something


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    one_by_one: int = 2_000
    bulk: int = 50_000
    batch: int = 1_000
    drain: int = 20_000
    backlog: int = 1_000_000
    latency_s: float = 10.0
    latency_per_s: float = 10.0
    timers: int = 1_000
    timers_s: float = 10.0
    timers_lead_s: float = 3.0  # all timers are stored before the first is due


FULL = Sizes()
QUICK = Sizes(
    one_by_one=500,
    bulk=10_000,
    drain=5_000,
    backlog=100_000,
    latency_s=3.0,
    timers=200,
    timers_s=2.0,
    timers_lead_s=2.0,
)


@dataclass(frozen=True, slots=True)
class Sample:
    """What one measurement gave: the figures of its row, and what else is worth keeping."""

    figures: dict[str, float]
    extra: dict[str, float] = field(default_factory=dict)


Measure = Callable[[], Sample]
Block = Callable[[Place, Sizes], AbstractContextManager[Measure]]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `raw_once`: its raw side takes long and hardly varies."""

    name: str
    title: str
    unit: Literal["jobs/s", "ms"]
    ours: Block
    raw: Block
    raw_once: bool = False


def each_time_anew(measure: Callable[[Database, Sizes], Sample]) -> Block:
    """A block whose every measurement has an empty database of its own."""

    @contextmanager
    def block(place: Place, sizes: Sizes) -> Iterator[Measure]:
        def once() -> Sample:
            with place.fresh() as database:
                return measure(database, sizes)

        yield once

    return block


@contextmanager
def opened(database: Database) -> Iterator[Tickwork]:
    """Our app on a database, with its tables made."""
    app = make_app(database.url, upgrade=True)
    try:
        _ = app.store
        yield app
    finally:
        app.close()


def raw_of(database: Database) -> Raw:
    return RawSqlite(database.url) if database.url.startswith("sqlite") else RawPostgres(database.url)


def rate(count: int, seconds: float) -> dict[str, float]:
    return {"per_s": count / seconds}


# -- enqueue


def enqueue_one_by_one(database: Database, sizes: Sizes) -> Sample:
    with opened(database) as app:
        noop = app.tasks["noop"]
        before, began = database.counters(), time.perf_counter()
        for number in range(sizes.one_by_one):
            noop.enqueue(number)
        took = time.perf_counter() - began
    return Sample(rate(sizes.one_by_one, took), per_job(before, database.counters(), sizes.one_by_one))


def enqueue_in_bulk(database: Database, sizes: Sizes) -> Sample:
    with opened(database) as app:
        before, began = database.counters(), time.perf_counter()
        ids = fill(app, "noop", sizes.bulk, sizes.batch)
        took = time.perf_counter() - began
    if len(set(ids)) != sizes.bulk:
        raise BenchFailed(f"{len(set(ids))} different ids came back for {sizes.bulk} jobs.")
    return Sample(rate(sizes.bulk, took), per_job(before, database.counters(), sizes.bulk))


def fill(app: Tickwork, task: str, count: int, batch: int) -> list[str]:
    """Enqueue jobs in batches; return their ids."""
    enqueue_many = app.tasks[task].enqueue_many
    ids: list[str] = []
    for start in range(0, count, batch):
        ids += [job.id for job in enqueue_many([(number,) for number in range(start, min(start + batch, count))])]
    return ids


def raw_one_by_one(database: Database, sizes: Sizes) -> Sample:
    return Sample(rate(sizes.one_by_one, loops.insert_one_by_one(raw_of(database), sizes.one_by_one)))


def raw_in_bulk(database: Database, sizes: Sizes) -> Sample:
    return Sample(rate(sizes.bulk, loops.insert_in_bulk(raw_of(database), sizes.bulk, sizes.batch)))


# -- drain


def drain_of(task: str) -> Callable[[Database, Sizes], Sample]:
    """Enqueue jobs, and then start a worker that finishes them."""

    def measure(database: Database, sizes: Sizes) -> Sample:
        with opened(database) as app:
            fill(app, task, sizes.drain, sizes.batch)
        database.settle()
        return finish_some(database, sizes.drain)

    return measure


def finish_some(database: Database, count: int) -> Sample:
    """Start a worker and time it from its registration until so many completions are stored; then stop it."""
    done, before = database.finished(), database.counters()
    with running_worker(database.url, database.folder) as worker:
        limit_s = START_LIMIT_S + count / SLOWEST
        wait_until(lambda: database.finished() - done >= count, f"{count} jobs done", limit_s, worker, LOOK_S)
    if database.unsuccessful():
        raise BenchFailed(f"{database.unsuccessful()} jobs did not succeed.\n{worker.log_tail()}")
    began_us = database.worker_began_us()
    first_us, last_us = database.ended_us(began_us, 1), database.ended_us(began_us, count)
    extra = per_job(before, database.counters(), database.finished() - done)
    return Sample(rate(count, (last_us - began_us) / 1e6), {"first_done_ms": (first_us - began_us) / 1e3, **extra})


def raw_drain(database: Database, sizes: Sizes) -> Sample:
    raw = raw_of(database)
    loops.insert_in_bulk(raw, sizes.drain, sizes.batch)
    database.settle()
    return Sample(rate(sizes.drain, loops.drain(raw, sizes.drain)))


# -- drain with many queued


@contextmanager
def backlog(place: Place, sizes: Sizes) -> Iterator[Measure]:
    with place.fresh() as database, opened(database) as app:
        fill(app, "noop", sizes.backlog - sizes.drain, sizes.batch)

        def once() -> Sample:
            fill(app, "noop", sizes.backlog - _queued(database), sizes.batch)
            database.settle()
            return finish_some(database, sizes.drain)

        yield once


def _queued(database: Database) -> int:
    return int(database.one(f"SELECT count(*) FROM {database.table('queue')}"))


@contextmanager
def raw_backlog(place: Place, sizes: Sizes) -> Iterator[Measure]:
    with place.fresh() as database:
        raw = raw_of(database)
        loops.insert_in_bulk(raw, sizes.backlog - sizes.drain, sizes.batch)

        def once() -> Sample:
            loops.insert_in_bulk(raw, sizes.drain, sizes.batch, create=False)
            database.settle()
            return Sample(rate(sizes.drain, loops.drain(raw, sizes.drain)))

        yield once


# -- promptness


def start_latency(database: Database, sizes: Sizes) -> Sample:
    """From just before `enqueue` is called to the handler's first line, while there is nothing else to do."""
    with serving(database) as (app, seen, worker):
        sent: dict[int, int] = {}
        for number in paced(sizes.latency_s, sizes.latency_per_s):
            sent[number] = time.time_ns()
            app.tasks["stamp"].enqueue(number)
        wait_until(lambda: sent.keys() <= seen().keys(), "all jobs started", START_LIMIT_S, worker, LOOK_S)
        started = seen()
    return promptness([(started[number] - sent[number]) / 1e6 for number in sent])


def timer_lateness(database: Database, sizes: Sizes) -> Sample:
    """From the stored due instant to the handler's first line, for timers that were set while the worker ran."""
    with serving(database) as (app, seen, worker):
        stamp, began, jobs = app.tasks["stamp"], time.monotonic(), {}
        for number in range(sizes.timers):
            due_s = sizes.timers_lead_s + number * sizes.timers_s / sizes.timers
            delay = timedelta(seconds=max(0.0, began + due_s - time.monotonic()))
            jobs[number] = stamp.options(delay=delay).enqueue(number)
        limit_s = sizes.timers_lead_s + sizes.timers_s + START_LIMIT_S
        wait_until(lambda: jobs.keys() <= seen().keys(), "all timers started", limit_s, worker, LOOK_S)
        started, views = seen(), app.store.get_jobs([job.id for job in jobs.values()])
    due_ns = {number: round(views[job.id].run_at.timestamp() * 1e6) * 1000 for number, job in jobs.items()}
    return promptness([(started[number] - due_ns[number]) / 1e6 for number in jobs])


@contextmanager
def serving(database: Database) -> Iterator[tuple[Tickwork, Callable[[], dict[int, int]], WorkerProcess]]:
    """A worker that waits for work and has run some; with the app, and who started when (nanoseconds, by number)."""
    path = witness.make(database.folder)
    with opened(database) as app, running_worker(database.url, database.folder, witness.env(path)) as worker:
        for number in range(WARM_UP):
            app.tasks["stamp"].enqueue(-1 - number)
        wait_until(lambda: database.finished() >= WARM_UP, "the first jobs done", START_LIMIT_S, worker, LOOK_S)
        yield app, lambda: witness.read(path), worker


def paced(seconds: float, per_s: float) -> Iterator[int]:
    """Numbers from 0 on, evenly spaced in time."""
    began = time.monotonic()
    for number in range(round(seconds * per_s)):
        time.sleep(max(0.0, began + number / per_s - time.monotonic()))
        yield number


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


ROWS = (
    Row("enqueue", "Enqueue one by one", "jobs/s", each_time_anew(enqueue_one_by_one), each_time_anew(raw_one_by_one)),
    Row(
        "bulk", "Enqueue in bulk, ids returned", "jobs/s", each_time_anew(enqueue_in_bulk), each_time_anew(raw_in_bulk)
    ),
    Row("drain", "Drain, plain handlers", "jobs/s", each_time_anew(drain_of("noop")), each_time_anew(raw_drain)),
    Row(
        "drain-async",
        "Drain, async handlers",
        "jobs/s",
        each_time_anew(drain_of("noop_async")),
        each_time_anew(raw_drain),
    ),
    Row("backlog", "Drain, many queued", "jobs/s", backlog, raw_backlog),
    Row(
        "latency",
        "Start latency, idle",
        "ms",
        each_time_anew(start_latency),
        each_time_anew(raw_latency),
        raw_once=True,
    ),
    Row(
        "timers",
        "Lateness of timers",
        "ms",
        each_time_anew(timer_lateness),
        each_time_anew(raw_lateness),
        raw_once=True,
    ),
)
