"""The sizes and the result type of the long benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from bench.places import Place

Series = list[tuple[float, float]]  # seconds since the beginning, and a value
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Crowd:
    """The contents of a store. The delayed jobs are due evenly over 400 days; `keys` of them have a key.

    `leases` are jobs that run over REST, each with a lease of its own. Each of the `dags` has run once.
    """

    finished: int
    queued: int
    delayed: int
    workers: int
    keys: int
    leases: int = 0
    dags: int = 0


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of all measurements."""

    look_s: float = 5.0  # the interval at which memory and size are measured
    batch: int = 1_000
    held_s: float = 180.0
    held_window_s: float = 10.0
    held_round: int = 20_000
    burst: int = 100_000
    bursts: int = 5
    burst_pause_s: float = 10.0
    calibration: int = 20_000
    sustained_s: float = 600.0
    sustained_window_s: float = 60.0
    sustained_share: float = 0.6  # the share of the full rate of enqueueing and draining in turn
    sustained_batch: int = 50
    sleepers: int = 25_000
    sleep_s: float = 30.0
    small: Crowd = Crowd(finished=10_000, queued=1_000, delayed=1_000, workers=1, keys=100)
    large: Crowd = Crowd(finished=10_000_000, queued=1_000_000, delayed=1_000_000, workers=1_000, keys=100_000)
    crowd: Crowd = Crowd(
        finished=200_000, queued=50_000, delayed=10_000, workers=1_000, keys=1_000, leases=25_000, dags=10_000
    )
    repeats: int = 50  # of each timed call on a store
    rest_s: float = 10.0
    idle_s: float = 20.0

    def lasting(self, minutes: float) -> Sizes:
        """Return the sizes for another duration of the sustained load, which also limits the held snapshot."""
        return replace(self, sustained_s=60.0 * minutes, held_s=min(self.held_s, 60.0 * minutes))


FULL = Sizes()
QUICK = Sizes(
    look_s=1.0,
    held_s=12.0,
    held_window_s=2.0,
    held_round=5_000,
    burst=5_000,
    bursts=2,
    burst_pause_s=1.0,
    calibration=5_000,
    sustained_s=12.0,
    sustained_window_s=2.0,
    sleepers=1_000,
    sleep_s=5.0,
    large=Crowd(finished=100_000, queued=10_000, delayed=10_000, workers=100, keys=1_000),
    crowd=Crowd(finished=10_000, queued=1_000, delayed=1_000, workers=100, keys=100, leases=2_000, dags=500),
    repeats=10,
    rest_s=2.0,
    idle_s=5.0,
)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a part: figures whose names end in their unit, their series over time, and the promised limits.

    A pair is the same figure of a small and of a large store.
    """

    figures: dict[str, float]
    series: dict[str, Series] = field(default_factory=dict)
    promises: dict[str, bool] = field(default_factory=dict)
    pairs: dict[str, tuple[float, float]] = field(default_factory=dict)


Part = Callable[[Place, Sizes, Tell], Result]


def windows(ended: dict[int, int], window_s: float, seconds: float) -> list[float]:
    """Return the rate in each whole window of a run, including windows in which no job ended."""
    return [ended.get(number, 0) / window_s for number in range(int(seconds / window_s))]


def over_time(rates: list[float], window_s: float) -> Series:
    """Return rates as a series, each at the end of its window."""
    return [((number + 1) * window_s, rate) for number, rate in enumerate(rates)]


def microseconds(instant: datetime) -> int:
    return round(instant.timestamp() * 1e6)
