"""Figures over time: what happened to jobs in each minute or hour of a range, and how each queue keeps up."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from tickwork.core.job import RUN
from tickwork.core.stats.histogram import quantile
from tickwork.core.stats.rollups import ALL, COUNTS, RollupCounts, RollupKey, begin, fold, instant_of, minute_of
from tickwork.http.framework.params import Text
from tickwork.http.framework.route import Routes, Scope, Struct
from tickwork.http.request import Call

routes = Routes("stats")
RUNNING = 20_000  # attempts that run are looked at, for when they started
QUEUE_MINUTES = 30
RATE_MINUTES = 5

Range = Literal["1h", "6h", "24h", "7d"]
_SPANS: dict[Range, tuple[int, int]] = {"1h": (1, 60), "6h": (5, 72), "24h": (15, 96), "7d": (60, 168)}
"""Of each range, how many minutes a bucket has and how many buckets there are."""


class QuantilesBody(Struct):
    """What half, 95 and 99 of a hundred are not above, in seconds, to a few percent; null: there are none."""

    p50: float | None
    p95: float | None
    p99: float | None


class BucketBody(Struct):
    """What happened from `at` on. `retried` are attempts that failed while their job is tried again.

    `wait` is from when jobs were due until their last attempt started, by when that was; `run` is how long attempts
    took, by when they ended. `is_partial`: it is not over, or not all of it is counted yet.
    """

    at: datetime
    enqueued: int
    started: int
    succeeded: int
    failed: int
    cancelled: int
    dropped: int
    expired: int
    retried: int
    wait: QuantilesBody
    run: QuantilesBody
    is_partial: bool


class SeriesQuery(Struct):
    """Which range, and whose jobs. `queue` `@dag` are runs of dags, which are not among all jobs."""

    range: Range = "1h"
    queue: Text | None = None
    task: Text | None = None


class SeriesBody(Struct):
    """The buckets of a range, the oldest first, of `bucket_s` seconds each. `total` is the same over all of them.

    `recent` is the same over the last five minutes at least, as far as the buckets tell. All is counted that happened
    until `known_until`.
    """

    at: datetime
    range: Range
    bucket_s: int
    known_until: datetime
    buckets: list[BucketBody]
    total: BucketBody
    recent: BucketBody


class QueueSeriesBody(Struct):
    """How a queue keeps up: jobs that were enqueued and that ended in each of the last 30 minutes, the oldest first.

    `in_per_minute` and `out_per_minute` are over the last 5 of them that are over, and so is `wait`.
    """

    name: str
    enqueued: list[int]
    ended: list[int]
    in_per_minute: float
    out_per_minute: float
    wait: QuantilesBody


class QueueSeriesList(Struct):
    """The queues that had jobs lately, by name. `since` is when the first minute began; the last one is not over."""

    at: datetime
    since: datetime
    known_until: datetime
    items: list[QueueSeriesBody]
    next_cursor: str | None


@routes.get("/stats/series", Scope.READ)
def stats_series(call: Call, query: SeriesQuery) -> SeriesBody:
    """Return what happened to jobs over a range: counts, and how long they waited and ran."""
    store = call.app.store
    span, count = _SPANS[query.range]
    queue, task = query.queue or ALL, query.task or ALL
    now, known_until = store.now(), store.figures_known()
    first = begin(minute_of(now), span) - span * (count - 1)
    found = store.figures(span, queue, task, first)
    running = {
        place.minute: figures
        for place, figures in fold(store.starting(RUNNING), now).items()
        if place == RollupKey(span, queue, task, place.minute) and place.minute >= first
    }
    recent_from = begin(minute_of(now) - RATE_MINUTES, span)
    whole, recent, buckets = RollupCounts(), RollupCounts(), []
    for minute in range(first, first + span * count, span):
        figures = found.get(minute, RollupCounts())
        figures.add(running.get(minute, RollupCounts()))
        whole.add(figures)
        if minute >= recent_from:
            recent.add(figures)
        buckets.append(_bucket(minute, figures, is_partial=known_until < instant_of(minute + span)))
    total, lately = _bucket(first, whole, is_partial=True), _bucket(recent_from, recent, is_partial=True)
    return SeriesBody(now, query.range, span * 60, known_until, buckets, total, lately)


@routes.get("/stats/queues", Scope.READ)
def stats_queues(call: Call) -> QueueSeriesList:
    """Return how each queue keeps up: in and out in each of the last 30 minutes, and how long its jobs waited."""
    store = call.app.store
    now, known_until = store.now(), store.figures_known()
    first = minute_of(now) - QUEUE_MINUTES + 1
    found = store.queue_figures(1, first)
    items = [_queue(name, minutes, first) for name, minutes in sorted(found.items()) if name != RUN]
    return QueueSeriesList(now, instant_of(first), known_until, items, None)


def _queue(name: str, minutes: Mapping[int, RollupCounts], first: int) -> QueueSeriesBody:
    points = [minutes.get(minute, RollupCounts()) for minute in range(first, first + QUEUE_MINUTES)]
    lately = RollupCounts()
    for one in points[-RATE_MINUTES - 1 : -1]:
        lately.add(one)
    return QueueSeriesBody(
        name=name,
        enqueued=[one.enqueued for one in points],
        ended=[one.ended for one in points],
        in_per_minute=lately.enqueued / RATE_MINUTES,
        out_per_minute=lately.ended / RATE_MINUTES,
        wait=_quantiles(lately.waits),
    )


def _bucket(minute: int, figures: RollupCounts, *, is_partial: bool) -> BucketBody:
    return BucketBody(
        at=instant_of(minute),
        **{name: getattr(figures, name) for name in COUNTS},
        wait=_quantiles(figures.waits),
        run=_quantiles(figures.runs),
        is_partial=is_partial,
    )


def _quantiles(spread: Mapping[int, int]) -> QuantilesBody:
    return QuantilesBody(*(quantile(spread, share) for share in (0.5, 0.95, 0.99)))
