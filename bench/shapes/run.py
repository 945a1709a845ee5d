"""Run each measurement on all variants in turn, so that a slow period of the machine affects all equally."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import apsw
import psycopg
from rich.console import Console
from rich.status import Status

from bench.places import Place
from bench.shapes.base import ShapeFailed, Variant
from bench.shapes.measures import MEASURES, Figures, Sizes, applies
from bench.stats import medians

FAILURES = (ShapeFailed, psycopg.Error, apsw.Error)


@dataclass(slots=True)
class Outcome:
    """The samples of each measurement of one variant, and the reason if some are missing."""

    variant: Variant
    samples: dict[str, list[Figures]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def figures(self, measure: str) -> Figures:
        """Return the median of each figure; empty if the measurement was not made."""
        samples = self.samples.get(measure)
        return medians(samples) if samples else {}


def measure_all(places: Sequence[Place], variants: Sequence[Variant], sizes: Sizes, console: Console) -> list[Outcome]:
    """Run all meaningful measurements. A variant that fails records the error, and the others are still measured."""
    outcomes = [Outcome(variant) for variant in variants]
    stores = {place.name: place for place in places}
    turns = [
        (measure, outcome)
        for measure in MEASURES
        for _ in range(sizes.repeat if measure == "drain" else 1)
        for outcome in outcomes
        if applies(measure, outcome.variant)
    ]
    with Status("", console=console) as status:
        for number, (measure, outcome) in enumerate(turns):
            status.update(f"[{number}/{len(turns)}] {measure}: {outcome.variant.name} on {outcome.variant.store}")
            _measure(stores[outcome.variant.store], measure, outcome, sizes)
            console.print(_told(measure, outcome), style="dim", highlight=False, markup=False, soft_wrap=True)
    return outcomes


def _measure(place: Place, measure: str, outcome: Outcome, sizes: Sizes) -> None:
    try:
        with place.fresh() as database:
            figures = MEASURES[measure](outcome.variant, database, sizes)
    except FAILURES as error:
        outcome.errors[measure] = f"{type(error).__name__}: {error}"
    else:
        outcome.samples.setdefault(measure, []).append(figures)


def _told(measure: str, outcome: Outcome) -> str:
    head = f"  {measure}, {outcome.variant.name} on {outcome.variant.store}: "
    if measure in outcome.errors:
        return head + outcome.errors[measure]
    return head + ", ".join(f"{name} {value:,.1f}" for name, value in outcome.samples[measure][-1].items())
