"""Measure workloads in rounds of all peers, so that other load on the machine affects all peers equally."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import apsw
import psycopg

from bench.peers.catalog import Peer
from bench.peers.workloads import NotAble, Place, Workload, made
from bench.rows import Sample, Sizes
from bench.stats import medians, spread
from bench.worker import BenchFailed

FAILURES = (BenchFailed, OSError, psycopg.Error, apsw.Error)


@dataclass(slots=True)
class Result:
    """The measurements of one workload for one peer. `error` is the reason if some are missing."""

    peer: Peer
    workload: Workload
    samples: list[Sample] = field(default_factory=list)
    error: str | None = None
    able: bool = True

    def figures(self) -> dict[str, float]:
        """Return the median of each figure; empty after a failure."""
        return medians([sample.figures for sample in self.samples]) if self.samples and not self.error else {}

    def jobs(self) -> int | None:
        return int(self.samples[0].extra["jobs"]) if self.samples and "jobs" in self.samples[0].extra else None

    def spread(self) -> float:
        """Return the relative spread of the measurements in their first figure."""
        values = [next(iter(sample.figures.values())) for sample in self.samples]
        return spread(values) if values else 0.0


class Watcher(Protocol):
    """Receives the progress of a run."""

    def begins(self, result: Result, turn: int) -> None: ...

    def ended(self, result: Result) -> None: ...


def run_all(
    peers: Sequence[Peer],
    places: Mapping[str, Place],
    missing: Mapping[str, str],
    workloads: Sequence[Workload],
    sizes: Sizes,
    repeat: int,
    watcher: Watcher,
) -> list[Result]:
    """Measure everything `repeat` times. Peers in `missing` are skipped with a reason; failures are not repeated."""
    results = [Result(peer, workload, error=missing.get(peer.name)) for workload in workloads for peer in peers]
    for workload in workloads:
        for turn in range(repeat):
            for result in results:
                if result.workload is workload and result.able and result.error is None:
                    watcher.begins(result, turn)
                    _measure(result, places[result.peer.store], sizes)
                    watcher.ended(result)
    return results


def _measure(result: Result, place: Place, sizes: Sizes) -> None:
    try:
        with made(result.peer, place, sizes) as bed:
            result.samples.append(result.workload.measure(bed))
    except NotAble:
        result.able = False
    except FAILURES as error:
        result.error = f"{type(error).__name__}: {error}"
