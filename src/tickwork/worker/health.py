"""Serve the health and metrics endpoints of a worker on its own port: /healthz, /readyz, /metrics.

Ready means that the lease was renewed recently, not only that the process exists.
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tickwork.clock import Clock
from tickwork.errors import InvalidInput
from tickwork.observe import metrics_table
from tickwork.observe.counters import Counters, exposition
from tickwork.store.base import ConnectionCounts
from tickwork.worker.lease import Lease

_log = logging.getLogger("tickwork.worker")
_WAIT_S = 5.0  # the socket timeout of a connection
MOST = 16  # the limit of open connections, each of which has a thread; probes need one or two


class WorkerHealth:
    """The answers of the health and metrics endpoints of one worker."""

    def __init__(
        self,
        lease: Lease,
        tally: Counters,
        clock: Clock,
        connections: Callable[[], ConnectionCounts] = ConnectionCounts,
    ) -> None:
        self._lease = lease
        self._tally = tally
        self._clock = clock
        self._connections = connections
        self._refused = 0  # refused connections of this process that the metric already includes

    def answer(self, path: str) -> tuple[int, bytes]:
        """Return the HTTP status and the body for a path."""
        match path:
            case "/healthz":
                return 200, b"ok\n"
            case "/readyz":
                return self._ready()
            case "/metrics":
                return 200, self._metrics()
            case _:
                return 404, b"there are /healthz, /readyz and /metrics\n"

    def _ready(self) -> tuple[int, bytes]:
        if self._lease.worker is not None and self._lease.left(self._clock.monotonic()) > 0:
            return 200, b"ok\n"
        return 503, b"the lease was not renewed lately: does the store answer?\n"

    def _metrics(self) -> bytes:
        since = self._clock.monotonic() - (self._lease.until - self._lease.duration.total_seconds())
        self._tally.set(metrics_table.HEARTBEAT_AGE, {(): since})
        counts = self._connections()
        self._tally.set(metrics_table.CONNECTIONS, {(): counts.open})
        self._tally.add(metrics_table.CONNECTIONS_REFUSED, (), counts.refused - self._refused)
        self._refused = counts.refused
        return exposition(self._tally)


class _HealthServer(ThreadingHTTPServer):
    """An HTTP server that closes the oldest connection above `MOST`, and does not log disconnected clients."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._lock = threading.Lock()
        self._open: dict[object, None] = {}  # the oldest first
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Accept a connection, and shut down the oldest if there are too many."""
        with self._lock:
            self._open[request] = None
            oldest = next(iter(self._open)) if len(self._open) > MOST else None
            if isinstance(oldest, socket.socket):
                del self._open[oldest]
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread then reads end-of-file, and closes the socket
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            _log.exception("A probe could not be answered")


def serve_health(where: str, health: WorkerHealth) -> ThreadingHTTPServer:
    """Start a thread that serves the endpoints on `PORT` of the loopback address, or on `ADDRESS:PORT`.

    Raises InvalidInput if it cannot listen there.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = _WAIT_S
        server_version, sys_version = "tickwork", ""

        def do_GET(self) -> None:
            status, body = health.answer(self.path.partition("?")[0])
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None: ...

    address, _, port = where.rpartition(":")
    try:
        server = _HealthServer((address or "127.0.0.1", int(port)), Handler)
    except (OSError, ValueError, OverflowError) as error:
        raise InvalidInput(
            f"--health-port {where}: nothing can listen there: {error}. Write 9090, or 0.0.0.0:9090."
        ) from None
    threading.Thread(target=server.serve_forever, name="tickwork-health", daemon=True).start()
    return server
