"""Fixed rates, fixed delays, single instants, and ISO 8601's repeating intervals."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.recurrence.interval import after, at, every
from tickwork.errors import InvalidOption

START = datetime.fromisoformat("2026-11-16T10:07:30.5Z")


def shown(dues: list[datetime]) -> list[str]:
    return [due.isoformat().removesuffix("+00:00") for due in dues]


def test_a_fixed_rate_is_on_a_beat_that_everybody_agrees_on() -> None:
    assert shown(every("200ms").next(2, after=START)) == ["2026-11-16T10:07:30.600000", "2026-11-16T10:07:30.800000"]
    assert shown(every("15m").next(2, after=START)) == ["2026-11-16T10:15:00", "2026-11-16T10:30:00"]
    assert shown(every("15m").prev(2, before=START)) == ["2026-11-16T10:00:00", "2026-11-16T09:45:00"]


def test_a_fixed_rate_with_a_start_begins_there() -> None:
    rule = every("90m", start=START)
    assert rule.prev(before=START) == []
    assert rule.next(2, after=START - timedelta(days=1)) == [START, START + timedelta(minutes=90)]
    assert every("90m").of_schedule("any", START) == rule
    assert rule.of_schedule("any", START + timedelta(days=1)) == rule


@given(
    st.timedeltas(timedelta(milliseconds=1), timedelta(days=400)),
    st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
)
def test_a_fixed_rate_never_drifts(step: timedelta, instant: datetime) -> None:
    rule = every(step)
    due = rule.first_after(instant)
    assert due is not None
    assert instant < due <= instant + step
    assert (due - datetime.fromisoformat("1970-01-01T00:00Z")) % step == timedelta(0)
    assert rule.last_before(due + timedelta(microseconds=1)) == due


def test_the_31st_becomes_the_last_day_of_shorter_months_and_comes_back() -> None:
    rule = every("R5/2027-12-31T12:00:00+02:00/P1M")
    expected = ["2027-12-31", "2028-01-31", "2028-02-29", "2028-03-31", "2028-04-30"]
    assert [due.strftime("%Y-%m-%d") for due in rule.next(9, after=START)] == expected
    assert [
        due.strftime("%Y-%m-%d") for due in rule.prev(9, before=datetime.fromisoformat("2090-01-01T00:00Z"))
    ] == expected[::-1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("R3/2026-01-01T00:00:00Z/PT10M", ["2026-01-01T00:00:00", "2026-01-01T00:10:00", "2026-01-01T00:20:00"]),
        ("R2/2026-01-01T00:00:00Z/2026-01-02T12:00:00Z", ["2026-01-01T00:00:00", "2026-01-02T12:00:00"]),
        ("R2/P1D/2026-01-10T00:00:00Z", ["2026-01-08T00:00:00", "2026-01-09T00:00:00"]),
        ("R1/2026-01-01T00:00:00+05:30/P1Y2M", ["2025-12-31T18:30:00"]),
        ("R2/2026-01-01T00:00:00Z/PT0.25S", ["2026-01-01T00:00:00", "2026-01-01T00:00:00.250000"]),
        ("R2/2026-01-01T00:00:00Z/P1W", ["2026-01-01T00:00:00", "2026-01-08T00:00:00"]),
    ],
)
def test_a_repeating_interval_is_due_n_times(text: str, expected: list[str]) -> None:
    rule = every(text)
    since, until = datetime.fromisoformat("2025-01-01T00:00Z"), datetime.fromisoformat("2030-01-01T00:00Z")
    assert shown(rule.next(10, after=since)) == expected
    assert shown(rule.prev(10, before=until)) == expected[::-1]


def test_without_a_number_it_has_no_end() -> None:
    rule = every("R/2026-01-01T00:00:00Z/P1D")
    assert shown(rule.next(after=datetime.fromisoformat("2126-01-01T00:00Z"))) == ["2126-01-02T00:00:00"]
    assert rule.next(after=datetime.fromisoformat("7999-12-31T12:00Z")) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("R5", "write R, how often, a start and a duration: R5/2026-01-01T00:00:00Z/PT10M"),
        ("R0/2026-01-01T00:00:00Z/PT10M", "R0 repeats nothing"),
        ("R5/2026-01-01T00:00:00/PT10M", "'2026-01-01T00:00:00' has no zone; end it with Z"),
        ("R5/soon/PT10M", "'soon' is not an instant"),
        ("R5/2026-01-01T00:00:00Z/P", "'P' is not a duration"),
        ("R5/2026-01-01T00:00:00Z/PT", "'PT' is not a duration"),
        ("R5/2026-01-01T00:00:00Z/PT0S", "shorter than 1 ms"),
        ("R5/2026-01-02T00:00:00Z/2026-01-01T00:00:00Z", "shorter than 1 ms"),
        ("R5/2026-01-01T00:00:00Z/P9999999Y", "is too long"),
        ("R/P1D/2026-01-01T00:00:00Z", "with an end, say how often"),
        ("R999999999/P999D/2026-01-01T00:00:00Z", "begin too long ago"),
        ("R9/P9999D/2026-01-01T00:00:00Z", "must be in the years 1970 to 7999"),
    ],
)
def test_other_intervals_are_refused_with_what_to_write(text: str, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        every(text)


@pytest.mark.parametrize("interval", ["0s", "0.5ms", "-1s", timedelta(days=365_001)])
def test_intervals_too_short_or_too_long_are_refused(interval: str | timedelta) -> None:
    with pytest.raises(InvalidOption, match=r"every: .* (is negative|is not from 1 ms to 365,000 days)"):
        every(interval)
    with pytest.raises(InvalidOption, match="after: "):
        after(interval)


def test_a_repeating_interval_says_itself_where_it_begins() -> None:
    with pytest.raises(InvalidOption, match="leave out start="):
        every("R5/2026-01-01T00:00:00Z/PT10M", start=START)


def test_single_instants_come_in_order_and_once() -> None:
    berlin = datetime(2026, 12, 24, 18, tzinfo=ZoneInfo("Europe/Berlin"))
    rule = at(berlin, START, berlin.astimezone(UTC))
    assert shown(rule.next(5, after=START - timedelta(seconds=1))) == [
        "2026-11-16T10:07:30.500000",
        "2026-12-24T17:00:00",
    ]
    assert rule.next(after=berlin) == []
    assert rule.prev(5, before=berlin) == [START]
    with pytest.raises(InvalidOption, match="at takes 1 to 1,000 instants, not 0"):
        at()
    with pytest.raises(InvalidOption, match=r"at is .* without a zone"):
        at(datetime(2026, 1, 1))  # noqa: DTZ001


def test_intervals_are_told_in_words() -> None:
    assert every("90s").explain() == "Every 1m30s, on the beat of 1970-01-01 00:00 UTC"
    assert every("R5/2026-01-01T00:00:00Z/P1M").explain() == "Every 1 month, 5 times, from 2026-01-01 00:00:00 UTC"
    assert after("5m").explain() == "5m after the last run ended"
    assert at(START).explain() == "At 2026-11-16 10:07:30.500000 UTC"
