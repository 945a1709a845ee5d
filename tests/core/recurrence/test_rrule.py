"""Recurrence rules, against dateutil, and what dateutil cannot do: look back, and give up."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from itertools import islice, pairwise
from random import Random

import pytest
from dateutil.rrule import rrulestr
from hypothesis import given, settings
from hypothesis import strategies as st

from tickwork.core.recurrence.rrule import rrule
from tickwork.core.recurrence.rrule_parser import read_rrule
from tickwork.core.recurrence.rrule_search import rrule_walls
from tickwork.errors import InvalidOption

MICROSECOND = timedelta(microseconds=1)
START = datetime.fromisoformat("2026-11-16T10:07:30Z")
WEEKDAYS = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]


def some(rng: Random, values: list[str], most: int = 3) -> str:
    return ",".join(rng.sample(values, rng.randint(1, min(most, len(values)))))


def random_rule(rng: Random) -> str:
    """A rule that is due often enough for dateutil, which walks through everything."""
    freq = rng.choice(["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY"])
    parts = {"FREQ": freq}
    if rng.random() < 0.5:
        parts["INTERVAL"] = str(rng.randint(1, 5))
    if rng.random() < 0.3:
        parts["BYMONTH"] = some(rng, [str(month) for month in range(1, 13)], 8)
    days = rng.random()
    if days < 0.3 and freq != "WEEKLY":
        parts["BYMONTHDAY"] = some(rng, ["1", "2", "13", "15", "28", "30", "31", "-1", "-2", "-31"], 4)
    elif days < 0.7:
        # All with a number or none: dateutil finds nothing where RFC 5545 wants both.
        nth = ["1", "2", "-1", "5"] if freq in {"MONTHLY", "YEARLY"} and rng.random() < 0.7 else [""]
        parts["BYDAY"] = some(rng, [rng.choice(nth) + day for day in WEEKDAYS], 4)
    elif days < 0.8 and freq in {"YEARLY", "HOURLY", "MINUTELY"}:
        parts["BYYEARDAY"] = some(rng, ["1", "100", "200", "366", "-1", "-100"], 4)
    elif days < 0.9 and freq == "YEARLY":
        parts |= {"BYWEEKNO": some(rng, ["2", "20", "40"]), "BYDAY": some(rng, WEEKDAYS)}
    if freq != "SECONDLY" and rng.random() < 0.4:
        parts["BYMINUTE"] = some(rng, ["0", "15", "30", "59"])
    if rng.random() < 0.3:
        parts["BYHOUR"] = some(rng, [str(hour) for hour in range(24)], 8)
    if rng.random() < 0.2:
        parts["BYSECOND"] = some(rng, ["0", "10", "59"])
    # Of the week that a rule begins in, dateutil counts only what is left; RFC 5545 counts the whole week.
    if freq != "WEEKLY" and rng.random() < 0.2 and parts.keys() & {"BYDAY", "BYMONTHDAY", "BYMINUTE"}:
        parts["BYSETPOS"] = some(rng, ["1", "2", "-1", "-2"], 2)
    if freq == "WEEKLY" and rng.random() < 0.5:
        parts["WKST"] = rng.choice(WEEKDAYS)
    return ";".join(f"{name}={value}" for name, value in parts.items())


@given(st.integers(0, 2**32))
@settings(max_examples=80)
def test_a_rule_is_due_when_dateutil_says_and_looks_back_the_same_way(seed: int) -> None:
    rng = Random(seed)
    text = random_rule(rng)
    start = datetime.fromisoformat("2019-12-25T09:10:00") + timedelta(minutes=rng.randrange(3_000_000))
    if rng.random() < 0.2:
        text += f";UNTIL={start + timedelta(days=rng.randrange(800)):%Y%m%dT%H%M%S}"
    walls = rrule_walls(read_rrule(text, "UTC"), start)
    if walls is None:
        return  # dateutil would search for years; a test of its own is about these
    expected = list(islice(rrulestr(text, dtstart=start), 12))
    found, wall = [], start - MICROSECOND
    while len(found) < 12 and (following := walls.next(wall)) is not None:
        found.append(wall := following)
    assert found == expected, f"{text} from {start}"
    end = expected[-1] + MICROSECOND if len(expected) == 12 else expected[-1] + timedelta(days=5000)
    back, previous = [], walls.prev(end)
    while previous is not None and len(back) < 12:
        back.append(previous)
        previous = walls.prev(previous)
    assert back == expected[::-1], f"{text} from {start}"


@given(st.integers(0, 2**32))
@settings(max_examples=20)
def test_a_search_may_begin_anywhere(seed: int) -> None:
    rng = Random(seed)
    text = random_rule(rng)
    start = datetime.fromisoformat("2020-02-29T12:30:00")
    walls = rrule_walls(read_rrule(text, "UTC"), start)
    expected = [] if walls is None else list(islice(rrulestr(text, dtstart=start), 40))
    for one, other in pairwise(expected):
        between = one + (other - one) * rng.random()
        assert walls is not None
        assert walls.next(min(between, other - MICROSECOND)) == other, f"{text} after {between}"
        assert walls.prev(max(between, one + MICROSECOND)) == one, f"{text} before {between}"


@pytest.mark.parametrize("week", [1, 52, 53, -1, -53])
def test_weeks_are_those_of_iso_8601_also_around_new_year(week: int) -> None:
    """dateutil takes 2 January 2022, a Sunday of week 52, for one of week 53."""
    rule = rrule(f"FREQ=YEARLY;BYWEEKNO={week};BYDAY=MO,TH,SU")
    day, expected = date(2015, 1, 1), []
    while len(expected) < 40:
        year, number, weekday = day.isocalendar()
        weeks = date(year, 12, 28).isocalendar().week
        if weekday in {1, 4, 7} and number == (week if week > 0 else weeks + 1 + week):
            expected.append(day)
        day += timedelta(days=1)
    found = rule.next(40, after=datetime.fromisoformat("2014-12-31T12:00Z"))
    assert [due.date() for due in found] == expected


def test_count_and_until_end_a_rule() -> None:
    counted = rrule("FREQ=DAILY;COUNT=3", start=START, tz="Europe/Berlin")
    assert [due.day for due in counted.next(9, after=START - timedelta(days=9))] == [16, 17, 18]
    assert counted.prev(9, before=START + timedelta(days=99))[0].day == 18
    midnight = START.replace(hour=0, minute=0, second=0)
    until = rrule("FREQ=DAILY;BYHOUR=9;UNTIL=20261118T090000", start=midnight)
    assert [due.day for due in until.next(9, after=START)] == [17, 18]
    in_utc = rrule("FREQ=DAILY;BYHOUR=9;BYMINUTE=0;UNTIL=20261118T080000Z", start=midnight, tz="Europe/Berlin")
    assert [due.day for due in in_utc.next(9, after=START)] == [17, 18]
    whole_day = rrule("FREQ=DAILY;BYHOUR=9;UNTIL=20261118", start=START)
    assert whole_day.prev(before=START + timedelta(days=99))[0].day == 18


def test_the_lines_that_calendars_export_are_understood() -> None:
    exported = rrule("DTSTART;TZID=America/New_York:20260105T093000\nRRULE:FREQ=WEEKLY;BYDAY=MO")
    assert exported == rrule(
        "freq=weekly;byday=mo", tz="America/New_York", start=datetime.fromisoformat("2026-01-05T09:30-05:00")
    )
    assert exported.next(after=START)[0].isoformat() == "2026-11-16T14:30:00+00:00"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", r"is never due\. Check the BY\.\.\. parts"),
        ("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", "is never due"),
        ("FREQ=MONTHLY;BYDAY=MO;BYSETPOS=6", "is never due"),
        ("FREQ=DAILY;INTERVAL=7;BYDAY=MO", "is never due"),
        ("FREQ=HOURLY;INTERVAL=2;BYHOUR=3", "is never due"),
        ("FREQ=SECONDLY;INTERVAL=2;BYSECOND=1", "is never due"),
        ("FREQ=YEARLY;UNTIL=19691231", "is never due"),
        ("FREQ=FORTNIGHTLY", "FREQ is 'FORTNIGHTLY'; it must be one of YEARLY"),
        ("FREQ=DAILY;BYDAYS=MO", "there is no part BYDAYS; there are FREQ, INTERVAL"),
        ("FREQ=DAILY;BYHOUR=24", "BYHOUR has '24'; it takes 0 to 23"),
        ("FREQ=MONTHLY;BYMONTHDAY=0", "it takes -31 to 31, without 0"),
        ("FREQ=DAILY;BYHOUR=1;BYHOUR=2", "'BYHOUR=2' is not a new NAME=VALUE"),
        ("FREQ=WEEKLY;BYDAY=2MO", "a numbered day such as 2MO needs FREQ=MONTHLY"),
        ("FREQ=WEEKLY;BYMONTHDAY=1", "BYMONTHDAY does not go with FREQ=WEEKLY"),
        ("FREQ=MONTHLY;BYYEARDAY=1", "BYYEARDAY does not go with FREQ=MONTHLY"),
        ("FREQ=YEARLY;BYWEEKNO=1", "BYWEEKNO needs FREQ=YEARLY and a BYDAY"),
        ("FREQ=DAILY;BYSETPOS=1", "BYSETPOS chooses among what another"),
        ("FREQ=DAILY;COUNT=1;UNTIL=20270101", "give one of them"),
        ("FREQ=DAILY;COUNT=3", "COUNT needs a start to count from; say start="),
        ("FREQ=WEEKLY", r"on which day\? Say BYDAY=MO, or start="),
        ("FREQ=DAILY;UNTIL=tomorrow", "'TOMORROW' is not a date or time"),
        ("FREQ=DAILY;INTERVAL=0", "INTERVAL is '0'; it must be from 1 to"),
        (
            "RRULE:FREQ=DAILY\nRRULE:FREQ=WEEKLY;BYDAY=MO",
            r"it has 2 rules, and must have one; combine",
        ),
        ("FREQ=DAILY\nEXDATE:20260101T000000", r"use at\(\.\.\.\), any_of\(\.\.\.\) and except_on"),
        ("every day", "the line 'EVERY DAY' is not known here; write FREQ="),
        ("DTSTART;TZID=Europe/Berln:20260101T000000\nRRULE:FREQ=DAILY", "did you mean 'Europe/Berlin'"),
    ],
)
@pytest.mark.timeout(10)  # a search that does not end takes minutes
def test_what_cannot_be_is_refused_at_once_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        rrule(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17", "Every month on the last Friday at 17:00, UTC"),
        ("FREQ=DAILY;INTERVAL=2;BYHOUR=9,17;BYMINUTE=30", "Every 2 days at 09:30 and 17:30, UTC"),
        ("FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=-1", "Every year in December on the last day at 00:00, UTC"),
        (
            "FREQ=MONTHLY;BYDAY=MO,FR;BYSETPOS=-1",
            "Every month on Monday and Friday at 00:00 (of these only the last), UTC",
        ),
        ("FREQ=DAILY;UNTIL=20270101T000000Z", "Every day at 00:00, until 2027-01-01 00:00:00, UTC"),
    ],
)
def test_a_rule_is_told_in_words(text: str, words: str) -> None:
    assert rrule(text).explain() == words
