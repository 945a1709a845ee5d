"""The pages of hooks: one that is made there takes messages, and what came in is shown as it is recorded."""

import os
import re
import subprocess

from playwright.sync_api import Page, expect

from tests.ui.pages import show
from tests.ui.serving import Served
from tests.ui.stock import SECRET, deliver


def test_deliveries_are_shown_as_they_are_recorded(page: Page, served: Served) -> None:
    show(page, served.address, "/hooks/paid")
    recorded = served.get("/hooks/paid/deliveries")["items"]
    rows = page.get_by_role("table", name="Deliveries").locator("tbody tr")
    expect(rows).to_have_count(len(recorded))
    assert [one.strip() for one in rows.locator("td[data-column=outcome]").all_inner_texts()] == [
        one["outcome"] for one in recorded
    ]
    links = rows.get_by_role("link").evaluate_all("(all) => all.map((one) => one.hash.split('/').at(-1))")
    assert links == [one["job_id"] for one in recorded if one["job_id"]]


def test_a_hook_that_is_made_in_the_browser_takes_the_message_that_its_page_shows(page: Page, served: Served) -> None:
    show(page, served.address, "/hooks")
    page.get_by_role("button", name="New hook").click()
    form = page.get_by_role("dialog")
    form.get_by_label(re.compile("^Name")).fill("tried")
    form.get_by_label("Source").select_option("generic")
    form.get_by_label(re.compile("^Secret")).fill("HOOK_SECRET")
    form.get_by_label(re.compile("^Task")).fill("report")
    form.get_by_label("Arguments (JSON)").fill('{"day": "${body.order.day}"}')
    form.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1, name="tried")).to_be_visible()
    assert served.get("/hooks/tried")["spec"]["args"] == {"day": "${body.order.day}"}
    expect(page.locator(".token code")).to_have_text(f"{served.address}/hooks/tried")

    script = page.get_by_role("region", name="Test it").locator("pre").inner_text()
    given = {**os.environ, "SECRET": SECRET, "no_proxy": "127.0.0.1"}
    done = subprocess.run(["bash", "-c", script], env=given, capture_output=True, text=True, timeout=30, check=False)
    assert '"accepted"' in done.stdout, done.stdout + done.stderr
    expect(page.get_by_role("table", name="Deliveries")).to_contain_text("accepted", timeout=15_000)


def test_an_edit_after_an_edit_of_another_user_is_refused(page: Page, served: Served) -> None:
    page.watched.may_answer(412, "/hooks/edited$")
    spec = {"style": "github", "secret": "HOOK_SECRET", "task": "report"}
    served.put("/hooks/edited", spec)
    show(page, served.address, "/hooks/edited")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Description").fill("of mine")
    served.put("/hooks/edited", {**spec, "description": "of somebody else"})
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_be_visible()
    assert served.get("/hooks/edited")["spec"]["description"] == "of somebody else"


def test_a_hook_is_deleted_after_a_question_and_its_page_leads_back(page: Page, served: Served) -> None:
    served.put("/hooks/gone", {"style": "generic", "secret": "HOOK_SECRET", "task": "report"})
    show(page, served.address, "/hooks/gone")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page).to_have_url(re.compile("#/hooks$"))
    assert "gone" not in {hook["name"] for hook in served.get("/hooks")["items"]}
    assert deliver(served, "gone", {"type": "paid"}).status_code == 404
