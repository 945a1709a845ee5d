"""Benchmarks of draining: how fast a worker finishes queued jobs, with a short and with a very long queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.places import Database, Place
from bench.raw import loops
from bench.rows.base import LOOK_S, SLOWEST, START_LIMIT_S, Measure, Sample, Sizes, fill, opened, rate, raw_of
from bench.stats import per_job
from bench.worker import BenchFailed, running_worker, wait_until
from tickwork import Tickwork


def drain_of(task: str) -> Callable[[Database, Sizes], Sample]:
    """Return a measurement that enqueues jobs of a task, then starts a worker that finishes them."""
    return lambda database, sizes: drained(database, sizes, lambda app: fill(app, task, sizes.drain, sizes.batch))


def drained(database: Database, sizes: Sizes, put: Callable[[Tickwork], object]) -> Sample:
    """Enqueue jobs with `put`, then start a worker and measure how it finishes them."""
    with opened(database) as app:
        put(app)
    database.settle()
    return finish_some(database, sizes.drain)


def beside(plain: Sample, other: Sample) -> Sample:
    """Return a sample of draining other jobs, with its rate relative to draining plain jobs just before."""
    share = other.figures["per_s"] / plain.figures["per_s"]
    return Sample({**other.figures, "plain_ratio": share}, {**other.extra, "plain_per_s": plain.figures["per_s"]})


def finish_some(database: Database, count: int) -> Sample:
    """Start a worker, time it from its registration until `count` completions are stored, and stop it."""
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


# -- with many queued


@contextmanager
def backlog(place: Place, sizes: Sizes) -> Iterator[Measure]:
    """Drain the first jobs of a very long queue, each time just after the same number in a database without others."""
    with place.fresh() as database, opened(database) as app:
        fill(app, "noop", sizes.backlog - sizes.drain, sizes.batch)

        def once() -> Sample:
            with place.fresh() as small:
                alone = drain_of("noop")(small, sizes)
            fill(app, "noop", sizes.backlog - database.queued(), sizes.batch)
            database.settle()
            return beside(alone, finish_some(database, sizes.drain))

        yield once


@contextmanager
def raw_backlog(place: Place, sizes: Sizes) -> Iterator[Measure]:
    with place.fresh() as database:
        raw = raw_of(database)
        loops.insert_in_bulk(raw, sizes.backlog - sizes.drain, sizes.batch)

        def once() -> Sample:
            loops.insert_in_bulk(raw, sizes.drain, sizes.batch, create=False)
            database.settle()
            took_s = loops.drain(raw, sizes.drain)
            database.settle()  # otherwise a vacuum of this large table may disturb the next measurement
            return Sample(rate(sizes.drain, took_s))

        yield once
