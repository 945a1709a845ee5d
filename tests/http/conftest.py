"""A server on each kind of store, called without a socket."""

from collections.abc import Iterator
from random import Random

import pytest
from starlette.testclient import TestClient

from tickwork import Tickwork
from tickwork.clock import SystemClock
from tickwork.http.asgi import asgi
from tickwork.http.auth.access import StoreAccess, TokenAccess
from tickwork.http.routes import ROUTES
from tickwork.http.server_context import ServerContext, build_context
from tickwork.security import credentials

TOKEN = "a-token-of-tests"


@pytest.fixture(autouse=True)
def quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a low cost for password hashes, so that tests are fast. The cost is stored with each hash."""
    # The cost is no setting, so that no installation lowers it.
    monkeypatch.setattr(credentials, "_COST", 16)


@pytest.fixture
def parts(app: Tickwork) -> ServerContext:
    return build_context(app, StoreAccess(app, TokenAccess(TOKEN)), SystemClock(), Random(1))


@pytest.fixture
def anybody(app: Tickwork, parts: ServerContext) -> Iterator[TestClient]:
    """Calls the server, and does not say who it is."""
    with TestClient(asgi(app, parts, ROUTES), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def admin(app: Tickwork, parts: ServerContext) -> Iterator[TestClient]:
    """Calls the server with all scopes."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with TestClient(asgi(app, parts, ROUTES), raise_server_exceptions=False, headers=headers) as client:
        yield client
