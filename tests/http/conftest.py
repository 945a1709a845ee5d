"""A server on each kind of store, called without a socket."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from tests.worker.fixtures import app, postgres_database, store_url
from tickwork import Tickwork
from tickwork.clock import SystemClock
from tickwork.http.access import TokenAccess
from tickwork.http.asgi import asgi
from tickwork.http.parts import Parts, Pulse
from tickwork.http.table import ROUTES
from tickwork.observe.store_counts import StoreCounts

__all__ = ["app", "postgres_database", "store_url"]

TOKEN = "a-token-of-tests"


@pytest.fixture
def parts(app: Tickwork) -> Parts:
    clock = SystemClock()
    return Parts(TokenAccess(TOKEN), Pulse(app.store, clock), clock, StoreCounts(app.store, clock))


@pytest.fixture
def anybody(app: Tickwork, parts: Parts) -> Iterator[TestClient]:
    """Calls the server, and does not say who it is."""
    with TestClient(asgi(app, parts, ROUTES), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def admin(app: Tickwork, parts: Parts) -> Iterator[TestClient]:
    """Calls the server as somebody who may do everything."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with TestClient(asgi(app, parts, ROUTES), raise_server_exceptions=False, headers=headers) as client:
        yield client
