"""Benchmarks of enqueueing jobs, one by one and in bulk."""

from __future__ import annotations

import time

from bench.places import Database
from bench.raw import loops
from bench.rows.base import Sample, Sizes, fill, opened, rate, raw_of
from bench.stats import per_job
from bench.worker import BenchFailed


def one_by_one(database: Database, sizes: Sizes) -> Sample:
    with opened(database) as app:
        noop = app.tasks["noop"]
        before, began = database.counters(), time.perf_counter()
        for number in range(sizes.one_by_one):
            noop.enqueue(number)
        took = time.perf_counter() - began
    return Sample(rate(sizes.one_by_one, took), per_job(before, database.counters(), sizes.one_by_one))


def in_bulk(database: Database, sizes: Sizes) -> Sample:
    with opened(database) as app:
        before, began = database.counters(), time.perf_counter()
        ids = fill(app, "noop", sizes.bulk, sizes.batch)
        took = time.perf_counter() - began
    if len(set(ids)) != sizes.bulk:
        raise BenchFailed(f"{len(set(ids))} different ids came back for {sizes.bulk} jobs.")
    return Sample(rate(sizes.bulk, took), per_job(before, database.counters(), sizes.bulk))


def raw_one_by_one(database: Database, sizes: Sizes) -> Sample:
    return Sample(rate(sizes.one_by_one, loops.insert_one_by_one(raw_of(database), sizes.one_by_one)))


def raw_in_bulk(database: Database, sizes: Sizes) -> Sample:
    return Sample(rate(sizes.bulk, loops.insert_in_bulk(raw_of(database), sizes.bulk, sizes.batch)))
