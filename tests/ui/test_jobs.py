"""The list of jobs: it shows what a query means, stays where it is while jobs go on, and changes many at once."""

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.ui.browsing import watched_page
from tests.ui.conftest import enter
from tests.ui.hostile import HOSTILE
from tests.ui.serving import Served
from tests.waiting import eventually
from tickwork import Job

PHONE = {"width": 390, "height": 844}
LINE = ".jobs tbody tr"


def show(page: Page, served: Served, query: str = "") -> None:
    page.goto(f"{served.address}/#/jobs" + (f"?q={quote(query)}" if query else ""))
    page.wait_for_selector(f"{LINE}, .jobs .empty")


def shown(page: Page) -> list[str]:
    """The ids of the rows, once they are those of the query that stands in the box."""
    expect(page.locator(".jobs.is-stale")).to_have_count(0)
    return [str(one.get_attribute("data-id")) for one in page.locator(LINE).all()]


def failing(served: Served, label: str, count: int) -> list[Job]:
    """Jobs with a label of their own that have failed."""
    task = served.app.named("charge").options(labels=[label])
    jobs = [task.enqueue(f"customer {n}", 1) for n in range(count)]
    eventually(lambda: all(job.state == "failed" for job in jobs), 30, "they have failed")
    return jobs


@pytest.mark.parametrize(
    ("query", "parameters"),
    [
        ("state:failed", {"state": "failed"}),
        ("queue:payments task:char*", {"queue": "payments", "task": "char*"}),
        ('state:failed "declined"', {"state": "failed", "q": "declined"}),
        ('error:"the warehouse is down"', {"error": "the warehouse is down"}),
        (f'key:"key {HOSTILE}"', {"key": f"key {HOSTILE}"}),
        ("state:delayed", {"state": "delayed"}),
        ("is:dead task:load", {"dead": True, "task": "load"}),
        ("task:charge age:>1h", {"task": "charge", "created_before": "2020-01-01T00:00:00Z"}),
    ],
)
def test_a_query_shows_the_jobs_that_the_api_finds(
    page: Page, served: Served, query: str, parameters: dict[str, str]
) -> None:
    show(page, served, query)
    assert shown(page) == [one["id"] for one in served.get("/jobs", limit=50, **parameters)["items"]]


def test_the_states_are_counted_as_the_store_has_them_and_choose_what_is_shown(page: Page, served: Served) -> None:
    failing(served, "counted", 3)
    show(page, served, "label:counted")
    counts = served.get("/jobs/counts", label="counted")["items"]
    for one in counts:
        chip = page.locator(f".chip[data-state={one['state']}] b")
        if one["count"]:
            expect(chip).to_have_text(str(one["count"]))
    page.locator(".chip[data-state=failed]").click()
    expect(page).to_have_url(re.compile("state%3Afailed"))
    assert len(shown(page)) == 3
    page.go_back()
    expect(page.get_by_role("combobox", name="Search jobs")).to_have_value("label:counted")


def test_a_query_is_completed_and_chosen_with_keys_alone(page: Page, served: Served) -> None:
    show(page, served)
    page.keyboard.press("/")
    page.keyboard.type("sta")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.keyboard.type("fai")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("combobox", name="Search jobs")).to_have_value("state:failed ")
    expect(page).to_have_url(re.compile("q=state%3Afailed$"))
    expect(page.locator(f"{LINE} [data-state=failed]").first).to_be_visible()


def test_a_word_that_is_not_understood_is_explained_where_it_stands(page: Page, served: Served) -> None:
    show(page, served, "state:failed tag:eu state:lost")
    told = page.locator(".query-troubles li")
    expect(told.locator("mark")).to_have_text(["tag:eu", "state:lost"])
    expect(told.nth(1)).to_contain_text('Unknown state "lost"')
    told.nth(0).get_by_role("button").click()
    expect(page.get_by_role("combobox", name="Search jobs")).to_have_value("state:failed label:eu state:lost")


def test_rows_follow_their_jobs_and_new_ones_wait_until_they_are_asked_for(page: Page, served: Served) -> None:
    task = served.app.named("send_email").options(labels=["follow"], delay="2h")
    job = task.enqueue("ada@example.org")
    show(page, served, "label:follow")
    row = page.locator(f"[data-id='{job.id}']")
    expect(row.locator("[data-state=delayed]")).to_be_visible()
    job.cancel()
    expect(row.locator("[data-state=cancelled]")).to_be_visible()

    other = task.enqueue("bob@example.org")
    expect(page.get_by_role("button", name="1 new")).to_be_visible()
    assert shown(page) == [job.id]
    page.get_by_role("button", name="1 new").click()
    expect(page.locator(LINE)).to_have_count(2)
    assert shown(page) == [other.id, job.id]


def test_rows_are_chosen_from_one_to_another_and_only_those_are_retried(page: Page, served: Served) -> None:
    jobs = failing(served, "some", 5)
    show(page, served, "label:some")
    boxes = page.locator(f"{LINE} input[type=checkbox]")
    boxes.nth(1).click()
    boxes.nth(3).click(modifiers=["Shift"])
    expect(page.locator(".bulk")).to_contain_text("3 jobs selected")
    page.locator(".bulk").get_by_role("button", name="Retry").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator(".sample li")).to_have_count(3)
    dialog.get_by_role("button", name="Retry 3 jobs").click()
    expect(page.locator(".operation")).to_contain_text("3 jobs changed")
    tried = eventually(lambda: sum(job.attempt == 2 for job in jobs) >= 3 and jobs, 30, "they are tried again")
    assert [job.attempt for job in tried] == [1, 2, 2, 2, 1]


def test_all_that_match_are_discarded_after_a_question(page: Page, served: Served) -> None:
    jobs = failing(served, "all", 3)
    show(page, served, "label:all state:failed")
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.get_by_role("button", name="Select all 3 matching").click()
    page.locator(".bulk").get_by_role("button", name="Discard").click()
    page.get_by_role("dialog").get_by_role("button", name="Discard 3 jobs").click()
    expect(page.locator(".operation")).to_contain_text("3 jobs changed")
    assert all(served.get(f"/jobs/{job.id}")["is_discarded"] for job in jobs)


def test_a_view_is_kept_in_the_browser_under_its_name(page: Page, served: Served) -> None:
    show(page, served, "queue:payments")
    page.get_by_role("button", name="Save view").click()
    page.get_by_label("Name").fill(HOSTILE)
    page.get_by_role("button", name="Save", exact=True).click()
    page.reload()
    show(page, served)
    page.get_by_role("navigation", name="Saved views").get_by_role("link", name=HOSTILE).click()
    expect(page.get_by_role("combobox", name="Search jobs")).to_have_value("queue:payments")


def test_who_may_only_look_is_offered_no_change(viewer_page: Page, served: Served) -> None:
    show(viewer_page, served, "state:failed")
    expect(viewer_page.locator(f"{LINE} input[type=checkbox]")).to_have_count(0)
    viewer_page.locator(f"{LINE} a").first.click()
    viewer_page.wait_for_selector(".timeline")
    for name in ("Retry", "Cancel", "Rerun edited", "Reschedule"):
        expect(viewer_page.get_by_role("button", name=name)).to_have_count(0)


def test_an_empty_store_shows_the_code_that_makes_a_job(browser: Browser, empty: Served) -> None:
    with watched_page(browser, empty.address) as page:
        enter(page, empty)
        show(page, empty)
        expect(page.locator(".empty")).to_contain_text("send_email.enqueue(")


def test_on_a_phone_nothing_is_wider_than_the_screen(browser: Browser, served: Served) -> None:
    with watched_page(browser, served.address, viewport=PHONE) as page:
        enter(page, served)
        show(page, served, "state:failed")
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
        expect(page.locator(LINE).first).to_contain_text("ValueError")
