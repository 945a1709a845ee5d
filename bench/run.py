"""Measure rows on stores, alternating ours and raw, so that other load on the machine affects both equally."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

import apsw
import psycopg

from bench.places import Place
from bench.raw.loops import RawFailed
from bench.rows import Measure, Row, Sample, Sizes
from bench.stats import medians, spread
from bench.worker import BenchFailed
from tickwork.errors import TickworkError

FAILURES = (BenchFailed, RawFailed, TickworkError, apsw.Error, psycopg.Error, ImportError)


@dataclass(slots=True)
class Outcome:
    """The measurements of one row on one store. `error` is the reason if some are missing."""

    row: Row
    store: str
    ours: list[Sample] = field(default_factory=list)
    raw: list[Sample] = field(default_factory=list)
    error: str | None = None

    def figures(self) -> dict[str, float]:
        """Return the median of each of our figures."""
        return medians([sample.figures for sample in self.ours]) if self.ours else {}

    def targets(self) -> dict[str, float]:
        """Return the upper limits of figures that have a target."""
        return dict(self.row.targets.get(self.store, {}))

    def raw_figures(self) -> dict[str, float]:
        return medians([sample.figures for sample in self.raw]) if self.raw else {}

    def extra(self) -> dict[str, float]:
        return medians([sample.extra for sample in self.ours]) if self.ours else {}

    def ratios(self) -> dict[str, float]:
        """Return our figure divided by the raw one, for each figure that both have."""
        ours, raw = self.figures(), self.raw_figures()
        return {name: ours[name] / raw[name] for name in ours if raw.get(name)}

    def spread(self) -> float:
        """Return the relative spread of our runs in their first figure."""
        values = [next(iter(sample.figures.values())) for sample in self.ours]
        return spread(values) if values else 0.0


class Watcher(Protocol):
    """Receives the progress of a run."""

    def begins(self, row: Row, store: str, what: str) -> None: ...

    def measured(self, row: Row, store: str, what: str, sample: Sample) -> None: ...

    def ended(self, outcome: Outcome) -> None: ...


def run_rows(
    places: Sequence[Place], rows: Sequence[Row], sizes: Sizes, repeat: int, watcher: Watcher, *, raw: bool = True
) -> Iterator[Outcome]:
    """Measure each row on each store `repeat` times, with its raw loop or, if `raw` is false, without it.

    A row that fails records the error, and the other rows are still measured.
    """
    for place in places:
        for row in rows:
            outcome = Outcome(row, place.name)
            try:
                _measure(outcome, place, sizes, repeat, watcher, with_raw=raw)
            except FAILURES as error:
                outcome.error = f"{type(error).__name__}: {error}"
            watcher.ended(outcome)
            yield outcome


def _measure(outcome: Outcome, place: Place, sizes: Sizes, repeat: int, watcher: Watcher, *, with_raw: bool) -> None:
    row = outcome.row
    watcher.begins(row, place.name, "setting up")
    raw_block = _raw_block(row, place, sizes) if with_raw else nullcontext()
    with raw_block as raw, row.ours(place, sizes) as ours:

        def take(what: str, measure: Measure, samples: list[Sample]) -> None:
            watcher.begins(row, place.name, f"{what}, {len(samples) + 1} of {repeat}")
            samples.append(measure())
            watcher.measured(row, place.name, what, samples[-1])

        for turn in range(repeat):
            if raw is not None and (turn == 0 or not row.raw_once):
                take("raw", raw, outcome.raw)
            take("ours", ours, outcome.ours)


def _raw_block(row: Row, place: Place, sizes: Sizes) -> AbstractContextManager[Measure | None]:
    return nullcontext() if row.raw is None else row.raw(place, sizes)
