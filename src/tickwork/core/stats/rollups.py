"""Figures: what happened to jobs within spans of time, by queue and task, from a minute to the whole life of a store.

What was counted of one minute is added to every span that it lies in, and to every total that it is part of, so that a
chart of any range reads as many rows as it has points. A finer span is kept for a shorter while. Runs of dags have a
queue of their own here, `@dag`: they are not among all jobs, which would count their steps twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, get_args

import msgspec

from tickwork.core.job import RUN
from tickwork.core.stats.histogram import Spread, merge, step_of

ALL = ""  # the queue, or task, of figures over all of them
EVER = 0  # the span of what was counted since the store was made
KEPT: dict[int, timedelta] = {
    1: timedelta(hours=3),
    5: timedelta(hours=12),
    15: timedelta(days=2),
    60: timedelta(days=8),
}
"""How long figures of each span, in minutes, are kept."""

Count = Literal["enqueued", "started", "succeeded", "failed", "cancelled", "dropped", "expired", "retried"]
COUNTS: tuple[Count, ...] = get_args(Count)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE = timedelta(minutes=1)


class RollupCounts(msgspec.Struct):
    """What happened: jobs that were stored, attempts that started, and how jobs ended.

    `retried` are attempts that failed while their job is tried again. `waits` is how long jobs waited from when they
    were due to the start of their last attempt, by when that started. `runs` is how long attempts took, by when they
    ended.
    """

    enqueued: int = 0
    started: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    dropped: int = 0
    expired: int = 0
    retried: int = 0
    waits: Spread = msgspec.field(default_factory=dict)
    runs: Spread = msgspec.field(default_factory=dict)

    @property
    def ended(self) -> int:
        """How many jobs ended, however they did."""
        return self.succeeded + self.failed + self.cancelled + self.dropped + self.expired

    def add(self, other: RollupCounts) -> None:
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        merge(self.waits, other.waits)
        merge(self.runs, other.runs)


class RollupKey(NamedTuple):
    """Whose figures they are: of so many minutes from `minute` on, which is counted since the epoch."""

    span: int
    queue: str
    task: str
    minute: int


class CountedRows(NamedTuple):
    """So many rows of a store that are alike. `what` is a count, or `run`: how long attempts took.

    `digits` and `lead` are a duration (see core/stats/histogram.py): of attempts that started, the wait of their jobs.
    """

    what: str
    queue: str
    task: str
    minute: int
    digits: int | None
    lead: int | None
    rows: int


def fold(counted: Iterable[CountedRows], now: datetime) -> dict[RollupKey, RollupCounts]:
    """Put together what was counted, for each place that is kept."""
    minutes: dict[tuple[str, str, int], RollupCounts] = {}
    for one in counted:
        _note(minutes.setdefault((one.queue, one.task, one.minute), RollupCounts()), one)
    places: dict[RollupKey, RollupCounts] = {}
    for (queue, task, minute), figures in minutes.items():
        for place in _places(queue, task, minute, minute_of(now)):
            places.setdefault(place, RollupCounts()).add(figures)
    return places


def _note(figures: RollupCounts, one: CountedRows) -> None:
    if one.what in COUNTS:
        setattr(figures, one.what, getattr(figures, one.what) + one.rows)
    spread = {"started": figures.waits, "run": figures.runs}.get(one.what)
    if spread is not None and one.digits is not None and one.lead is not None:
        merge(spread, {step_of(one.digits, one.lead): one.rows})


def _places(queue: str, task: str, minute: int, latest: int) -> Iterator[RollupKey]:
    keys = [(queue, task), (queue, ALL), (ALL, task)]
    if queue != RUN:
        keys.append((ALL, ALL))
    spans = [span for span, kept in KEPT.items() if minute > latest - kept // _MINUTE]
    for key in keys:
        yield RollupKey(EVER, *key, 0)
        yield from (RollupKey(span, *key, begin(minute, span)) for span in spans)


def minute_of(instant: datetime) -> int:
    """The minute of an instant."""
    return (instant - _EPOCH) // _MINUTE


def instant_of(minute: int) -> datetime:
    """When a minute began."""
    return _EPOCH + minute * _MINUTE


def begin(minute: int, span: int) -> int:
    """The first minute of the span that a minute lies in."""
    return minute - minute % span
