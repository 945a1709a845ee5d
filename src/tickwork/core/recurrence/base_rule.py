"""The base class of schedule rules: next and last occurrences, previews, and a description in words.

A rule is a value: immutable, comparable, and stored as JSON. It never reads a clock; callers pass an instant. Named
calendars are in the store, so that editing a calendar moves the occurrences of every schedule that uses it; callers
pass them in, too. Spreading is deterministic: by a hash, the same key gives the same number on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec

from tickwork.errors import InvalidOption

if TYPE_CHECKING:
    from tickwork.core.recurrence.calendar import Calendar

Calendars = Mapping[str, "Calendar"]
NO_CALENDARS: Calendars = {}
_PREVIEW_LIMIT = 10_000


class RuleValue(msgspec.Struct, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    """A rule, which defines the instants of its occurrences."""

    def first_after(self, instant: datetime, calendars: Calendars = NO_CALENDARS) -> datetime | None:
        """Return the first occurrence strictly after an instant, in UTC; None if the rule has ended."""
        raise NotImplementedError

    def last_before(self, instant: datetime, calendars: Calendars = NO_CALENDARS) -> datetime | None:
        """Return the last occurrence strictly before an instant, in UTC; None if there is none."""
        raise NotImplementedError

    def explain(self) -> str:
        """Describe in words when the rule is due."""
        raise NotImplementedError

    @property
    def zone(self) -> str:
        """The time zone of its days."""
        return "UTC"

    @property
    def needs_name(self) -> bool:
        """Whether its occurrences depend on the name of a schedule that is not set yet."""
        return False

    @property
    def calendar_names(self) -> frozenset[str]:
        """The stored calendars that it uses."""
        return frozenset()

    @property
    def idle_dst(self) -> str | None:
        """Why a `dst` other than the default has no effect; None if it has an effect, or `dst` is the default."""
        return None

    def of_schedule(self, name: str, start: datetime | None) -> RuleValue:
        """Return this rule with values from its schedule: the name for spreading H, and the start."""
        return self

    def next(self, n: int = 1, *, after: datetime, calendars: Calendars = NO_CALENDARS) -> list[datetime]:
        """Return the next `n` occurrences after an instant; fewer if the rule ends."""
        return _take(n, read_instant("after", after), lambda instant: self.first_after(instant, calendars))

    def prev(self, n: int = 1, *, before: datetime, calendars: Calendars = NO_CALENDARS) -> list[datetime]:
        """Return the last `n` occurrences before an instant, latest first."""
        return _take(n, read_instant("before", before), lambda instant: self.last_before(instant, calendars))


def _take(n: int, instant: datetime, step: Callable[[datetime], datetime | None]) -> list[datetime]:
    """Return up to `n` occurrences by repeated steps. Raises InvalidOption if `n` is out of range."""
    if not 0 <= n <= _PREVIEW_LIMIT:
        raise InvalidOption(f"n must be from 0 to {_PREVIEW_LIMIT:,}, not {n!r}.")
    found: list[datetime] = []
    while len(found) < n and (due := step(instant)) is not None:
        found.append(instant := due)
    return found


def read_instant(what: str, value: Any) -> datetime:
    """Return an aware datetime in UTC. Raises InvalidOption without a zone, or outside of the years 1970 to 7999."""
    if not isinstance(value, datetime):
        raise InvalidOption(f"{what} must be a datetime with a zone, not {value!r}.")
    if value.utcoffset() is None:
        raise InvalidOption(
            f"{what} is {value.isoformat()} without a zone. Say which: datetime(..., tzinfo=timezone.utc)."
        )
    if not 1970 <= value.year < 8000:
        raise InvalidOption(f"{what} is {value.isoformat()}; it must be in the years 1970 to 7999.")
    return value.astimezone(UTC)


def spread(key: str, size: int) -> int:
    """Return a number from 0 to `size` - 1, spread evenly over keys."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest()) % size
