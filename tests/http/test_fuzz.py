"""The API, tried by its own document: whatever comes in is taken or refused in our own words, and nothing breaks.

SCHEMA_EXAMPLES is how many requests are made up for each operation and caller; `make soak` makes more of them.
"""

import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import (
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.testclient import TestClient

from tests.http.conftest import TOKEN
from tests.http.edges import spiced
from tickwork import Tickwork
from tickwork.clock import SystemClock
from tickwork.core.access.scopes import ROLES
from tickwork.http.asgi import asgi
from tickwork.http.auth.access import StoreAccess, TokenAccess
from tickwork.http.framework.route import NoCredentials, Route, Scope
from tickwork.http.routes import ROUTES
from tickwork.http.server_context import DatabasePulse, build_context
from tickwork.security.credentials import create_key

EXAMPLES = int(os.environ.get("SCHEMA_EXAMPLES", "4"))
CHECKS = [not_a_server_error, response_schema_conformance, status_code_conformance]
CALLERS = ("admin", "viewer", "enqueuer", "nobody")
IDS = {"jobs": "job", "dags/name/runs": "run"}  # what makes a thing whose id routes are about
DAG = """
dags:
  name:
    params: {a: {type: string, default: x}}
    steps:
      a: {task: a, args: {a: "${params.a}"}}
"""


class Tried(NamedTuple):
    """The OpenAPI document of a server, the headers of each caller, and a client with all scopes.

    `ids` are those of a run and of a job that are there.
    """

    document: Any
    pulse: DatabasePulse
    headers: dict[str, dict[str, str]]
    admin: TestClient
    ids: dict[str, str]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def api(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tried]:
    """A server on a store of its own, in which every wait is over at once."""
    folder: Path = tmp_path_factory.mktemp("fuzz")
    url = f"sqlite:///{folder}/fuzz.db"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_server").create_database(f"fuzz_{uuid.uuid4().hex}")
    app = Tickwork(url, upgrade=True)
    parts = build_context(app, StoreAccess(app, TokenAccess(TOKEN)), SystemClock(), Random(1))
    parts.stopping.set()
    viewer, _ = create_key(app.store, "viewer", list(ROLES["viewer"]), None, "test")
    enqueuer, _ = create_key(app.store, "enqueuer", [Scope.ENQUEUE], None, "test")
    tokens = {"admin": TOKEN, "viewer": viewer, "enqueuer": enqueuer}
    headers = {name: {"Authorization": f"Bearer {token}"} for name, token in tokens.items()}
    served = asgi(app, parts, ROUTES)
    document = schemathesis.openapi.from_asgi("/api/v1/openapi.json", served)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TICKWORK_SECRET_KEY", "0" * 64)  # else secrets on PostgreSQL cannot be set
        with TestClient(served, headers=headers["admin"]) as admin:
            yield Tried(document, parts.pulse, {**headers, "nobody": {}}, admin, {})


def stock(api: Tried) -> None:
    """Make one of everything, called "name": an earlier request may have deleted it."""
    for method, path, body in (
        ("POST", "dags", {"text": DAG}),
        ("POST", "users", {"name": "name", "role": "viewer", "password": "a" * 8}),
        ("PUT", "schedules/name", {"every": "1h", "task": "a"}),
        ("PUT", "hooks/name", {"style": "github", "secret": "A", "task": "a"}),
        ("PUT", "calendars/name", {"weekdays": ["sun"]}),
        ("PUT", "channels/name", {"kind": "webhook", "url": "https://x.example/"}),
        ("PUT", "notifications/name", {"on": "failed", "to": ["name"]}),
        ("PUT", "secrets/name", {"value": "abcdefgh"}),
        ("POST", "dags/name/runs", {}),
        ("POST", "jobs", {"task": "a"}),
    ):
        answer = api.admin.request(method, f"/api/v1/{path}", json=body)
        assert answer.status_code < 300 or path == "users", (path, answer.text)
        if path in IDS:
            api.ids[IDS[path]] = answer.json()["id"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_no_request_breaks_the_server_or_its_document(api: Tried, route: Route, caller: str) -> None:
    api.pulse.tick(0.0)

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), database=None)
    @given(case=api.document[route.path][route.method].as_strategy())
    def tried(case: Any) -> None:
        try_out(api, route, caller, case)

    tried()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_no_value_at_an_edge_breaks_the_server_or_its_document(api: Tried, route: Route, caller: str) -> None:
    api.pulse.tick(0.0)
    if caller == CALLERS[0] or not api.ids:
        stock(api)
    there = {"id": api.ids["run" if "/runs/" in route.path else "job"], "step": "a"}

    @settings(max_examples=max(1, EXAMPLES // 4), suppress_health_check=list(HealthCheck), database=None)
    @given(data=st.data(), case=api.document[route.path][route.method].as_strategy())
    def tried(data: Any, case: Any) -> None:
        try_out(api, route, caller, spiced(data.draw, case, there))

    tried()


RISKY = ("jobs", "jobs/batch", "dags", "dags/{name}/runs", "schedules/{name}", "hooks/{name}", "bulk", "limits/{name}")
RISKY_S = 12.0  # for each store and caller; a run of `make verify` tries other values each time


@pytest.mark.process
@pytest.mark.timeout(120)
@pytest.mark.parametrize("caller", ["admin", "enqueuer"])
def test_many_values_at_edges_break_no_route_that_reads_much(api: Tried, caller: str) -> None:
    """The time is bounded, and not the number of examples: how many fit depends on the machine."""
    routes = [one for one in ROUTES if one.body is not None and one.path.removeprefix("/api/v1/") in RISKY]
    assert len(routes) >= 6
    until, tried = time.monotonic() + RISKY_S, 0
    while time.monotonic() < until:
        api.pulse.tick(0.0)
        stock(api)
        for route in routes:
            if time.monotonic() < until:
                _tries(api, route, caller)
                tried += 1
    assert tried >= len(routes), "also on a slow machine, each of them is tried"


def _tries(api: Tried, route: Route, caller: str) -> None:
    @settings(max_examples=5, suppress_health_check=list(HealthCheck), database=None, deadline=None)
    @given(data=st.data(), case=api.document[route.path][route.method].as_strategy())
    def tries(data: Any, case: Any) -> None:
        try_out(api, route, caller, spiced(data.draw, case, {"id": api.ids["job"], "step": "a"}))

    tries()


def try_out(api: Tried, route: Route, caller: str, case: Any) -> None:
    """Send a request; nothing breaks, and a caller without the scope is refused."""
    answer = case.call(headers=api.headers[caller])
    case.validate_response(answer, checks=CHECKS)
    if caller == "nobody" and not isinstance(route.access, NoCredentials):
        assert answer.status_code in (401, 404, 405)
    if caller == "viewer" and isinstance(route.access, Scope) and route.access not in ROLES["viewer"]:
        assert answer.status_code in (403, 404, 405)
    if caller == "enqueuer" and isinstance(route.access, Scope) and route.access is not Scope.ENQUEUE:
        assert answer.status_code in (403, 404, 405)
