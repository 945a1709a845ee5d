"""The workloads of simulated worlds; a seed draws one of these mixes of jobs."""

from __future__ import annotations

from random import Random

from sim.config import Config
from sim.lines import Lines
from sim.workloads.base import Mix, Workload

MIXES = (
    Mix("mixed", {"calm": 8, "flaky": 4, "doomed": 1, "sleepy": 1, "quitter": 1, "hanging": 1, "accountant": 2}),
    Mix("short", {"calm": 10, "flaky": 2}, delayed=0.1, timed=0.1),
    Mix("keys", {"calm": 4, "flaky": 4, "doomed": 1}, keyed=0.9, keys=3, meddling=0.6),
    Mix("crashes", {"calm": 6, "deadly": 2, "hanging": 2, "sleepy": 1}, timed=0.5),
    Mix("meddling", {"calm": 4, "flaky": 4, "doomed": 2, "hanging": 1}, meddling=0.7, expiring=0.3),
)


RUIN = Mix("ruin", {"calm": 18, "ruinous": 1, "deadly": 1}, timed=0.1)
RUIN_SHARE = 0.1  # the share of worlds with jobs that kill their workers


def draw_workload(rng: Random, config: Config, ruin: Random, lines: Lines) -> Workload:
    """Draw a mix. `ruin` is a separate random generator, so that adding it did not change the other draws."""
    mix = rng.choice(MIXES)
    return Workload(RUIN if ruin.random() < RUIN_SHARE else mix, config, lines)
