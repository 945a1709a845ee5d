"""Tenants start as their weights say, with real workers that prefetch, on both stores."""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

import pytest

from tests.process.harness import Workers
from tests.waiting import eventually

pytestmark = pytest.mark.process

WEIGHT = 3  # of the heavy tenant; that of the light one is 1
STARTS, WINDOW = 4_000, 1_000
LEAST_DUE = 200  # jobs that each tenant has due while starts are counted
PREFETCHED = 520  # jobs that a worker may hold and that are not due any more


class Fleet(NamedTuple):
    seconds: float
    workers: int
    slots: int

    def __str__(self) -> str:
        return f"{1000 * self.seconds:g}ms-{self.workers}x{self.slots}"


FLEETS = [Fleet(0.0, 1, 10), Fleet(0.001, 4, 16), Fleet(0.005, 1, 10), Fleet(0.05, 4, 16)]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("fleet", FLEETS, ids=str)
def test_each_window_of_1000_starts_is_shared_as_the_weights_say(workers: Workers, fleet: Fleet) -> None:
    workers.app.set_weight("heavy", WEIGHT)
    work = workers.app.task(name="work", retries=0)(_work)
    spare = LEAST_DUE + fleet.workers * PREFETCHED
    calls = [(number, fleet.seconds) for number in range(STARTS * WEIGHT // (WEIGHT + 1) + spare)]
    light = work.options(tenant="light").enqueue_many(calls[: STARTS // (WEIGHT + 1) + spare])
    work.options(tenant="heavy").enqueue_many(calls)
    for _ in range(fleet.workers):
        workers.start(slots=fleet.slots, processes=1, wait=False)
    eventually(lambda: len(workers.witness.events(event="start")) >= STARTS, 120, f"{STARTS} jobs started")

    starts = sorted(workers.witness.events(event="start"), key=lambda one: one.at_ns)[:STARTS]
    ids = {job.id for job in light}
    counts = [0, *accumulate(one.job in ids for one in starts)]
    shares = [(counts[end] - counts[end - WINDOW]) / WINDOW for end in range(WINDOW, STARTS + 1)]
    ratios = [(1 - share) / share for share in (min(shares), max(shares))]
    assert all(0.9 * WEIGHT <= ratio <= 1.1 * WEIGHT for ratio in ratios), f"heavy to light, most and least: {ratios}"


def _work(n: int, seconds: float) -> None:
    """What is enqueued; workers run the one of tasks.py."""
