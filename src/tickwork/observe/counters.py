"""In-process counters and histograms. An update takes a fraction of a microsecond; a scrape exports the metrics.

A scrape on another thread sees slightly old values: dicts are copied in one step, and each number only grows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tickwork.observe.metrics_table import SECONDS, Metric

if TYPE_CHECKING:
    from prometheus_client import Metric as Family

Labels = tuple[str, ...]


class Histogram:
    """Counts of values by bucket, and their sum."""

    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(SECONDS) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(SECONDS, seconds)] += 1
        self.sum += seconds


class Counters:
    """The metrics of one process."""

    def __init__(self) -> None:
        self._totals: dict[Metric, dict[Labels, float]] = defaultdict(lambda: defaultdict(float))
        self._spreads: dict[Metric, dict[Labels, Histogram]] = defaultdict(lambda: defaultdict(Histogram))
        self._gauges: dict[Metric, dict[Labels, float]] = {}

    def add(self, metric: Metric, labels: Labels = (), count: float = 1) -> None:
        """Increase a counter."""
        self._totals[metric][labels] += count

    def spread(self, metric: Metric, labels: Labels, seconds: float) -> None:
        """Add a value to a histogram."""
        self._spreads[metric][labels].add(seconds)

    def set(self, metric: Metric, values: dict[Labels, float]) -> None:
        """Replace all values of a gauge, or of a counter that is counted elsewhere."""
        (self._totals if metric.kind == "counter" else self._gauges)[metric] = values

    def collect(self) -> Iterator[Family]:
        """Yield the metrics as metric families of the Prometheus client library."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        for metric, totals in list(self._totals.items()):
            counter = CounterMetricFamily(metric.full, metric.help, labels=metric.labels)
            for labels, total in list(totals.items()):
                counter.add_metric(labels, total)
            yield counter
        for metric, values in list(self._gauges.items()):
            gauge = GaugeMetricFamily(metric.full, metric.help, labels=metric.labels)
            for labels, value in values.items():
                gauge.add_metric(labels, value)
            yield gauge
        for metric, spreads in list(self._spreads.items()):
            histogram = HistogramMetricFamily(metric.full, metric.help, labels=metric.labels)
            for labels, spread in list(spreads.items()):
                histogram.add_metric(labels, _buckets(spread), spread.sum)
            yield histogram


def _buckets(spread: Histogram) -> list[tuple[str, float]]:
    """Return the cumulative buckets that Prometheus expects."""
    found: list[tuple[str, float]] = []
    total = 0
    for bound, count in zip((*map(str, SECONDS), "+Inf"), spread.counts, strict=True):
        total += count
        found.append((bound, total))
    return found


def exposition(*tallies: Counters) -> bytes:
    """Return the response to a scrape."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    for tally in tallies:
        registry.register(tally)
    return generate_latest(registry)
