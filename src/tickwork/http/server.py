"""`tickwork server`: serves the routes on a socket and runs the services of every process until it is stopped."""

from __future__ import annotations

import resource
import secrets
import signal
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from types import FrameType
from typing import NamedTuple

import uvicorn

from tickwork.api.schedule_rules import every
from tickwork.app import Tickwork
from tickwork.clock import SystemClock
from tickwork.core.access.scopes import Scope
from tickwork.core.stats.canary import NAME as CANARY
from tickwork.core.web.addresses import read_proxies
from tickwork.errors import InvalidInput
from tickwork.http.asgi import asgi
from tickwork.http.auth.access import Access, is_loopback
from tickwork.http.connections.acceptor import BoundedServer
from tickwork.http.connections.connection_limits import MOST, MOST_TLS, Connections, connection_limits
from tickwork.http.connections.log_limit import limited_logs
from tickwork.http.connections.timeouts import BoundedProtocol, in_pieces
from tickwork.http.routes import ROUTES
from tickwork.http.server_context import ServerContext, build_context
from tickwork.services.audit_sink import AuditSink
from tickwork.services.runner import Runner
from tickwork.services.start_services import start_services
from tickwork.services.stats_rollup import StatsRollup

PORT = 8700
DRAIN_S = 5  # for requests that run when the server is stopped
KEEP_ALIVE_S = 30
_BACKLOG = 2048
_KERNEL_KEEPS = 256 * 1024  # bytes, the send buffer of a connection; by default it grows to 4 MB


class Tls(NamedTuple):
    """The file of a certificate with its intermediate certificates, and the file of its private key."""

    cert: str
    key: str


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The address to listen on, the path prefix of a proxy, and a certificate if the server itself speaks TLS."""

    host: str = "127.0.0.1"
    port: int = PORT
    root_path: str = ""
    tls: Tls | None = None


def serve(app: Tickwork, access: Access, options: ServerOptions, started: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, then finish running requests. `started` is called with the address."""
    if options.tls is not None:
        check_tls(options.tls)
    open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST if options.tls is None else MOST_TLS
    connections = Connections(connection_limits(open_files, *app.settings.connection_caps, most))
    listening = _listen(options.host, options.port)
    clock, rng = SystemClock(), Random(secrets.randbits(64))
    opened = frozenset({Scope.METRICS}) if is_loopback(options.host) else frozenset()
    parts = build_context(app, access, clock, rng, opened)
    runner = Runner(clock, rng, parts.ticks)
    try:
        _end_on_signals()
        release_canary(app)
        runner.start(parts.pulse)
        runner.start(parts.store_counts)
        runner.start(parts.refusals)
        runner.start(parts.refused)
        runner.start(StatsRollup(app.store, clock))
        if app.settings.audit_sink is not None:
            runner.start(AuditSink(app.store, app.settings.audit_sink, secrets.token_hex(8)))
        start_services(runner, app.store, clock, rng, tally=parts.tally, settings=app.settings)
        started(_address(listening, "http" if options.tls is None else "https"))
        with limited_logs(clock):
            _Server(uvicorn_config(app, parts, options), connections, parts).run([listening])
    finally:
        runner.stop()
        listening.close()
        app.close()


def uvicorn_config(app: Tickwork, parts: ServerContext, options: ServerOptions) -> uvicorn.Config:
    """Return the configuration of uvicorn: the routes, TLS, and the trusted proxies."""
    tls: dict[str, str] = {}
    if options.tls is not None:
        tls = {"ssl_certfile": options.tls.cert, "ssl_keyfile": options.tls.key}
    return uvicorn.Config(
        in_pieces(asgi(app, parts, ROUTES)),
        root_path=options.root_path,
        proxy_headers=True,
        forwarded_allow_ips=[str(one) for one in read_proxies(app.settings.trusted_proxies)],
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        http=BoundedProtocol,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=DRAIN_S,
        **tls,  # type: ignore[arg-type]
    )


def check_tls(tls: Tls) -> None:
    """Raise InvalidInput if the files are not a certificate and its key, or the key has a password."""
    try:
        # Without the empty password, OpenSSL would ask for the password of a key at the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.cert, tls.key, password="")
    except OSError as error:  # includes ssl.SSLError
        raise InvalidInput(
            f"{tls.cert} and {tls.key} cannot be used for TLS: {error.strerror or error}. Give a certificate and its "
            f"key as PEM files, the key without a password."
        ) from None


def _end_on_signals() -> None:
    """Make SIGTERM and Ctrl-C raise SystemExit.

    Uvicorn sends a signal again after it has handled it. By default, that would kill the process before its services
    have ended and its store is closed.
    """

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(0)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, end)


def release_canary(app: Tickwork) -> None:
    """Schedule the canary job, which does nothing, if the settings give its interval."""
    if app.settings.canary is not None:
        about = "measures how soon work starts that is due"
        app.schedule(CANARY, CANARY, every(app.settings.canary), catchup="none", overlap="skip", description=about)


class _Server(BoundedServer):
    """A server that ends long polls and streams before it waits for running requests."""

    def __init__(self, config: uvicorn.Config, connections: Connections, parts: ServerContext) -> None:
        super().__init__(config, connections)
        self._parts = parts

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._parts.stopping.set()
        self._parts.long_polls.stop()
        await super().shutdown(sockets)
        await self._parts.long_polls.close()


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening TCP socket. Raises InvalidInput if the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets with this protocol; without it, small answers are delayed by 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_KEEPS)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise InvalidInput(
            f"nothing can listen on {host}:{port}: {error.strerror}. Name another port: --port {PORT + 1}."
        ) from None
    return listening


def _address(listening: socket.socket, scheme: str) -> str:
    host, port = listening.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
