"""The stream of changes over REST: one for each page that is open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from tickwork.http.access import allowed
from tickwork.http.call import Call
from tickwork.http.problems import Problem
from tickwork.http.reading import Text
from tickwork.http.route import Routes, Scope, Struct
from tickwork.http.stream import LISTENERS

routes = Routes("stream")
PING_S = 15
SEND_S = 30.0  # who takes nothing for so long is gone
CHECK_S = 30.0  # how often it is asked whether a listener may still listen


class StreamQuery(Struct):
    """`cursor`: the id of the last event that was heard, for those who cannot send `Last-Event-ID` at first."""

    cursor: Text | None = None


@routes.get("/stream", Scope.READ, returns=None, streams="text/event-stream")
async def follow_changes(call: Call, query: StreamQuery) -> Any:
    """Tell what changes in the store, as server-sent events, at most one a second, until the caller leaves.

    First comes `hello`. Each `changes` has an id to go on from (`Last-Event-ID`, on any server): what changed since is
    told first. `reset` says that changes may have been missed. 503 when too many listen.
    """
    parts = call.parts
    if parts.stream.is_full:
        said = f"{LISTENERS} pages listen to this server already. Close some, or look again every few seconds."
        raise Problem(503, "too-many-listeners", said, headers={"Retry-After": "10"})
    await parts.stream.begin(parts.stopping)
    cursor = call.request.headers.get("last-event-id") or query.cursor
    return EventSourceResponse(_events(call, cursor), ping=PING_S, send_timeout=SEND_S)


async def _events(call: Call, cursor: str | None) -> AsyncIterator[ServerSentEvent]:
    clock = call.parts.clock
    check_at = clock.monotonic() + CHECK_S
    async with aclosing(call.parts.stream.listen(cursor, call.parts.stopping)) as events:
        async for event in events:
            if clock.monotonic() >= check_at:
                check_at = clock.monotonic() + CHECK_S
                if not await run_in_threadpool(_may_listen, call):
                    return
            if event is not None:
                yield ServerSentEvent(event.data, event=event.name, id=event.id)


def _may_listen(call: Call) -> bool:
    """Whether the session or the key still holds. To listen is not to use it: a page that is left open expires."""
    try:
        allowed(Scope.READ, call.parts.access.caller(call.request, uses=False))
    except Problem:
        return False
    return True
