"""The stream of changes over REST: one for each page that is open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from sse_starlette import ServerSentEvent

from tickwork.http.framework.params import Text
from tickwork.http.framework.route import Routes, Scope, Struct
from tickwork.http.live.sse import EventStream
from tickwork.http.request import Call

routes = Routes("stream")


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
    if not parts.listeners.take():
        raise parts.listeners.refusal()
    try:
        await parts.stream.begin(parts.stopping)
    except BaseException:
        parts.listeners.give_back()
        raise
    cursor = call.request.headers.get("last-event-id") or query.cursor
    return EventStream(_events(call, cursor), parts.listeners)


async def _events(call: Call, cursor: str | None) -> AsyncIterator[ServerSentEvent]:
    """What changes, while the caller may see it. To listen is not to use a session: an open page keeps none alive."""
    permit = call.parts.permits.of(call.request, Scope.READ)
    async with aclosing(call.parts.stream.listen(cursor, call.parts.stopping)) as events:
        async for event in events:
            if not await permit.holds():
                return
            if event is not None:
                yield ServerSentEvent(event.data, event=event.name, id=event.id)
