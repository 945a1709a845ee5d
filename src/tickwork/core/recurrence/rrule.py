"""`rrule(...)`: recurrence rules of RFC 5545 (iCalendar) in a time zone, with the DST rules of cron."""

from __future__ import annotations

from datetime import datetime, tzinfo
from functools import lru_cache

import msgspec

from tickwork.core.recurrence.rrule_describe import rrule_in_words
from tickwork.core.recurrence.rrule_parser import read_recurrence, read_rrule
from tickwork.core.recurrence.rrule_search import RruleSearch, rrule_walls
from tickwork.core.recurrence.rule import NO_CALENDARS, Calendars, RuleValue, read_instant
from tickwork.core.recurrence.zones import wall_time
from tickwork.core.recurrence.zones.wall_time import Dst, check_dst
from tickwork.core.recurrence.zones.zone import EPOCH, stretch_at, zone_name
from tickwork.errors import InvalidOption

_EPOCH_WALL = EPOCH.replace(tzinfo=None)


def rrule(text: str, *, start: datetime | None = None, tz: str | tzinfo = "UTC", dst: Dst = "once") -> Rrule:
    """Return an RFC 5545 rule: `rrule("FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17", tz="Europe/Berlin")`.

    The text may contain a DTSTART line. Without it and without `start`, the rule begins at the schedule's start, or
    else at the first midnight of 1970. Raises InvalidOption for a text that cannot be parsed, and for a rule that is
    never due.
    """
    rule, said, zone = read_recurrence(text, zone_name(tz))
    if said is not None and start is not None:
        raise InvalidOption(f"rrule {text[:100]!r}: DTSTART and start= both say where it begins; give one of them.")
    return Rrule(rule=rule, start=said if start is None else _wall("start", start, zone), tz=zone, dst=dst)


def _wall(what: str, instant: datetime, zone: str) -> datetime:
    instant = read_instant(what, instant)
    return stretch_at(zone, instant).wall(instant)


class Rrule(RuleValue, frozen=True, tag="rrule", kw_only=True):
    """A recurrence rule. `start` is a wall time of its zone."""

    rule: str
    start: datetime | None = None
    tz: str = "UTC"
    dst: Dst = "once"

    def __post_init__(self) -> None:
        zone_name(self.tz)
        check_dst(self.dst)
        if self.start is not None and (self.start.tzinfo is not None or not 1970 <= self.start.year < 8000):
            raise InvalidOption(f"rrule: {self.start} is not a start in the years 1970 to 7999.")
        text = read_rrule(self.rule, self.tz)
        if self.start is None and text.count is not None:
            raise InvalidOption(f"rrule {self.rule!r}: COUNT needs a start to count from; say start=.")
        if self.start is None and text.freq == "WEEKLY" and not text.weekdays:
            raise InvalidOption(f"rrule {self.rule!r}: on which day? Say BYDAY=MO, or start=.")
        _walls(self.rule, self.start, self.tz)

    @property
    def zone(self) -> str:
        return self.tz

    def of_schedule(self, name: str, start: datetime | None) -> Rrule:
        if self.start is not None or start is None:
            return self
        return msgspec.structs.replace(self, start=_wall("start", start, self.tz))

    def first_after(self, instant: datetime, calendars: Calendars = NO_CALENDARS) -> datetime | None:
        return wall_time.first_after(_walls(self.rule, self.start, self.tz), self.tz, self.dst, instant)

    def last_before(self, instant: datetime, calendars: Calendars = NO_CALENDARS) -> datetime | None:
        return wall_time.last_before(_walls(self.rule, self.start, self.tz), self.tz, self.dst, instant)

    @property
    def idle_dst(self) -> str | None:
        return wall_time.idle_dst(self.tz, self.dst, _walls(self.rule, self.start, self.tz).follows_real_time)

    def explain(self) -> str:
        words = rrule_in_words(read_rrule(self.rule, self.tz), self.start or _EPOCH_WALL)
        since = "" if self.start is None else f", from {self.start.isoformat(' ', 'minutes')}"
        follows_real_time = _walls(self.rule, self.start, self.tz).follows_real_time
        return f"{words}{since}, {self.tz}{wall_time.dst_in_words(self.tz, self.dst, follows_real_time)}"


@lru_cache(maxsize=4096)
def _walls(rule: str, start: datetime | None, tz: str) -> RruleSearch:
    """Return the wall-time search of a rule. Raises InvalidOption if it is never due."""
    walls = rrule_walls(read_rrule(rule, tz), start or _EPOCH_WALL)
    if walls is None:
        raise InvalidOption(f"rrule {rule!r} is never due. Check the BY... parts, INTERVAL and UNTIL.")
    return walls
