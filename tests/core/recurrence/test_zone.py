"""Where zones change their clocks, against the files of the time zone database itself."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, timedelta
from importlib import resources
from itertools import pairwise
from pathlib import Path
from zoneinfo import TZPATH

import pytest

from tickwork.core.recurrence.zones import day_start, local_date, stretch_at

ZONES = (resources.files("tzdata") / "zones").read_text().split()
ODD = ["Pacific/Apia", "Asia/Gaza", "Africa/Cairo", "America/Boa_Vista", "Africa/Casablanca", "Antarctica/Troll"]


def file_of(zone: str) -> bytes:
    """The file that zoneinfo reads: the system's, which may be another release than the package, or the package's."""
    for folder in TZPATH:
        if (path := Path(folder, zone)).is_file():
            return path.read_bytes()
    return resources.files("tzdata").joinpath("zoneinfo", *zone.split("/")).read_bytes()


def recorded_changes(zone: str) -> list[tuple[datetime, timedelta]]:
    """Every change of the offset since 1970 that is written down in a file (RFC 9636), and what it changed to."""
    data = file_of(zone)
    isut, isstd, leap, times, types, chars = struct.unpack(">6l", data[20:44])
    at = 44 + times * 5 + types * 6 + chars + leap * 8 + isstd + isut  # past the 32-bit part
    isut, isstd, leap, times, types, chars = struct.unpack(">6l", data[at + 20 : at + 44])
    at += 44
    moments = struct.unpack(f">{times}q", data[at : at + 8 * times])
    kinds = data[at + 8 * times : at + 9 * times]
    at += 9 * times
    offsets = [struct.unpack(">l", data[at + 6 * kind : at + 6 * kind + 4])[0] for kind in range(types)]
    found, offset = [], offsets[0]
    for moment, kind in zip(moments, kinds, strict=True):
        if offsets[kind] != offset and moment > 0:
            found.append((datetime.fromtimestamp(moment, UTC), timedelta(seconds=offsets[kind])))
        offset = offsets[kind]
    return found


@pytest.mark.parametrize("zone", [*ODD, *ZONES[::25]])
def test_every_recorded_change_is_found(zone: str) -> None:
    until = datetime.fromisoformat("2037-01-01T00:00Z")
    expected = [change for change in recorded_changes(zone) if change[0] < until]
    found, stretch = [], stretch_at(zone, datetime.fromisoformat("1970-01-02T00:00Z"))
    while stretch.end < until:
        following = stretch_at(zone, stretch.end)
        if following.offset != stretch.offset:
            found.append((following.start, following.offset))
            assert following.before == stretch.offset
        stretch = following
    assert found[: len(expected)] == expected


def test_no_zone_changes_its_clocks_twice_within_six_days() -> None:
    """The search for changes rests on it."""
    for zone in ZONES:
        moments = [moment for moment, _ in recorded_changes(zone)]
        for one, other in pairwise(moments):
            assert other - one > timedelta(days=6), zone


@pytest.mark.parametrize(
    ("zone", "day", "start"),
    [
        ("UTC", "2026-11-16", "2026-11-16T00:00+00:00"),
        ("Europe/Berlin", "2026-03-29", "2026-03-29T00:00+01:00"),
        ("America/Santiago", "2026-09-06", "2026-09-06T01:00-03:00"),
        ("America/Havana", "2026-11-01", "2026-11-01T00:00-04:00"),
        ("Pacific/Apia", "2011-12-30", "2011-12-31T00:00+14:00"),
        ("Pacific/Kiritimati", "2026-01-01", "2026-01-01T00:00+14:00"),
    ],
)
def test_a_day_begins_when_the_clock_first_shows_it(zone: str, day: str, start: str) -> None:
    assert day_start(zone, date.fromisoformat(day)) == datetime.fromisoformat(start)


def test_a_change_just_before_new_year_is_felt_after_it() -> None:
    """In Dhaka clocks went back by an hour at the end of 2009, six hours before the new year of UTC."""
    new_year = datetime.fromisoformat("2010-01-01T00:00Z")
    stretch = stretch_at("Asia/Dhaka", new_year)
    assert stretch.start == datetime.fromisoformat("2009-12-31T18:00Z") - timedelta(hours=1)
    assert stretch.change == timedelta(hours=-1)
    assert local_date("Asia/Dhaka", new_year) == date(2010, 1, 1)
