"""What the tests of workers share: a store of each kind, an app on it, and waiting for a condition."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest

from tests.postgres_server import Postgres
from tickwork import Tickwork

Value = TypeVar("Value")
TEMPLATE = "tickwork_template"


def eventually(condition: Callable[[], Value], within_s: float = 10.0, what: str = "") -> Value:
    """Ask until the answer is true, and return it; fail when that takes longer than `within_s`."""
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"not true within {within_s:g} s: {what or condition}; it is {value!r}")
        time.sleep(0.005)
    return value


@pytest.fixture(scope="session")
def postgres_template(postgres_server: Postgres) -> str:
    """A database with our schema in it; to copy it is quicker than to migrate each test's own."""
    app = Tickwork(postgres_server.create_database(TEMPLATE), upgrade=True)
    app.store.now()
    app.close()
    return TEMPLATE


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A new, empty store: a SQLite file, and a PostgreSQL database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/tickwork.db"
        return
    server: Postgres = request.getfixturevalue("postgres_server")
    template: str = request.getfixturevalue("postgres_template")
    name = f"test_{time.monotonic_ns()}"
    yield server.create_database(name, template)
    server.drop_database(name)


@pytest.fixture
def app(store_url: str) -> Iterator[Tickwork]:
    """An app of the test's own on that store."""
    app = Tickwork(store_url)
    yield app
    with suppress(Exception):  # a test may have closed it, or broken its store
        app.close()
