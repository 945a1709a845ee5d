"""Properties of all rules: order, the next and the previous occurrence, and a stored form."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.recurrence.strategies import calendars, instants, rules
from tests.core.schedule.states import new_standing
from tickwork.core.recurrence.base_rule import RuleValue
from tickwork.core.recurrence.calendar import Calendar, calendar
from tickwork.core.recurrence.cron import cron
from tickwork.core.recurrence.interval import after, every
from tickwork.core.recurrence.parse_rule import decode_calendar, decode_rule, encode_calendar, encode_rule
from tickwork.core.schedule.policy import SchedulePolicies
from tickwork.errors import InvalidInput, InvalidOption

SHARED = {"holidays": calendar(yearly=["12-25"])}
MICROSECOND = timedelta(microseconds=1)


@given(rules, instants)
@settings(max_examples=150)
def test_occurrences_grow_and_nothing_lies_between_them(rule: RuleValue, instant: datetime) -> None:
    dues = rule.next(4, after=instant, calendars=SHARED)
    assert all(one < other for one, other in pairwise([instant, *dues]))
    for one, other in pairwise(dues):
        assert rule.last_before(other, SHARED) == one
        assert rule.first_after(other - MICROSECOND, SHARED) == other
        assert rule.first_after(one + (other - one) / 2, SHARED) == other
    if dues:
        assert rule.first_after(instant, SHARED) == dues[0]
        before = rule.last_before(dues[0], SHARED)
        assert before is None or (before <= instant and rule.first_after(before, SHARED) == dues[0])


@given(rules, instants)
@settings(max_examples=50)
def test_the_zone_that_an_instant_is_given_in_does_not_matter(rule: RuleValue, instant: datetime) -> None:
    elsewhere = instant.astimezone(ZoneInfo("Pacific/Kiritimati"))
    assert rule.first_after(elsewhere, SHARED) == rule.first_after(instant, SHARED)
    assert rule.last_before(elsewhere, SHARED) == rule.last_before(instant, SHARED)


@given(rules)
def test_a_rule_comes_back_from_the_store(rule: RuleValue) -> None:
    back = decode_rule(encode_rule(rule))
    assert back == rule
    assert back.explain() == rule.explain()
    assert encode_rule(back) == encode_rule(rule)


@given(calendars)
def test_a_calendar_comes_back_from_the_store(given_calendar: Calendar) -> None:
    assert decode_calendar(encode_calendar(given_calendar)) == given_calendar


def test_the_stored_form_is_this_one() -> None:
    """Rows that were written by this version must be readable by every later one."""
    assert encode_rule(cron("30 2 * * *", tz="Europe/Berlin")) == (
        b'{"version":1,"rule":{"kind":"cron","expression":"30 2 * * *","tz":"Europe/Berlin","dst":"once",'
        b'"dialect":"standard","name":null}}'
    )
    assert encode_rule(every("200ms")) == (
        b'{"version":1,"rule":{"kind":"every","step":"PT0.2S","months":0,"start":null,"times":null}}'
    )
    assert encode_rule(after("5m")) == b'{"version":1,"rule":{"kind":"after","delay":"PT300S"}}'


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (b"", "a stored rule cannot be read"),
        (b'{"version":2,"rule":{"kind":"after","delay":"PT300S"}}', "has version 2; this Tickwork reads 1"),
        (b'{"version":1,"rule":{"kind":"moon","phase":"full"}}', "Was it written by a newer Tickwork"),
        (b'{"version":1,"rule":{"kind":"after","delay":"PT300S","more":1}}', "a stored rule cannot be read"),
        (b'{"version":1,"rule":{"kind":"cron","expression":"0 0 31 2 *"}}', "is never due"),
        (b'{"version":1,"rule":{"kind":"cron","expression":"@daily","tz":"Moon/Sea"}}', "there is no zone 'Moon/Sea'"),
    ],
)
def test_rows_that_are_not_rules_are_refused_with_the_reason(stored: bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        decode_rule(stored)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_rule_or_refused(stored: bytes) -> None:
    with pytest.raises(InvalidInput):
        decode_rule(stored)


@pytest.mark.parametrize("n", [-1, 10_001])
def test_a_preview_has_a_bound(n: int) -> None:
    with pytest.raises(InvalidOption, match="n must be from 0 to 10,000"):
        cron("* * * * *").next(n, after=datetime.fromisoformat("2026-01-01T00:00Z"))


def test_a_rule_begins_where_its_schedule_does_unless_it_says_itself() -> None:
    start = datetime.fromisoformat("2026-11-16T10:07:30Z")
    assert every("1h").of_schedule("any", start).next(2, after=start) == [
        start + timedelta(hours=1),
        start + timedelta(hours=2),
    ]
    assert new_standing(start, SchedulePolicies()).handled_at == start
    assert new_standing(start, SchedulePolicies(start=start)).handled_at == start - MICROSECOND
