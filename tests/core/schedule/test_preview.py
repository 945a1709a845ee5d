"""Previews mark the days on which clocks change."""

from __future__ import annotations

from datetime import datetime

import pytest

from tickwork.core.recurrence.cron import cron
from tickwork.core.recurrence.interval import every
from tickwork.core.schedule.upcoming import clock_change, preview


def test_a_preview_shows_local_times_and_marks_odd_days() -> None:
    rule = cron("30 2 * * *", tz="America/New_York")
    shown = preview(rule, 3, after=datetime.fromisoformat("2026-03-07T00:00Z"))
    assert [(one.local.strftime("%d %H:%M"), one.clock_change) for one in shown] == [
        ("07 02:30", None),
        ("08 03:00", "02:00 -> 03:00, 1h forward"),
        ("09 02:30", None),
    ]


def test_a_rule_without_a_zone_can_be_shown_in_any() -> None:
    shown = preview(every("12h"), 2, after=datetime.fromisoformat("2026-10-24T20:00Z"), zone="Europe/Berlin")
    assert [(one.local.strftime("%d %H:%M"), one.clock_change) for one in shown] == [
        ("25 02:00", "03:00 -> 02:00, 1h back"),
        ("25 13:00", "03:00 -> 02:00, 1h back"),
    ]


@pytest.mark.parametrize(
    ("zone", "instant", "change"),
    [
        ("Australia/Lord_Howe", "2026-10-04T12:00+11:00", "02:00 -> 02:30, 30m forward"),
        ("Pacific/Apia", "2011-12-31T12:00+14:00", "00:00 -> 00:00, 1d forward"),
        ("America/Santiago", "2026-09-06T12:00-03:00", "00:00 -> 01:00, 1h forward"),
        ("America/Santiago", "2026-09-05T12:00-04:00", None),
        ("Asia/Beirut", "2026-10-24T12:00+03:00", "00:00 -> 23:00, 1h back"),
        ("UTC", "2026-10-24T12:00+00:00", None),
        ("Europe/Berlin", "2026-12-31T12:00+01:00", None),
    ],
)
def test_a_change_is_told_by_what_the_clock_shows(zone: str, instant: str, change: str | None) -> None:
    assert clock_change(zone, datetime.fromisoformat(instant)) == change
