"""The waits between tries grow, stay within their cap, and are spread over their upper half."""

from datetime import timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.retry import RetryPolicy


class Fixed:
    """Randomness that always gives the same number."""

    def __init__(self, number: float) -> None:
        self._number = number

    def random(self) -> float:
        return self._number


def longest(policy: RetryPolicy, failures: int) -> float:
    delay = policy.delay(failures, Fixed(0.0))
    assert delay is not None
    return delay.total_seconds()


def test_the_wait_doubles_with_each_failure():
    policy = RetryPolicy(retries=10, base=timedelta(seconds=1))
    assert [longest(policy, n) for n in range(1, 6)] == [1, 2, 4, 8, 16]


def test_the_wait_is_capped_at_an_hour():
    assert longest(RetryPolicy(retries=100), 100) == 3600


def test_a_very_large_number_of_failures_does_not_overflow():
    assert longest(RetryPolicy(retries=1_000_000), 1_000_000) == 3600


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_it_gives_up_after_a_number_of_retries(retries):
    policy = RetryPolicy(retries=retries)
    waits = [policy.delay(failure, Random(1)) for failure in range(1, retries + 2)]
    assert None not in waits[:retries]
    assert waits[retries] is None


def test_without_a_base_the_retry_comes_at_once():
    assert RetryPolicy(base=timedelta(0)).delay(3, Random(1)) == timedelta(0)


@given(
    failures=st.integers(1, 200),
    base=st.timedeltas(timedelta(0), timedelta(days=3)),
    seed=st.integers(),
)
def test_jitter_takes_at_most_the_lower_half_away(failures, base, seed):
    policy = RetryPolicy(retries=200, base=base)
    delay = policy.delay(failures, Random(seed))
    whole = longest(policy, failures)
    assert delay is not None
    assert whole / 2 - 1e-6 <= delay.total_seconds() <= whole <= 3600


@given(failures=st.integers(1, 10), seed=st.integers())
def test_equal_randomness_gives_equal_waits(failures, seed):
    policy = RetryPolicy(retries=10)
    assert policy.delay(failures, Random(seed)) == policy.delay(failures, Random(seed))
