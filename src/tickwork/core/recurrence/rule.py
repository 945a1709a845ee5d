"""What every rule can say: when it is next due, when it last was, and what it means in words.

A rule is a value: frozen, comparable, and stored as JSON. It never asks what time it is; whoever does hands an instant
in. Named calendars live in the store, so that editing one moves the occurrences of every schedule that heeds it; they
are handed in too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from tickwork.errors import InvalidOption

if TYPE_CHECKING:
    from tickwork.core.recurrence.calendars.calendar import Calendar

Calendars = Mapping[str, "Calendar"]
NO_CALENDARS: Calendars = {}
_PREVIEW_LIMIT = 10_000


class RuleValue(msgspec.Struct, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    """A rule: which instants are its occurrences."""

    def first_after(self, instant: datetime, calendars: Calendars = NO_CALENDARS) -> datetime | None:
        """Return the first occurrence strictly after an instant, in UTC; None: there is none any more."""
        raise NotImplementedError

    def last_before(self, instant: datetime, calendars: Calendars = NO_CALENDARS) -> datetime | None:
        """Return the last occurrence strictly before an instant, in UTC."""
        raise NotImplementedError

    def explain(self) -> str:
        """Say in words when the rule is due."""
        raise NotImplementedError

    @property
    def zone(self) -> str:
        """The zone that its days are days of."""
        return "UTC"

    @property
    def needs_name(self) -> bool:
        """Whether nothing can be said of it before its schedule has a name."""
        return False

    @property
    def calendar_names(self) -> frozenset[str]:
        """The calendars in the store that it heeds."""
        return frozenset()

    @property
    def idle_dst(self) -> str | None:
        """Why a `dst` other than the usual one changes nothing; None: it does, or there is none."""
        return None

    def of_schedule(self, name: str, start: datetime | None) -> RuleValue:
        """Return this rule with what it leaves to its schedule: the name that H is spread by, and where it begins."""
        return self

    def next(self, n: int = 1, *, after: datetime, calendars: Calendars = NO_CALENDARS) -> list[datetime]:
        """Return the next `n` occurrences after an instant; fewer if the rule ends."""
        return _take(n, read_instant("after", after), lambda instant: self.first_after(instant, calendars))

    def prev(self, n: int = 1, *, before: datetime, calendars: Calendars = NO_CALENDARS) -> list[datetime]:
        """Return the last `n` occurrences before an instant, the latest first."""
        return _take(n, read_instant("before", before), lambda instant: self.last_before(instant, calendars))


def _take(n: int, instant: datetime, step: Callable[[datetime], datetime | None]) -> list[datetime]:
    if not 0 <= n <= _PREVIEW_LIMIT:
        raise InvalidOption(f"n must be from 0 to {_PREVIEW_LIMIT:,}, not {n!r}.")
    found: list[datetime] = []
    while len(found) < n and (due := step(instant)) is not None:
        found.append(instant := due)
    return found


def read_instant(what: str, value: Any) -> datetime:
    """Return an aware datetime in UTC. Raises InvalidOption for one without a zone, or outside of our years."""
    if not isinstance(value, datetime):
        raise InvalidOption(f"{what} must be a datetime with a zone, not {value!r}.")
    if value.utcoffset() is None:
        raise InvalidOption(
            f"{what} is {value.isoformat()} without a zone. Say which: datetime(..., tzinfo=timezone.utc)."
        )
    if not 1970 <= value.year < 8000:
        raise InvalidOption(f"{what} is {value.isoformat()}; it must be in the years 1970 to 7999.")
    return value.astimezone(UTC)
