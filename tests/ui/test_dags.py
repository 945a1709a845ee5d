"""The pages of dags: what they show of dags and runs is what the store has, and all that may be done is done there."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.ui.browsing import watched_page
from tests.ui.conftest import enter
from tests.ui.hostile import HOSTILE
from tests.ui.serving import Served
from tests.waiting import eventually

RUN_S = 60.0
FIRST = """
dags:
  books:
    params: {day: {type: string, default: today}}
    steps:
      fetch: {task: extract, args: {day: "${params.day}"}, group: read}
      check: {task: report, args: {day: "${params.day}"}, needs: [fetch], group: read}
      sum: {task: load, args: {parts: "${fetch.result}"}, needs: [check]}
      tell: {task: report, needs: [sum], retries: 1}
"""
SECOND = FIRST.replace("retries: 1", "retries: 4").replace("tell:", "audit: {task: report, needs: [sum]}\n      tell:")
RACE = """
dags:
  race:
    steps:
      parts: {task: transform, map: [1, "no number", 3, "neither", 5], args: {part: "${item}"}}
      after: {task: report, needs: [parts]}
"""


def place(page: Page, served: Served, path: str) -> None:
    page.goto(f"{served.address}/#{path}")


def box(page: Page, name: str) -> Locator:
    return page.locator(f'.graph [data-box="{name}"]')


def ended(served: Served, run: str) -> dict[str, Any]:
    def state() -> dict[str, Any] | None:
        found: dict[str, Any] = served.get(f"/runs/{run}")
        return found if found["ended_at"] is not None else None

    found = eventually(state, RUN_S, "the run ends")
    assert found is not None
    return found


def run_of(page: Page) -> str:
    found = re.search(r"#/runs/([0-9a-f-]+)", page.url)
    assert found is not None
    return found[1]


def told_states(served: Served, run: str) -> dict[str, str]:
    return {one["name"]: one["state"] for one in served.get(f"/runs/{run}/steps", limit=1000)["items"]}


@pytest.fixture(scope="module")
def books(served: Served) -> str:
    """A dag with two versions, of which one run has ended with the newest."""
    for text in (FIRST, SECOND):
        served.post("/dags", {"text": text})
    run: str = served.post("/dags/books/runs", {})["id"]
    assert ended(served, run)["state"] == "succeeded"
    return run


def test_a_run_is_started_with_a_form_and_its_graph_follows_the_store_until_it_ends(page: Page, served: Served) -> None:
    place(page, served, "/dags")
    page.get_by_role("button", name="Start run of etl").click()
    page.get_by_label("day").fill("2026-02-03")
    page.get_by_role("button", name="as JSON").click()
    assert json.loads(page.get_by_label("Parameters as JSON").input_value()) == {"day": "2026-02-03", "breaks": False}
    page.get_by_role("button", name="as fields").click()
    page.get_by_role("dialog").get_by_role("button", name="Start").click()
    page.wait_for_url(re.compile("#/runs/"))
    run = ended(served, run_of(page))
    assert (run["dag"], run["params"]["day"], run["state"]) == ("etl", "2026-02-03", "succeeded")
    expect(page.locator("h1 .state")).to_have_attribute("data-state", "succeeded")
    for name, state in told_states(served, run["id"]).items():
        expect(box(page, name)).to_have_attribute("data-state", state)
    expect(box(page, "transform")).to_have_accessible_name(re.compile("mapped step, succeeded, 3 succeeded"))


def test_a_failed_run_is_run_again_with_another_parameter_and_what_succeeded_is_kept(
    page: Page, served: Served
) -> None:
    id = served.post("/dags/etl/runs", {"params": {"breaks": True}})["id"]
    assert ended(served, id)["state"] == "failed"
    place(page, served, f"/runs/{id}?only=failed")
    expect(box(page, "load")).to_have_attribute("data-state", "failed")
    expect(box(page, "load")).to_have_attribute("data-faded", "false")
    expect(box(page, "extract")).to_have_attribute("data-faded", "true")
    page.get_by_role("button", name="Rerun…").click()
    expect(page.get_by_label("Failed steps and their dependents")).to_be_checked()
    page.get_by_role("dialog").get_by_label("breaks").uncheck()
    page.get_by_role("dialog").get_by_role("button", name="Rerun").click()
    expect(page.locator("h1 .state")).to_have_attribute("data-state", "succeeded", timeout=30_000)
    again = served.get(f"/runs/{id}")
    assert (again["generation"], again["params"]["breaks"]) == (2, False)
    tries = {one["name"]: one["attempts"] for one in served.get(f"/runs/{id}/steps")["items"]}
    assert tries == {"extract": 1, "transform": 1, "load": 2}


def test_a_step_that_asks_is_answered_on_the_page_and_a_run_that_waits_is_cancelled(page: Page, served: Served) -> None:
    text = 'dags: {asks: {steps: {ready: {approve: {text: "Ship it?"}}, go: {task: report, needs: [ready]}}}}'
    served.post("/dags", {"text": text})
    first, second = (served.post("/dags/asks/runs", {})["id"] for _ in range(2))
    place(page, served, f"/runs/{first}")
    expect(box(page, "ready")).to_have_attribute("data-state", "awaiting")
    page.locator(".notice", has_text="Ship it?").get_by_role("button", name="Approve").click()
    page.get_by_label("Note").fill("looks right")
    page.get_by_role("dialog").get_by_role("button", name="Approve").click()
    expect(page.locator("h1 .state")).to_have_attribute("data-state", "succeeded", timeout=30_000)
    assert ended(served, first)["state"] == "succeeded"

    place(page, served, f"/runs/{second}")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel run").click()
    expect(page.locator("h1 .state")).to_have_attribute("data-state", "cancelled")
    assert ended(served, second)["state"] == "cancelled"


def test_a_run_of_a_schedule_shows_its_occurrence_and_another_run_none(page: Page, served: Served, books: str) -> None:
    due = datetime(2026, 1, 5, 1, 30, tzinfo=UTC)  # half past two in Berlin
    (id,) = served.app.schedules["nightly"].backfilling([due], 1).enqueue()
    place(page, served, f"/runs/{id}")
    shown = page.get_by_role("region", name="Occurrence")
    expect(shown.locator("dt")).to_have_text(["Scheduled for", "Schedule", "Interval"])
    expect(shown.locator("dd").first).to_contain_text(re.compile("[45] Jan 2026"))  # by the zone of this machine
    expect(shown.locator("dd").first).to_contain_text("catch-up")
    expect(shown.get_by_role("link", name="nightly")).to_have_attribute("href", "#/schedules/nightly")
    instants = [one.get_attribute("datetime") for one in shown.locator("time").all()]
    assert instants == ["2026-01-05T01:30:00Z", "2026-01-04T01:30:00Z", "2026-01-05T01:30:00Z"]
    ended(served, id)

    place(page, served, f"/runs/{books}")
    expect(page.locator("h1")).to_contain_text("books")
    expect(shown).to_have_count(0)


def test_each_cell_of_the_grid_is_how_the_step_stood_in_the_run_and_opens_it(page: Page, served: Served) -> None:
    place(page, served, "/dags/etl?tab=grid")
    grid = served.get("/dags/etl/grid")
    assert len(grid["runs"]) >= 2
    expect(page.locator(".grid-run")).to_have_count(len(grid["runs"]))
    for row in grid["steps"]:
        shown = page.locator(".grid-table tr", has=page.get_by_role("rowheader", name=row["name"])).locator(".cell")
        states = [one.get_attribute("data-state") for one in shown.all()]
        assert states == [cell[0] for cell in reversed(row["cells"]) if cell is not None], row["name"]
    page.locator(".cell").last.click()
    page.wait_for_url(re.compile(f"#/runs/{grid['runs'][0]['id']}\\?step=load"))
    expect(page.get_by_role("complementary", name="load")).to_be_visible()


def test_a_step_is_opened_with_the_keys_alone_and_the_address_says_so(page: Page, served: Served, books: str) -> None:
    place(page, served, f"/runs/{books}")
    page.locator(".graph").focus()
    page.keyboard.press("Tab")
    expect(box(page, "fetch")).to_be_focused()
    for key, name in (("ArrowRight", "check"), ("ArrowRight", "sum"), ("ArrowLeft", "check")):
        page.keyboard.press(key)
        expect(box(page, name)).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(box(page, "sum")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"#/runs/{books}\\?step=sum"))
    panel = page.get_by_role("complementary", name="sum")
    job = next(one for one in served.get(f"/runs/{books}/steps")["items"] if one["name"] == "sum")["job_id"]
    expect(panel.get_by_role("link", name="Job")).to_have_attribute("href", f"#/jobs/{job}")
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)


def test_a_group_closes_to_one_box_that_counts_its_steps_and_opens_again(
    page: Page, served: Served, books: str
) -> None:
    place(page, served, f"/runs/{books}")
    expect(box(page, "fetch")).to_be_visible()
    page.get_by_role("button", name="Collapse groups").click()
    expect(box(page, "fetch")).to_have_count(0)
    closed = box(page, "group read")
    expect(closed).to_have_accessible_name(re.compile("collapsed group of 2 steps, succeeded, 2 succeeded"))
    closed.click()
    expect(box(page, "fetch")).to_be_visible()


def test_versions_say_which_steps_were_added_and_what_changed_of_others(page: Page, served: Served, books: str) -> None:
    place(page, served, "/dags/books?tab=versions")
    changes = page.locator(".changes > li")
    expect(changes).to_have_count(2)
    expect(changes.filter(has_text="audit")).to_contain_text("added")
    field = changes.filter(has_text="tell")
    expect(field.locator("del")).to_have_text("1")
    expect(field.locator("ins")).to_have_text("4")
    page.get_by_role("button", name="Version 1 4 steps").click()
    expect(page.get_by_text("First version")).to_be_visible()
    place(page, served, "/dags/books?tab=code")
    expect(page.locator("pre")).to_contain_text("audit:")
    assert page.locator("pre").inner_text().strip() == served.get("/dags/books/source")["text"].strip()


def _milliseconds(at: str) -> int:
    return int(datetime.fromisoformat(at).timestamp() * 1000)


def test_the_timeline_has_a_bar_for_each_step_and_outlines_the_critical_path(
    page: Page, served: Served, books: str
) -> None:
    place(page, served, f"/runs/{books}?tab=timeline")
    rows = page.locator(".gantt-row")
    expect(rows).to_have_count(5)
    path = [one["step"] for one in served.get(f"/runs/{books}/timeline", bars="false")["critical_path"]]
    outlined = page.locator(".gantt-row", has=page.locator('.runs[data-critical="true"]')).locator(".clip")
    expect(outlined).to_have_text(path)
    started = {one["name"]: one["started_at"] for one in served.get(f"/runs/{books}/steps")["items"]}
    by_start = sorted(started, key=lambda name: _milliseconds(started[name]))
    assert rows.locator(".clip").all_inner_texts() == by_start
    wide = rows.first.locator(".runs").bounding_box()
    page.get_by_role("button", name="Zoom in (+)").click()
    page.keyboard.press("0")
    expect(rows).to_have_count(5)
    assert rows.first.locator(".runs").bounding_box() == wide


def test_the_instances_of_a_mapped_step_are_listed_and_those_that_failed_alone(page: Page, served: Served) -> None:
    served.post("/dags", {"text": RACE})
    run = served.post("/dags/race/runs", {})["id"]
    assert ended(served, run)["state"] == "failed"
    place(page, served, f"/runs/{run}?step=parts")
    lines = page.locator(".lines li")
    expect(lines).to_have_count(5)
    page.get_by_role("button", name="Failed", exact=True).last.click()
    expect(lines).to_have_text([re.compile(r"parts\[1\]"), re.compile(r"parts\[3\]")])
    failed = served.get(f"/runs/{run}/instances", step="parts", state="failed")["items"]
    assert [one.get_attribute("href") for one in lines.locator("a").all()] == [
        f"#/jobs/{one['job_id']}" for one in failed
    ]
    expect(page).to_have_url(re.compile("instances=failed"))


def test_events_are_those_of_the_run_in_their_order(page: Page, served: Served, books: str) -> None:
    place(page, served, f"/runs/{books}?tab=events")
    told = served.get(f"/runs/{books}/events", limit=200)["items"]
    times = page.locator(".events time")
    expect(times).to_have_count(len(told))
    assert [one.get_attribute("datetime") for one in times.all()] == [one["at"] for one in told]
    expect(page.locator(".events li").last).to_contain_text("The run succeeded")


def test_who_may_only_look_is_offered_nothing_to_change(viewer_page: Page, served: Served, books: str) -> None:
    place(viewer_page, served, f"/runs/{books}?step=sum")
    expect(viewer_page.get_by_role("complementary", name="sum")).to_be_visible()
    for name in ("Rerun", "Cancel", "Start"):
        expect(viewer_page.get_by_role("button", name=name)).to_have_count(0)
    place(viewer_page, served, "/dags/books")
    expect(box(viewer_page, "sum")).to_be_visible()
    expect(viewer_page.get_by_role("button", name="Start run")).to_have_count(0)


@pytest.mark.parametrize("width", [390, 320])
def test_on_a_phone_nothing_is_wider_than_the_screen(browser: Browser, served: Served, books: str, width: int) -> None:
    with watched_page(browser, served.address, viewport={"width": width, "height": 844}) as page:
        enter(page, served)
        tabs = ("graph", "timeline", "steps", "events", "data", "code")
        named = {"key": "order-" + "7" * 60, "labels": ["region-" + "x" * 30]}
        long = served.post("/dags/books/runs", named)["id"]
        hostile = served.app.named(f"dag {HOSTILE}").enqueue().id
        eventually(lambda: len(served.get(f"/runs/{hostile}/events")["items"]) > 2, RUN_S, "its step has begun")
        for path, there in (
            ("/dags", "table"),
            *((f"/dags/books?tab={tab}", "h1") for tab in ("graph", "grid", "runs", "versions", "code")),
            *((f"/runs/{run}?tab={tab}", "h1") for run in (books, long) for tab in tabs),
            (f"/runs/{hostile}?tab=events", ".events .link"),
            (f"/runs/{books}?step=sum", "dialog[open]"),
        ):
            place(page, served, path)
            page.wait_for_selector(there)
            page.wait_for_load_state("networkidle")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path


def test_an_empty_store_shows_the_code_to_write(browser: Browser, empty: Served) -> None:
    with watched_page(browser, empty.address) as page:
        enter(page, empty)
        place(page, empty, "/dags")
        expect(page.get_by_text("No dags yet")).to_be_visible()
        expect(page.locator("pre")).to_contain_text("@app.dag")
