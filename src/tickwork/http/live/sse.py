"""Server-sent events, with a bound on the number of open streams."""

from __future__ import annotations

from collections.abc import AsyncIterator

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.types import Receive, Scope, Send

from tickwork.http.connections.capacity import Capacity

LISTENERS = 500  # of /stream
FOLLOWERS = 200  # of logs of jobs, each with queries of its own
PING_S = 15


def listeners_capacity() -> Capacity:
    """Return the bound on open streams of changes."""
    full = f"{LISTENERS} pages listen to this server already. Close some, or look again every few seconds."
    return Capacity(LISTENERS, full, "too-many-listeners")


def followers_capacity() -> Capacity:
    """Return the bound on followed logs."""
    full = f"{FOLLOWERS} logs are followed on this server already. Try again in a while, or read pages of the log."
    return Capacity(FOLLOWERS, full, "too-many-followers")


class EventStream(EventSourceResponse):
    """A stream of events that releases its unit of a capacity when it ends, even if it never began.

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
