"""Events of the stream of changes, and the cursors from which it resumes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from tickwork.core.ids import JobId
from tickwork.http.framework.route import Struct
from tickwork.store.reads.change_feed import TOPICS, Changes, JobChange, Key
from tickwork.store.rows.instants import from_us, to_us
from tickwork.version import VERSION

IDS = 200  # jobs that an event names
RUNS = 50
_MARK = 8  # characters of a topic's digest in a cursor
_INSTANT = 14  # characters of an instant in a cursor


class JobCounts(Struct):
    """The number of jobs that were created, that started an attempt, and that ended."""

    created: int
    started: int
    ended: int


class ChangesBody(Struct):
    """Changes since the previous event. `is_partial`: not all of them are listed; refetch everything on display.

    `failed` is how many of the ended jobs failed. `runs` are the runs that changed, or whose steps did. `topics` are
    the other things that changed: dags, gates, hooks, limits, notifications, operations, schedules, tasks, tenants and
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
    """The first event: the time of the store, the version of the server, and the cursor from which changes follow."""

    at: datetime
    version: str
    cursor: str


class ResetBody(Struct):
    """Changes may have been missed: refetch everything on display."""

    at: datetime


class StreamEvent(NamedTuple):
    """An event as it is sent. A client that lost its connection resumes from the last event with an id."""

    name: str
    data: str
    id: str | None


class StreamPosition(NamedTuple):
    """The position up to which changes were sent: an instant of the store, and the digests of its topics."""

    at: datetime
    topics: dict[str, str]

    @property
    def cursor(self) -> str:
        """The position as a text that any server can read."""
        return f"{to_us(self.at):0{_INSTANT}x}" + "".join(self.topics[topic] for topic in TOPICS)


def place_of(cursor: str) -> StreamPosition | None:
    """Return the position of a cursor; None if it is not a valid one."""
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
    """A change of a job, and those of its keys that were not sent yet."""

    happening: JobChange
    keys: list[Key]


def hello(place: StreamPosition, *, resumes: bool) -> StreamEvent:
    """Return the first event. If the stream resumes from a cursor, it has no id: earlier changes follow."""
    data = _json(HelloBody(place.at, VERSION, place.cursor))
    return StreamEvent("hello", data, None if resumes else place.cursor)


def reset(place: StreamPosition) -> StreamEvent:
    """Return the event that says that changes may have been missed."""
    return StreamEvent("reset", _json(ResetBody(place.at)), place.cursor)


def changed(
    found: Changes, news: Sequence[StreamChange], before: StreamPosition, place: StreamPosition
) -> StreamEvent | None:
    """Return an event with the changes between two positions; None if there are none."""
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
