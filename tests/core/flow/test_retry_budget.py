"""The retry budget: its pace, and what it makes of 50,000 jobs that fail at once."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import timedelta
from heapq import heappop, heappush
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tickwork.core.flow.retry_budget import BUDGET_STATES, BUDGETS, BudgetState, RetryBudget, grant, started
from tickwork.core.retry import RetryPolicy
from tickwork.errors import InvalidOption

MILLISECOND = 1000
SECOND = 1_000_000
NOW = 1_800_000_000 * SECOND
BUDGET = RetryBudget()
CLAIM_US = 20 * MILLISECOND


@dataclass
class Queue:
    """A queue with a steady stream of new jobs, claimed every 20 ms, with the retries that the budget lets start."""

    per_second: int
    now_us: int = NOW
    state: BudgetState = field(default_factory=BudgetState)
    retries_due: list[int] = field(default_factory=list)
    put_off: int = 0
    retried: list[int] = field(default_factory=list)

    def run(self, seconds: float, rng: Random, *, retries_fail: bool = False) -> None:
        for _ in range(int(seconds * SECOND) // CLAIM_US):
            self.now_us += CLAIM_US
            new = self.per_second * CLAIM_US // SECOND
            retries = self.retries()
            self.state = started(BUDGET, self.state, new + retries, self.now_us)
            self.retried += [self.now_us] * retries
            if retries_fail:
                self.fail(retries, rng)

    def retries(self) -> int:
        due = self.put_off
        while self.retries_due and self.retries_due[0] <= self.now_us:
            heappop(self.retries_due)
            due += 1
        granted = grant(BUDGET, self.state, due, self.now_us)
        self.state = granted.state
        self.put_off = due - granted.count
        return granted.count

    def fail(self, count: int, rng: Random) -> None:
        for _ in range(count):
            delay = RetryPolicy().delay(1, rng)
            heappush(self.retries_due, self.now_us + (delay or timedelta(0)) // timedelta(microseconds=1))


def most_in_a_second(instants_us: list[int]) -> int:
    """The most of them in any sliding second."""
    window: deque[int] = deque()
    most = 0
    for us in instants_us:
        window.append(us)
        while window[0] <= us - SECOND:
            window.popleft()
        most = max(most, len(window))
    return most


@pytest.mark.parametrize("retries_fail", [False, True])
def test_50_000_jobs_that_fail_at_once_do_not_come_back_as_a_storm(retries_fail: bool) -> None:
    """They had hung, say, among the steady work; a fifth of the pace, of retries too, and 100 ms of slack come back."""
    rng = Random(7)
    steady = 1000
    queue = Queue(steady)
    queue.run(120, rng)
    queue.fail(50_000, rng)
    queue.run(60, rng, retries_fail=retries_fail)
    assert most_in_a_second(queue.retried) <= 0.3 * steady
    assert len(queue.retried) > 0.18 * steady * 60


@pytest.mark.parametrize("steady", [100, 1000])
def test_nor_do_50_000_that_were_started_all_at_once(steady: int) -> None:
    """A burst that fails is among the starts that the budget is a share of, and yet it stays below twice the steady."""
    rng = Random(7)
    queue = Queue(steady)
    queue.run(120, rng)
    queue.state = started(BUDGET, queue.state, 50_000, queue.now_us)
    queue.fail(50_000, rng)
    queue.run(120, rng, retries_fail=True)
    assert most_in_a_second(queue.retried) <= 2 * steady
    assert len(queue.retried) > 0.2 * steady * 60


def test_without_a_budget_they_would() -> None:
    """The model has teeth: the same failures without a budget come back within one second."""
    rng = Random(7)
    delays = [RetryPolicy().delay(1, rng) for _ in range(50_000)]
    instants = sorted(delay // timedelta(microseconds=1) for delay in delays if delay is not None)
    assert most_in_a_second(instants) == 50_000


def test_all_of_them_start_in_the_end() -> None:
    rng = Random(7)
    queue = Queue(1000)
    queue.run(120, rng)
    queue.fail(5_000, rng)
    queue.run(30, rng)
    assert (queue.retries_due, queue.put_off) == ([], 0)
    assert len(queue.retried) == 5_000


def test_an_idle_queue_retries_at_the_floor() -> None:
    state, instants = BudgetState(), []
    for tick in range(500):
        granted = grant(BUDGET, state, 100, NOW + tick * CLAIM_US)
        state = granted.state
        instants += [NOW + tick * CLAIM_US] * granted.count
    assert most_in_a_second(instants) <= 11
    assert len(instants) == 101  # ten seconds


def test_what_is_put_off_is_told_until_when() -> None:
    granted = grant(BUDGET, BudgetState(), 5, NOW)
    assert granted.count == 2
    assert granted.opens_at_us == NOW + 100 * MILLISECOND
    assert grant(BUDGET, granted.state, 1, NOW + 100 * MILLISECOND - 1).count == 0
    assert grant(BUDGET, granted.state, 1, NOW + 100 * MILLISECOND).count == 1
    assert grant(BUDGET, BudgetState(), 1, NOW).opens_at_us is None


def test_nobody_waits_for_an_hour_that_the_clock_was_set_back() -> None:
    state = grant(BUDGET, BudgetState(), 5, NOW + 3600 * SECOND).state
    put_off = grant(BUDGET, state, 1, NOW)
    assert (put_off.count, put_off.opens_at_us) == (0, NOW + 100 * MILLISECOND)
    assert grant(BUDGET, put_off.state, 1, NOW + 100 * MILLISECOND).count == 1


@given(
    st.floats(0, 1),
    st.lists(st.tuples(st.integers(1, 3 * SECOND), st.integers(0, 400), st.integers(0, 400)), min_size=1, max_size=60),
)
@settings(max_examples=100)
def test_retries_of_a_second_are_at_most_the_share_of_the_busiest_window_or_the_floor(
    share: float, claims: list[tuple[int, int, int]]
) -> None:
    budget = RetryBudget(share=share)
    state, now_us = BudgetState(), NOW
    all_starts: Counter[int] = Counter()
    retried: list[int] = []
    busiest = 0.0
    for wait_us, new, wanted in claims:
        now_us += wait_us
        lately = sum(count for us, count in all_starts.items() if us > now_us - 120 * SECOND)
        busiest = max(busiest, share * lately / 120)
        granted = grant(budget, state, wanted, now_us)
        assert granted.count <= wanted
        state = started(budget, granted.state, new + granted.count, now_us)
        all_starts[now_us] += new + granted.count
        retried += [now_us] * granted.count
        assert len(BUDGET_STATES.encode(state)) < 200
    pace = max(busiest, budget.floor)
    assert most_in_a_second(retried) <= pace * 1.1 + 1


def test_budgets_come_back_from_the_store() -> None:
    stored = b'{"version":1,"retry_budget":{"share":0.2,"window":"PT120S","floor":10}}'
    assert BUDGETS.encode(BUDGET) == stored
    assert BUDGETS.decode(stored) == BUDGET
    state = started(BUDGET, BudgetState(), 3, NOW)
    assert BUDGET_STATES.encode(state) == b'{"version":1,"retry_budget_state":[[150000000,[3]],0]}'
    assert BUDGET_STATES.decode(BUDGET_STATES.encode(state)) == state


@pytest.mark.parametrize(
    ("given_options", "message"),
    [
        ({"share": 1.5}, "the share of a retry budget is from 0 to 1, not 1.5"),
        ({"window": timedelta(0)}, "the window of a retry budget: .* is not from 1s to 1h"),
        ({"floor": 0}, "the floor of a retry budget must be a whole number from 1"),
    ],
)
def test_other_budgets_are_refused(given_options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        RetryBudget(**given_options)  # type: ignore[arg-type]
