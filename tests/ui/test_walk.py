"""A walk through every page: nothing goes wrong on any, for each role, with a full and an empty store."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.ui.browsing import watched_page
from tests.ui.conftest import enter, enter_as_viewer
from tests.ui.pages import show
from tests.ui.places import UI, example, patterns
from tests.ui.proxy import proxied
from tests.ui.serving import TOKEN, Served

AXE = Path(__file__).parent / "axe.min.js"  # MPL-2.0, as its first lines say; not shipped
FIRST_LOAD_LIMIT = 100_000
PAGE_LIMIT = 250_000
IMPACTS = ("serious", "critical")
PHONE = {"width": 390, "height": 844}
SMALL = {"width": 320, "height": 568}  # also a screen of 1280 px at four times its size
TROUBLE = "#content .empty[role=alert]"
LEAVES = [pattern for pattern in patterns() if "/:" not in pattern]
FOR_ADMINS = {f"/settings?part={part}" for part in ("keys", "users", "secrets", "audit", "configuration")}


def arrive(page: Page, address: str, path: str) -> None:
    """Go there with a page that has walked elsewhere before. What went wrong there was told there."""
    page.watched.wrong.clear()
    show(page, address, path)


def fits(page: Page) -> bool:
    """Whether the page is no wider than what it is looked at with."""
    return bool(page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"))


def refuse_html(page: Page) -> None:
    """Check that no text of a user has become an element."""
    assert page.locator("img[src='x'], [onerror]").count() == 0


def complaints(page: Page) -> list[Any]:
    """Return the serious findings of axe-core, with their elements."""
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']}).then((all) => all.violations)")
    return [
        (one["id"], one["help"], [node["target"] for node in one["nodes"][:5]])
        for one in found
        if one["impact"] in IMPACTS
    ]


# One page visits all places of a test: to log in again for each would take longer than the rest.


@pytest.fixture(scope="module", params=["light", "dark"])
def judged_page(request: pytest.FixtureRequest, browser: Browser, served: Served) -> Iterator[Page]:
    """As `page`, in light and in dark, with axe-core in it."""
    with watched_page(browser, served.address, color_scheme=request.param) as page:
        page.context.add_init_script(path=AXE)
        enter(page, served)
        yield page


@pytest.fixture(scope="module")
def looking_page(browser: Browser, served: Served) -> Iterator[Page]:
    """As `viewer_page`."""
    with watched_page(browser, served.address) as page:
        enter_as_viewer(page, served)
        yield page


@pytest.fixture(scope="module", params=[PHONE, SMALL], ids=lambda size: str(size["width"]))
def phone_page(request: pytest.FixtureRequest, browser: Browser, served: Served) -> Iterator[Page]:
    """As `page`, as wide as a phone, and as the smallest one."""
    with watched_page(browser, served.address, viewport=request.param) as page:
        enter(page, served)
        yield page


@pytest.fixture(scope="module")
def empty_page(browser: Browser, empty: Served) -> Iterator[Page]:
    """As `phone_page`, on the store that has nothing in it."""
    with watched_page(browser, empty.address, viewport=PHONE) as page:
        enter(page, empty)
        yield page


@pytest.fixture(scope="module")
def postgres_page(browser: Browser, served_on_postgres: Served) -> Iterator[Page]:
    """As `page`, on PostgreSQL."""
    with watched_page(browser, served_on_postgres.address) as page:
        enter(page, served_on_postgres)
        yield page


@pytest.mark.parametrize("pattern", patterns())
def test_a_page_shows_hostile_names_as_text_and_is_accessible(judged_page: Page, served: Served, pattern: str) -> None:
    arrive(judged_page, served.address, example(served, pattern))
    expect(judged_page.locator(TROUBLE)).to_have_count(0)
    refuse_html(judged_page)
    assert complaints(judged_page) == []
    judged_page.watched.check()


def test_the_page_of_a_run_that_a_user_started_is_accessible(judged_page: Page, served: Served) -> None:
    arrive(judged_page, served.address, f"/runs/{served.post('/dags/etl/runs', {})['id']}")
    expect(judged_page.locator('a[href*="creator"]')).to_be_visible()
    assert complaints(judged_page) == []
    judged_page.watched.check()


@pytest.mark.parametrize("pattern", patterns())
def test_a_viewer_meets_no_trouble_but_what_they_may_not_see(looking_page: Page, served: Served, pattern: str) -> None:
    arrive(looking_page, served.address, example(served, pattern))
    troubles = looking_page.locator(f"{TROUBLE} h2").all_inner_texts()
    assert troubles == (["Permission denied"] if pattern in FOR_ADMINS else [])
    looking_page.watched.check()


@pytest.mark.parametrize("pattern", LEAVES)
def test_a_page_of_an_empty_store_shows_itself_also_on_a_phone(empty_page: Page, empty: Served, pattern: str) -> None:
    arrive(empty_page, empty.address, pattern)
    expect(empty_page.locator(TROUBLE)).to_have_count(0)
    assert fits(empty_page)
    empty_page.watched.check()


@pytest.mark.parametrize("pattern", patterns())
def test_a_page_on_a_phone_does_not_scroll_sideways(phone_page: Page, served: Served, pattern: str) -> None:
    arrive(phone_page, served.address, example(served, pattern))
    assert fits(phone_page)
    phone_page.watched.check()


@pytest.mark.parametrize("pattern", patterns())
def test_every_page_shows_itself_on_postgres(postgres_page: Page, served_on_postgres: Served, pattern: str) -> None:
    arrive(postgres_page, served_on_postgres.address, example(served_on_postgres, pattern))
    expect(postgres_page.locator(TROUBLE)).to_have_count(0)
    refuse_html(postgres_page)
    postgres_page.watched.check()


@pytest.mark.parametrize("pattern", patterns())
def test_a_page_loads_no_more_than_it_may(browser: Browser, served: Served, pattern: str) -> None:
    with watched_page(browser, served.address) as page:
        enter(page, served)
        show(page, served.address, "/")
        assert 0 < files(page) <= FIRST_LOAD_LIMIT
        show(page, served.address, example(served, pattern))
        page.wait_for_timeout(500)  # what a page loads after it has shown itself counts as well
        assert files(page) + answers(page) <= PAGE_LIMIT


def files(page: Page) -> int:
    """Return the bytes of the UI's own files that were transferred so far."""
    return sum(size for path, size in sizes(page) if "/api/" not in path)


def answers(page: Page) -> int:
    """Return the bytes of API responses so far. They depend on the content of the store."""
    return sum(size for path, size in sizes(page) if "/api/" in path)


def sizes(page: Page) -> list[tuple[str, int]]:
    """Paths and sizes of what was loaded, as it was sent. The stream never ends, and is left out."""
    all_of_it = [(urlsplit(one.url).path, one) for one in page.watched.requests]
    return [(path, one.request.sizes()["responseBodySize"]) for path, one in all_of_it if not path.endswith("/stream")]


def test_a_page_that_was_left_while_it_was_loaded_does_not_stand_in_the_way(page: Page, served: Served) -> None:
    held: list[Route] = []
    page.route(re.compile("/pages/schedules[.]js$"), lambda route: held.append(route))  # noqa: PLW0108  # it takes no methods of C
    show(page, served.address, "/hooks")
    page.goto(f"{served.address}/#/schedules")
    expect(page.locator("#content .loading")).to_be_visible()
    show(page, served.address, "/hooks")
    (slow,) = held
    slow.continue_()
    page.evaluate("(url) => import(url).then(() => new Promise(requestAnimationFrame))", slow.request.url)
    expect(page.get_by_role("heading", level=1, name="Hooks")).to_be_visible()


def test_it_works_under_a_prefix_behind_a_proxy(browser: Browser, tmp_path: Path) -> None:
    with (
        Served(f"sqlite:///{tmp_path}/tickwork.db", tmp_path, worker=False, server=["--root-path", "/tickwork"]) as one,
        proxied(one.address, "/tickwork") as address,
        watched_page(browser, address) as page,
    ):
        page.goto(f"{address}/#token={TOKEN}")
        page.wait_for_selector(".frame")
        expect(page.locator(".live")).to_have_attribute("data-live", "live")
        show(page, address, "/settings?part=secrets")
        page.get_by_role("button", name="New secret").click()
        page.get_by_label("Name").fill("UNDER_A_PREFIX")
        page.get_by_label("Value").fill("a value")
        page.get_by_role("dialog").get_by_role("button", name="Save").click()
        expect(page.get_by_role("cell", name="UNDER_A_PREFIX", exact=True)).to_be_visible()
        assert [secret["name"] for secret in one.get("/secrets")["items"]] == ["UNDER_A_PREFIX"]
        assert {urlsplit(answer.url).path.split("/")[1] for answer in page.watched.requests} == {"tickwork"}


def test_every_file_of_a_page_is_loaded_by_something() -> None:
    said = "".join(path.read_text() for path in UI.rglob("*.js") if "vendor" not in path.parts)
    known = {*re.findall(r"""["'](?:\./|\.\./)(?:pages/)?([\w-]+)\.js["']""", said)}
    assert {path.stem for path in (UI / "pages").glob("*.js")} - known == set()
