"""What the events of the stream say, and the cursors that they go on from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from tickwork.core.ids import JobId
from tickwork.http.framework.route import Struct
from tickwork.store.reads.change_feed import TOPICS, Changes, JobChange, Key
from tickwork.store.row_codec import from_us, to_us
from tickwork.version import VERSION

IDS = 200  # jobs that an event names
RUNS = 50
_MARK = 8  # characters of how a topic stands
_INSTANT = 14  # and of an instant


class JobCounts(Struct):
    """How many jobs were made, began an attempt, and ended."""

    created: int
    started: int
    ended: int


class ChangesBody(Struct):
    """What changed since the event before. `is_partial`: more than is told, so look again at all that is shown.

    `failed` of the jobs that ended did so by failing. `runs` are those of which a step, or the run itself, changed.
    `topics` are what else did: dags, gates, hooks, limits, notifications, operations, schedules, tasks, tenants and
    workers.
    """

    at: datetime
    jobs: JobCounts
    failed: int
    job_ids: list[JobId]
    runs: list[str]
    topics: list[str]
    is_partial: bool


class HelloBody(Struct):
    """The first event: the time of the store, the version of the server, and from where on changes are told."""

    at: datetime
    version: str
    cursor: str


class ResetBody(Struct):
    """Changes may have been missed: look again at all that is shown."""

    at: datetime


class StreamEvent(NamedTuple):
    """One event as it is sent. A listener that is cut off goes on from the last one that had an id."""

    name: str
    data: str
    id: str | None


class StreamPosition(NamedTuple):
    """Up to where changes were told: an instant of the store, and how its topics stood."""

    at: datetime
    topics: dict[str, str]

    @property
    def cursor(self) -> str:
        """The same as a text that any server understands."""
        return f"{to_us(self.at):0{_INSTANT}x}" + "".join(self.topics[topic] for topic in TOPICS)


def place_of(cursor: str) -> StreamPosition | None:
    """The place that a cursor stands for; None when it is none."""
    instant, marks = cursor[:_INSTANT], cursor[_INSTANT:]
    is_whole = len(instant) == _INSTANT and len(marks) == _MARK * len(TOPICS)
    if not (is_whole and cursor.isascii() and cursor.isalnum()):
        return None
    try:
        at = from_us(int(instant, 16))
    except (ValueError, OverflowError):
        return None
    return StreamPosition(at, {topic: marks[n * _MARK : (n + 1) * _MARK] for n, topic in enumerate(TOPICS)})


class StreamChange(NamedTuple):
    """Something that happened, and by which keys it is new."""

    happening: JobChange
    keys: list[Key]


def hello(place: StreamPosition, *, resumes: bool) -> StreamEvent:
    """The first event. One that goes on from a cursor has no id: what comes before it was not told yet."""
    data = _json(HelloBody(place.at, VERSION, place.cursor))
    return StreamEvent("hello", data, None if resumes else place.cursor)


def reset(place: StreamPosition) -> StreamEvent:
    """That changes may have been missed."""
    return StreamEvent("reset", _json(ResetBody(place.at)), place.cursor)


def changed(
    found: Changes, news: Sequence[StreamChange], before: StreamPosition, place: StreamPosition
) -> StreamEvent | None:
    """What is new since another place; None: nothing is."""
    topics = [topic for topic in TOPICS if before.topics[topic] != place.topics[topic]]
    if not news and not topics:
        return None
    ids = list(dict.fromkeys(one.happening.job_id for one in news))
    runs = list(dict.fromkeys(run for one in news for run in _runs(one.happening)))
    is_partial = (bool(news) and found.is_partial) or len(ids) > IDS or len(runs) > RUNS
    failed = sum(one.happening.kind == "failed" for one in news)
    body = ChangesBody(found.at, _counts(news), failed, ids[:IDS], runs[:RUNS], topics, is_partial)
    return StreamEvent("changes", _json(body), place.cursor)


def _counts(news: Sequence[StreamChange]) -> JobCounts:
    kinds = Counter(kind for kind, _, _ in {key for one in news for key in one.keys})
    return JobCounts(kinds["created"], kinds["started"], kinds["ended"])


def _runs(one: JobChange) -> list[str]:
    return ([one.job_id] if one.is_run else []) + ([one.run_id] if one.run_id else [])


def _json(body: Struct) -> str:
    return msgspec.json.encode(body).decode()
