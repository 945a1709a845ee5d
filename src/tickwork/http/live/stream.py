"""The stream: what changed in the store, told to every page that listens, with one look a second for all of them.

Everything here happens on the event loop; the store is called on threads. Looks begin with the first listener and end
after the last. Nothing is kept but what was told in the last seconds: a cursor says all that another server needs to go
on from it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from datetime import timedelta
from itertools import islice
from random import Random

from starlette.concurrency import run_in_threadpool

from tickwork.clock import Clock
from tickwork.http.live.stream_events import StreamChange, StreamEvent, StreamPosition, changed, hello, place_of, reset
from tickwork.http.live.wait_jobs import stops
from tickwork.services.runner import Backoff
from tickwork.store.base import Store
from tickwork.store.reads.change_feed import Changes, Key

LOOK_S = 1.0
TOPICS_S = 3.0  # how often topics are looked at
IDLE_S = 2.0  # a listener hears at least so often that nothing changed
LATE = timedelta(seconds=10)  # what becomes visible so late is still told
RESUMES = timedelta(minutes=5)  # what changed since an older cursor is not told
MOST = 1_000  # happenings of a kind that a look reads
KEPT = 60  # events; who is further behind begins anew


class ChangeStream:
    """Looks while anybody listens, and keeps the last events for those who have not sent them on yet."""

    def __init__(self, store: Store, clock: Clock, rng: Random) -> None:
        self._store = store
        self._clock = clock
        self._backoff = Backoff("the stream of changes", rng)
        self._listeners = 0
        self._beginning = asyncio.Lock()
        self._looking: asyncio.Task[None] | None = None
        self._told: dict[Key, float] = {}  # what was told, and until when it is remembered
        self._events: deque[StreamEvent] = deque(maxlen=KEPT)
        self._sent = 0  # events so far
        self._more = asyncio.Event()
        self._place: StreamPosition | None = None

    async def begin(self, stopping: asyncio.Event) -> StreamPosition:
        """Look from now on, unless that is so already; return up to where changes were told.

        Raises StoreError when the store does not answer.
        """
        async with self._beginning:
            if self._place is None or self._looking is None or self._looking.done():
                self._place = await run_in_threadpool(self._first)
                self._looking = asyncio.create_task(self._look(self._place, stopping))
            return self._place

    async def listen(self, cursor: str | None, stopping: asyncio.Event) -> AsyncGenerator[StreamEvent | None, None]:
        """Tell what changes from now on, and first what did since a cursor. None: nothing did for a while.

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
        """Wait for the next event, or for a while."""
        try:
            async with asyncio.timeout(IDLE_S):
                await self._more.wait()
        except TimeoutError:
            return

    async def _since(self, cursor: str, place: StreamPosition) -> StreamEvent | None:
        """What changed since a cursor, as one event; or that this cannot be told. None: nothing did."""
        before = place_of(cursor)
        if before is None or not timedelta(0) <= place.at - before.at <= RESUMES:
            return reset(place)
        found = await run_in_threadpool(self._store.happenings, before.at - LATE, MOST)
        news = [StreamChange(one, one.keys) for one in found.happenings]
        return reset(place) if found.is_partial else changed(found, news, before, place)

    # -- the looks

    def _first(self) -> StreamPosition:
        """Where looks begin. What is found there was so before anybody listened."""
        topics = self._store.topics()
        found = self._store.happenings(self._store.now() - LATE, MOST)
        self._told = {}
        self._news(found)
        return StreamPosition(found.at, topics)

    async def _look(self, place: StreamPosition, stopping: asyncio.Event) -> None:
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
        topics = await run_in_threadpool(self._store.topics) if with_topics else before.topics
        found = await run_in_threadpool(self._store.happenings, before.at - LATE, MOST)
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
        """What was not told yet. What is found is remembered for as long as it can be found again."""
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
        """Call everybody who waits; whoever comes later waits for the next call."""
        self._more.set()
        self._more = asyncio.Event()
