"""The table of routes as an ASGI application: it authorizes, reads, handles and answers each request."""

from __future__ import annotations

import logging
import secrets
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from functools import cache, lru_cache, partial
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.routing import Route as Path
from starlette.types import Scope

from tickwork.app import Tickwork
from tickwork.context import creating_as
from tickwork.errors import InvariantBroken, StoreError, TickworkError
from tickwork.http.auth.access import NOBODY, Caller, allowed, is_open
from tickwork.http.connections.bodies import SMALL, capacity_share, small_size
from tickwork.http.framework.conditional import conditional_response
from tickwork.http.framework.openapi import document, page
from tickwork.http.framework.problems import Problem, problem_of
from tickwork.http.framework.route import IDEMPOTENCY_HEADER, NoCredentials, Route
from tickwork.http.idempotency import once, repeat_key
from tickwork.http.request import Call, arguments, body_of, recorded, response
from tickwork.http.server_context import ServerContext
from tickwork.http.static_ui import routes as pages
from tickwork.observe.metrics_table import HTTP

_log = logging.getLogger("tickwork.http")
T = TypeVar("T")
Endpoint = Callable[[Request], Awaitable[Response]]

# Headers of every answer. A page sets a content policy of its own.
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class EscapedPath(Path):
    """A route path whose parameters may contain slashes as `%2F`; such a slash does not separate segments."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        said: bytes = scope.get("raw_path") or b""
        if b"%2f" not in said.lower():
            return super().matches(scope)
        parts = [unquote(part) for part in said.decode("latin-1").split("/")]
        path = "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)
        match, found = super().matches({**scope, "path": path})
        names = {name: unquote(value) for name, value in found.get("path_params", {}).items()}
        return match, {**found, "path_params": names} if found else found


def asgi(app: Tickwork, parts: ServerContext, routes: Sequence[Route]) -> Starlette:
    """Return the ASGI application that serves these routes on the store of an app."""
    by_path: dict[str, dict[str, Route]] = defaultdict(dict)
    for route in routes:
        by_path[route.path][route.method] = route
    paths = [
        EscapedPath(path, _endpoint(app, parts, methods), methods=list(methods)) for path, methods in by_path.items()
    ]
    made = Starlette(
        routes=[*paths, *(Path(one.path, _shown(one.endpoint)) for one in pages())],
        exception_handlers={HTTPException: _refused},
    )
    made.router.redirect_slashes = False
    made.state.document, made.state.docs_page = _described(routes)
    return made


def _described(routes: Sequence[Route]) -> tuple[Callable[[], bytes], Callable[[str], bytes]]:
    """Return functions that build the OpenAPI document and its HTML page on first request."""

    @cache
    def document_json() -> bytes:
        return msgspec.json.encode(document(routes))

    @lru_cache(maxsize=4)  # the prefix is a setting of the server
    def docs_page(prefix: str) -> bytes:
        return page(msgspec.json.decode(document_json()), prefix).encode()

    return document_json, docs_page


def _endpoint(app: Tickwork, parts: ServerContext, methods: dict[str, Route]) -> Endpoint:
    """Return the endpoint of one path, which calls the route of the request's method and turns errors into problems."""

    async def endpoint(request: Request) -> Response:
        route = methods["GET" if request.method == "HEAD" else request.method]
        request_id, began = secrets.token_hex(8), parts.clock.monotonic()
        try:
            answer = conditional_response(route, request, await _handled(app, parts, route, request, request_id))
        except Problem as problem:
            if parts.refused.admits(route, problem):
                await run_in_threadpool(parts.refused.record, route, request, problem, request_id)
            answer = problem.response(request_id)
        except TickworkError as error:
            if isinstance(error, InvariantBroken | StoreError):
                _log.error("request %s: %s", request_id, error)
            answer = problem_of(error).response(request_id)
        except Exception:
            _log.exception("request %s (%s) failed", request_id, route.name)
            said = f"this is a fault of the server; its log knows more, under {request_id}."
            answer = Problem(500, "internal", said).response(request_id)
        labels = (route.name, route.method, str(answer.status_code))
        parts.tally.spread(HTTP, labels, parts.clock.monotonic() - began)
        return _with_headers(answer, request_id)

    return endpoint


async def _handled(app: Tickwork, parts: ServerContext, route: Route, request: Request, request_id: str) -> Response:
    """Authenticate the caller, read the body and call the handler; return the response."""
    size = small_size(request)
    has_key = IDEMPOTENCY_HEADER in request.headers
    if not route.is_async and not has_key and size is not None and parts.unauthenticated_bodies.take(size):
        try:
            return await _in_one_go(app, parts, route, request, request_id)
        finally:
            parts.unauthenticated_bodies.give_back(size)
    call = Call(app, parts, await _known_caller(parts, route, request), request, request_id)
    key = repeat_key(route, request)
    is_stranger = isinstance(route.access, NoCredentials)  # whether it sent credentials or not: they were not checked
    with capacity_share(parts.unauthenticated_bodies if is_stranger else parts.bodies) as share:
        data = await body_of(route, request, share)
        if not route.is_async:
            carry_out = partial(_off_loop, parts, data, _run, call, route, data)
            return await carry_out() if key is None else await once(call, key, data, carry_out)
        given = (
            await _off_loop(parts, data, arguments, route, request, data) if data else arguments(route, request, b"")
        )
    with creating_as(call.who.name):
        return response(route, await route.handler(call, **given))


async def _in_one_go(app: Tickwork, parts: ServerContext, route: Route, request: Request, request_id: str) -> Response:
    """Read a small body before the caller is authenticated, then do all other work in one call on a thread."""
    data, refusal = b"", None
    try:
        data = await body_of(route, request, None)
    except Problem as problem:
        refusal = problem

    def all_of_it() -> Response:
        call = Call(app, parts, _caller(parts, route, request), request, request_id)
        if refusal is not None:
            raise refusal
        return _run(call, route, data)

    return await run_in_threadpool(all_of_it)


async def _known_caller(parts: ServerContext, route: Route, request: Request) -> Caller:
    """Return the caller as `_caller` does, but without a thread if access is open: probes must not wait for one."""
    if is_open(parts.open_scopes, route.access, request):
        return NOBODY
    return await run_in_threadpool(_caller, parts, route, request)


def _caller(parts: ServerContext, route: Route, request: Request) -> Caller:
    """Return the authenticated caller. Raises Problem if the caller has no access."""
    if is_open(parts.open_scopes, route.access, request):
        return NOBODY
    return allowed(route.access, parts.access.caller(request))


async def _off_loop(parts: ServerContext, data: bytes, function: Callable[..., T], *args: Any) -> T:
    """Call a function that decodes a body on a thread.

    Only a few large bodies are decoded at a time, since they take more memory as objects.
    """
    if len(data) <= SMALL:
        return await run_in_threadpool(function, *args)
    async with parts.large_bodies:
        return await run_in_threadpool(function, *args)


def _run(call: Call, route: Route, data: bytes) -> Response:
    """Call a handler with its arguments; store its changes and their audit log rows in one transaction."""
    given = arguments(route, call.request, data)
    with creating_as(call.who.name):
        if not route.is_audited:
            return response(route, route.handler(call, **given))
        return response(route, recorded(call, route.name, lambda: route.handler(call, **given)))


def _shown(page: Endpoint) -> Endpoint:
    """Return an endpoint of the web UI that adds the headers that every answer has."""

    async def endpoint(request: Request) -> Response:
        return _with_headers(await page(request), secrets.token_hex(8))

    return endpoint


async def _refused(request: Request, error: Exception) -> Response:
    """Return the problem for a request that the router refuses: an unknown path, or a method that a path lacks."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    code, said = {
        404: ("not-found", "there is nothing here. The document at /api/v1/openapi.json lists what there is."),
        405: ("wrong-method", f"this takes {headers.get('Allow', 'other methods')}."),
    }.get(status, ("refused", str(error)))
    request_id = secrets.token_hex(8)
    return _with_headers(Problem(status, code, said, headers=headers).response(request_id), request_id)


def _with_headers(answer: Response, request_id: str) -> Response:
    for name, value in _HEADERS.items():
        answer.headers.setdefault(name, value)
    answer.headers["X-Request-Id"] = request_id
    return answer
