"""Days on which clocks change, worked out by hand: what each policy makes of a time that is skipped, or comes twice."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tickwork.core.recurrence.cron import cron
from tickwork.core.recurrence.rrule import rrule
from tickwork.core.recurrence.zones import Dst

# zone, day, time that the clocks skip, right after, moved by the gap
GAPS = [
    ("America/New_York", "2026-03-08", "02:30", "03:00-04:00", "03:30-04:00"),
    ("Europe/Berlin", "2026-03-29", "02:30", "03:00+02:00", "03:30+02:00"),
    ("Europe/Dublin", "2026-03-29", "01:15", "02:00+01:00", "02:15+01:00"),
    ("Australia/Lord_Howe", "2026-10-04", "02:15", "02:30+11:00", "02:45+11:00"),
    ("America/Santiago", "2026-09-06", "00:00", "01:00-03:00", "01:00-03:00"),
    ("Asia/Beirut", "2026-03-29", "00:30", "01:00+03:00", "01:30+03:00"),
    ("Africa/Cairo", "2026-04-24", "00:00", "01:00+03:00", "01:00+03:00"),
    ("America/Havana", "2026-03-08", "00:45", "01:00-04:00", "01:45-04:00"),
    ("Africa/Casablanca", "2026-03-22", "02:30", "03:00+01:00", "03:30+01:00"),
    ("Atlantic/Azores", "2026-03-29", "00:30", "01:00+00:00", "01:30+00:00"),
    ("America/St_Johns", "2007-03-11", "00:30", "01:01-02:30", "01:30-02:30"),
    ("Antarctica/Troll", "2026-03-29", "01:30", "03:00+02:00", "03:30+02:00"),
]
# zone, day, time that comes twice, the offsets that it comes with
OVERLAPS = [
    ("America/New_York", "2026-11-01", "01:30", "-04:00", "-05:00"),
    ("Europe/Berlin", "2026-10-25", "02:30", "+02:00", "+01:00"),
    ("Europe/Dublin", "2026-10-25", "01:15", "+01:00", "+00:00"),
    ("Australia/Lord_Howe", "2026-04-05", "01:45", "+11:00", "+10:30"),
    ("America/Santiago", "2026-04-04", "23:30", "-03:00", "-04:00"),
    ("Asia/Beirut", "2026-10-24", "23:30", "+03:00", "+02:00"),
    ("Africa/Cairo", "2026-10-29", "23:15", "+03:00", "+02:00"),
    ("America/Havana", "2026-11-01", "00:30", "-04:00", "-05:00"),
    ("Africa/Casablanca", "2026-02-15", "02:30", "+01:00", "+00:00"),
    ("Atlantic/Azores", "2026-10-25", "00:30", "+00:00", "-01:00"),
    ("America/St_Johns", "2006-10-28", "23:30", "-02:30", "-03:30"),
    ("Antarctica/Troll", "2026-10-25", "01:30", "+02:00", "+00:00"),
]
POLICIES: tuple[Dst, ...] = ("once", "skip", "both", "shift")


def on(day: str, time: str, zone: str, dst: Dst) -> list[list[str]]:
    """Return the occurrences of a daily time on one day, by cron and by RRULE, as wall times."""
    hour, minute = time.split(":")
    found = []
    for rule in (
        cron(f"{int(minute)} {int(hour)} * * *", tz=zone, dst=dst),
        rrule(f"FREQ=DAILY;BYHOUR={int(hour)};BYMINUTE={int(minute)}", tz=zone, dst=dst),
    ):
        start = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone)) - timedelta(days=1)
        local = [due.astimezone(ZoneInfo(zone)) for due in rule.next(5, after=start)]
        found.append([due.isoformat("T", "minutes")[11:] for due in local if due.date().isoformat() == day])
    return found


@pytest.mark.parametrize("dst", POLICIES)
@pytest.mark.parametrize(("zone", "day", "time", "right_after", "moved"), GAPS)
def test_a_time_that_the_clocks_skip(zone: str, day: str, time: str, right_after: str, moved: str, dst: Dst) -> None:
    expected = {"once": [right_after], "skip": [], "both": [right_after], "shift": [moved]}[dst]
    assert on(day, time, zone, dst) == [expected, expected]


@pytest.mark.parametrize("dst", POLICIES)
@pytest.mark.parametrize(("zone", "day", "time", "first", "second"), OVERLAPS)
def test_a_time_that_comes_twice(zone: str, day: str, time: str, first: str, second: str, dst: Dst) -> None:
    expected = [time + first, time + second] if dst == "both" else [time + first]
    assert on(day, time, zone, dst) == [expected, expected]


@pytest.mark.parametrize("dst", POLICIES)
def test_a_date_that_a_zone_skipped_has_no_occurrence(dst: Dst) -> None:
    rule = cron("0 12 * * *", tz="Pacific/Apia", dst=dst)
    dues = rule.next(3, after=datetime.fromisoformat("2011-12-29T00:00-10:00"))
    local = [due.astimezone(ZoneInfo("Pacific/Apia")).isoformat() for due in dues]
    assert local == ["2011-12-29T12:00:00-10:00", "2011-12-31T12:00:00+14:00", "2012-01-01T12:00:00+14:00"]


@pytest.mark.parametrize("dst", POLICIES)
@pytest.mark.parametrize("text", ["*/30 * * * *", "0,30 * * * *", "*/30 0-23 * * *", "0 */30 * * * *"])
def test_wildcards_follow_real_time(text: str, dst: Dst) -> None:
    rule = cron(text, tz="America/New_York", dst=dst)
    spring = rule.next(4, after=datetime.fromisoformat("2026-03-08T01:15-05:00"))
    autumn = rule.next(5, after=datetime.fromisoformat("2026-11-01T00:45-04:00"))
    local = [due.astimezone(ZoneInfo("America/New_York")).strftime("%H:%M") for due in (*spring, *autumn)]
    assert local == ["01:30", "03:00", "03:30", "04:00", "01:00", "01:30", "01:00", "01:30", "02:00"]


def test_several_times_in_one_gap_run_once_right_after_it() -> None:
    rule = cron("0,15,30 1-3 * * *", tz="Europe/Berlin")
    dues = rule.next(7, after=datetime.fromisoformat("2026-03-29T00:59+01:00"))
    local = [due.astimezone(ZoneInfo("Europe/Berlin")).strftime("%d %H:%M") for due in dues]
    assert local == ["29 01:00", "29 01:15", "29 01:30", "29 03:00", "29 03:15", "29 03:30", "30 01:00"]


def test_what_was_moved_out_of_the_gap_comes_in_order_with_the_rest() -> None:
    rule = cron("30,45 2,3 * * *", tz="Europe/Berlin", dst="shift")
    start = datetime.fromisoformat("2026-03-29T00:00+01:00")
    local = [due.astimezone(ZoneInfo("Europe/Berlin")).strftime("%d %H:%M") for due in rule.next(4, after=start)]
    assert local == ["29 03:30", "29 03:45", "30 02:30", "30 02:45"]


@pytest.mark.parametrize("rule", ["FREQ=HOURLY;INTERVAL=1", "FREQ=MINUTELY;INTERVAL=60"])
def test_hourly_recurrences_follow_real_time_too(rule: str) -> None:
    dues = rrule(rule, tz="Europe/Berlin").next(4, after=datetime.fromisoformat("2026-10-25T01:30+02:00"))
    assert [due.strftime("%H:%M") for due in dues] == ["00:00", "01:00", "02:00", "03:00"]
