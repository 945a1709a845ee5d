"""Benchmark of draining jobs under a limit with many keys, relative to draining plain jobs just before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.places import Place
from bench.rows.base import Block, Measure, Sample, Sizes, fill_with
from bench.rows.drain import beside, drain_of, drained

Key = Callable[[int, Sizes], int]


def in_turn(number: int, sizes: Sizes) -> int:
    """Return the key of a job for keys in rotation."""
    return number % sizes.limited_keys


def in_a_row(number: int, sizes: Sizes) -> int:
    """Return the key of a job for keys in blocks, where a scan of the queue meets a full limit most of the time."""
    return number * sizes.limited_keys // sizes.drain


def drain_beside_plain(task: str, key: Key) -> Block:
    """Drain the same number of jobs of a limited task and of a plain task, each in a database of its own."""

    @contextmanager
    def block(place: Place, sizes: Sizes) -> Iterator[Measure]:
        def once() -> Sample:
            rows = [(key(number, sizes),) for number in range(sizes.drain)]
            with place.fresh() as database:
                plain = drain_of("noop")(database, sizes)
            with place.fresh() as database:
                limited = drained(database, sizes, lambda app: fill_with(app.tasks[task], rows, sizes.batch))
            return beside(plain, limited)

        yield once

    return block
