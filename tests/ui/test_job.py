"""The page of one job: what happened to it, what it wrote, and what to do with it."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.ui.browsing import watched_page
from tests.ui.conftest import enter
from tests.ui.hostile import HOSTILE, MAIL
from tests.ui.serving import Served
from tests.waiting import eventually
from tickwork import Job

LINES = 100_000


def show(page: Page, served: Served, job: Job | str, tab: str = "") -> None:
    id = job if isinstance(job, str) else job.id
    page.goto(f"{served.address}/#/jobs/{id}" + (f"?tab={tab}" if tab else ""))
    page.wait_for_selector(".timeline")


def only(served: Served, **which: str) -> str:
    """The id of the newest job that a filter means."""
    return str(served.get("/jobs", limit=1, **which)["items"][0]["id"])


def test_an_error_stands_out_with_ones_own_code_and_is_text_whatever_it_says(page: Page, served: Served) -> None:
    job = served.app.named("charge").enqueue(HOSTILE, 1)
    eventually(lambda: job.state == "failed", 30, "it has failed")
    show(page, served, job)
    expect(page.locator(".traceback-error")).to_have_text(f"ValueErrorthe card of {HOSTILE} was declined {HOSTILE}")
    expect(page.locator(".frames .own").last).to_contain_text("raise ValueError(")
    expect(page.locator(".notice")).to_contain_text("was declined")
    assert page.locator("main img[src=x]").count() == 0


def test_each_attempt_stands_in_the_timeline_and_in_the_list(page: Page, served: Served) -> None:
    job = served.app.named("charge").enqueue("ada", 1)
    for tries in (1, 2, 3):
        eventually(lambda n=tries: job.state == "failed" and job.attempt == n, 30, "it has failed")  # type: ignore[misc]
        if tries < 3:
            assert job.retry()
    show(page, served, job)
    expect(page.locator("button.span[data-state=failed]")).to_have_count(3)
    numbers = [str(one["number"]) for one in served.get(f"/jobs/{job.id}/attempts")["items"]]
    expect(page.locator(".attempt-head b.num")).to_have_text([f"#{number}" for number in reversed(numbers)])
    page.get_by_role("button", name=re.compile("^#1 .*, failed$")).click()
    expect(page.locator(".attempt").last.locator(".traceback")).to_be_visible()
    expect(page.locator(".traceback")).to_have_count(1)


def test_a_log_grows_while_its_job_runs_with_its_colours(page: Page, served: Served) -> None:
    show(page, served, only(served, task="import_file"), "logs")
    row = page.locator(".log-line .ansi-cyan")
    expect(row.last).to_have_text(re.compile(r"^row \d+$"))
    before = int(row.last.inner_text().split()[1])
    expect(page.locator(".log").get_by_text(f"row {before + 5}", exact=True)).to_be_visible()
    expect(page.locator(".job-progress")).to_contain_text(re.compile(r"row \d+"))


def test_a_log_of_100_000_lines_is_walked_searched_and_saved_whole(page: Page, served: Served, tmp_path: Path) -> None:
    job = served.app.named("shell").enqueue(command=f"seq -f 'line %.0f of it' {LINES}")
    eventually(lambda: job.state == "succeeded", 60, "all lines are written")
    show(page, served, job, "logs")
    expect(page.locator(".log-line").first).to_contain_text("line 1 of it")
    page.get_by_role("button", name="End").click()
    expect(page.locator(".log-end")).to_contain_text(f"{LINES:,} lines")
    expect(page.locator(".log").get_by_text(f"line {LINES} of it")).to_be_visible()
    page.get_by_label("Search").fill("line 51234 ")
    expect(page.locator(".log mark")).to_have_text("line 51234 ")
    assert page.locator(".log-line").count() < 200
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download all lines").click()
    saved.value.save_as(tmp_path / "log")
    assert len((tmp_path / "log").read_text().splitlines()) == LINES


def test_arguments_and_result_are_those_of_the_store(page: Page, served: Served) -> None:
    job = served.get(f"/jobs/{only(served, task=MAIL)}")
    for tab, value in (("payload", job["args"]), ("result", job["result"])):
        show(page, served, job["id"], tab)
        page.get_by_role("button", name="as text").click()
        assert json.loads(page.locator(".tree code").inner_text()) == value


def test_it_says_why_a_job_does_not_run(page: Page, served: Served) -> None:
    job = served.get(f"/jobs/{only(served, task='wait_for_ever')}")
    show(page, served, job["id"])
    expect(page.locator(".notice")).to_contain_text(job["why"][1:].split(":")[0])


def test_a_job_is_run_again_with_other_arguments(page: Page, served: Served) -> None:
    job = served.app.named("charge").enqueue("ada", 1)
    eventually(lambda: job.state == "failed", 30, "it has failed")
    show(page, served, job)
    page.keyboard.press("e")
    editor = page.get_by_label("Arguments (JSON)")
    assert json.loads(editor.input_value()) == {"customer": "ada", "cents": 1}
    editor.fill('{"customer": "ada",\n "cents": }')
    expect(page.locator(".flaw")).to_contain_text("line 2")
    editor.fill('{"customer": "ada"}')
    expect(page.locator(".flaw")).to_contain_text("Missing argument cents")
    editor.fill('{"customer": "ada", "cents": 200}')
    page.get_by_role("button", name="Enqueue").click()
    page.wait_for_url(lambda url: job.id not in url)
    again = page.url.rpartition("/")[2]
    expect(page.locator("h1 [data-state=succeeded]")).to_be_visible()
    assert served.get(f"/jobs/{again}")["args"] == {"customer": "ada", "cents": 200}
    assert job.state == "failed"


def test_a_job_is_rescheduled_brought_forward_and_cancelled_and_the_page_follows(page: Page, served: Served) -> None:
    job = served.app.named("send_email").options(delay="2h").enqueue("ada@example.org")
    show(page, served, job)
    page.get_by_role("button", name="Reschedule").click()
    page.get_by_label("Delay").fill("5h")
    page.get_by_role("dialog").get_by_role("button", name="Reschedule").click()
    expect(page.locator(".notice")).to_contain_text(re.compile("in 4h5|in 5h"))
    page.keyboard.press("c")
    page.get_by_role("button", name="Cancel job").click()
    expect(page.locator("h1 [data-state=cancelled]")).to_be_visible()
    assert job.state == "cancelled"
    page.get_by_role("button", name="Retry").click()
    expect(page.locator("h1 [data-state=succeeded]")).to_be_visible()
    assert job.state == "succeeded"


@pytest.mark.parametrize("width", [390, 320])
@pytest.mark.parametrize("tab", ["attempts", "logs", "payload", "result", "details", "events"])
def test_on_a_phone_no_part_is_wider_than_the_screen(browser: Browser, served: Served, tab: str, width: int) -> None:
    long = served.app.named(MAIL).options(key=f"hook/paid/{'7' * 60}").enqueue("ada")
    with watched_page(browser, served.address, viewport={"width": width, "height": 844}) as page:
        enter(page, served)
        for job in (only(served, task=MAIL), long):
            show(page, served, job, tab)
            assert page.evaluate("document.documentElement.scrollWidth") == width


def test_who_created_a_job_or_a_run_leads_to_what_else_they_created(page: Page, served: Served) -> None:
    job = served.post("/jobs", {"task": "no such task"})
    assert job["creator"]
    page.goto(f"{served.address}/#/jobs/{job['id']}?tab=details")
    fact = page.locator("dt", has_text="Created by").locator("xpath=following-sibling::dd[1]")
    expect(fact).to_have_text(job["creator"])
    fact.get_by_role("link").click()
    expect(page.get_by_role("combobox", name="Search jobs")).to_have_value(f"creator:{job['creator']}")
    expect(page.get_by_role("link", name="no such task").first).to_be_visible()
    run = served.post("/dags/etl/runs", {})
    page.goto(f"{served.address}/#/runs/{run['id']}")
    expect(page.get_by_role("link", name=run["creator"])).to_be_visible()
    served.post(f"/jobs/{job['id']}/cancel")
