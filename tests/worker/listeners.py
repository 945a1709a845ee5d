"""Servers on loopback for the tests of tasks that reach out: they answer as told, and remember who came."""

import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Came:
    """One request that arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Web:
    """A web server: `answer` is called for each request, with the handler of http.server, and writes the answer."""

    port: int
    came: list[Came] = field(default_factory=list)
    connections: int = 0

    def url(self, path: str = "/", host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"


Answer = Callable[[BaseHTTPRequestHandler, Came], None]


def says(status: int, body: bytes = b"", **headers: str) -> Answer:
    """An answer that is always the same."""

    def answer(handler: BaseHTTPRequestHandler, came: Came) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


@contextmanager
def web(answer: Answer, tls: ssl.SSLContext | None = None) -> Iterator[Web]:
    """A web server on loopback, while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except OSError:  # the client has gone
                self.close_connection = True

        def _handle(self) -> None:
            length = int(self.headers.get("Content-Length", "0"))
            came = Came(self.command, self.path, dict(self.headers.items()), self.rfile.read(length))
            there.came.append(came)
            answer(self, came)

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _handle

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def process_request(self, request, client_address) -> None:  # type: ignore[no-untyped-def]
            there.connections += 1
            super().process_request(request, client_address)

        def handle_error(self, request, client_address) -> None:  # type: ignore[no-untyped-def]
            """A client that goes away is nothing to print."""

    with Server(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        there = Web(server.server_address[1])
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield there
        finally:
            server.shutdown()


@contextmanager
def listener() -> Iterator[list[int]]:
    """A port that must get no connection: its number, and then one entry for each connection."""
    seen: list[int] = []

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            seen.append(1)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        seen.append(server.server_address[1])
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield seen
        finally:
            server.shutdown()
