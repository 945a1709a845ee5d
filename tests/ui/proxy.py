"""A proxy that shows a server under a prefix and strips it, as people set theirs up. All else is not found."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

_OF_ONE_HOP = {"connection", "transfer-encoding", "keep-alive"}


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # a page asks for all of its files at once; who finds no room tries again a second later


@contextmanager
def proxied(address: str, prefix: str) -> Iterator[str]:
    """The address, with the prefix, under which a browser finds the server."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self.path.startswith(f"{prefix}/"):
                self.send_error(404)
                return
            upstream = http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)
            data = self.rfile.read(int(self.headers.get("content-length", 0)))
            upstream.request(self.command, self.path.removeprefix(prefix), data, dict(self.headers))
            answer = upstream.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _OF_ONE_HOP:
                    self.send_header(name, value)
            self.end_headers()
            try:
                while piece := answer.read1(65536):  # what comes is passed on at once: streams go on
                    self.wfile.write(piece)
            except (OSError, http.client.HTTPException):
                pass  # the browser has left
            finally:
                upstream.close()

        do_POST = do_PUT = do_DELETE = do_PATCH = do_GET

        def log_message(self, format: str, *args: Any) -> None: ...

    server = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{prefix}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
