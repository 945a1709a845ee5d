"""Comparing two revisions: ratios for the better, and no figure that only some turns have."""

import pytest

from bench.compare import Compared, compared


def test_a_lower_rate_and_a_higher_latency_are_both_worse() -> None:
    assert Compared("drain", "sqlite", "per_s", 100.0, 90.0).change == pytest.approx(-0.1)
    assert Compared("latency", "sqlite", "p50", 9.0, 10.0).change == pytest.approx(-0.1)
    assert Compared("drain", "sqlite", "per_s", 100.0, 92.0).is_worse
    assert not Compared("drain", "sqlite", "per_s", 100.0, 94.0).is_worse


def test_medians_of_all_turns_are_compared_and_a_row_that_failed_once_is_named() -> None:
    drain, enqueue = ("drain", "sqlite", "per_s"), ("enqueue", "sqlite", "per_s")
    before = [{drain: 1.0, enqueue: 5.0}, {drain: 3.0, enqueue: 5.0}, {drain: 2.0, enqueue: 5.0}]
    after = [{drain: 4.0}, {drain: 5.0, enqueue: 5.0}, {drain: 9.0, enqueue: 5.0}]

    found, missing = compared(before, after)

    assert found == [Compared(*drain, 2.0, 5.0)]
    assert missing == [("enqueue", "sqlite")]
