"""Draining jobs under a limit with many keys, beside draining plain ones in the same minute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.places import Place
from bench.rows.base import Block, Measure, Sample, Sizes, fill_with
from bench.rows.drain import beside, drain_of, drained

Key = Callable[[int, Sizes], int]


def in_turn(number: int, sizes: Sizes) -> int:
    """The keys one after the other, and again: the next job of a key comes when all others had one."""
    return number % sizes.limited_keys


def in_a_row(number: int, sizes: Sizes) -> int:
    """All jobs of a key, and then those of the next: whoever walks the queue meets a full limit most of the time."""
    return number * sizes.limited_keys // sizes.drain


def drain_beside_plain(task: str, key: Key) -> Block:
    """Drain as many jobs of a limited task as of a plain one, each in a database of its own."""

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
