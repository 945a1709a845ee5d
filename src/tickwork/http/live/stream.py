"""The stream of changes: polls the store once a second, and sends the changes to all listeners.

Everything here runs on the event loop; the store is called on threads. Polling begins with the first listener and ends
after the last. Only the events of the last seconds are kept: a cursor contains everything that another server needs to
resume from it. The number of open streams is bounded.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from random import Random
from typing import NamedTuple

import msgspec
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from tickwork.clock import Clock
from tickwork.core.ids import JobId
from tickwork.http.connections.bodies import Capacity
from tickwork.http.framework.route import Struct
from tickwork.http.live.wait_jobs import stops
from tickwork.services.runner import Backoff
from tickwork.store.base import Store
from tickwork.store.reads.change_feed import TOPICS, Changes, JobChange, Key
from tickwork.store.rows.instants import from_us, to_us
from tickwork.version import VERSION

LISTENERS = 500  # of /stream
FOLLOWERS = 200  # of logs of jobs, each with queries of its own
PING_S = 15
IDS = 200  # jobs that an event names
RUNS = 50
_MARK = 8  # characters of a topic's digest in a cursor
_INSTANT = 14  # characters of an instant in a cursor
LOOK_S = 1.0
TOPICS_S = 3.0  # how often topics are polled
IDLE_S = 2.0  # seconds after which a listener learns that nothing changed
LATE = timedelta(seconds=10)  # changes that become visible up to this late are still sent
RESUMES = timedelta(minutes=5)  # an older cursor gets a reset instead of the changes since
MOST = 1_000  # changes of a kind that one poll reads
KEPT = 60  # events; a listener that is further behind gets a reset


def listeners_capacity() -> Capacity:
    """Return the limit on open streams of changes."""
    full = f"{LISTENERS} pages listen to this server already. Close some, or look again every few seconds."
    return Capacity(LISTENERS, full, "too-many-listeners")


def followers_capacity() -> Capacity:
    """Return the limit on followed logs."""
    full = f"{FOLLOWERS} logs are followed on this server already. Try again in a while, or read pages of the log."
    return Capacity(FOLLOWERS, full, "too-many-followers")


class EventStream(EventSourceResponse):
    """A stream of events that releases its unit of a capacity when it ends, even if it was never started.

    The connection is closed if its client does not read (http/connections/timeouts.py).
    """

    def __init__(self, events: AsyncIterator[ServerSentEvent], room: Capacity) -> None:
        super().__init__(events, ping=PING_S)
        self._room = room

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._room.give_back()


class ChangeCounts(Struct):
    """The number of jobs that were created, that started an attempt, and that ended."""

    created: int
    started: int
    ended: int


class ChangesBody(Struct):
    """Changes since the previous event. `is_partial`: not all of them are listed; fetch everything on display again.

    `failed` is how many of the ended jobs failed. `runs` are the runs that changed, or whose steps changed. `topics`
    are the other kinds of objects that changed: dags, gates, hooks, limits, notifications, operations, schedules,
    tasks, tenants and workers.
    """

    at: datetime
    jobs: ChangeCounts
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
    """Changes may have been missed: fetch everything on display again."""

    at: datetime


class StreamEvent(NamedTuple):
    """An event as it is sent. A client that lost its connection resumes from the last event with an id."""

    name: str
    data: str
    id: str | None


class StreamPosition(NamedTuple):
    """The position up to which changes were sent: an instant of the store, and the digests of the topics."""

    at: datetime
    topics: dict[str, str]

    @property
    def cursor(self) -> str:
        """The position as a text that any server can read."""
        return f"{to_us(self.at):0{_INSTANT}x}" + "".join(self.topics[topic] for topic in TOPICS)


def place_of(cursor: str) -> StreamPosition | None:
    """Return the position that a cursor encodes, or None if the cursor is not valid."""
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
    """A change of a job, with those of its change keys that were not sent yet."""

    happening: JobChange
    keys: list[Key]


def hello(place: StreamPosition, *, resumes: bool) -> StreamEvent:
    """Return the first event of a stream.

    If the stream resumes from a cursor, the event has no id: older changes follow it.
    """
    data = _json(HelloBody(place.at, VERSION, place.cursor))
    return StreamEvent("hello", data, None if resumes else place.cursor)


def reset(place: StreamPosition) -> StreamEvent:
    """Return the event that reports that changes may have been missed."""
    return StreamEvent("reset", _json(ResetBody(place.at)), place.cursor)


def changed(
    found: Changes, news: Sequence[StreamChange], before: StreamPosition, place: StreamPosition
) -> StreamEvent | None:
    """Return an event with the changes between two positions, or None if there are none."""
    topics = [topic for topic in TOPICS if before.topics[topic] != place.topics[topic]]
    if not news and not topics:
        return None
    ids = list(dict.fromkeys(one.happening.job_id for one in news))
    runs = list(dict.fromkeys(run for one in news for run in _runs(one.happening)))
    is_partial = (bool(news) and found.is_partial) or len(ids) > IDS or len(runs) > RUNS
    failed = sum(one.happening.kind == "failed" for one in news)
    body = ChangesBody(found.at, _counts(news), failed, ids[:IDS], runs[:RUNS], topics, is_partial)
    return StreamEvent("changes", _json(body), place.cursor)


def _counts(news: Sequence[StreamChange]) -> ChangeCounts:
    kinds = Counter(kind for kind, _, _ in {key for one in news for key in one.keys})
    return ChangeCounts(kinds["created"], kinds["started"], kinds["ended"])


def _runs(one: JobChange) -> list[str]:
    return ([one.job_id] if one.is_run else []) + ([one.run_id] if one.run_id else [])


def _json(body: Struct) -> str:
    return msgspec.json.encode(body).decode()


class ChangeStream:
    """Polls while there are listeners, and keeps the last events for the listeners that have not yet sent them."""

    def __init__(self, store: Store, clock: Clock, rng: Random) -> None:
        self._store = store
        self._clock = clock
        self._backoff = Backoff("the stream of changes", rng)
        self._listeners = 0
        self._beginning = asyncio.Lock()
        self._looking: asyncio.Task[None] | None = None
        self._told: dict[Key, float] = {}  # keys of changes that were sent, and until when each is remembered
        self._events: deque[StreamEvent] = deque(maxlen=KEPT)
        self._sent = 0  # the number of events so far
        self._more = asyncio.Event()
        self._place: StreamPosition | None = None

    async def begin(self, stopping: asyncio.Event) -> StreamPosition:
        """Start polling, unless it already runs; return the position up to which changes were sent.

        Raises StoreError if the store does not answer.
        """
        async with self._beginning:
            if self._place is None or self._looking is None or self._looking.done():
                self._place = await run_in_threadpool(self._first)
                self._looking = asyncio.create_task(self._look(self._place, stopping))
            return self._place

    async def listen(self, cursor: str | None, stopping: asyncio.Event) -> AsyncGenerator[StreamEvent | None, None]:
        """Yield the changes since a cursor, if any, then changes as they happen, and None after IDLE_S without
        changes.

        It ends when the server stops.
        """
        self._listeners += 1
        try:
            place = await self.begin(stopping)
            seen = self._sent
            yield hello(place, resumes=cursor is not None)
            if cursor is not None and (event := await self._since(cursor, place)) is not None:
                yield event
            while not stopping.is_set():
                if self._sent == seen:
                    await self._next()
                behind, seen = self._sent - seen, self._sent
                if behind > len(self._events):
                    yield reset(self._place or place)
                    continue
                for event in list(islice(self._events, len(self._events) - behind, None)):
                    yield event
                if not behind:
                    yield None
        finally:
            self._listeners -= 1

    async def _next(self) -> None:
        """Wait for the next event, at most IDLE_S."""
        try:
            async with asyncio.timeout(IDLE_S):
                await self._more.wait()
        except TimeoutError:
            return

    async def _since(self, cursor: str, place: StreamPosition) -> StreamEvent | None:
        """Return the changes since a cursor as one event, a reset if they are not known, or None if there are none."""
        before = place_of(cursor)
        if before is None or not timedelta(0) <= place.at - before.at <= RESUMES:
            return reset(place)
        found = await run_in_threadpool(self._store.reads.happenings, before.at - LATE, MOST)
        news = [StreamChange(one, one.keys) for one in found.happenings]
        return reset(place) if found.is_partial else changed(found, news, before, place)

    # -- polling

    def _first(self) -> StreamPosition:
        """Return the position at which polling begins. Changes found now happened before there were listeners."""
        topics = self._store.reads.topics()
        found = self._store.reads.happenings(self._store.now() - LATE, MOST)
        self._told = {}
        self._news(found)
        return StreamPosition(found.at, topics)

    async def _look(self, place: StreamPosition, stopping: asyncio.Event) -> None:
        """Poll until the server stops or the last listener leaves; back off after errors."""
        topics_at, wait_s = self._clock.monotonic() + TOPICS_S, LOOK_S
        while not await stops(stopping, wait_s) and self._listeners:
            now = self._clock.monotonic()
            try:
                place = await self._look_once(place, with_topics=now >= topics_at)
            except Exception as error:
                wait_s = LOOK_S + self._backoff.failed(error)
                continue
            self._backoff.worked()
            wait_s = LOOK_S
            topics_at = now + TOPICS_S if now >= topics_at else topics_at
        self._place = None
        self._call()

    async def _look_once(self, before: StreamPosition, *, with_topics: bool) -> StreamPosition:
        """Read the changes since a position, publish an event if there are any, and return the new position."""
        topics = await run_in_threadpool(self._store.reads.topics) if with_topics else before.topics
        found = await run_in_threadpool(self._store.reads.happenings, before.at - LATE, MOST)
        place = StreamPosition(found.at, topics)
        is_late = place.at - before.at > RESUMES
        event = reset(place) if is_late else changed(found, self._news(found), before, place)
        self._place = place
        if event is not None:
            self._events.append(event)
            self._sent += 1
            self._call()
        return place

    def _news(self, found: Changes) -> list[StreamChange]:
        """Return the changes that were not sent yet.

        Each change key is remembered for as long as it can be found again.
        """
        now = self._clock.monotonic()
        news = []
        for one in found.happenings:
            fresh = [key for key in one.keys if key not in self._told]
            self._told.update(dict.fromkeys(one.keys, now + 2 * LATE.total_seconds()))
            if fresh:
                news.append(StreamChange(one, fresh))
        self._told = {key: until for key, until in self._told.items() if until > now}
        return news

    def _call(self) -> None:
        """Wake all listeners that wait now."""
        self._more.set()
        self._more = asyncio.Event()
