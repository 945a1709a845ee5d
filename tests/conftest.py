"""Fixtures for all tests: a PostgreSQL server, empty stores, an app on a store. PostgreSQL tests are never skipped."""

import os
import uuid
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings

from sim.start import seeds_of_commit
from tests.postgres_server import GivenPostgres, Postgres, PostgresServer, delete_rows
from tickwork import Tickwork

# On a loaded machine one slow example says nothing about the code; pytest-timeout bounds the whole test.
settings.register_profile("tickwork", deadline=None, print_blob=True)
settings.load_profile("tickwork")


def pytest_report_header(config: pytest.Config) -> str:
    first = seeds_of_commit(config.rootpath)
    return f"simulator: besides the fixed seeds, those of this commit: make sim SEEDS=100 FROM={first}"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """One cluster for each process that runs tests (two, under xdist), with fsync off.

    TICKWORK_TEST_PG_URL names a server to use instead, on purpose only. A test that stops or kills its server makes a
    PostgresServer of its own.
    """
    if url := os.environ.get("TICKWORK_TEST_PG_URL"):
        yield GivenPostgres(url)
        return
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: Postgres) -> Iterator[str]:
    """The URL of a new, empty database, dropped after the test."""
    name = f"test_{uuid.uuid4().hex}"
    yield postgres_server.create_database(name)
    postgres_server.drop_database(name)


@pytest.fixture(scope="session")
def postgres_database(postgres_server: Postgres) -> str:
    """One database with our schema for all tests; each finds it empty, which is quicker than to make another."""
    url = postgres_server.create_database(f"workers_{uuid.uuid4().hex}")
    app = Tickwork(url, upgrade=True)
    app.store.now()
    app.close()
    return url


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store: a new SQLite file, and a PostgreSQL database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/tickwork.db"
    url: str = request.getfixturevalue("postgres_database")
    delete_rows(url)
    return url


@pytest.fixture
def app(store_url: str) -> Iterator[Tickwork]:
    """An app of the test's own on that store."""
    app = Tickwork(store_url)
    yield app
    with suppress(Exception):  # a test may have closed it, or broken its store
        app.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and _needs_postgres(item):
        _turn_into_failure(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.skipped and any(word in f"{report.nodeid} {report.longrepr}" for word in ("postgres", "psycopg")):
        _turn_into_failure(report)
    return report


def _needs_postgres(item: pytest.Item) -> bool:
    """Tell by the test's name (its file and its parameters are in it) or else by its fixtures.

    The SQLite half of a test that runs on both stores may be skipped, though its fixtures know both.
    """
    if "postgres" in item.nodeid:
        return True
    fixtures = getattr(item, "fixturenames", [])
    return "sqlite" not in item.nodeid and any("postgres" in name for name in fixtures)


def _turn_into_failure(report: pytest.TestReport | pytest.CollectReport) -> None:
    report.outcome = "failed"
    report.longrepr = f"A PostgreSQL test may not be skipped: {report.longrepr}"
