"""A slow reference for cron: each minute of UTC is compared with the expression by its wall time.

It shares nothing with what it checks: its own reading of expressions, zoneinfo's own `fold`, no search, no jumps.
"""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from random import Random
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
_MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]

# Days on which clocks change, odd ones preferred: midnight that does not exist (Santiago, Havana, Beirut, Cairo), half
# an hour (Lord Howe), a date that was skipped (Apia), changes around Ramadan (Casablanca), one minute past midnight
# (St John's), winter time that is the odd one (Dublin).
ODD_DAYS = [
    ("Europe/Berlin", date(2026, 3, 29)),
    ("Europe/Berlin", date(2026, 10, 25)),
    ("America/New_York", date(2026, 3, 8)),
    ("America/New_York", date(2026, 11, 1)),
    ("Australia/Lord_Howe", date(2026, 4, 5)),
    ("Australia/Lord_Howe", date(2026, 10, 4)),
    ("Pacific/Apia", date(2011, 12, 30)),
    ("Pacific/Apia", date(2012, 4, 1)),
    ("Africa/Cairo", date(2026, 4, 24)),
    ("Africa/Cairo", date(2026, 10, 29)),
    ("America/Santiago", date(2026, 4, 4)),
    ("America/Santiago", date(2026, 9, 6)),
    ("America/Havana", date(2026, 3, 8)),
    ("America/Havana", date(2026, 11, 1)),
    ("Europe/Dublin", date(2026, 3, 29)),
    ("Europe/Dublin", date(2026, 10, 25)),
    ("Africa/Casablanca", date(2026, 2, 15)),
    ("Africa/Casablanca", date(2026, 3, 22)),
    ("Asia/Beirut", date(2026, 3, 29)),
    ("Asia/Beirut", date(2026, 10, 24)),
    ("America/St_Johns", date(2006, 10, 28)),
    ("America/St_Johns", date(2007, 3, 11)),
    ("Asia/Kathmandu", date(2026, 7, 1)),
    ("UTC", date(2028, 2, 29)),
]


class Expression:
    """Five fields with *, numbers, names, ranges that may wrap around, steps and lists, read into sets."""

    def __init__(self, text: str) -> None:
        minute, hour, day, month, weekday = text.split()
        self.minutes = _values(minute, 0, 59)
        self.hours = _values(hour, 0, 23)
        self.days = _values(day, 1, 31)
        self.months = _values(month, 1, 12, _MONTHS)
        self.weekdays = {value % 7 for value in _values(weekday, 0, 6, _DAYS)}
        self.both_days = day.startswith("*") or weekday.startswith("*")
        self.wild = minute.startswith("*") or hour.startswith("*")

    def matches(self, wall: datetime) -> bool:
        if wall.minute not in self.minutes or wall.hour not in self.hours or wall.month not in self.months:
            return False
        by_date, by_weekday = wall.day in self.days, wall.isoweekday() % 7 in self.weekdays
        return (by_date and by_weekday) if self.both_days else (by_date or by_weekday)


def _values(field: str, low: int, high: int, names: list[str] | None = None) -> set[int]:
    def number(text: str) -> int:
        return names.index(text) + low if names and text in names else int(text)

    found: set[int] = set()
    for term in field.split(","):
        span, _, step = term.partition("/")
        if span == "*":
            values = list(range(low, high + 1))
        elif "-" in span:
            first, last = map(number, span.split("-"))
            values = list(range(first, last + 1)) if first <= last else [*range(first, high + 1), *range(low, last + 1)]
        else:
            values = list(range(number(span), high + 1)) if step else [number(span)]
        found.update(values[:: int(step or 1)])
    return found


@dataclass(frozen=True)
class Window:
    """Some days of a zone: every minute of UTC in them, with what the wall shows then."""

    zone: str
    start: datetime
    walls: tuple[datetime, ...]

    @property
    def end(self) -> datetime:
        return self.start + MINUTE * len(self.walls)


@lru_cache(maxsize=64)
def window(zone: str, day: date, before: int = 1, days: int = 3) -> Window:
    start = datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(days=before)
    local = ZoneInfo(zone)
    minutes = range(days * 24 * 60)
    return Window(zone, start, tuple((start + MINUTE * m).astimezone(local) for m in minutes))


def dues(text: str, dst: str, window: Window) -> list[datetime]:
    """Every instant in a window at which the expression is due."""
    expression = Expression(text)
    found = set()
    for m, wall in enumerate(window.walls):
        instant = window.start + MINUTE * m
        repeated = wall.fold == 1
        if expression.matches(wall) and (expression.wild or dst == "both" or not repeated):
            found.add(instant)
        if m and not expression.wild and dst != "skip":
            found.update(_for_the_gap(expression, dst, window.walls[m - 1], wall, instant))
    return sorted(instant for instant in found if instant < window.end)


def _for_the_gap(
    expression: Expression, dst: str, before: datetime, wall: datetime, instant: datetime
) -> list[datetime]:
    """Instants that stand for the wall times skipped between one minute and the next."""
    first, last = before.replace(tzinfo=None) + MINUTE, wall.replace(tzinfo=None)
    if not timedelta(0) < last - first <= 3 * HOUR:
        return []
    skipped = [first + MINUTE * m for m in range(int((last - first) / MINUTE))]
    missed = [one for one in skipped if expression.matches(one)]
    if dst == "shift":
        return [instant + (one - first) for one in missed]
    return [instant] if missed else []


def sparse_dues(text: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    """The same for decades, day by day, for an expression with one fixed time that no clock ever skips or repeats.

    A weekday may have a number, as in MON#5.
    """
    minute, hour, day, month, weekday = text.split()
    name, _, nth = weekday.partition("#")
    expression = Expression(f"{minute} {hour} {day} {month} {name}")
    found, local = [], start.date() - timedelta(days=2)
    while local < end.date() + timedelta(days=2):
        wall = datetime(local.year, local.month, local.day, int(hour), int(minute), tzinfo=ZoneInfo(zone))
        instant = wall.astimezone(UTC)
        real = instant.astimezone(ZoneInfo(zone)).replace(tzinfo=None) == wall.replace(tzinfo=None)
        if real and expression.matches(wall) and (not nth or (local.day + 6) // 7 == int(nth)):
            found.append(instant)
        local += timedelta(days=1)
    return [instant for instant in found if start < instant < end]


def random_expression(rng: Random) -> str:
    """An expression that is due often enough to be seen within some days."""
    minute = rng.choice(["*", "*/15", "*/7", "0", "30", "59", "0,30", "10-50/20", "50-10/5", str(rng.randrange(60))])
    hour = rng.choice(["*", "*/2", "*/5", "0", "1", "2", "3", "23", "0-3", "22-2", "1,2,3", str(rng.randrange(24))])
    day = rng.choice(["*", "*", "*", "*/2", "1", "13", "25-5", "31", str(rng.randrange(1, 32))])
    month = rng.choice(["*", "*", "*", "*/2", "MAR-APR", "10,11", "NOV-FEB", str(rng.randrange(1, 13))])
    weekday = rng.choice(["*", "*", "*", "MON-FRI", "FRI-MON", "0", "7", "SAT,SUN", str(rng.randrange(8))])
    return f"{minute} {hour} {day} {month} {weekday}"


def possible(text: str) -> bool:
    """Whether some month is long enough for some day that the expression asks for."""
    expression = Expression(text)
    if not expression.both_days:
        return True
    return any(min(expression.days) <= monthrange(2024, month)[1] for month in expression.months)
