"""The policies of a schedule: catch-up of missed occurrences, overlap of runs, jitter, windows, deadlines and limits.

They are stored with the schedule. All policies are read here, so that a decorator, a call and a YAML file refuse the
same values with the same messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

import msgspec

from tickwork.core.recurrence.base_rule import read_instant
from tickwork.core.recurrence.calendar import Calendar
from tickwork.core.recurrence.combine import ExceptOn
from tickwork.core.text.duration import parse_duration
from tickwork.core.text.suggestions import closest
from tickwork.errors import InvalidOption

Catchup = Literal["all", "latest", "none"]
Overlap = Literal["allow", "skip", "queue", "cancel"]

_LONGEST = timedelta(days=365_000)


class SchedulePolicies(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The policies of a schedule, besides its rule.

    - `catchup`: of missed occurrences, run "all" (the newest `catchup_limit` not older than `catchup_age`), only the
      "latest", or "none".
    - `overlap`: when an occurrence is due while an earlier run is live, "allow" both, "skip" it, "queue" one, or
      "cancel" the older run. Missed occurrences under "all" run one after another unless overlaps are allowed.
    - `jitter`: each run is delayed by up to this time, by a hash of the schedule's name and the instant.
    - `window`: the time after an occurrence over which schedules are spread evenly, each at its own offset.
    - `start`, `end`: the first and the last instant at which it may be due. `max_runs`: how many runs it may start.
    - `deadline`: a run that could not start within this time is skipped.
    - `calendars`: days without occurrences, by name or as values.
    - `wait_for_previous`: a run starts when the run before it has succeeded. Up to `catchup_limit` occurrences wait for
      that, in order; a failed run holds them until it is rerun and succeeds, or is discarded.
    """

    catchup: Catchup = "latest"
    catchup_limit: int = 100
    catchup_age: timedelta = timedelta(days=7)
    overlap: Overlap = "skip"
    jitter: timedelta = timedelta(0)
    window: timedelta = timedelta(0)
    start: datetime | None = None
    end: datetime | None = None
    max_runs: int | None = None
    deadline: timedelta | None = None
    calendars: tuple[str | Calendar, ...] = ()
    wait_for_previous: bool = False

    def __post_init__(self) -> None:
        if self.wait_for_previous and self.overlap in {"allow", "cancel"}:
            raise InvalidOption(
                f"wait_for_previous runs occurrences one after another, and overlap={self.overlap!r} does not. Say "
                f"one of them."
            )
        if self.start is not None and self.end is not None and self.end < self.start:
            raise InvalidOption(f"end is {self.end.isoformat()}, before start at {self.start.isoformat()}.")
        if self.jitter and self.window:
            raise InvalidOption("jitter and window both say when a run starts after its occurrence: give one of them.")


def read_policies(given: Mapping[str, Any]) -> SchedulePolicies:
    """Check policies given by a caller; None means the default. Raises InvalidOption, which names the policy."""
    read = {}
    for name, value in given.items():
        if name not in _READERS:
            near = closest(name, _READERS)
            hint = f"did you mean {near!r}?" if near else f"they are {', '.join(_READERS)}."
            raise InvalidOption(f"there is no policy {name!r}; {hint}")
        if value is not None:
            read[name] = _READERS[name](name, value)
    return SchedulePolicies(**read)


def _one_of(kind: Any) -> Callable[[str, Any], Any]:
    """Return a reader that accepts the values of a Literal type."""

    def read(name: str, value: Any) -> Any:
        if value not in get_args(kind):
            raise InvalidOption(f"{name} must be one of {', '.join(map(repr, get_args(kind)))}, not {value!r}.")
        return value

    return read


def _whole(low: int, high: int) -> Callable[[str, Any], int]:
    """Return a reader for a whole number from `low` to `high`."""

    def read(name: str, value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise InvalidOption(f"{name} must be a whole number from {low} to {high:,}, not {value!r}.")
        return value

    return read


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidOption(f"{name} must be True or False, not {value!r}.")
    return value


def _duration(name: str, value: Any) -> timedelta:
    duration = parse_duration(value, what=name)
    if duration > _LONGEST:
        raise InvalidOption(f"{name}: {value!r} is too long; {_LONGEST.days:,} days is the most.")
    return duration


def _calendars(name: str, value: Any) -> tuple[str | Calendar, ...]:
    given = (value,) if isinstance(value, str | Calendar) or not isinstance(value, Iterable) else tuple(value)
    return ExceptOn(given).calendars


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "catchup": _one_of(Catchup),
    "catchup_limit": _whole(1, 10_000),
    "catchup_age": _duration,
    "overlap": _one_of(Overlap),
    "jitter": _duration,
    "window": _duration,
    "start": read_instant,
    "end": read_instant,
    "max_runs": _whole(1, 1_000_000_000),
    "deadline": _duration,
    "calendars": _calendars,
    "wait_for_previous": _flag,
}
POLICIES = frozenset(_READERS)
