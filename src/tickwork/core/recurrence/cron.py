"""`cron(...)`: a cron expression in a time zone, with a rule for days on which clocks change."""

from __future__ import annotations

from datetime import datetime, tzinfo
from functools import lru_cache

import msgspec

from tickwork.core.recurrence.cron_describe import cron_in_words
from tickwork.core.recurrence.cron_parser import CronText, Dialect, read_cron
from tickwork.core.recurrence.cron_search import CronSearch, cron_walls
from tickwork.core.recurrence.rule import NO_CALENDARS, Calendars, RuleValue
from tickwork.core.recurrence.zones import wall_time
from tickwork.core.recurrence.zones.wall_time import Dst, check_dst
from tickwork.core.recurrence.zones.zone import zone_name
from tickwork.errors import InvalidOption


def cron(
    expression: str,
    *,
    tz: str | tzinfo = "UTC",
    dst: Dst = "once",
    dialect: Dialect = "standard",
    name: str | None = None,
) -> Cron:
    """Return a rule that is due when the clock of a zone matches: `cron("30 2 * * MON-FRI", tz="Europe/Berlin")`.

    5 fields, or 6 with seconds before them; "quartz" has 6 or 7, "aws" 6 with a year, in `cron(...)` or without. `H` is
    spread by the name of the schedule, so a preview of it needs `name`. Raises InvalidOption for an expression that
    cannot be parsed or is never due.
    """
    return Cron(expression=expression, tz=zone_name(tz), dst=dst, dialect=dialect, name=name)


class Cron(RuleValue, frozen=True, tag="cron", kw_only=True):
    """A cron expression. If both day fields are set, a day matches either of them, as in Debian's cron."""

    expression: str
    tz: str = "UTC"
    dst: Dst = "once"
    dialect: Dialect = "standard"
    name: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.expression, str):
            raise InvalidOption(f"cron takes an expression such as '30 2 * * *', not {self.expression!r}.")
        zone_name(self.tz)
        check_dst(self.dst)
        _walls(self.expression, self.dialect, self.name or "")

    @property
    def zone(self) -> str:
        return self.tz

    @property
    def needs_name(self) -> bool:
        return self.name is None and self._text().is_spread

    def of_schedule(self, name: str, start: datetime | None) -> Cron:
        return msgspec.structs.replace(self, name=name) if self.needs_name else self

    def first_after(self, instant: datetime, calendars: Calendars = NO_CALENDARS) -> datetime | None:
        return wall_time.first_after(self._walls(), self.tz, self.dst, instant)

    def last_before(self, instant: datetime, calendars: Calendars = NO_CALENDARS) -> datetime | None:
        return wall_time.last_before(self._walls(), self.tz, self.dst, instant)

    def explain(self) -> str:
        text = self._text()
        if self.needs_name:
            return f"{self.expression!r}, where H is spread by the name of the schedule, {self.tz}"
        return f"{cron_in_words(text)}, {self.tz}{wall_time.dst_in_words(self.tz, self.dst, text.follows_real_time)}"

    @property
    def idle_dst(self) -> str | None:
        return wall_time.idle_dst(self.tz, self.dst, self._text().follows_real_time)

    def _text(self) -> CronText:
        return read_cron(self.expression, self.dialect, self.name or "")

    def _walls(self) -> CronSearch:
        """Return the wall-time search. Raises InvalidOption if H needs the name of a schedule."""
        if self.needs_name:
            raise InvalidOption(
                f"cron {self.expression!r}: H is spread by the name of the schedule; for a preview, say name='...'."
            )
        return _walls(self.expression, self.dialect, self.name or "")


@lru_cache(maxsize=4096)
def _walls(expression: str, dialect: Dialect, name: str) -> CronSearch:
    """Return the wall-time search of an expression. Raises InvalidOption if it is never due."""
    walls = cron_walls(read_cron(expression, dialect, name))
    if walls is None:
        raise InvalidOption(f"cron {expression!r} is never due: no year has such a day. Check the day and the month.")
    return walls
