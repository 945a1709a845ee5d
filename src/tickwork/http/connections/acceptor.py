"""Accept connections up to a limit, without a busy loop when file descriptors run out.

asyncio's own server accepts all waiting connections before it handles any of them. When file descriptors run out, it
logs an error for each connection that it could not accept, and tries all of them again.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from asyncio.sslproto import SSLProtocol
from contextlib import suppress
from functools import partial

import uvicorn

from tickwork.http.connections.connection_limits import ClientConnection, Connections
from tickwork.http.connections.timeouts import HEAD_WAIT_S, PIECE

_log = logging.getLogger("tickwork.http")
_BURST = 64  # connections accepted before open ones are handled
_RETRY_S = 0.2  # until the next attempt after accept() failed
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\nContent-Type: text/plain\r\n"
    b"Content-Length: 42\r\n\r\nToo many connections. Try again in a while"
)


class BoundedServer(uvicorn.Server):
    """A uvicorn server that accepts as many connections as `connections` admits.

    The protocol class of its configuration is called with `connections` and `connection`, besides uvicorn's own
    arguments.
    """

    def __init__(self, config: uvicorn.Config, connections: Connections) -> None:
        super().__init__(config)
        self._connections = connections
        self._listening: list[socket.socket] = []
        self._beginning: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])  # without sockets: this class listens to them
        self._listening = sockets or []
        for listening in self._listening:
            listening.setblocking(False)
            self._listen(listening)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        loop = asyncio.get_running_loop()
        for listening in self._listening:
            loop.remove_reader(listening)
        self._listening = []
        await super().shutdown(sockets)

    def _listen(self, listening: socket.socket) -> None:
        if listening in self._listening:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        """Accept up to _BURST waiting connections, so that open connections are served in between."""
        for _ in range(_BURST):
            try:
                client, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._rest(listening, error)
                return
            self._take(client, address[0])

    def _rest(self, listening: socket.socket, error: OSError) -> None:
        """Stop accepting for a short time, and close waiting connections to free file descriptors."""
        _log.error("No connection can be accepted: %s. Connections that wait longest are closed.", error.strerror)
        self._connections.make_room(_BURST)
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        loop.call_later(_RETRY_S, self._listen, listening)

    def _take(self, client: socket.socket, host: str) -> None:
        """Start serving a connection, or refuse it with 503 if no other connection can be closed for it."""
        client.setblocking(False)
        connection = self._connections.admit(host, client.close)
        if connection is None:
            _log.warning("A connection was refused: all of the %d that are open are in use.", len(self._connections))
            with suppress(OSError):
                client.send(_REFUSAL)
            client.close()
            return
        beginning = asyncio.get_running_loop().create_task(self._begin(client, connection))
        connection.close = partial(_cancel, beginning)  # until it has a transport, closing it cancels the task
        self._beginning.add(beginning)
        beginning.add_done_callback(partial(self._begun, client, connection))

    async def _begin(self, client: socket.socket, connection: ClientConnection) -> None:
        """Pass a connection to its protocol, after the TLS handshake if TLS is enabled."""
        loop = asyncio.get_running_loop()
        tls = self.config.ssl
        if tls is None:
            await loop.connect_accepted_socket(lambda: self._protocol(loop, connection), client)
            return
        ready = loop.create_future()
        spoken = _Tls(
            loop,
            self._protocol(loop, connection),
            tls,
            ready,
            server_side=True,
            ssl_handshake_timeout=HEAD_WAIT_S,  # type: ignore[arg-type]  # a number of seconds
        )
        transport, _ = await loop.connect_accepted_socket(lambda: spoken, client)
        try:
            await ready
        except BaseException:
            transport.abort()
            raise

    def _begun(self, client: socket.socket, connection: ClientConnection, beginning: asyncio.Task[None]) -> None:
        """Remove a connection that did not reach its protocol.

        A protocol removes its own connection when it is lost.
        """
        self._beginning.discard(beginning)
        error = None if beginning.cancelled() else beginning.exception()
        if beginning.cancelled() or error is not None:
            _log.debug("A connection was not begun: %s", error or "it was closed for another one")
            self._connections.leave(connection)
            client.close()

    def _protocol(self, loop: asyncio.AbstractEventLoop, connection: ClientConnection) -> asyncio.Protocol:
        """Return a new protocol for a connection."""
        made: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
            _loop=loop,
            connections=self._connections,
            connection=connection,
        )
        return made


class _Tls(SSLProtocol):
    """asyncio's TLS protocol with small buffers; by default it reads into 256 KB and queues up to 64 KB for sending."""

    max_size = PIECE

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        transport.set_write_buffer_limits(high=1, low=0)
        super().connection_made(transport)


def _cancel(beginning: asyncio.Task[None]) -> None:
    beginning.cancel()
