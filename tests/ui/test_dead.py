"""Dead letters in a browser: grouped by error, redriven and discarded, and only the chosen jobs."""

import re

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.ui.browsing import watched_page
from tests.ui.conftest import enter
from tests.ui.pages import show
from tests.ui.serving import Served
from tests.waiting import eventually
from tickwork import Job
from tickwork.core.job import JobState

SOON_MS = 20_000


def dead(served: Served, customer: str, count: int) -> list[Job]:
    """Jobs that failed for good, with an error that only they have."""
    jobs = served.app.named("charge").enqueue_many([(customer, 2 * n + 1) for n in range(count)])
    eventually(lambda: all(job.view.state is JobState.FAILED for job in jobs), 30, "they failed")
    return list(jobs)


def group(page: Page, customer: str) -> Locator:
    return page.get_by_role("table", name="Dead letters").locator("tbody tr").filter(has_text=f"of {customer} was")


@pytest.mark.parametrize("by", ["error", "task", "queue"])
def test_groups_are_those_of_the_store(page: Page, served: Served, by: str) -> None:
    dead(served, "somebody", 2)
    show(page, served.address, f"/dead?by={by}")
    known = served.get("/dead", by=by)["items"]
    rows = page.get_by_role("table", name="Dead letters").locator("tbody tr")
    expect(rows).to_have_count(len(known))
    shown = rows.evaluate_all(
        """(all) => all.map((one) => [one.querySelector(".dead-what button").textContent,
                                      one.querySelector(".dead-count b").textContent])"""
    )
    assert sorted(shown) == sorted([one[by], str(one["count"])] for one in known)


def test_a_group_is_queued_again_at_a_rate_and_nothing_else_is(page: Page, served: Served) -> None:
    jobs, others = dead(served, "redriven", 3), dead(served, "left alone", 1)
    show(page, served.address, "/dead")
    group(page, "redriven").get_by_label("Select row").check()
    page.get_by_role("button", name="Redrive…").click()
    dialog = page.get_by_role("dialog", name="Redrive 3 jobs")
    expect(dialog.get_by_role("list", name="Preview").get_by_role("listitem")).to_have_count(3)
    dialog.get_by_label("Rate").fill("100/s")
    dialog.get_by_role("button", name="Redrive 3 jobs").click()
    expect(page.locator(".operation")).to_contain_text("redrive done: 3 jobs changed", timeout=SOON_MS)
    eventually(lambda: all(served.get(f"/jobs/{job.id}")["attempt"] == 2 for job in jobs), 30, "they were tried again")
    assert served.get(f"/jobs/{others[0].id}")["attempt"] == 1
    show(page, served.address, "/dead?tab=operations")
    first = page.get_by_role("table", name="Operations").locator("tbody tr").first
    expect(first).to_contain_text("redrive")
    expect(first.locator('td[data-column="changed"]')).to_have_text("3")


def test_many_are_discarded_only_after_a_word_was_typed(page: Page, served: Served) -> None:
    jobs = dead(served, "discarded", 11)
    show(page, served.address, "/dead")
    group(page, "discarded").get_by_role("button").click()
    drawer = page.get_by_role("dialog", name="11 dead letters")
    expect(drawer.locator(".traceback")).to_contain_text("the card of discarded was declined")
    drawer.get_by_role("button", name="Discard…").click()
    dialog = page.get_by_role("dialog", name="Discard 11 jobs")
    dialog.get_by_role("button", name="Discard 11 jobs").click()
    expect(dialog).to_be_visible()
    assert not served.get(f"/jobs/{jobs[0].id}")["is_discarded"]
    dialog.get_by_role("textbox").fill("discard")
    dialog.get_by_role("button", name="Discard 11 jobs").click()
    expect(group(page, "discarded")).to_have_count(0, timeout=SOON_MS)
    assert all(served.get(f"/jobs/{job.id}")["is_discarded"] for job in jobs)


def test_a_viewer_reads_errors_and_is_offered_nothing_to_change(viewer_page: Page, served: Served) -> None:
    dead(served, "read", 1)
    show(viewer_page, served.address, "/dead")
    group(viewer_page, "read").get_by_role("button").click()
    expect(viewer_page.locator(".traceback")).to_contain_text("the card of read was declined")
    expect(viewer_page.get_by_role("button", name=re.compile("^(Redrive|Discard)"))).to_have_count(0)
    expect(viewer_page.get_by_label("Select row")).to_have_count(0)


def test_nothing_dead_is_good_news(browser: Browser, empty: Served) -> None:
    with watched_page(browser, empty.address) as page:
        enter(page, empty)
        show(page, empty.address, "/dead")
        expect(page.get_by_role("heading", name="No dead letters")).to_be_visible()
