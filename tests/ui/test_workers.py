"""Workers in a browser: what they run, live, and what is asked of them."""

from datetime import timedelta

import pytest
from playwright.sync_api import Page, expect

from tests.ui.pages import show
from tests.ui.serving import Served
from tickwork.core.ids import WorkerId
from tickwork.core.placement import read_offer
from tickwork.store.base import WorkerRegistration

GHOST = WorkerId("ghost")
SOON_MS = 15_000


@pytest.fixture
def ghost(served: Served) -> WorkerId:
    """A worker that has registered itself and does nothing, so that it can be asked for anything."""
    offer = read_offer(["gpu"], "mem=8GB")
    served.app.store.register_worker(
        WorkerRegistration(GHOST, "ghost", 7, "0.0.1", ("nowhere",), ("nothing",), 4, offer=offer),
        [],
        timedelta(minutes=5),
    )
    return GHOST


def test_a_worker_shows_the_job_that_it_runs_and_how_far_it_is(page: Page, served: Served) -> None:
    (job,) = served.get("/jobs", task="import_file", state="running")["items"]
    show(page, served.address, "/workers")
    page.locator(f'tbody tr[data-id="{job["worker"]}"]').get_by_role("link").first.click()
    row = page.get_by_role("table", name="Running jobs").locator(f'tbody tr[data-id="{job["id"]}"]')
    expect(row).to_contain_text("import_file")
    shown = row.get_by_role("progressbar")
    before = int(shown.get_attribute("aria-valuenow") or "0")
    page.wait_for_function(
        "([selector, before]) => Number(document.querySelector(selector).ariaValueNow) > before",
        arg=[f'tr[data-id="{job["id"]}"] [role=progressbar]', before],
        timeout=60_000,
    )
    assert served.get(f"/jobs/{job['id']}")["progress"] * 100 >= before
    row.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("import_file")


def test_a_worker_is_asked_to_claim_nothing_to_go_on_and_to_stop(page: Page, served: Served, ghost: WorkerId) -> None:
    show(page, served.address, f"/workers/{ghost}")
    state = page.locator("h1 .state")
    expect(state).to_have_text("working")
    page.get_by_role("button", name="Stop claiming").click()
    expect(state).to_have_text("quiet", timeout=SOON_MS)
    assert served.app.store.operations.asked_of(ghost) == "quiet"
    page.get_by_role("button", name="Resume claiming").click()
    expect(state).to_have_text("working", timeout=SOON_MS)
    page.get_by_role("button", name="Stop…").click()
    page.get_by_role("button", name="Stop worker").click()
    expect(state).to_have_text("stopping", timeout=SOON_MS)
    assert served.app.store.operations.asked_of(ghost) == "stop"


def test_a_worker_tells_what_it_is_and_what_it_has(page: Page, served: Served, ghost: WorkerId) -> None:
    show(page, served.address, f"/workers/{ghost}")
    about = page.get_by_role("region", name="Details")
    for said in ("gpu", "8.0 GB", "nowhere", "0.0.1", str(ghost)):
        expect(about).to_contain_text(said)
    expect(page.get_by_role("region", name="Tasks")).to_contain_text("nothing")
    show(page, served.address, "/workers")
    expect(page.locator(".notice")).to_contain_text("2 different versions")


def test_the_store_and_the_server_are_told_of(page: Page, served: Served) -> None:
    health = served.get("/health")
    show(page, served.address, "/workers")
    panel = page.get_by_role("region", name="Server and store")
    expect(panel).to_contain_text(health["version"])
    expect(panel).to_contain_text(health["facts"]["store"])
