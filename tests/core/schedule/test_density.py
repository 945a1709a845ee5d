"""Occurrences per minute: arithmetic and enumeration agree."""

from datetime import UTC, datetime, timedelta

import pytest

from tickwork.core.recurrence.base_rule import RuleValue
from tickwork.core.recurrence.calendar import calendar
from tickwork.core.recurrence.combine import any_of
from tickwork.core.recurrence.cron import cron
from tickwork.core.recurrence.interval import after, at, every
from tickwork.core.recurrence.rrule import rrule
from tickwork.core.schedule.density import MINUTE, MINUTES, Counter
from tickwork.core.schedule.spec import ScheduleSpec, new_spec
from tickwork.core.schedule.state import ScheduleState

START = datetime(2026, 3, 28, 12, 0, tzinfo=UTC)  # in Berlin clocks go forward in the night that follows
NOW = START + timedelta(seconds=30)
CLOSED = calendar(weekdays=["sun"], tz="Europe/Berlin")


def standing(**changes: object) -> ScheduleState:
    return ScheduleState(**{"handled_at": START, "active_since": START, **changes})  # type: ignore[arg-type]


def spec(rule: RuleValue, **policies: object) -> ScheduleSpec:
    return new_spec("s", "t", rule, **policies)


def counted(one: ScheduleSpec, now: ScheduleState | None = None, walk: int = 1_000_000) -> Counter:
    counter = Counter(START, NOW, {"closed": CLOSED}, walk)
    counter.add(one, now or standing())
    return counter


@pytest.mark.parametrize(
    "rule",
    [
        every("7s"),
        every("59s", start=START + timedelta(hours=3)),
        every("90s"),
        every("1h"),
        cron("*/5 * * * *"),
        cron("*/10 * * * * *", tz="Europe/Berlin"),
        cron("15,45 30 */2 * * *", tz="Europe/Berlin"),
        cron("30 2 * * *", tz="Europe/Berlin"),
        cron("*/7 3-5,22 * * *", tz="Asia/Kathmandu"),
        cron("5-59/10 * * * * *", tz="America/St_Johns"),
        cron("H H/3 * * *", tz="Europe/Berlin"),
        cron("@hourly"),
        cron("0/20 * 9 ? * MON-SUN", dialect="quartz"),
        rrule("FREQ=HOURLY;BYMINUTE=5,10"),
        at(START + timedelta(hours=1), START + timedelta(days=3)),
        any_of(cron("0 * * * *"), every("1h")),
    ],
    ids=lambda rule: rule.explain(),
)
@pytest.mark.parametrize("calendars", [(), ("closed",)])
def test_every_kind_of_rule_is_counted_as_it_is_walked(rule: RuleValue, calendars: tuple[str, ...]) -> None:
    one = spec(rule, calendars=calendars)
    expected = [0] * MINUTES
    own = rule.of_schedule("s", None)
    due = own.first_after(START - timedelta(microseconds=1))
    while due is not None and due < START + MINUTE * MINUTES:
        if not calendars or CLOSED.closed_until(due, rule.zone) is None:
            expected[(due - START) // MINUTE] += 1
        due = own.first_after(due)
    counter = counted(one)
    assert (counter.counts, counter.schedules, counter.is_partial) == (expected, 1, False)


def test_what_is_paused_or_troubled_or_over_counts_nothing() -> None:
    assert sum(counted(spec(every("1m")), standing(paused=True)).counts) == 0
    assert sum(counted(spec(every("1m"), calendars=["missing"])).counts) == 0
    assert sum(counted(spec(every("1m"), max_runs=5), standing(run_count=3)).counts) == 2
    ends = spec(every("1m"), start=START + 10 * MINUTE, end=START + 19 * MINUTE)
    assert sum(counted(ends).counts) == 10


def test_a_fixed_delay_counts_once_where_it_is_known() -> None:
    assert sum(counted(spec(after("5m"))).counts) == 1
    assert sum(counted(spec(after("5m")), standing(live_count=1)).counts) == 0


def test_beyond_a_limit_it_says_that_it_is_not_all() -> None:
    counter = Counter(START, NOW, {}, walk=130)
    for number in range(3):
        counter.add(new_spec(f"{number}", "t", cron(f"{number}-59 * * * *")), standing())
    assert (counter.schedules, counter.is_partial) == (1, True)
    assert sum(counter.counts) == MINUTES


def test_equal_rules_are_walked_once() -> None:
    counter = Counter(START, NOW, {}, walk=100)
    for number in range(50):
        counter.add(new_spec(f"{number}", "t", cron("* * * * *")), standing())
    assert (counter.schedules, counter.is_partial, set(counter.counts)) == (50, False, {50})
