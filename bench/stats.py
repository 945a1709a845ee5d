"""Percentiles, medians and spreads for the benchmarks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

PERCENTILES = (50, 95, 99)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least `percent` of the values do not exceed (nearest rank)."""
    if not values:
        raise ValueError("No values: nothing was measured.")
    rank = math.ceil(percent / 100 * len(values))
    return sorted(values)[max(rank, 1) - 1]


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Return p50, p95 and p99."""
    return {f"p{percent}": percentile(values, percent) for percent in PERCENTILES}


def medians(samples: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of each figure over several runs, for the figures that every run has."""
    names = [name for name in samples[0] if all(name in sample for sample in samples)]
    return {name: median(sample[name] for sample in samples) for name in names}


def spread(values: Sequence[float]) -> float:
    """Return the relative spread of the runs: (highest - lowest) / median."""
    return (max(values) - min(values)) / median(values) if median(values) else 0.0


def per_job(before: Mapping[str, float], after: Mapping[str, float], jobs: int) -> dict[str, float]:
    """Return the increase of a database's counters per job."""
    return {f"{name}_per_job": (after[name] - before[name]) / jobs for name in before if name in after}
