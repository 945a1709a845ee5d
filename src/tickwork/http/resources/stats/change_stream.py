"""The stream of changes over REST: one for each open page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from sse_starlette import ServerSentEvent

from tickwork.http.framework.params import Text
from tickwork.http.framework.route import Routes, Scope, Struct
from tickwork.http.live.stream import EventStream
from tickwork.http.request import Call

routes = Routes("stream")


class StreamQuery(Struct):
    """`cursor`: the id of the last event, for clients that cannot send `Last-Event-ID` with their first request."""

    cursor: Text | None = None


@routes.get("/stream", Scope.READ, returns=None, streams="text/event-stream")
async def follow_changes(call: Call, query: StreamQuery) -> Any:
    """Stream the changes in the store as server-sent events, at most one per second, until the client disconnects.

    The first event is `hello`. Each `changes` event has an id from which to resume (`Last-Event-ID`, on any server):
    older changes are sent first. `reset` means that changes may have been missed. 503 if there are too many streams.
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
    """Yield changes while the caller may see them.

    This does not count as a use of the session, so it can still expire.
    """
    permit = call.parts.credential_watch.of(call.request, Scope.READ)
    async with aclosing(call.parts.stream.listen(cursor, call.parts.stopping)) as events:
        async for event in events:
            if not await permit.holds():
                return
            if event is not None:
                yield ServerSentEvent(event.data, event=event.name, id=event.id)
