"""Ageing, simulated under more urgent work than can ever be done."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.flow.ageing import AGE, Due, Turn, aged_before_us, aged_places, choose
from tickwork.core.ids import JobId

SECOND = 1_000_000
AGE_US = 300 * SECOND
NOW = 1_800_000_000 * SECOND

jobs = st.builds(
    Due,
    st.integers(0, 9),
    st.integers(NOW - 2 * AGE_US, NOW),
    st.integers(0, 10**6).map(lambda number: JobId(f"{number:07d}")),
)
turns = st.builds(Turn, st.integers(0, 1), st.integers(0, 9))


def test_the_age_is_five_minutes() -> None:
    assert AGE.total_seconds() == 300
    assert aged_before_us(NOW) == NOW - AGE_US


def test_aged_jobs_may_take_half_of_a_claim_and_their_priorities_take_turns() -> None:
    assert aged_places(10, {9: 99}, Turn()) == ({9: 5}, Turn(0, 8))
    assert aged_places(10, {0: 99, 5: 1, 9: 99}, Turn()) == ({9: 2, 5: 1, 0: 2}, Turn(0, 9))
    assert aged_places(10, {5: 2}, Turn()) == ({5: 2}, Turn(0, 4))
    assert aged_places(10, {}, Turn(1, 3)) == ({}, Turn(1, 3))


def test_claims_of_one_job_take_turns_too() -> None:
    turn, given_places = Turn(), []
    for _ in range(8):
        places, turn = aged_places(1, {0: 99, 9: 99}, turn)
        given_places.append(places)
    assert given_places == [{}, {9: 1}, {}, {0: 1}, {}, {9: 1}, {}, {0: 1}]


def test_where_nothing_is_aged_nothing_changes() -> None:
    waiting = [Due(9, NOW - AGE_US, JobId("a")), Due(0, NOW, JobId("b")), Due(5, NOW - 1, JobId("c"))]
    assert choose(waiting, 2, NOW)[0] == sorted(waiting)[:2]


@given(st.lists(jobs, unique_by=lambda job: job.id, max_size=40), st.integers(1, 20), turns)
def test_half_goes_to_the_oldest_of_each_priority_and_the_rest_by_priority(
    waiting: list[Due], count: int, turn: Turn
) -> None:
    chosen, after = choose(waiting, count, NOW, turn)
    assert len(chosen) == len(set(chosen)) == min(count, len(waiting))
    aged = [job for job in waiting if job.run_at_us < NOW - AGE_US]
    half = min((count + turn.carry) // 2, len(aged))
    first, rest = chosen[:half], chosen[half:]
    assert set(first) <= set(aged)
    assert rest == sorted(set(waiting) - set(first))[: count - half]
    taken = Counter(job.priority for job in first)
    for priority in range(10):
        line = sorted(job for job in aged if job.priority == priority)
        assert [job for job in first if job.priority == priority] == line[: taken[priority]]
        if taken[priority] < len(line):
            assert all(taken[priority] >= taken[other] - 1 for other in taken)
    assert after.carry in (0, 1)


class Flood:
    """A queue into which more urgent work comes in than its slots can ever do, and now and then some of the lowest."""

    def __init__(self, slots: int, urgent: list[int]) -> None:
        self.slots = slots
        self.urgent = urgent
        self.lines: dict[int, list[Due]] = {priority: [] for priority in (*urgent, 9)}
        self.started: Counter[int] = Counter()
        self.lowest_waits_s: list[int] = []

    def run(self, seconds: int, lowest_every_s: int) -> None:
        turn = Turn()
        for second in range(seconds):
            now_us = NOW + second * SECOND
            self._arrive(now_us, second, second % lowest_every_s == 0)
            heads = [job for line in self.lines.values() for job in line[: self.slots]]
            chosen, turn = choose(heads, self.slots, now_us, turn)
            for job in chosen:
                self.lines[job.priority].remove(job)
                self.started[job.priority] += 1
                if job.priority == 9:
                    self.lowest_waits_s.append((now_us - job.run_at_us) // SECOND)

    def _arrive(self, now_us: int, second: int, lowest: bool) -> None:
        for priority in self.urgent:
            self.lines[priority] += [Due(priority, now_us, JobId(f"{second:05d}.{n}")) for n in range(self.slots + 1)]
        if lowest:
            self.lines[9].append(Due(9, now_us, JobId(f"{second:05d}")))


@pytest.mark.parametrize("slots", [1, 2, 7])
@pytest.mark.parametrize("urgent", [[0], [0, 1, 2]])
def test_under_overload_the_lowest_start_within_the_bound_and_urgent_work_keeps_its_half(
    slots: int, urgent: list[int]
) -> None:
    """The lowest has a turn at least every 2 * (urgent + 1) jobs, and comes in at that pace."""
    every_s = 2 * (len(urgent) + 1)
    flood = Flood(slots, urgent)
    flood.run(1500, every_s)
    assert len(flood.lowest_waits_s) >= (1500 - 300) // every_s - 1
    assert max(flood.lowest_waits_s) <= 300 + every_s
    assert flood.started[0] >= 1500 * slots // 2
