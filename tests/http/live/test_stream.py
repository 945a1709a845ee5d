"""The stream: what changes is told once to everybody who listens, on any server, and never missed without a word."""

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from random import Random, SystemRandom
from typing import Any, cast

import pytest
from starlette.testclient import TestClient

from tests.http.conftest import TOKEN
from tests.http.work import claimed, fail, register, succeed
from tests.replaced import Replaced
from tickwork import Tickwork
from tickwork.api.schedule_rules import every
from tickwork.clock import SystemClock
from tickwork.core.access.scopes import digest_of
from tickwork.core.ids import IdMaker, JobId
from tickwork.core.job import RUN, NewJob
from tickwork.errors import StoreError
from tickwork.http.auth.access import COOKIE
from tickwork.http.live import stream
from tickwork.http.live.stream import ChangeStream, StreamEvent
from tickwork.http.server_context import ServerContext
from tickwork.security.credentials import create_key
from tickwork.store.base import Store

PATH = "/api/v1/stream"
LOOK_S = 0.05


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOOK_S", "TOPICS_S"):
        monkeypatch.setattr(stream, name, LOOK_S)
    monkeypatch.setattr(stream, "IDLE_S", LOOK_S * 6)


def a_stream(store: Store) -> ChangeStream:
    return ChangeStream(store, SystemClock(), Random(1))


Listener = AsyncGenerator[StreamEvent | None, None]
Scene = Callable[[ChangeStream, asyncio.Event], Awaitable[None]]


def play(app: Tickwork, scene: Scene) -> None:
    """Play a scene on a stream of its own, for at most 20 s."""

    async def played() -> None:
        stopping = asyncio.Event()
        async with asyncio.timeout(20):
            await scene(a_stream(app.store), stopping)
        stopping.set()

    asyncio.run(played())


class Told:
    """Everything that several events told."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.counts: Counter[str] = Counter()
        self.ids: list[str] = []
        self.runs: set[str] = set()
        self.topics: set[str] = set()
        self.is_partial = False
        self.cursor: str | None = None

    def add(self, event: StreamEvent) -> None:
        self.names.append(event.name)
        self.cursor = event.id or self.cursor
        if event.name != "changes":
            return
        data = json.loads(event.data)
        self.counts.update({**data["jobs"], "failed": data["failed"]})
        self.ids += data["job_ids"]
        self.runs.update(data["runs"])
        self.topics.update(data["topics"])
        self.is_partial |= data["is_partial"]


async def settled(listener: Listener) -> Told:
    """Return the events until none comes for a while."""
    told = Told()
    while (event := await anext(listener)) is not None:
        told.add(event)
    return told


def enqueue(app: Tickwork, n: int = 1, **options: Any) -> list[str]:
    return [app.named("mail").options(retries=0, **options).enqueue().id for _ in range(n)]


def a_late_job(seconds: float) -> NewJob:
    """A job whose id was made a while ago, as in a transaction that is committed only now."""
    made_ms = int((time.time() - seconds) * 1000)
    return NewJob(id=JobId(IdMaker(lambda: made_ms, SystemRandom().getrandbits).new_id()), task="mail", args=b"{}")


def test_what_happens_to_jobs_is_told_once(app: Tickwork) -> None:
    register(app, "mail")
    enqueue(app)
    for one in claimed(app):
        succeed(app, one)

    async def scene(on: ChangeStream, stopping: asyncio.Event) -> None:
        async with aclosing(on.listen(None, stopping)) as listener:
            first = await settled(listener)
            assert first.names == ["hello"]
            assert first.cursor is not None
            made = enqueue(app, 2)
            told = await settled(listener)
            assert (told.ids, told.counts["created"], told.counts["ended"]) == (made[::-1], 2, 0)
            one, other = claimed(app)
            told = await settled(listener)
            assert (set(told.ids), told.counts["started"], told.counts["created"]) == (set(made), 2, 0)
            succeed(app, one)
            fail(app, other)
            told = await settled(listener)
            assert (set(told.ids), len(told.ids)) == (set(made), 2)
            assert (told.counts["ended"], told.counts["failed"], told.counts["started"]) == (2, 1, 0)
            assert not told.is_partial

    play(app, scene)


def test_a_job_that_begins_and_ends_between_two_looks_is_told(app: Tickwork) -> None:
    register(app, "mail")

    async def scene(on: ChangeStream, stopping: asyncio.Event) -> None:
        async with aclosing(on.listen(None, stopping)) as listener:
            await settled(listener)
            (made,) = enqueue(app)
            for one in claimed(app):
                succeed(app, one)
            told = await settled(listener)
            assert set(told.ids) == {made}
            assert told.counts == {"created": 1, "started": 1, "ended": 1, "failed": 0}

    play(app, scene)


def test_what_becomes_visible_late_is_told(app: Tickwork) -> None:
    async def scene(on: ChangeStream, stopping: asyncio.Event) -> None:
        async with aclosing(on.listen(None, stopping)) as listener:
            await settled(listener)
            late = a_late_job(5.0)
            app.store.insert_jobs([late])
            told = await settled(listener)
            assert (told.ids, told.counts["created"]) == ([late.id], 1)

    play(app, scene)


def test_topics_are_told_when_they_change(app: Tickwork) -> None:
    async def scene(on: ChangeStream, stopping: asyncio.Event) -> None:
        async with aclosing(on.listen(None, stopping)) as listener:
            await settled(listener)
            app.schedule("nightly", "mail", every("1d"))
            told = await settled(listener)
            assert (told.names, told.topics, told.ids) == (["changes"], {"schedules"}, [])
            app.pause(queue="mail")
            assert (await settled(listener)).topics == {"gates"}

    play(app, scene)


def test_runs_are_told_with_their_steps(app: Tickwork) -> None:
    @app.task
    def send() -> None: ...

    @app.dag
    def job_limits() -> None:
        send()

    job_limits.put()

    async def scene(on: ChangeStream, stopping: asyncio.Event) -> None:
        async with aclosing(on.listen(None, stopping)) as listener:
            await settled(listener)
            run = job_limits.enqueue()
            told = await settled(listener)
            assert (told.runs, told.ids) == ({run.id}, [run.id])
            worker = register(app, send.name)
            first, then = (app.store.claim_jobs(worker, ["default"], [send.name, RUN], 10).jobs for _ in range(2))
            (step,) = first + then
            succeed(app, step)
            told = await settled(listener)
            assert (told.runs, set(told.ids)) == ({run.id}, {run.id, step.job_id})

    play(app, scene)


def test_more_than_an_event_can_name_is_told_in_part(app: Tickwork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "IDS", 3)

    async def scene(on: ChangeStream, stopping: asyncio.Event) -> None:
        async with aclosing(on.listen(None, stopping)) as listener:
            await settled(listener)
            app.store.insert_jobs([a_late_job(1.0) for _ in range(5)])
            told = await settled(listener)
            assert (len(told.ids), told.counts["created"], told.is_partial) == (3, 5, True)

    play(app, scene)


def test_another_server_goes_on_from_a_cursor(app: Tickwork) -> None:
    register(app, "mail")

    async def scene(on: ChangeStream, stopping: asyncio.Event) -> None:
        async with aclosing(on.listen(None, stopping)) as listener:
            cursor = (await settled(listener)).cursor
        made = enqueue(app, 2)
        for one in claimed(app)[:1]:
            fail(app, one)
        app.schedule("nightly", "mail", every("1d"))
        async with aclosing(a_stream(app.store).listen(cursor, stopping)) as listener:
            told = await settled(listener)
            assert told.names == ["hello", "changes"]
            assert (set(told.ids), told.topics) == (set(made), {"schedules"})
            assert told.counts == {"created": 2, "started": 2, "ended": 1, "failed": 1}
            assert told.cursor != cursor

    play(app, scene)


def test_where_nothing_changed_since_a_cursor_nothing_is_told(app: Tickwork) -> None:
    async def scene(on: ChangeStream, stopping: asyncio.Event) -> None:
        async with aclosing(on.listen(None, stopping)) as listener:
            cursor = (await settled(listener)).cursor
        async with aclosing(a_stream(app.store).listen(cursor, stopping)) as listener:
            told = await settled(listener)
            assert (told.names, told.cursor) == (["hello"], None), "it goes on from the cursor that it came with"

    play(app, scene)


@pytest.mark.parametrize("cursor", ["x", "g" * 94, "f" * 94, "0" * 94, "\u0663" * 94, "0" * 14])
def test_from_a_cursor_that_is_none_or_too_old_pages_begin_again(app: Tickwork, cursor: str) -> None:
    async def scene(on: ChangeStream, stopping: asyncio.Event) -> None:
        async with aclosing(on.listen(cursor, stopping)) as listener:
            told = await settled(listener)
            assert told.names == ["hello", "reset"]
            assert told.cursor is not None

    play(app, scene)


def test_too_much_since_a_cursor_is_not_told(app: Tickwork, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(on: ChangeStream, stopping: asyncio.Event) -> None:
        async with aclosing(on.listen(None, stopping)) as listener:
            cursor = (await settled(listener)).cursor
        enqueue(app, 5)
        monkeypatch.setattr(stream, "MOST", 3)
        async with aclosing(a_stream(app.store).listen(cursor, stopping)) as listener:
            assert (await settled(listener)).names == ["hello", "reset"]

    play(app, scene)


def test_who_is_too_far_behind_begins_again(app: Tickwork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "KEPT", 2)

    async def scene(on: ChangeStream, stopping: asyncio.Event) -> None:
        async with aclosing(on.listen(None, stopping)) as slow, aclosing(on.listen(None, stopping)) as quick:
            await settled(slow)
            await settled(quick)
            for _ in range(4):
                enqueue(app)
                assert (await settled(quick)).names == ["changes"]
            assert (await settled(slow)).names == ["reset"]
            enqueue(app)
            assert (await settled(slow)).names == ["changes"]

    play(app, scene)


class CountingStore(Replaced):
    """A store that counts how often it is looked at, and can be out of order."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, reads=Replaced(store.reads, happenings=self._happenings))
        self._store = store
        self.looks = 0
        self.is_broken = False

    def _happenings(self, *asked: Any) -> Any:
        self.looks += 1
        if self.is_broken:
            raise StoreError("out of order")
        return self._store.reads.happenings(*asked)


def test_one_look_is_for_all_who_listen_and_none_without_listeners(app: Tickwork) -> None:
    store = CountingStore(app.store)

    async def scene(_: ChangeStream, stopping: asyncio.Event) -> None:
        on = a_stream(cast("Store", store))
        async with AsyncExitStack() as stack:
            listeners = [await stack.enter_async_context(aclosing(on.listen(None, stopping))) for _ in range(20)]
            await asyncio.gather(*map(settled, listeners))
            enqueue(app)
            assert [one.counts["created"] for one in await asyncio.gather(*map(settled, listeners))] == [1] * 20
            before = store.looks
            await asyncio.sleep(LOOK_S * 10)
            assert 1 <= store.looks - before <= 11
        await asyncio.sleep(LOOK_S * 3)
        before = store.looks
        await asyncio.sleep(LOOK_S * 5)
        assert store.looks == before

    play(app, scene)


def test_after_the_store_was_away_what_happened_meanwhile_is_told(app: Tickwork) -> None:
    store = CountingStore(app.store)

    async def scene(_: ChangeStream, stopping: asyncio.Event) -> None:
        async with aclosing(a_stream(cast("Store", store)).listen(None, stopping)) as listener:
            await settled(listener)
            store.is_broken = True
            made = enqueue(app)
            assert (await settled(listener)).names == []
            store.is_broken = False
            told = Told()
            while not told.ids:
                told = await settled(listener)
            assert told.ids == made

    play(app, scene)


# -- the route


def events(answer: Any) -> list[str]:
    return [line.removeprefix("event: ") for line in answer.text.splitlines() if line.startswith("event: ")]


def test_a_stream_ends_with_the_server(admin: TestClient, app: Tickwork, parts: ServerContext) -> None:
    later = [threading.Timer(0.3, enqueue, (app,)), threading.Timer(1.0, parts.stopping.set)]
    for timer in later:
        timer.start()
    answer = admin.get(PATH)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"
    assert events(answer) == ["hello", "changes"]
    (id,) = {line for line in answer.text.splitlines() if line.startswith("id: ")} - {answer.text.splitlines()[0]}
    resumed = admin.get(PATH, headers={"last-event-id": id.removeprefix("id: ")})
    assert events(resumed)[0] == "hello"
    for timer in later:
        timer.join()


def test_a_stream_ends_with_the_key_of_who_listens(anybody: TestClient, app: Tickwork) -> None:
    token, key = create_key(app.store, "page", ["read"], None, "test")
    later = threading.Timer(0.5, app.store.access.revoke_api_key, (key.id,))
    later.start()
    answer = anybody.get(PATH, headers={"Authorization": f"Bearer {token}"})
    later.join()
    assert (answer.status_code, events(answer)) == (200, ["hello"])


def test_a_stream_ends_with_the_session_of_who_listens(anybody: TestClient, app: Tickwork) -> None:
    anybody.post("/api/v1/session", json={"token": TOKEN}).raise_for_status()
    digest = digest_of(anybody.cookies[COOKIE].encode())
    later = threading.Timer(0.5, app.store.access.end_session, (digest,))
    later.start()
    answer = anybody.get(PATH)
    later.join()
    assert (answer.status_code, events(answer)) == (200, ["hello"])


def test_a_server_is_full_at_some_point(admin: TestClient, parts: ServerContext) -> None:
    parts.listeners.most = 0
    answer = admin.get(PATH)
    assert (answer.status_code, answer.json()["code"]) == (503, "too-many-listeners")
    assert "look again" in answer.json()["detail"]
