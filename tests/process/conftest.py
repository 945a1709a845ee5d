"""Workers as processes, on a store of each kind; tests that fail show what the workers wrote."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres_server import PostgresServer
from tests.process.harness import Workers, workers_on
from tests.process.ledger import Ledger
from tickwork import Tickwork


@pytest.fixture
def workers(store_url: str, tmp_path: Path) -> Iterator[Workers]:
    """Starts workers on this test's store; ends them after it, and shows what they said if it failed."""
    with workers_on(store_url, tmp_path) as workers:
        yield workers


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(kind: str) -> Iterator[PostgresServer | None]:
    """A PostgreSQL of the test's own, which it may restart."""
    if kind == "sqlite":
        yield None
        return
    with PostgresServer(fsync=True) as server:  # else an immediate stop forgets the last commits
        yield server


@pytest.fixture
def ledger(server: PostgresServer | None, tmp_path: Path) -> Ledger:
    """A new store, in which each claim and each end is written down."""
    url = server.create_database("watched") if server else f"sqlite:///{tmp_path}/tickwork.db"
    app = Tickwork(url, upgrade=True)
    app.store.now()
    app.close()
    ledger = Ledger(url)
    ledger.keep()
    return ledger


@pytest.fixture
def watched_workers(ledger: Ledger, tmp_path: Path) -> Iterator[Workers]:
    """As `workers`, on the store of the ledger."""
    with workers_on(ledger.url, tmp_path) as workers:
        yield workers
