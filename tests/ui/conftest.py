"""A real browser on a real server with real work. These tests run in `make verify`, after all others.

`page` is logged in with all scopes, `viewer_page` as a viewer; both show the
overview of `served`. A test fails at its end when its page wrote an error to the console, was refused something that
the test did not announce (`page.watched.may_answer(422, "/keys")`), asked another host, or opened a dialog of the
browser's.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.postgres_server import Postgres
from tests.ui.browsing import ARGUMENTS, chromium, watched_page
from tests.ui.serving import PASSWORD, TOKEN, VIEWER, Served
from tests.ui.stock import stock

HERE = Path(__file__).parent
LIMIT_S = 120


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """They come last: what drives the browser keeps an event loop in this thread, and other tests run their own."""
    ours = [item for item in items if item.path.is_relative_to(HERE)]
    for item in ours:
        item.add_marker(pytest.mark.process)
        item.add_marker(pytest.mark.timeout(LIMIT_S, func_only=True))  # fixtures bound themselves
    items[:] = [item for item in items if item not in ours] + ours


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A SQLite store with much of everything, a server and a worker."""
    folder = tmp_path_factory.mktemp("served")
    with Served(f"sqlite:///{folder}/tickwork.db", folder) as served:
        stock(served)
        yield served


@pytest.fixture(scope="session")
def served_on_postgres(postgres_server: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The same on PostgreSQL."""
    url = postgres_server.create_database("ui")
    with Served(url, tmp_path_factory.mktemp("served_on_postgres")) as served:
        stock(served)
        yield served
    postgres_server.drop_database("ui")


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A store with nothing in it, and a server alone."""
    folder = tmp_path_factory.mktemp("empty")
    with Served(f"sqlite:///{folder}/tickwork.db", folder, worker=False) as served:
        yield served


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    with watched_page(browser, served.address) as page:
        enter(page, served)
        yield page


@pytest.fixture
def viewer_page(browser: Browser, served: Served) -> Iterator[Page]:
    with watched_page(browser, served.address) as page:
        enter_as_viewer(page, served)
        yield page


def enter(page: Page, served: Served) -> None:
    """Log in with the token in the address, as `tickwork dev` prints it."""
    page.goto(f"{served.address}/#token={TOKEN}")
    page.wait_for_selector(".frame")


def enter_as_viewer(page: Page, served: Served) -> None:
    """Log in as the user who may only look."""
    said = {"user": VIEWER, "password": PASSWORD}
    assert page.request.post(f"{served.address}/api/v1/session", data=said).ok
    page.goto(served.address)
    page.wait_for_selector(".frame")
