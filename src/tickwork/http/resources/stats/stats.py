"""Statistics over REST: a summary of the whole store, counts and durations over time, and the rates of each queue."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from tickwork.core.job import RUN, JobFilter
from tickwork.core.stats.rollups import (
    ALL,
    COUNTS,
    RollupCounts,
    RollupKey,
    begin,
    fold,
    instant_of,
    minute_of,
    quantile,
)
from tickwork.http.framework.params import Text
from tickwork.http.framework.route import Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.http.resources.jobs.dead_letters import ErrorGroupBody, cause_body
from tickwork.http.resources.jobs.queues import QueueBody, all_queues

routes = Routes("stats")
CAUSES = 20
READ_LIMIT = 500  # failed jobs that are grouped
RUNNING = 20_000  # running attempts that are read, for when they started
QUEUE_MINUTES = 30
RATE_MINUTES = 5


class StatsBody(Struct):
    """A summary of the store. Counts of jobs are summed over the queues; `is_bounded`: some are lower bounds.

    `causes` are the errors of the newest dead letters, most frequent first. `is_partial`: there are more dead
    letters.
    """

    at: datetime
    due: int
    later: int
    held: int
    running: int
    is_bounded: bool
    queues: list[QueueBody]
    workers: int
    slots: int
    dead: int
    causes: list[ErrorGroupBody]
    is_partial: bool


@routes.get("/stats", Scope.READ)
def stats(call: Call) -> StatsBody:
    """Return a summary of the store: waiting, running and failed jobs. `/stats/series` returns them over time."""
    store = call.app.store
    workers = call.parts.registrations.workers()
    queues, now = all_queues(call), store.now()
    working = [one for one in workers if one.serves]
    causes, is_all = call.app.client.causes(JobFilter(dead=True), READ_LIMIT)
    return StatsBody(
        at=now,
        due=sum(one.due for one in queues),
        later=sum(one.later for one in queues),
        held=sum(one.held for one in queues),
        running=sum(one.running for one in queues),
        is_bounded=any(one.at_least for one in queues),
        queues=queues,
        workers=len(working),
        slots=sum(one.slots for one in working),
        dead=sum(one.count for one in causes),
        causes=[cause_body(one) for one in causes[:CAUSES]],
        is_partial=not is_all,
    )


Range = Literal["1h", "6h", "24h", "7d"]
_SPANS: dict[Range, tuple[int, int]] = {"1h": (1, 60), "6h": (5, 72), "24h": (15, 96), "7d": (60, 168)}
"""For each range, the minutes in a bucket and the number of buckets."""


class QuantilesBody(Struct):
    """The median, the 95th and the 99th percentile in seconds, to within a few percent; null if there are no values."""

    p50: float | None
    p95: float | None
    p99: float | None


class BucketBody(Struct):
    """Counts for the period that begins at `at`. `retried` is the number of failed attempts whose jobs are retried.

    `wait` is the time from when jobs were due until their last attempt started, in the bucket of that start; `run` is
    the duration of attempts, in the bucket of their end. `is_partial`: the bucket is not over, or not yet fully
    counted.
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
    """The range and the jobs. The `queue` `@dag` selects runs of dags, which are not part of the totals of all jobs."""

    range: Range = "1h"
    queue: Text | None = None
    task: Text | None = None


class SeriesBody(Struct):
    """The buckets of a range, oldest first, of `bucket_s` seconds each. `total` is their sum.

    `recent` is the sum of the buckets of at least the last five minutes. All events until `known_until` are counted.
    """

    at: datetime
    range: Range
    bucket_s: int
    known_until: datetime
    buckets: list[BucketBody]
    total: BucketBody
    recent: BucketBody


class QueueSeriesBody(Struct):
    """The jobs of a queue that were enqueued and that ended in each of the last 30 minutes, oldest first.

    `in_per_minute`, `out_per_minute` and `wait` are over the last 5 full minutes.
    """

    name: str
    enqueued: list[int]
    ended: list[int]
    in_per_minute: float
    out_per_minute: float
    wait: QuantilesBody


class QueueSeriesList(Struct):
    """The queues with recent jobs, by name. `since` is the start of the first minute; the last one is not over."""

    at: datetime
    since: datetime
    known_until: datetime
    items: list[QueueSeriesBody]
    next_cursor: str | None


@routes.get("/stats/series", Scope.READ)
def stats_series(call: Call, query: SeriesQuery) -> SeriesBody:
    """Return counts of jobs over a range, and how long they waited and ran."""
    store = call.app.store
    span, count = _SPANS[query.range]
    queue, task = query.queue or ALL, query.task or ALL
    now, known_until = store.now(), store.stats.counted_until()
    first = begin(minute_of(now), span) - span * (count - 1)
    found = store.stats.rollups(span, queue, task, first)
    running = {
        place.minute: counts
        for place, counts in fold(store.stats.starting(RUNNING), now).items()
        if place == RollupKey(span, queue, task, place.minute) and place.minute >= first
    }
    recent_from = begin(minute_of(now) - RATE_MINUTES, span)
    whole, recent, buckets = RollupCounts(), RollupCounts(), []
    for minute in range(first, first + span * count, span):
        counts = found.get(minute, RollupCounts())
        counts.add(running.get(minute, RollupCounts()))
        whole.add(counts)
        if minute >= recent_from:
            recent.add(counts)
        buckets.append(_bucket(minute, counts, is_partial=known_until < instant_of(minute + span)))
    total, lately = _bucket(first, whole, is_partial=True), _bucket(recent_from, recent, is_partial=True)
    return SeriesBody(now, query.range, span * 60, known_until, buckets, total, lately)


@routes.get("/stats/queues", Scope.READ)
def stats_queues(call: Call) -> QueueSeriesList:
    """Return the rates of each queue in each of the last 30 minutes, and how long its jobs waited."""
    store = call.app.store
    now, known_until = store.now(), store.stats.counted_until()
    first = minute_of(now) - QUEUE_MINUTES + 1
    found = store.stats.queue_rollups(1, first)
    items = [_queue(name, minutes, first) for name, minutes in sorted(found.items()) if name != RUN]
    return QueueSeriesList(now, instant_of(first), known_until, items, None)


def _queue(name: str, minutes: Mapping[int, RollupCounts], first: int) -> QueueSeriesBody:
    """Return the counts of a queue in each minute, and its rates over the last full minutes."""
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


def _bucket(minute: int, counts: RollupCounts, *, is_partial: bool) -> BucketBody:
    return BucketBody(
        at=instant_of(minute),
        **{name: getattr(counts, name) for name in COUNTS},
        wait=_quantiles(counts.waits),
        run=_quantiles(counts.runs),
        is_partial=is_partial,
    )


def _quantiles(spread: Mapping[int, int]) -> QuantilesBody:
    return QuantilesBody(*(quantile(spread, share) for share in (0.5, 0.95, 0.99)))
