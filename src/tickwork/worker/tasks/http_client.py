"""HTTP client of the built-in tasks, on the event loop. It connects through an `Egress` and limits response bodies.

It uses no cookies, proxies, netrc or compression, so the request is sent exactly as given. A body is read up to a limit
and the connection is then closed, so that an endless body costs no more than a long one.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import httpcore2

from tickwork.core.web.answer import REDIRECT_LIMIT, REDIRECTS, after_redirect, for_another_origin, is_expected
from tickwork.core.web.url import Url, redirected
from tickwork.errors import Fatal, InvalidArguments, InvalidInput, RequestFailed
from tickwork.worker.tasks.egress import Egress

BODY_LIMIT = 64 * 1024


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request. `expect`: the statuses that are a success (core/web/answer.py); `hidden`: the values to mask."""

    method: str
    url: Url
    headers: dict[str, str]
    content: bytes | None = None
    expect: tuple[int | str, ...] = ()
    connect_s: float = 10.0
    whole_s: float = 30.0
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IncomingResponse:
    """A response. `content` is the beginning of its body; `truncated`: the body was longer."""

    status: int
    headers: list[tuple[str, str]] = field(default_factory=list)
    content: bytes = b""
    truncated: bool = False

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)


@dataclass(frozen=True, slots=True)
class HttpClient:
    """Sends requests. `ca_file` contains the trusted certificates; None means those of the system."""

    egress: Egress
    ca_file: str | None = None

    async def send(self, request: OutgoingRequest) -> IncomingResponse:
        """Send a request and follow its redirects, within its timeout.

        Raises RequestFailed if a retry may succeed, otherwise Fatal.
        """
        try:
            async with asyncio.timeout(request.whole_s):
                return await self._follow(request)
        except TimeoutError:
            raise RequestFailed(f"{_told(request)} took longer than {request.whole_s:g} s.") from None
        except (Fatal, RequestFailed) as error:
            error.args = (hiding(str(error), request.hidden),)
            raise error.with_traceback(None) from None  # the frames of libraries do not help to find the cause

    async def _follow(self, request: OutgoingRequest) -> IncomingResponse:
        """Send a request and follow its redirects."""
        first, asked = request.url, request
        for _ in range(REDIRECT_LIMIT + 1):
            answer = await self._once(asked)
            location = answer.header("location")
            if answer.status not in REDIRECTS or location is None or is_expected(answer.status, request.expect):
                return answer
            asked = _sent_on(asked, answer.status, location)
        raise Fatal(f"{request.method} {first.shown} was sent on more than {REDIRECT_LIMIT} times.")

    async def _once(self, request: OutgoingRequest) -> IncomingResponse:
        """Send a request on a new connection and return its response, without following redirects."""
        url = request.url
        pool = httpcore2.AsyncConnectionPool(_trust(self.ca_file), network_backend=_GuardedBackend(self.egress))
        where = httpcore2.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target)
        headers = [("Host", url.authority), *request.headers.items(), ("Connection", "close")]
        timeouts = {"connect": request.connect_s}
        try:
            async with (
                pool,
                pool.stream(
                    request.method,
                    where,
                    headers=[(name.encode("ascii"), value.encode("latin-1")) for name, value in headers],
                    content=request.content,
                    extensions={"timeout": timeouts},
                ) as response,
            ):
                content, truncated = await _beginning(response)
                found = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers]
                return IncomingResponse(response.status, found, content, truncated)
        except httpcore2.TimeoutException:
            raise RequestFailed(f"{_told(request)} got no connection within {request.connect_s:g} s.") from None
        except (httpcore2.NetworkError, httpcore2.ProtocolError, OSError) as error:
            raise RequestFailed(f"{_told(request)} failed: {_why(error)}.") from None


class _GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Network backend that resolves, checks and connects through an `Egress`."""

    def __init__(self, egress: Egress) -> None:
        self._egress = egress
        self._network = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        *others, last = await asyncio.to_thread(self._egress.addresses, host, port)
        for address in others:
            with suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
                return await self._network.connect_tcp(str(address), port, timeout)
        return await self._network.connect_tcp(str(last), port, timeout)


async def _beginning(response: httpcore2.Response) -> tuple[bytes, bool]:
    """Read the body up to its limit; return it, and whether it was longer."""
    data = bytearray()
    async for chunk in response.aiter_stream():
        data += chunk
        if len(data) > BODY_LIMIT:
            return bytes(data[:BODY_LIMIT]), True
    return bytes(data), False


def _sent_on(request: OutgoingRequest, status: int, location: str) -> OutgoingRequest:
    """Return the request that follows a redirect, without credentials if the host differs. Raises Fatal."""
    try:
        url = redirected(request.url, location)
    except InvalidArguments as error:
        raise Fatal(f"{_told(request)} was sent on to nowhere: {error}") from None
    if request.url.scheme == "https" and url.scheme == "http":
        raise Fatal(f"{_told(request)} was sent on to {url.shown}, which is not encrypted: that was not followed.")
    method = after_redirect(status, request.method)
    content = request.content if method == request.method else None
    headers = request.headers
    if url.origin != request.url.origin:
        told = for_another_origin(headers)
        headers = {name: value for name, value in told.items() if not any(one in value for one in request.hidden)}
    if content is None:
        headers = {name: value for name, value in headers.items() if name.lower() != "content-type"}
    return replace(request, method=method, url=url, headers=headers, content=content)


def hiding(text: str, hidden: Iterable[str]) -> str:
    """Return a text with the `hidden` values masked."""
    for one in hidden:
        text = text.replace(one, "***")
    return text


def _told(request: OutgoingRequest) -> str:
    return f"{request.method} {request.url.shown}"


def _why(error: BaseException) -> str:
    """Return the cause of a connection error, as a text that contains nothing of the request."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({cause.verify_message})"
        if isinstance(cause, OSError) and cause.errno:
            return os.strerror(cause.errno)
        cause = cause.__cause__ or cause.__context__
    return "the connection ended early" if isinstance(error, httpcore2.ProtocolError) else "the connection failed"


@lru_cache(maxsize=4)
def _trust(ca_file: str | None) -> ssl.SSLContext:
    """Return the TLS context with the trusted certificates; cached, because reading them is slow."""
    try:
        return httpcore2.default_ssl_context() if ca_file is None else ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise InvalidInput(f"http_ca names {ca_file}, whose certificates cannot be read: {error}.") from None
