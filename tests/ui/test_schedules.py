"""The pages of schedules: what they show is what the store says, and what is done there is done to it."""

import re

from playwright.sync_api import Page, expect

from tests.ui.pages import show
from tests.ui.serving import Served


def test_the_list_tells_each_schedule_with_its_rule_and_what_it_last_did(page: Page, served: Served) -> None:
    show(page, served.address, "/schedules")
    known = {one["name"]: one for one in served.get("/schedules")["items"]}
    table = page.get_by_role("table", name="Schedules")
    shown = table.locator("tbody tr")
    expect(shown).to_have_count(len(known))
    assert set(shown.evaluate_all("(rows) => rows.map((row) => row.dataset.id)")) == set(known)
    nightly = table.locator('tr[data-id="nightly"]')
    expect(nightly.locator("td[data-column=rule]")).to_contain_text("30 2 * * *")
    expect(nightly.locator("td[data-column=rule]")).to_contain_text("At 02:30")
    expect(nightly.locator("time").first).to_have_attribute("datetime", known["nightly"]["next_due_at"])


def test_a_schedule_that_ticks_is_seen_to_tick(page: Page, served: Served) -> None:
    show(page, served.address, "/schedules/tick")
    newest = page.get_by_role("table", name="Occurrences").locator("tbody tr").first
    expect(newest.locator("td[data-column=action]")).to_contain_text("started")
    page.get_by_role("button", name=re.compile("new$")).wait_for(timeout=20_000)


def test_a_rule_explains_itself_while_it_is_typed_and_tells_the_place_of_a_mistake(page: Page, served: Served) -> None:
    page.watched.may_answer(422, "/cron/explain$")
    show(page, served.address, "/schedules")
    page.get_by_role("button", name="New schedule").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Zone").fill("Europe/Berlin")
    rule = form.get_by_role("textbox", name=re.compile("^Cron"))
    rule.fill("30 2 * 3 SUN")
    expect(form.locator(".cron-told")).to_contain_text("At 02:30 on Sunday in March")
    said = served.post("/cron/explain", {"expression": "30 2 * 3 SUN", "tz": "Europe/Berlin", "n": 10})
    assert form.locator(".occurrences b").all_inner_texts() == [one["local"][11:16] for one in said["next"]]
    expect(form.locator(".occurrences .tag").first).to_contain_text("02:00 -> 03:00")

    rule.fill("30 2 * 3 SUNDAE")
    expect(form.locator(".cron-place mark")).to_have_text("SUNDAE")


def test_a_schedule_is_made_edited_paused_run_and_deleted_in_the_browser(page: Page, served: Served) -> None:
    show(page, served.address, "/schedules")
    page.get_by_role("button", name="New schedule").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Name").fill("made here")
    form.get_by_label("Task or dag").fill("report")
    form.get_by_label("Arguments (JSON)").fill('{"day": "monday"}')
    form.get_by_role("textbox", name=re.compile("^Cron")).fill("0 3 * * *")
    form.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("made here")
    path = "/schedules/made%20here"
    assert served.get(path)["spec"] == {"task": "report", "args": {"day": "monday"}, "cron": "0 3 * * *"}

    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Edit").click()
    page.get_by_role("dialog").get_by_label("Description").fill("for monday")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("for monday")).to_be_visible()
    assert served.get(path)["spec"]["description"] == "for monday"
    assert served.get(path)["spec"]["args"] == {"day": "monday"}

    page.get_by_role("button", name="Pause").click()
    page.get_by_label("Reason").fill("the printer is broken")
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator(".notice")).to_contain_text("the printer is broken")
    assert served.get(path)["state"] == "paused"
    page.locator(".page-head").get_by_role("button", name="Resume").click()
    expect(page.locator(".page-head [data-state=active]")).to_be_visible()

    page.get_by_role("button", name="Run now").click()
    page.get_by_role("button", name="View").click()
    expect(page).to_have_url(re.compile("#/jobs/"))
    job = served.get(f"/jobs/{page.url.rpartition('/')[2]}")
    assert (job["task"], job["args"]) == ("report", {"day": "monday"})

    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_contain_text("made here")
    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page).to_have_url(re.compile("#/schedules$"))
    assert "made here" not in {one["name"] for one in served.get("/schedules")["items"]}


def test_a_backfill_is_tried_out_before_it_starts_anything(page: Page, served: Served) -> None:
    served.put("/schedules/past", {"task": "report", "cron": "0 3 * * *", "paused": True})
    show(page, served.address, "/schedules/past")
    page.get_by_role("button", name="Backfill").click()
    form = page.get_by_role("dialog")
    form.get_by_label("From").fill("2026-01-01T00:00")
    form.get_by_label("To").fill("2026-01-04T00:00")
    form.get_by_role("button", name="Preview").click()
    expect(form.get_by_role("status")).to_contain_text("3 occurrences would start")
    assert served.get("/schedules/past/fires")["items"] == []

    form.get_by_role("button", name="Start 3").click()
    expect(page.locator(".toasts")).to_contain_text("3 occurrences of past are started")


def test_an_edit_after_an_edit_of_another_user_is_refused(page: Page, served: Served) -> None:
    page.watched.may_answer(412, "/schedules/edited$")
    served.put("/schedules/edited", {"task": "report", "every": "1h"})
    show(page, served.address, "/schedules/edited")
    page.get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Edit").click()
    page.get_by_role("dialog").get_by_label("Description").fill("of mine")
    served.put("/schedules/edited", {"task": "report", "every": "1h", "description": "of somebody else"})
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("This schedule was changed")
    assert served.get("/schedules/edited")["spec"]["description"] == "of somebody else"


def test_the_crowded_minutes_are_those_that_the_store_counts(page: Page, served: Served) -> None:
    show(page, served.address, "/schedules?tab=day")
    told = served.get("/density")
    cells = page.locator(".density-row i")
    expect(cells).to_have_count(len(told["minutes"]))
    expect(page.get_by_role("region", name="Busiest minutes")).to_contain_text(f"{told['schedules']} schedules")


def test_a_calendar_is_made_and_deleted_in_the_browser(page: Page, served: Served) -> None:
    show(page, served.address, "/schedules?tab=calendars")
    page.get_by_role("button", name="New calendar").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Name").fill("holidays")
    form.get_by_label("Every year").fill("12-25 01-01")
    form.get_by_role("button", name="Save").click()
    row = page.get_by_role("table", name="Calendars").locator('tr[data-id="holidays"]')
    expect(row).to_contain_text("every 12-25")
    assert served.get("/calendars/holidays")["yearly"] == ["01-01", "12-25"]
    row.get_by_role("button").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator(".toasts")).to_contain_text("Deleted calendar holidays")
    assert served.get("/calendars")["items"] == []


def test_who_may_only_look_sees_no_button_that_changes_a_schedule(viewer_page: Page, served: Served) -> None:
    show(viewer_page, served.address, "/schedules/tick")
    for name in ("Run now", "Pause", "Backfill"):
        expect(viewer_page.get_by_role("button", name=name)).to_have_count(0)
