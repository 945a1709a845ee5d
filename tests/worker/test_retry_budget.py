"""The retry budget spreads retries of jobs that fail together."""

from __future__ import annotations

from collections import Counter, deque
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.builders import jobs
from tests.worker.quiet import a_worker
from tickwork.core.job import JobState, Policy
from tickwork.core.limits.rate_counters import SlidingCounter
from tickwork.core.retry import RetryPolicy
from tickwork.errors import InvalidOption
from tickwork.store.sqlite import SqliteStore
from tickwork.testing import VirtualClock
from tickwork.worker.retry_budget import LONGEST_S, QueueRetryBudgets, RetryBudget

FLOOR = 10


def a_steady_queue(per_second: int, seconds: int = 120) -> QueueRetryBudgets:
    """Return a queue in which `per_second` jobs started each second, for `seconds`."""
    retries = QueueRetryBudgets(Random(1))
    for second in range(seconds):
        retries.started("q", per_second, float(second))
    return retries


def fail(retries: QueueRetryBudgets, count: int, now: float) -> list[float]:
    """Fail jobs at once for the first time; return when they are due again, in order."""
    rng = Random(7)
    delays = [RetryPolicy().delay(1, rng) or timedelta(0) for _ in range(count)]
    return sorted(now + retries.delay("q", delay, now).total_seconds() for delay in delays)


def most_in_a_second(instants: list[float]) -> int:
    """The most of them in any sliding second."""
    window: deque[float] = deque()
    most = 0
    for instant in instants:
        window.append(instant)
        while window[0] <= instant - 1:
            window.popleft()
        most = max(most, len(window))
    return most


def test_50_000_jobs_that_fail_at_once_come_back_at_a_fifth_of_the_pace() -> None:
    """1,000 start each second; without a budget all 50,000 would come back within one."""
    back = fail(a_steady_queue(1000), 50_000, 120.0)
    assert max(Counter(map(int, back)).values()) <= 200
    assert most_in_a_second(back) <= 300  # the first ones come when they want to, within their second
    assert most_in_a_second(back[400:]) <= 200
    assert 50_000 / 200 <= back[-1] - back[0] <= 50_000 / 175


def test_in_an_idle_queue_they_come_back_at_the_floor_and_within_the_hour() -> None:
    """That is the longest line: what finds no place in it comes in between by chance."""
    back = fail(QueueRetryBudgets(Random(1)), 50_000, 0.0)
    assert back[-1] <= LONGEST_S + 1
    assert most_in_a_second(back) <= 40
    assert most_in_a_second(fail(QueueRetryBudgets(Random(1)), 30_000, 0.0)[2 * FLOOR :]) <= FLOOR + 1


def test_a_few_failures_wait_as_they_would_without_a_budget() -> None:
    retries = QueueRetryBudgets(Random(1))
    assert {retries.delay("q", timedelta(seconds=1), 0.3) for _ in range(FLOOR)} == {timedelta(seconds=1)}
    assert retries.delay("q", timedelta(seconds=1), 0.3) == timedelta(seconds=1.7), "then the next second is used"


def test_one_that_waits_long_is_not_in_the_way_of_those_that_do_not() -> None:
    retries = QueueRetryBudgets(Random(1))
    for _ in range(1000):
        retries.delay("q", timedelta(minutes=30), 0.0)
    assert retries.delay("q", timedelta(seconds=1), 0.0) == timedelta(seconds=1)


def test_queues_have_lines_of_their_own() -> None:
    retries = QueueRetryBudgets(Random(1))
    fail(retries, 1000, 0.0)
    assert retries.delay("other", timedelta(seconds=1), 0.0) == timedelta(seconds=1)


def test_who_asks_for_more_than_an_hour_gets_it() -> None:
    retries = QueueRetryBudgets(Random(1))
    assert {retries.delay("q", timedelta(days=1), 0.0) for _ in range(100)} == {timedelta(days=1)}


def test_seconds_that_have_passed_are_forgotten() -> None:
    retries = QueueRetryBudgets(Random(1))
    fail(retries, 20_000, 0.0)
    retries.delay("q", timedelta(0), 4000.0)
    # The size of its memory has no public count.
    line = retries._lines["q"]
    assert len(line._taken) + len(line._onward) <= 2


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(0, 300), st.floats(0, 100)), min_size=1, max_size=100))
def test_no_second_has_more_retries_than_were_granted_and_none_comes_early(
    failures: list[tuple[float, int, float]],
) -> None:
    """Jobs start, and some time later one fails, which wants to wait for so long."""
    retries = QueueRetryBudgets(Random(1))
    now, starts = 0.0, 0
    places: Counter[int] = Counter()
    for pause, begun, wait in failures:
        now += pause
        starts += begun
        retries.started("q", begun, now)
        wanted = timedelta(seconds=wait)
        given_delay = retries.delay("q", wanted, now)
        assert given_delay >= wanted
        places[int(now + given_delay.total_seconds() + 1e-6)] += 1
    assert max(places.values()) <= max(FLOOR, 0.2 * starts / 120)


@pytest.mark.parametrize("now", [0.0, 0.95, 1e6 + 0.5])
def test_the_line_begins_wherever_the_clock_stands(now: float) -> None:
    back = fail(QueueRetryBudgets(Random(1)), 300, now)
    assert most_in_a_second(back) <= 2 * FLOOR
    assert back[-1] - now <= 300 / FLOOR + 2


def test_a_worker_puts_off_the_retries_of_what_fails_together_and_charges_nothing_for_it() -> None:
    clock = VirtualClock()
    store = SqliteStore(":memory:", clock=clock)
    worker, pools = a_worker(store, clock, slots=200)
    policy = Policy(RetryPolicy(retries=1, jitter=0.0))
    ids = store.insert_jobs(jobs(200, policy=policy))
    worker.tick(clock.monotonic())
    pools.end(ids, "failed")
    worker.tick(clock.monotonic())
    views = store.reads.get_jobs(ids).values()
    waits = sorted((view.run_at - store.now()).total_seconds() for view in views)
    assert waits[0] >= 1
    assert 18 <= waits[-1] <= 22  # at 10 a second
    assert {(view.state, view.failures) for view in views} == {(JobState.QUEUED, 1)}


def test_what_a_worker_gives_back_is_not_put_off() -> None:
    clock = VirtualClock()
    store = SqliteStore(":memory:", clock=clock)
    worker, pools = a_worker(store, clock, slots=200)
    ids = store.insert_jobs(jobs(200))
    worker.tick(clock.monotonic())
    pools.end(ids, "released")
    worker.drain()
    worker.tick(clock.monotonic())
    assert {view.run_at for view in store.reads.get_jobs(ids).values()} == {store.now()}


SECOND = 1_000_000
NOW = 1_800_000_000 * SECOND
BUDGET = RetryBudget()


def after(per_second: int, seconds: int) -> SlidingCounter:
    starts = SlidingCounter()
    for second in range(seconds):
        starts = BUDGET.started(starts, per_second, NOW + second * SECOND)
    return starts


def test_a_fifth_of_what_started_in_two_minutes_may_be_retries() -> None:
    assert 180 <= BUDGET.retries_a_second(after(1000, 300), NOW + 300 * SECOND) <= 200


def test_a_queue_that_is_idle_has_the_floor() -> None:
    assert BUDGET.retries_a_second(SlidingCounter(), NOW) == 10
    assert BUDGET.retries_a_second(after(1000, 60), NOW + 200 * SECOND) == 10


def test_a_burst_raises_the_pace_of_its_own_retries_little() -> None:
    assert BUDGET.retries_a_second(BUDGET.started(SlidingCounter(), 50_000, NOW), NOW) == 83


@given(st.floats(0, 1), st.lists(st.tuples(st.integers(0, 60 * SECOND), st.integers(0, 5000)), max_size=60))
def test_it_is_never_more_than_the_share_of_all_that_started_or_the_floor(
    share: float, claims: list[tuple[int, int]]
) -> None:
    budget = RetryBudget(share=share)
    starts, now_us, all_starts = SlidingCounter(), NOW, []
    for wait_us, count in claims:
        now_us += wait_us
        starts = budget.started(starts, count, now_us)
        all_starts.append((now_us, count))
        lately = sum(count for us, count in all_starts if us > now_us - 120 * SECOND)
        assert budget.retries_a_second(starts, now_us) <= max(budget.floor, share * lately / 120)


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
