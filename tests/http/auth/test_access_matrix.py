"""Every route of the table, called by everybody in every way: what is answered is what the table declares.

The guard is the real one, on the real table; behind it stands a handler that answers 204. So 204 means: let in.
"""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import unquote

import pytest
from starlette.applications import Starlette
from starlette.responses import Response

from tickwork import Tickwork
from tickwork.core.access.scopes import ROLES
from tickwork.errors import InvariantBroken
from tickwork.http.asgi import asgi
from tickwork.http.auth.access import StoreAccess
from tickwork.http.framework.route import AnyCredentials, NoCredentials, Route, Routes, Scope
from tickwork.http.request import Call
from tickwork.http.routes import ROUTES
from tickwork.http.server_context import ServerContext
from tickwork.security.credentials import create_key

LET_IN, UNKNOWN, FORBIDDEN = 204, 401, 403


def let_in(call: Call) -> Response:
    return Response(status_code=LET_IN)


def bare(route: Route) -> Route:
    """A route as it is guarded, with nothing behind it."""
    return replace(route, handler=let_in, body=None, query=None, names=(), is_audited=False)


class Who(NamedTuple):
    """A caller: the header that it sends, and the scopes that the header grants; None: the header is not valid."""

    header: bytes | None
    scopes: frozenset[Scope] | None


@pytest.fixture
def people(app: Tickwork) -> dict[str, Who]:
    store = app.store

    def key(name: str, scopes: frozenset[Scope], lasts: timedelta | None = None) -> bytes:
        return create_key(store, name, list(scopes), lasts, "test")[0].encode()

    found = {
        "none": Who(None, None),
        "empty": Who(b"Bearer ", None),
        "malformed": Who(b"Bearer twk_x", None),
        "basic": Who(b"Basic YTpi", None),
        "non-ASCII": Who(b"Bearer twk_abc_\xe9\xff\x00", None),
        "unknown": Who(b"Bearer twk_0123456789ab_" + b"x" * 43, None),
    }
    for role, scopes in ROLES.items():
        found[role] = Who(b"Bearer " + key(role, scopes), scopes)
    for scope in Scope:
        found[f"only {scope}"] = Who(
            b"Bearer " + key(f"only-{scope}", frozenset({scope})),
            frozenset(Scope) if scope is Scope.ADMIN else frozenset({scope}),
        )
    found["wrong secret"] = Who((found["admin"].header or b"")[:-1] + b"~", None)
    revoked = key("revoked", ROLES["admin"])
    store.access.revoke_api_key(next(one.id for one in store.access.list_api_keys() if one.name == "revoked"))
    found["revoked"] = Who(b"Bearer " + revoked, None)
    found["expired"] = Who(b"Bearer " + key("expired", ROLES["admin"], timedelta(microseconds=1)), None)
    return found


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


@pytest.fixture
def guarded(app: Tickwork, parts: ServerContext) -> Starlette:
    return asgi(app, replace(parts, access=StoreAccess(app)), [bare(route) for route in ROUTES])


async def status(
    served: Starlette,
    method: str,
    raw: str,
    who: Who,
    *headers: tuple[bytes, bytes],
    host: bytes = b"tickwork.test",
    client: str = "192.0.2.1",
) -> int:
    """Return the response to a request with exactly this path, as uvicorn passes it on."""
    path, _, query = raw.partition("?")
    sent = [(b"host", host), *headers]
    if who.header is not None:
        sent.append((b"authorization", who.header))
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": unquote(path),
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "scheme": "http",
        "headers": sent,
        "client": (client, 1),
        "server": ("tickwork.test", 80),
    }
    answers: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            answers.append(message["status"])

    await served(scope, receive, send)
    return answers[0]


def filled(route: Route) -> str:
    return re.sub(r"{\w+(:path)?}", "x", route.path)


def declared(route: Route, who: Who) -> int:
    """The access that the table of routes declares."""
    if isinstance(route.access, NoCredentials):
        return LET_IN
    if who.scopes is None:
        return UNKNOWN
    return LET_IN if isinstance(route.access, AnyCredentials) or route.access in who.scopes else FORBIDDEN


def test_everybody_is_answered_as_the_table_declares(
    guarded: Starlette, people: dict[str, Who], loop: asyncio.AbstractEventLoop
) -> None:
    async def everybody() -> dict[tuple[str, str, str], tuple[int, int]]:
        found = {}
        for route in ROUTES:
            for name, who in people.items():
                got, expected = await status(guarded, route.method, filled(route), who), declared(route, who)
                if got != expected:
                    found[name, route.method, route.path] = (got, expected)
        return found

    assert loop.run_until_complete(everybody()) == {}
    assert {declared(route, who) for route in ROUTES for who in people.values()} == {LET_IN, UNKNOWN, FORBIDDEN}


PUBLIC = ("/healthz", "/readyz", "/api/v1/openapi.json", "/api/v1/session", "/login", "/static/x.js", "/favicon.ico")


def tricks(path: str) -> list[str]:
    """Ways to write a path that some servers take for another one."""
    head, _, tail = path.rpartition("/")
    found = [
        path + "/",
        path + "//",
        "/" + path,
        path.replace("/", "//"),
        f"{head}%2f{tail}",
        f"{head}%252f{tail}",
        path.replace("/", "%2f"),
        f"{head}/%2e/{tail}",
        f"{head}/./{tail}",
        f"{path}/..",
        f"{path}/%2e%2e",
        f"/healthz/..{path}",
        f"/healthz/%2e%2e{path}",
        f"/healthz%2f..{path}",
        f"{path};x",
        f"{path};/healthz",
        f"{path}%00",
        f"{path}%20",
        f"{path}.json",
        f"{path}?/healthz",
        path.upper(),
        path.replace("api", "API"),
        f"{head}/%{ord(tail[0]):02x}{tail[1:]}",
    ]
    return [*found, *(path + public for public in PUBLIC), *(f"{path}?{public}" for public in PUBLIC)]


def pattern(route: Route) -> re.Pattern[str]:
    return re.compile(re.sub(r"{\w+:path}", ".*", re.sub(r"{\w+}", "[^/]+", route.path)), re.DOTALL)


PATTERNS = [(pattern(route), route) for route in ROUTES]


def named(method: str, raw: str) -> Route | None:
    """The route that a path names once its parts, which no quoted slash parts, are decoded; None: none does."""
    path = "/".join(unquote(part).replace("/", "%2F") for part in raw.partition("?")[0].split("/"))
    meant = {method, "GET" if method == "HEAD" else method}
    return next((route for one, route in PATTERNS if route.method in meant and one.fullmatch(path)), None)


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)  # paths are read before any store is asked
def test_no_way_to_write_a_path_leads_around_its_guard(
    guarded: Starlette, people: dict[str, Who], loop: asyncio.AbstractEventLoop
) -> None:
    some = [people[name] for name in ("none", "viewer")]

    async def everything() -> list[Any]:
        wrong: list[Any] = []
        for route in ROUTES:
            for raw in tricks(filled(route)):
                for who in some:
                    got, meant = await status(guarded, route.method, raw, who), named(route.method, raw)
                    expected = {404, 405} if meant is None else {declared(meant, who)}
                    if "?" in raw and LET_IN in expected:
                        expected = {422}  # an unknown parameter is refused, after access is granted
                    if got not in expected:
                        wrong.append((route.method, raw, who, got, expected))
        return wrong

    assert loop.run_until_complete(everything()) == []


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_other_methods_are_guarded_or_not_there(
    guarded: Starlette, people: dict[str, Who], loop: asyncio.AbstractEventLoop
) -> None:
    async def everything() -> list[Any]:
        wrong: list[Any] = []
        methods = ("HEAD", "OPTIONS", "TRACE", "CONNECT", "PUT", "PATCH", "DELETE", "POST", "GET", "get", "JUNK")
        overrides = [
            (b"x-http-method-override", b"GET"),
            (b"x-original-url", b"/healthz"),
            (b"x-rewrite-url", b"/healthz"),
        ]
        for route in ROUTES:
            for method in methods:
                who, meant = people["none"], named(method, filled(route))
                got = await status(guarded, method, filled(route), who, *overrides)
                expected = {404, 405} if meant is None else {declared(meant, who)}
                if got not in expected:
                    wrong.append((method, route.path, got, expected))
        return wrong

    assert loop.run_until_complete(everything()) == []


def test_a_route_that_does_not_say_who_may_call_it_cannot_be_built() -> None:
    routes = Routes("x")

    def handler(call: Call) -> None:
        """Do nothing."""

    with pytest.raises(TypeError):
        routes.get("/x")(handler)  # type: ignore[call-arg]
    for nothing in (None, "admin", "", True):
        with pytest.raises(InvariantBroken, match="does not declare its access"):
            routes.get("/x", nothing)(handler)  # type: ignore[arg-type]
    assert routes.all == []


def test_the_names_of_operations_are_unique_for_the_audit_log() -> None:
    names = [route.name for route in ROUTES]
    assert len(names) == len(set(names))


def test_metrics_are_open_on_loopback_alone_and_only_under_its_name(
    app: Tickwork, parts: ServerContext, people: dict[str, Who], loop: asyncio.AbstractEventLoop
) -> None:
    routes = Routes("metrics", prefix="")

    @routes.get("/metrics", Scope.METRICS)
    def metrics(call: Call) -> None:
        """Measure."""

    @routes.get("/other", Scope.READ)
    def other(call: Call) -> None:
        """Read."""

    closed = asgi(app, parts, routes.all)
    opened = asgi(app, replace(parts, open_scopes=frozenset({Scope.METRICS})), routes.all)

    def get(served: Starlette, path: str, host: bytes, client: str = "127.0.0.1") -> int:
        return loop.run_until_complete(status(served, "GET", path, people["none"], host=host, client=client))

    assert get(closed, "/metrics", b"127.0.0.1:8700") == UNKNOWN
    assert get(opened, "/metrics", b"127.0.0.1:8700") == LET_IN
    assert get(opened, "/metrics", b"localhost:8700") == LET_IN
    assert get(opened, "/metrics", b"[::1]:8700") == LET_IN
    assert get(opened, "/metrics", b"evil.example:8700") == UNKNOWN, "a page whose name was made to lead here"
    assert get(opened, "/other", b"localhost") == UNKNOWN
    assert get(opened, "/metrics", b"localhost", "203.0.113.7") == UNKNOWN, "a proxy says that it came from elsewhere"
