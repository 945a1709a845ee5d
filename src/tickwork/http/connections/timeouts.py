"""A protocol that limits how long a client may stall its connection, and how much memory the connection may use.

Uvicorn waits without a limit for the head of a request, for the rest of a body that was answered already, and for a
client to read its answer; it keeps all headers and pipelined requests that arrive in one read. asyncio reads 256 KB
at once, and keeps all of an answer that a client does not read. The part of a body that a handler has read has limits
of its own (bodies.py).
"""

from __future__ import annotations

import asyncio
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, cast

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tickwork.core.web.addresses import plain_address
from tickwork.http.connections.connection_limits import ClientConnection, Connections

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as Protocol
else:
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as Protocol
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol as Protocol

HEAD_WAIT_S = 15.0  # from the first byte of a request, or from the start of the connection
TAKE_WAIT_S = 30.0  # for a client to read what was sent to it
HEAD_LIMIT = 64 * 1024  # bytes
REST_LIMIT = 8 * 1024 * 1024  # of a body answered before it had arrived; its sender shall still receive the answer
HEADERS_LIMIT = 200
PIPELINE_LIMIT = 8  # requests that arrive before the previous one was answered
PIECE = 16 * 1024  # bytes read or written at once


class _Phase(Enum):
    """The phases of a connection: it waits for a head, a body, the handler (SERVED), or the client to read (TAKE).

    In IDLE nothing of the next request has arrived; uvicorn closes the connection after its keep-alive timeout.
    """

    HEAD = auto()
    BODY = auto()
    SERVED = auto()
    TAKE = auto()
    IDLE = auto()


class BoundedProtocol(Protocol, asyncio.BufferedProtocol):
    """Closes a connection whose client stalls for too long, or sends too much before it is served.

    It reads more of a body only after the handler has taken the previous piece. All connections of a process read into
    the same buffer: they are on one event loop, which processes a piece before it reads the next one.

    It also tells `connections` when it waits for its client, so that the longest waiting connection can be closed when
    there are too many.
    """

    _piece = bytearray(PIECE)

    def __init__(self, *args: Any, connections: Connections, connection: ClientConnection, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._among = connections
        self._connection = connection
        self._phase = _Phase.HEAD
        self._head_size = 0
        self._started: Any = None  # the last started request; pipelined ones may have arrived after it
        self._giving_up: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.client is not None:  # before it is compared with the trusted proxies
            self.client = (plain_address(self.client[0]), self.client[1])
        transport.set_write_buffer_limits(high=1, low=0)  # one piece may wait to be sent
        self._connection.close = transport.abort
        self._enter(_Phase.HEAD)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer as a view: asyncio reads TLS records into slices of it, which must not be copies."""
        return memoryview(self._piece)

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(memoryview(self._piece)[:nbytes]))

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection, and tell the handler of a started request that its client has disconnected."""
        self._stop_timer()
        self._unset_keepalive_if_required()
        self._among.leave(self._connection)
        if self._started is not None:  # uvicorn notifies only the latest request, which may wait behind this one
            self._started.disconnected = not self._started.response_complete
            self._started.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Process received data, with a limit on data that does not belong to the request being handled."""
        before = cast("Any", self.cycle)  # None before the first request, in spite of uvicorn's type hint
        handled = before is not None and not before.response_complete
        is_rest = before is not None and before.more_body
        super().data_received(data)
        if self.cycle is not before:
            self._head_size = 0
        elif not handled or not is_rest:  # the handler bounds the body of a request that it handles
            self._head_size += len(data)
            if self._head_size > (REST_LIMIT if is_rest else HEAD_LIMIT):
                self._refuse()
        self._wait_for_handler()
        self._follow()

    def _wait_for_handler(self) -> None:
        """Stop reading while a piece of a body waits for the handler; uvicorn resumes when it asks for more."""
        cycle = cast("Any", self.cycle)
        if cycle is not None and cycle.more_body and cycle.body and not cycle.response_complete:
            self.flow.pause_reading()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._follow()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._follow()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._follow()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._follow()

    # -- callbacks of httptools; h11 itself bounds the size of a head and handles one request at a time

    def on_message_begin(self) -> None:
        if len(cast("Any", self).pipeline) >= PIPELINE_LIMIT:
            raise ValueError("too many pipelined requests")
        cast("Any", super()).on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= HEADERS_LIMIT:
            raise ValueError("too many headers")
        cast("Any", super()).on_header(name, value)

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: the request is answered as if it did not ask for another protocol."""

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._started = cycle
        cast("Any", super())._start_asgi_task(cycle, app)

    # -- the phase of the connection

    def _follow(self) -> None:
        """Update the phase of the connection if it has changed."""
        phase = self._current_phase()
        if phase is not self._phase:
            self._enter(phase)

    def _current_phase(self) -> _Phase:
        """Return the phase of the connection from uvicorn's state."""
        cycle = cast("Any", self.cycle)
        if self.flow.write_paused or self.transport.is_closing():
            return _Phase.TAKE
        if cycle is None or cycle.response_complete:
            return _Phase.IDLE if cycle is not None and not self._head_size else _Phase.HEAD
        return _Phase.BODY if cycle.more_body else _Phase.SERVED

    def _enter(self, phase: _Phase) -> None:
        """Enter a phase: restart its timer, and tell `connections` whether the connection waits for its client."""
        self._phase = phase
        self._stop_timer()
        wait_s = {_Phase.HEAD: HEAD_WAIT_S, _Phase.TAKE: TAKE_WAIT_S}.get(phase)
        if wait_s is not None:
            self._giving_up = self.loop.call_later(wait_s, self.transport.abort)
        if phase is _Phase.SERVED:
            self._among.is_served(self._connection)
        else:
            self._among.waits(self._connection)

    def _stop_timer(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None

    def _refuse(self) -> None:
        """Answer 400 and close; only close if the connection has had a request, since the data may belong to it."""
        if cast("Any", self.cycle) is None:
            self.send_400_response("The head of this request is too large.")
        else:
            self.transport.close()


def in_pieces(app: ASGIApp) -> ASGIApp:
    """Return an app that sends each piece of an answer only when the client has read most of the previous pieces."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_pieces(message: Message) -> None:
            body = message.get("body", b"")
            if len(body) <= PIECE:
                await send(message)
                return
            whole = memoryview(body)
            for at in range(0, len(whole), PIECE):
                is_last = at + PIECE >= len(whole)
                more = message.get("more_body", False) if is_last else True
                await send({**message, "body": whole[at : at + PIECE], "more_body": more})
                await asyncio.sleep(0)  # noqa: TID251  # lets other tasks run, and detects a closed connection

        await app(scope, receive, send_pieces)

    return answer
