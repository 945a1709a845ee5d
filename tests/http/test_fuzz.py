"""The API, tried by its own document: whatever comes in is taken or refused in our own words, and nothing breaks.

SCHEMA_EXAMPLES is how many requests are made up for each operation and caller; `make soak` makes more of them.
"""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import (
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)

from tests.http.conftest import TOKEN
from tickwork import Tickwork
from tickwork.clock import SystemClock
from tickwork.core.access import ROLES
from tickwork.credentials import create_key
from tickwork.http.access import StoreAccess, TokenAccess
from tickwork.http.asgi import asgi
from tickwork.http.parts import Pulse, assembled
from tickwork.http.route import Anybody, Route, Scope
from tickwork.http.table import ROUTES

EXAMPLES = int(os.environ.get("SCHEMA_EXAMPLES", "4"))
CHECKS = [not_a_server_error, response_schema_conformance, status_code_conformance]
CALLERS = ("admin", "viewer", "enqueuer", "nobody")


class Tried(NamedTuple):
    """What the document of a server says, and the headers of those who try it."""

    document: Any
    pulse: Pulse
    headers: dict[str, dict[str, str]]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def api(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tried]:
    """A server on a store of its own, in which every wait is over at once."""
    folder: Path = tmp_path_factory.mktemp("fuzz")
    url = f"sqlite:///{folder}/fuzz.db"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_server").create_database(f"fuzz_{uuid.uuid4().hex}")
    app = Tickwork(url, upgrade=True)
    parts = assembled(app, StoreAccess(app, TokenAccess(TOKEN)), SystemClock(), Random(1))
    parts.stopping.set()
    viewer, _ = create_key(app.store, "viewer", list(ROLES["viewer"]), None, "test")
    enqueuer, _ = create_key(app.store, "enqueuer", [Scope.ENQUEUE], None, "test")
    tokens = {"admin": TOKEN, "viewer": viewer, "enqueuer": enqueuer}
    headers = {name: {"Authorization": f"Bearer {token}"} for name, token in tokens.items()}
    document = schemathesis.openapi.from_asgi("/api/v1/openapi.json", asgi(app, parts, ROUTES))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TICKWORK_SECRET_KEY", "0" * 64)  # else secrets on PostgreSQL cannot be set
        yield Tried(document, parts.pulse, {**headers, "nobody": {}})


@pytest.mark.timeout(600)
@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_no_request_breaks_the_server_or_its_document(api: Tried, route: Route, caller: str) -> None:
    api.pulse.tick(0.0)

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), database=None)
    @given(case=api.document[route.path][route.method].as_strategy())
    def tried(case: Any) -> None:
        answer = case.call(headers=api.headers[caller])
        case.validate_response(answer, checks=CHECKS)
        if caller == "nobody" and not isinstance(route.access, Anybody):
            assert answer.status_code in (401, 404, 405)
        if caller == "viewer" and isinstance(route.access, Scope) and route.access not in ROLES["viewer"]:
            assert answer.status_code in (403, 404, 405)
        if caller == "enqueuer" and isinstance(route.access, Scope) and route.access is not Scope.ENQUEUE:
            assert answer.status_code in (403, 404, 405)

    tried()
