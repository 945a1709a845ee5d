"""The next and the last occurrence, against a walk through every minute.

`python -m tests.core.recurrence.test_differential 100000` compares as many random expressions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import date, datetime, timedelta
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.recurrence import reference
from tests.core.recurrence.reference import ODD_DAYS, Window
from tickwork.core.recurrence.base_rule import RuleValue
from tickwork.core.recurrence.cron import cron

MICROSECOND = timedelta(microseconds=1)
POLICIES = ["once", "skip", "both", "shift"]


def compare(text: str, dst: str, window: Window) -> None:
    expected = reference.dues(text, dst, window)
    rule = cron(text, tz=window.zone, dst=dst)  # type: ignore[arg-type]
    told = f"{text!r} dst={dst} {window.zone} from {window.start}"
    assert forward(rule, window, len(expected)) == expected, told
    assert backward(rule, window, len(expected)) == expected[::-1], told


def forward(rule: RuleValue, window: Window, most: int) -> list[datetime]:
    return walk(rule.first_after, window.start - MICROSECOND, window, most)


def backward(rule: RuleValue, window: Window, most: int) -> list[datetime]:
    return walk(rule.last_before, window.end, window, most)


def walk(step: Callable[[datetime], datetime | None], instant: datetime, window: Window, most: int) -> list[datetime]:
    """Return the occurrences in a window, up to one more than expected."""
    found: list[datetime] = []
    while len(found) <= most:
        due = step(instant)
        if due is None or not window.start <= due < window.end:
            break
        found.append(instant := due)
    return found


@pytest.mark.parametrize(("zone", "day"), ODD_DAYS)
@given(seed=st.integers(0, 2**32), dst=st.sampled_from(POLICIES))
@settings(max_examples=15)
def test_on_odd_days_each_occurrence_is_where_the_wall_says(zone: str, day: date, seed: int, dst: str) -> None:
    text = reference.random_expression(Random(seed))
    if reference.possible(text):
        compare(text, dst, reference.window(zone, day))


@given(seed=st.integers(0, 2**32), day=st.dates(date(2015, 1, 5), date(2035, 12, 20)))
@settings(max_examples=40)
def test_on_any_day_each_occurrence_is_where_the_wall_says(seed: int, day: date) -> None:
    rng = Random(seed)
    zone, _ = rng.choice(ODD_DAYS)
    text = reference.random_expression(rng)
    if reference.possible(text):
        compare(text, rng.choice(POLICIES), reference.window(zone, day))


@pytest.mark.parametrize("tz", ["UTC", "Europe/Berlin", "Pacific/Apia"])
@pytest.mark.parametrize(
    "text", ["0 0 29 2 *", "0 0 29 2 */7", "30 2 31 12 *", "0 0 * 2 MON#5", "15 1 25-31 3,10 */7", "0 12 1 1 MON"]
)
def test_sparse_expressions_agree_with_every_day_of_sixty_years(text: str, tz: str) -> None:
    rule = cron(text, tz=tz, dst="skip")
    start, end = datetime.fromisoformat("1990-01-01T00:00Z"), datetime.fromisoformat("2050-01-01T00:00Z")
    expected = reference.sparse_dues(text, tz, start, end)
    following = rule.next(len(expected) + 1, after=start)
    assert following[:-1] == expected
    assert following[-1] >= end
    assert rule.prev(len(expected), before=end) == expected[::-1]


def main() -> None:
    count, rng = int(sys.argv[1]), Random(5)
    for done in range(0, count, 100):
        zone, odd = rng.choice(ODD_DAYS)
        day = odd if rng.random() < 0.5 else date(2015, 1, 5) + timedelta(days=rng.randrange(20 * 365))
        window = reference.window(zone, day, days=rng.choice([2, 3]))
        for _ in range(100):
            text = reference.random_expression(rng)
            if reference.possible(text):
                compare(text, rng.choice(POLICIES), window)
        if done % 10_000 == 0:
            print(f"{done + 100:,} of {count:,}", flush=True)
    print(f"{count:,} expressions agree")


if __name__ == "__main__":
    main()
