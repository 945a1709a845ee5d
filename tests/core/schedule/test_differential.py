"""The next and the last occurrence, against a walk through every minute."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.schedule import reference
from tests.core.schedule.reference import ODD_DAYS, Window
from tickwork.core.schedule.cron import cron

MICROSECOND = timedelta(microseconds=1)
POLICIES = ["once", "skip", "both", "shift"]


def compare(text: str, dst: str, window: Window) -> None:
    expected = reference.dues(text, dst, window)
    rule = cron(text, tz=window.zone, dst=dst)  # type: ignore[arg-type]
    found, instant = [], window.start - MICROSECOND
    while (due := rule.first_after(instant)) is not None and due < window.end:
        found.append(instant := due)
    told = f"{text!r} dst={dst} {window.zone} from {window.start}"
    assert found == expected, told
    back, instant = [], window.end
    while (due := rule.last_before(instant)) is not None and due >= window.start:
        back.append(instant := due)
    assert back == expected[::-1], told


@pytest.mark.parametrize(("zone", "day"), ODD_DAYS)
@given(seed=st.integers(0, 2**32), dst=st.sampled_from(POLICIES))
@settings(max_examples=25)
def test_on_odd_days_each_occurrence_is_where_the_wall_says(zone: str, day: date, seed: int, dst: str) -> None:
    text = reference.random_expression(Random(seed))
    if reference.possible(text):
        compare(text, dst, reference.window(zone, day))
