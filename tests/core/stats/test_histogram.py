"""Quantiles out of steps: near those of the durations themselves, however these are spread."""

from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.stats.rollups import Spread, merge, quantile, step_of

DURATIONS = st.lists(st.integers(0, 10**13), min_size=1, max_size=200)


def step_of_us(duration_us: int) -> int:
    """Return the bucket of a duration in microseconds."""
    text = str(max(0, duration_us))
    return step_of(len(text), int(text[:2]))


def spread_of(durations: list[int]) -> Spread:
    spread: Spread = {}
    for one in durations:
        merge(spread, {step_of_us(one): 1})
    return spread


@given(DURATIONS, st.sampled_from([0.5, 0.95, 0.99, 1.0]))
def test_a_quantile_is_off_by_a_sixth_at_most(durations: list[int], share: float) -> None:
    found = quantile(spread_of(durations), share)
    rank = min(len(durations) - 1, max(0, -int(-share * len(durations) // 1) - 1))
    exact = sorted(durations)[rank] / 1e6
    assert found is not None
    assert exact * 5 / 6 - 1.1e-6 <= found <= exact * 7 / 6 + 1.1e-6


@given(DURATIONS, DURATIONS)
def test_spreads_that_are_merged_are_the_spread_of_both(some: list[int], others: list[int]) -> None:
    both = spread_of(some)
    merge(both, spread_of(others))
    assert both == spread_of(some + others)


@given(st.integers(0, 10**15), st.integers(0, 10**15))
def test_a_longer_duration_is_never_in_an_earlier_step(one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert step_of_us(low) <= step_of_us(high)


def test_nothing_has_no_quantile() -> None:
    assert quantile({}, 0.5) is None
