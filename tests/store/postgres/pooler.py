"""A pooler in transaction mode, in miniature: no transaction of a client follows another on the same backend.

It imitates PgBouncer where that matters: clients see a process id that is not the backend's, sessions are shared
without being reset, and the startup parameter `options` is refused. `leftovers` tells what clients left behind in the
sessions.
"""

import random
import select
import socket
import struct
import threading
from contextlib import suppress
from typing import Self

_STARTUP, _SSL, _GSS, _CANCEL = 196608, 80877103, 80877104, 80877102
_LEFTOVERS = """
    SELECT 'setting ' || name FROM pg_settings WHERE source = 'session'
    UNION ALL SELECT 'prepared statement ' || left(statement, 40) FROM pg_prepared_statements
    UNION ALL SELECT 'listening to ' || channel FROM pg_listening_channels() AS channel
    UNION ALL SELECT 'advisory lock' FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()
    UNION ALL SELECT 'temporary table ' || relname FROM pg_class WHERE relpersistence = 't'
"""


class Stream:
    """One side of a connection, read message by message."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self._buffer = b""

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def startup(self) -> tuple[int, bytes]:
        """The first message, which has no type."""
        (length,) = struct.unpack("!I", self._exactly(4))
        body = self._exactly(length - 4)
        return struct.unpack("!I", body[:4])[0], body[4:]

    def message(self) -> tuple[bytes, bytes]:
        kind = self._exactly(1)
        (length,) = struct.unpack("!I", self._exactly(4))
        return kind, self._exactly(length - 4)

    def arrived(self) -> list[tuple[bytes, bytes]]:
        """The messages that are here as a whole. The rest of one may come only after the other side was heard."""
        messages: list[tuple[bytes, bytes]] = []
        while len(self._buffer) >= 5 and len(self._buffer) > struct.unpack("!I", self._buffer[1:5])[0]:
            messages.append(self.message())
        return messages

    def read(self) -> None:
        data = self.sock.recv(65536)
        if not data:
            raise ConnectionError
        self._buffer += data

    def _exactly(self, n: int) -> bytes:
        while len(self._buffer) < n:
            self.read()
        taken, self._buffer = self._buffer[:n], self._buffer[n:]
        return taken


class Backend(Stream):
    """A session of the server, with what it said when it began."""

    def __init__(self, port: int, startup: bytes) -> None:
        super().__init__(socket.create_connection(("127.0.0.1", port)))
        self.send(struct.pack("!II", len(startup) + 8, _STARTUP) + startup)
        self.greeting: list[tuple[bytes, bytes]] = []
        while not self.greeting or self.greeting[-1][0] not in {b"Z", b"E"}:
            self.greeting.append(self.message())

    def ask(self, sql: str) -> list[str]:
        """Run a query of one column of text."""
        text = sql.encode() + b"\0"
        self.send(framed(b"Q", text))
        rows = []
        while True:
            kind, body = self.message()
            if kind == b"D":
                rows.append(body[6:].decode())
            if kind == b"E":
                raise AssertionError(body)
            if kind == b"Z":
                return rows


class Pooler:
    """Listens on `port`, for the PostgreSQL at another port of this machine, which asks for no password."""

    def __init__(self, server_port: int, backends: int = 3) -> None:
        self._server_port = server_port
        self._size = backends
        self._lock = threading.Condition()
        self._idle: dict[bytes, list[Backend]] = {}
        self._made: dict[bytes, int] = {}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.transactions = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        for backend in [backend for group in self._idle.values() for backend in group]:
            backend.sock.close()

    def leftovers(self) -> set[str]:
        """The session state that is left in idle backends; a client that keeps to its transactions leaves none."""
        with self._lock:
            return {state for group in self._idle.values() for backend in group for state in backend.ask(_LEFTOVERS)}

    # -- backends

    def _borrow(self, startup: bytes) -> Backend:
        """The backend that was idle for longest, so that no transaction follows another on the same one."""
        with self._lock:
            idle = self._idle.setdefault(startup, [])
            if self._made.get(startup, 0) < self._size:
                self._made[startup] = self._made.get(startup, 0) + 1
                return Backend(self._server_port, startup)
            while not idle:
                self._lock.wait()
            return idle.pop(0)

    def _give_back(self, startup: bytes, backend: Backend, *, broken: bool = False) -> None:
        with self._lock:
            if broken:
                backend.sock.close()
                self._made[startup] -= 1
            else:
                self._idle[startup].append(backend)
            self._lock.notify()

    # -- clients

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(Stream(sock),), daemon=True).start()

    def _serve(self, client: Stream) -> None:
        with suppress(OSError, ConnectionError), client.sock:
            code, startup = client.startup()
            while code in {_SSL, _GSS}:
                client.send(b"N")
                code, startup = client.startup()
            if code == _CANCEL:
                return
            if b"options\0" in startup:
                text = b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0"
                client.send(framed(b"E", text))
                return
            self._greet(client, startup)
            while True:
                self._transaction(client, startup)

    def _greet(self, client: Stream, startup: bytes) -> None:
        backend = self._borrow(startup)
        failed = backend.greeting[-1][0] == b"E"
        for kind, body in backend.greeting:
            ours = struct.pack("!II", random.getrandbits(31), random.getrandbits(31))
            client.send(framed(kind, ours if kind == b"K" else body))
        self._give_back(startup, backend, broken=failed)
        if failed:
            raise ConnectionError

    def _transaction(self, client: Stream, startup: bytes) -> None:
        """Pass messages to and fro until the backend is idle again."""
        first = client.message()
        if first[0] == b"X":
            raise ConnectionError
        backend = self._borrow(startup)
        self.transactions += 1
        try:
            _relay(client, backend, first)
        except BaseException:
            self._give_back(startup, backend, broken=True)
            raise
        self._give_back(startup, backend)


def _relay(client: Stream, backend: Backend, first: tuple[bytes, bytes]) -> None:
    awaited = 0  # how many of the client's messages are still to be answered with "ready for query"
    asked = [first]
    while True:
        for kind, body in (*asked, *client.arrived()):
            if kind == b"X":
                raise ConnectionError
            awaited += kind in {b"Q", b"S"}
            backend.send(framed(kind, body))
        asked = []
        for kind, body in backend.arrived():
            client.send(framed(kind, body))
            if kind == b"Z":
                awaited -= 1
                if not awaited and body == b"I":
                    return
        readable, _, _ = select.select([client.sock, backend.sock], [], [])
        for side in (client, backend):
            if side.sock in readable:
                side.read()


def framed(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body
