"""Rules made of rules, and calendars that leave days out."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tickwork.core.recurrence.base_rule import RuleValue
from tickwork.core.recurrence.calendar import calendar
from tickwork.core.recurrence.combine import all_of, any_of, except_on
from tickwork.core.recurrence.cron import cron
from tickwork.core.recurrence.interval import after, at, every
from tickwork.core.recurrence.zones import local_date
from tickwork.errors import InvalidOption

START = datetime.fromisoformat("2026-12-20T10:00:00Z")  # a Sunday
MICROSECOND = timedelta(microseconds=1)


def days(rule: RuleValue, n: int) -> list[str]:
    return [due.strftime("%m-%d") for due in rule.next(n, after=START)]


def test_any_of_is_due_once_where_its_rules_agree() -> None:
    rule = any_of(cron("0 * * * *"), cron("*/30 12 * * *"))
    assert [due.strftime("%H:%M") for due in rule.next(4, after=START)] == ["11:00", "12:00", "12:30", "13:00"]
    assert [due.strftime("%H:%M") for due in rule.prev(2, before=START)] == ["09:00", "08:00"]


def test_all_of_is_due_where_its_rules_agree() -> None:
    rule = all_of(cron("0 9 13 * *"), cron("0 9 * * FRI"))
    assert [due.strftime("%Y-%m-%d") for due in rule.next(3, after=START)] == ["2027-08-13", "2028-10-13", "2029-04-13"]
    assert [due.strftime("%Y-%m-%d") for due in rule.prev(1, before=START)] == ["2026-11-13"]


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=3),
    st.integers(0, 500),
)
@settings(max_examples=30)
def test_combinations_agree_with_sets(minutes: list[int], offset: int) -> None:
    rules = [every(timedelta(minutes=minute)) for minute in minutes]
    instant = START + timedelta(minutes=offset)
    horizon = [instant + timedelta(minutes=minute) for minute in range(1, 1500)]
    beats = [
        {one for one in horizon if (one - datetime.fromisoformat("1970-01-01T00:00Z")) % rule.step == timedelta(0)}
        for rule in rules
    ]
    either, both = sorted(set.union(*beats)), sorted(set.intersection(*beats))
    assert any_of(*rules).next(len(either), after=instant) == either
    assert all_of(*rules).next(len(both), after=instant) == both


@pytest.mark.timeout(10)  # a search that does not end takes minutes
def test_rules_that_never_meet_are_refused_at_once() -> None:
    with pytest.raises(InvalidOption, match="these rules are never due together"):
        all_of(cron("0 9 1 * *"), cron("0 10 * * *"))
    with pytest.raises(InvalidOption, match="these rules are never due together"):
        all_of(at(START), except_on(calendar(dates=[START.date()])))


def test_what_cannot_be_combined_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"any_of cannot take after\(\.\.\.\)"):
        any_of(after("5m"), cron("@daily"))
    with pytest.raises(InvalidOption, match="all_of takes 1 to 50 rules, not 0"):
        all_of(except_on("holidays"))
    with pytest.raises(InvalidOption, match=r"any_of takes rules such as cron\(\.\.\.\), not '@daily'"):
        any_of("@daily")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="except_on takes names of calendars"):
        except_on(date(2026, 1, 1))  # type: ignore[arg-type]


def test_editing_a_shared_calendar_moves_the_occurrences() -> None:
    rule = all_of(cron("0 9 * * *", tz="Europe/Berlin"), except_on("holidays"))
    before = {"holidays": calendar(yearly=["12-25", "12-26"])}
    edited = {"holidays": calendar(yearly=["12-25", "12-26"], dates=["2026-12-24"])}
    since = datetime.fromisoformat("2026-12-23T12:00Z")
    assert [due.day for due in rule.next(2, after=since, calendars=before)] == [24, 27]
    assert [due.day for due in rule.next(2, after=since, calendars=edited)] == [27, 28]
    with pytest.raises(InvalidOption, match="there is no calendar 'holidays'; a rule heeds it"):
        rule.next(after=since)


def test_days_are_those_of_the_rule_or_of_the_calendar_if_it_says() -> None:
    night = cron("30 0 * * *", tz="Europe/Berlin")  # 23:30 of the day before, in UTC
    assert days(all_of(night, except_on(calendar(dates=["2026-12-22"]))), 3) == ["12-20", "12-22", "12-23"]
    assert days(all_of(night, except_on(calendar(dates=["2026-12-22"], tz="UTC"))), 3) == ["12-20", "12-21", "12-23"]


DAYS = st.dates(date(2026, 3, 1), date(2026, 4, 30))


@given(
    st.sets(DAYS, max_size=25),
    st.sets(st.sampled_from(["mon", "tue", "sat", "sun"])),
    st.sampled_from(["Europe/Berlin", "America/St_Johns", "UTC"]),
    st.sampled_from(["17 */3 * * *", "30 2 * * *", "0 0 * * *"]),
)
@settings(max_examples=15)
def test_what_a_calendar_leaves_out_and_nothing_else_is_left_out(
    dates: set[date], weekdays: set[str], zone: str, text: str
) -> None:
    rule, left_out = cron(text, tz=zone), calendar(dates=dates, weekdays=weekdays)
    start, end = datetime(2026, 2, 25, tzinfo=UTC), datetime(2026, 5, 5, tzinfo=UTC)
    plain = [due for due in rule.next(1700, after=start) if due < end]
    expected = [due for due in plain if not left_out.leaves_out(local_date(zone, due))]
    heeding = all_of(rule, except_on(left_out))
    assert heeding.next(len(expected), after=start) == expected
    assert heeding.prev(len(expected), before=end) == expected[::-1]


def test_an_hour_that_the_clocks_bring_back_belongs_to_its_own_day() -> None:
    """In St John's of 2006 a day began, and a minute later the day before went on for an hour."""
    rule = cron("*/15 * * * *", tz="America/St_Johns")
    heeding = all_of(rule, except_on(calendar(dates=["2006-10-29"])))
    dues = heeding.next(20, after=datetime.fromisoformat("2006-10-29T01:50Z"))
    assert [due.strftime("%H:%M") for due in dues[:5]] == ["02:00", "02:15", "02:45", "03:00", "03:15"]


ICS = """BEGIN:VCALENDAR
BEGIN:VEVENT
SUMMARY:Christmas
DTSTART;VALUE=DATE:20201225
DTEND;VALUE=DATE:20201227
RRULE:FREQ=YEARLY
END:VEVENT
BEGIN:VEVENT
DTSTART;VALUE=DA
 TE:20261231
SUMMARY:a folded line
END:VEVENT
END:VCALENDAR
"""


def test_whole_day_events_of_a_calendar_file_are_read() -> None:
    assert calendar(ics=ICS) == calendar(yearly=["12-25", "12-26"], dates=["2026-12-31"])


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (("DTSTART;VALUE=DATE:20201225", "DTSTART:20201225T120000Z"), "ics, line 4: .* has a time of day"),
        (("DTSTART;VALUE=DATE:20201225", "DTSTART;VALUE=DATE:soon"), "ics, line 4: 'soon' is not a date"),
        (("DTSTART;VALUE=DATE:20201225", "X-OTHER:1"), "ics, line 7: an event without DTSTART"),
        (("FREQ=YEARLY", "FREQ=YEARLY;BYDAY=4TH"), "ics, line 6: the recurrence .* only plain FREQ=YEARLY"),
        (("20201227", "20991227"), "ics, line 5: an event that lasts"),
    ],
)
def test_other_events_are_refused_with_their_line(broken: tuple[str, str], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        calendar(ics=ICS.replace(*broken, 1))


def test_calendars_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidOption, match="leaves no day at all"):
        calendar(weekdays=["monday", "tue", "wed", "thu", "fri", "sat", "sun"])
    with pytest.raises(InvalidOption, match="leaves no day at all"):
        calendar(yearly=[f"{date(2000, 1, 1) + timedelta(days=day):%m-%d}" for day in range(366)])
    with pytest.raises(InvalidOption, match="weekdays: 'fun' is not one; they are mon, tue"):
        calendar(weekdays=["fun"])
    with pytest.raises(InvalidOption, match="yearly: '12-32' is not a day of the year"):
        calendar(yearly=["12-32"])
    with pytest.raises(InvalidOption, match=r"dates: '31\.12\.2026' is not a date; write one like '2026-12-31'"):
        calendar(dates=["31.12.2026"])


def test_combinations_are_told_in_words() -> None:
    rule = all_of(any_of(cron("@daily"), every("90m")), except_on("holidays", calendar(weekdays=["sat"])))
    assert rule.explain() == (
        "At 00:00 every day, UTC; or Every 1h30m, on the beat of 1970-01-01 00:00 UTC; except on holidays and sat"
    )
