"""Rollups: counts of job events per time span, queue and task, from one minute to the whole life of a store.

The counts of one minute are added to every span that contains it, and to every total, so a chart of any range reads as
many rows as it has points. Finer spans are kept for a shorter time. Runs of dags have a queue of their own here,
`@dag`: they are not part of the totals of all jobs, which would count their steps twice.

Histograms of durations have buckets that grow by about an eighth, from a microsecond to centuries. A bucket is
identified by the number of decimal digits of a duration in microseconds and by the first two of them. Every database
can compute both from a row, so rows are counted where they are stored. Histograms are added bucket by bucket.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, get_args

import msgspec

from tickwork.core.job import RUN

Spread = dict[int, int]
"""How many durations fell into each bucket."""

_LEADS = (10, 11, 12, 14, 16, 18, 20, 22, 25, 28, 32, 36, 40, 45, 50, 56, 63, 71, 80, 90)


def step_of(digits: int, lead: int) -> int:
    """Return the bucket of durations with this many digits and these first two digits."""
    two = lead * 10 if digits < 2 else lead
    return digits * len(_LEADS) + max(0, bisect_right(_LEADS, two) - 1)


def merge(into: Spread, other: Mapping[int, int]) -> None:
    """Add a histogram to another."""
    for step, count in other.items():
        into[step] = into.get(step, 0) + count


def quantile(spread: Mapping[int, int], share: float) -> float | None:
    """Return the quantile `share` in seconds, accurate to a few percent; None for an empty histogram."""
    rank = share * sum(spread.values())
    for step in sorted(spread):
        if rank <= spread[step]:
            low, high = _bounds_us(step)
            return (low + (high - low) * max(rank, 0.0) / spread[step]) / 1e6
        rank -= spread[step]
    return _bounds_us(max(spread))[1] / 1e6 if spread else None


def _bounds_us(step: int) -> tuple[float, float]:
    """Return the lower and upper bound of a bucket in microseconds."""
    digits, place = divmod(step, len(_LEADS))
    if (digits, place) == (1, 0):
        return 0.0, 1.1  # the lowest bucket, which includes a duration of 0
    leads = (*_LEADS, 100)
    scale = 10.0 ** (digits - 2)
    return leads[place] * scale, leads[place + 1] * scale


ALL = ""  # the queue, or task, of counts over all of them
EVER = 0  # the span of counts since the store was created
KEPT: dict[int, timedelta] = {
    1: timedelta(hours=3),
    5: timedelta(hours=12),
    15: timedelta(days=2),
    60: timedelta(days=8),
}
"""How long counts of each span, in minutes, are kept."""

Count = Literal["enqueued", "started", "succeeded", "failed", "cancelled", "dropped", "expired", "retried"]
COUNTS: tuple[Count, ...] = get_args(Count)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE = timedelta(minutes=1)


class RollupCounts(msgspec.Struct):
    """Counts of events: jobs stored, attempts started, and ends of jobs by state.

    `retried` are attempts that failed and whose job is retried. `waits` is how long jobs waited from when they were due
    to the start of their last attempt, by the time of that start. `runs` is how long attempts took, by the time of
    their end.
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
        """How many jobs ended, in any state."""
        return self.succeeded + self.failed + self.cancelled + self.dropped + self.expired

    def add(self, other: RollupCounts) -> None:
        """Add other counts to these."""
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        merge(self.waits, other.waits)
        merge(self.runs, other.runs)


class RollupKey(NamedTuple):
    """The key of a rollup row: `span` minutes from `minute` on, which is counted since the epoch."""

    span: int
    queue: str
    task: str
    minute: int


class CountedRows(NamedTuple):
    """A number of rows that are alike. `what` is a count, or `run`: how long attempts took.

    `digits` and `lead` are a duration (see core/stats/rollups.py): for attempts that started, the wait of their jobs.
    """

    what: str
    queue: str
    task: str
    minute: int
    digits: int | None
    lead: int | None
    rows: int


def fold(counted: Iterable[CountedRows], now: datetime) -> dict[RollupKey, RollupCounts]:
    """Add up counted rows for every rollup row that they belong to."""
    minutes: dict[tuple[str, str, int], RollupCounts] = {}
    for one in counted:
        _note(minutes.setdefault((one.queue, one.task, one.minute), RollupCounts()), one)
    places: dict[RollupKey, RollupCounts] = {}
    for (queue, task, minute), counts in minutes.items():
        for place in _places(queue, task, minute, minute_of(now)):
            places.setdefault(place, RollupCounts()).add(counts)
    return places


def _note(counts: RollupCounts, one: CountedRows) -> None:
    """Add counted rows to the counts of their minute."""
    if one.what in COUNTS:
        setattr(counts, one.what, getattr(counts, one.what) + one.rows)
    spread = {"started": counts.waits, "run": counts.runs}.get(one.what)
    if spread is not None and one.digits is not None and one.lead is not None:
        merge(spread, {step_of(one.digits, one.lead): one.rows})


def _places(queue: str, task: str, minute: int, latest: int) -> Iterator[RollupKey]:
    """Yield the keys of the rollup rows that a minute belongs to."""
    keys = [(queue, task), (queue, ALL), (ALL, task)]
    if queue != RUN:
        keys.append((ALL, ALL))
    spans = [span for span, kept in KEPT.items() if minute > latest - kept // _MINUTE]
    for key in keys:
        yield RollupKey(EVER, *key, 0)
        yield from (RollupKey(span, *key, begin(minute, span)) for span in spans)


def minute_of(instant: datetime) -> int:
    """Return the minute of an instant, counted since the epoch."""
    return (instant - _EPOCH) // _MINUTE


def instant_of(minute: int) -> datetime:
    """Return when a minute begins."""
    return _EPOCH + minute * _MINUTE


def begin(minute: int, span: int) -> int:
    """Return the first minute of the span that contains a minute."""
    return minute - minute % span
