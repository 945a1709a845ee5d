"""Policies: their defaults, and what they refuse."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from tickwork.core.recurrence.calendar import calendar
from tickwork.core.schedule.policy import SchedulePolicies, read_policies
from tickwork.errors import InvalidOption

START = datetime.fromisoformat("2026-11-16T12:00+02:00")


def test_the_defaults_are_these() -> None:
    assert read_policies({}) == SchedulePolicies(
        catchup="latest",
        catchup_limit=100,
        catchup_age=timedelta(days=7),
        overlap="skip",
        jitter=timedelta(0),
        window=timedelta(0),
        start=None,
        end=None,
        max_runs=None,
        deadline=None,
        calendars=(),
    )
    assert read_policies({"catchup": None, "start": None}) == SchedulePolicies()


def test_policies_are_read_as_people_write_them() -> None:
    read = read_policies({"jitter": "5m", "deadline": "1h30m", "start": START, "calendars": "holidays", "max_runs": 3})
    assert (read.jitter, read.deadline) == (timedelta(minutes=5), timedelta(minutes=90))
    assert read.start is not None
    assert read.start.isoformat() == "2026-11-16T10:00:00+00:00"
    assert read.calendars == ("holidays",)
    both = read_policies({"calendars": ["holidays", calendar(weekdays=["sun"])]}).calendars
    assert both == ("holidays", calendar(weekdays=["sun"]))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"catchup": "some"}, "catchup must be one of 'all', 'latest', 'none', not 'some'"),
        ({"overlap": "kill"}, "overlap must be one of 'allow', 'skip', 'queue', 'cancel', not 'kill'"),
        ({"catchup_limit": 0}, "catchup_limit must be a whole number from 1 to 10,000, not 0"),
        ({"max_runs": True}, "max_runs must be a whole number"),
        ({"jitter": 5}, r"jitter: 5 of what\? Say '5s'"),
        ({"deadline": "400000d"}, "deadline: '400000d' is too long"),
        ({"start": "tomorrow"}, "start must be a datetime with a zone, not 'tomorrow'"),
        ({"end": START.replace(tzinfo=None)}, "end is 2026-11-16T12:00:00 without a zone"),
        ({"start": START, "end": START - timedelta(days=1)}, "end is .*, before start at"),
        ({"jitter": "5m", "window": "5m"}, "give one of them"),
        ({"calendars": 5}, "takes names of calendars"),
        ({"overlaps": "skip"}, r"there is no policy 'overlaps'; did you mean 'overlap'\?"),
        ({"colour": "red"}, "there is no policy 'colour'; they are catchup"),
    ],
)
def test_other_values_are_refused_with_the_name_of_the_policy(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        read_policies(given)
