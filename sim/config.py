"""Draw the configuration of a simulated world from a seed: its processes, their settings, the behaviour of handlers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from random import Random

from tickwork.core.job import Policy, TaskDefinition
from tickwork.core.retention import Retention
from tickwork.worker.worker_types import POLL_ONLY_S, POLL_S

LEASES_S = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
DRIFT = 0.05
DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class ClockConfig:
    """The difference of a process's clocks from the host's: an offset and a rate."""

    offset_s: float
    rate: float


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """The configuration of one worker process, which does not change at its restarts."""

    queues: tuple[tuple[str, float], ...]
    tasks: tuple[str, ...]
    slots: int
    children: int
    solo_limit: int
    max_jobs: int | None
    clock: ClockConfig


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration of a world, without its faults."""

    lease_s: float
    horizon_s: float
    jobs: int
    clients: int
    workers: tuple[WorkerConfig, ...]
    queues: tuple[str, ...]
    tasks: tuple[TaskDefinition, ...]
    solo_tasks: frozenset[str]
    wakes: bool
    latency_us: int
    longest_s: float  # the longest run time of a handler that ends by itself
    retention: Retention

    @property
    def poll_s(self) -> float:
        return POLL_S if self.wakes else POLL_ONLY_S

    @property
    def lease(self) -> timedelta:
        return timedelta(seconds=self.lease_s)


def draw_config(rng: Random) -> Config:
    """Draw the configuration of a world. Worlds are small, so that many can run: a few processes show most bugs."""
    lease_s = rng.choice(LEASES_S)
    queues = tuple(f"q{n}" for n in range(rng.choice((1, 1, 2, 3))))
    names = tuple(f"task{n}" for n in range(rng.choice((1, 2, 3))))
    tasks = tuple(TaskDefinition(name, queues[0], 5, Policy(), b"{}") for name in names)
    solo = frozenset(name for name in names if rng.random() < 0.15)
    count = rng.choice((1, 2, 2, 3, 3, 4, 5))
    workers = tuple(_draw_worker(rng, index, queues, names) for index in range(count))
    return Config(
        lease_s=lease_s,
        horizon_s=max(20.0, 3.0 * lease_s) + rng.random() * 20,
        jobs=rng.randint(30, 60),
        clients=rng.choice((1, 1, 2, 3)),
        workers=workers,
        queues=queues,
        tasks=tasks,
        solo_tasks=solo,
        wakes=rng.random() < 0.7,
        latency_us=rng.choice((0, 100, 1000, 5000)),
        longest_s=min(20.0, lease_s * rng.choice((0.1, 0.5, 1.5))),
        retention=_draw_retention(rng),
    )


def _draw_worker(rng: Random, index: int, queues: tuple[str, ...], tasks: tuple[str, ...]) -> WorkerConfig:
    """Draw a worker. The first serves all queues and tasks, so that every job can end; the others may serve fewer."""
    served, known = list(queues), list(tasks)
    if index > 0:
        served = rng.sample(served, rng.randint(1, len(served)))
        known = rng.sample(known, rng.randint(1, len(known)))
    return WorkerConfig(
        queues=tuple((queue, rng.choice((1.0, 1.0, 3.0))) for queue in served),
        tasks=tuple(known),
        slots=rng.choice((1, 2, 4, 8)),
        children=rng.choice((1, 2)),
        solo_limit=rng.choice((1, 2)),
        max_jobs=rng.choice((None, None, 5)),
        clock=ClockConfig(_draw_offset(rng), rng.choice((1.0, 1.0, 1 - DRIFT, 1 + DRIFT))),
    )


def _draw_offset(rng: Random) -> float:
    return rng.choice((0.0, 0.0, float(rng.randrange(DAY_S)), -float(rng.randrange(DAY_S))))


def _draw_retention(rng: Random) -> Retention:
    ended = rng.choice((timedelta(days=7), timedelta(days=7), timedelta(seconds=rng.randint(60, 300))))
    return Retention(ended=ended, failed=ended * 4)
