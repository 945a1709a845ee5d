"""A TCP proxy in front of a server on this machine that can stop answering while every connection stays open.

`mode` may be changed at any time, and holds for all connections, old and new:

- "open": everything passes.
- "silent": it accepts connections and bytes, and answers nothing, like a hung pooler. What it swallowed is lost.
- "deaf": requests still reach the server, and its answers are lost.
- "stuck": it does not even take bytes any more, as when all packets are dropped.

A connection over which something was lost never recovers, as with a connection whose other end is gone.
"""

import select
import socket
import threading
from contextlib import suppress
from typing import Literal, Self
from urllib.parse import urlsplit

Mode = Literal["open", "silent", "deaf", "stuck"]
_LOOK_S = 0.02


class SilentProxy:
    """Listens on `port`, for the server at another port of this machine."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._closed = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.mode: Mode = "open"
        self.accepted = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self._listener.close()

    def url(self, url: str) -> str:
        """The same database, through this proxy."""
        parts = urlsplit(url)
        user = f"{parts.username}@" if parts.username else ""
        return parts._replace(netloc=f"{user}127.0.0.1:{self.port}").geturl()

    def _accept(self) -> None:
        with suppress(OSError):
            while not self._closed:
                client, _ = self._listener.accept()
                self.accepted += 1
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client, socket.create_connection(("127.0.0.1", self._server_port)) as server:
            lost = False
            while not self._closed:
                lost = lost or self.mode in ("silent", "stuck")
                heard = [] if self.mode == "stuck" else [client, server]
                readable, _, _ = select.select(heard, [], [], _LOOK_S)
                for side in readable:
                    data = side.recv(65536)
                    if not data:
                        return
                    if side is client and not lost:
                        server.sendall(data)
                    elif side is server and not lost and self.mode == "open":
                        client.sendall(data)
                    elif side is server:
                        lost = True
