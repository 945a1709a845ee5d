"""Pages under failures: slow responses, a server that is down, expired sessions, quick double clicks."""

import json
import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, Route, expect

from tests.ui.serving import PASSWORD, VIEWER, Served

NAMES = ["nightly/report", "a b?c=d#e", "50%2F", "käse & co", 'say "so" \\']
LARGE = 9_007_199_254_740_993  # one more than a number of JavaScript can tell from its neighbour

SLOW = """
const told = window.fetch;
window.fetch = async (...said) => { await new Promise((go) => setTimeout(go, 1600)); return told(...said); };
"""


def at(page: Page, served: Served, place: str) -> Page:
    page.goto(f"{served.address}/#{place}")
    return page


def hide(page: Page, is_hidden: bool) -> None:
    """Tell the page that its tab is hidden, or visible."""
    page.evaluate(
        """(isHidden) => {
          Object.defineProperty(document, "hidden", { configurable: true, get: () => isHidden });
          document.dispatchEvent(new Event("visibilitychange"));
        }""",
        is_hidden,
    )


def test_enter_works_the_link_that_has_the_focus_and_else_opens_the_row_that_keys_are_at(
    page: Page, served: Served
) -> None:
    at(page, served, "/jobs")
    expect(page.get_by_role("table", name="Jobs", exact=True).locator("tbody tr").first).to_be_visible()
    page.get_by_role("navigation", name="Pages", exact=True).get_by_role("link", name="Queues").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{served.address}/#/queues")
    page.get_by_role("navigation", name="Pages", exact=True).get_by_role("link", name="Jobs").click()
    expect(page.locator("tbody tr").nth(2)).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("j")
    row = page.locator("tr.at")
    expect(row).to_be_focused()
    job = row.get_attribute("data-id")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{served.address}/#/jobs/{job}")


def test_keys_stay_at_their_row_when_others_come_above_it(page: Page, served: Served) -> None:
    served.app.named("report").enqueue("first")
    at(page, served, "/jobs?q=task:report")
    expect(page.get_by_role("table", name="Jobs", exact=True).locator("tbody tr").first).to_be_visible()
    page.keyboard.press("j")
    job = page.locator("tr.at").get_attribute("data-id")
    served.app.named("report").enqueue("second")
    page.locator(".fresh button").click()
    expect(page.locator(f'tr.at[data-id="{job}"]')).to_have_count(1)
    expect(page.locator("tbody tr").first).not_to_have_class("at")


def test_a_page_comes_however_slow_its_answers_are_and_however_much_changes(page: Page, served: Served) -> None:
    page.add_init_script(SLOW)
    page.reload()
    at(page, served, "/jobs?q=task:report")
    newest = ""
    for _ in range(14):
        newest = served.app.named("report").enqueue("busy").id
        page.wait_for_timeout(350)
    expect(page.locator("tbody tr").first).to_be_visible(timeout=4_000)
    page.locator(".fresh button").click()
    expect(page.locator(f'tr[data-id="{newest}"]')).to_be_visible()


def test_what_changed_during_a_pause_is_shown_after_it(page: Page, served: Served) -> None:
    at(page, served, "/settings?part=notifications")
    expect(page.get_by_role("table", name="Channels")).to_be_visible()
    live = page.locator("button.live")
    expect(live).to_have_text("Live")
    live.click()
    expect(live).to_have_text("Paused")
    served.put("/channels/paused", {"kind": "slack", "url": "https://chat.example.org/x"})
    live.click()
    expect(page.get_by_role("table", name="Channels")).to_contain_text("paused")
    served.app.notifications.delete_channel("paused")


def test_a_stream_that_was_refused_is_taken_up_when_the_page_is_looked_at_again(page: Page, served: Served) -> None:
    page.watched.may_answer(503, "/stream")  # type: ignore[attr-defined]
    page.route("**/api/v1/stream*", lambda route: route.fulfill(status=503))
    page.reload()
    live = page.locator("button.live")
    expect(live).to_have_text("Disconnected")
    hide(page, True)
    page.unroute("**/api/v1/stream*")
    hide(page, False)
    expect(live).to_have_text("Live")


def test_a_session_that_ended_asks_for_a_login_and_goes_back_to_the_same_place(
    viewer_page: Page, served: Served
) -> None:
    page, watched = viewer_page, viewer_page.watched  # type: ignore[attr-defined]
    at(page, served, "/settings?part=you")
    expect(page.locator("button.live")).to_have_text("Live")
    page.locator("button.live").click()
    expect(page.locator("button.live")).to_have_text("Paused")
    watched.may_answer(401, "/api/v1/")
    page.context.clear_cookies()
    # The stream is begun again, and refused. Another request may have been refused before, and the button be gone.
    page.evaluate("() => document.querySelector('button.live')?.click()")
    page.get_by_label("Name", exact=True).fill(VIEWER)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Settings")).to_be_visible()
    expect(page).to_have_url(f"{served.address}/#/settings?part=you")


def test_a_server_that_is_away_is_asked_again_without_a_hand(page: Page, served: Served) -> None:
    page.watched.may_answer(503, "/workers")  # type: ignore[attr-defined]
    page.route("**/api/v1/workers*", lambda route: route.fulfill(status=503, json={"detail": "busy"}))
    at(page, served, "/workers")
    expect(page.get_by_role("alert")).to_contain_text("busy")
    page.unroute("**/api/v1/workers*")
    expect(page.get_by_role("table", name="Workers")).to_be_visible()


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest, served: Served) -> Iterator[str]:
    """A name of a schedule and of the queue that it fills; both are gone after the test."""
    said: str = request.param
    served.put(f"/schedules/{quote(said, safe='')}", {"task": "report", "every": "12h", "queue": said})
    yield said
    served.app.schedules[said].delete()
    served.app.cancel(queue=said)


def test_links_lead_to_things_of_any_name(page: Page, served: Served, name: str) -> None:
    at(page, served, f"/schedules?q={quote(name, safe='')}")
    page.get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)
    page.get_by_role("button", name="Run now").click()
    page.get_by_role("button", name="View").click()
    page.get_by_role("link", name=name).first.click()  # its queue
    expect(page.get_by_role("table", name="Jobs").locator("tbody tr")).to_have_count(1)
    expect(page.locator(".query-troubles")).to_have_count(0)


def test_whole_numbers_of_any_size_are_shown_copied_and_sent_again_as_they_are(page: Page, served: Served) -> None:
    job = served.post("/jobs", {"task": "wait_for_ever", "args": {"text": [LARGE, 1.5, -LARGE * 3]}})
    at(page, served, f"/jobs/{job['id']}?tab=payload")
    expect(page.locator(".tree-body")).to_contain_text(str(LARGE))
    page.get_by_role("button", name="Rerun edited").click()
    expect(page.get_by_label("Arguments (JSON)")).to_have_value(re.compile(rf"{LARGE},\s+1\.5,\s+{-LARGE * 3}\b"))
    page.get_by_role("button", name="Enqueue").click()
    expect(page).not_to_have_url(f"{served.address}/#/jobs/{job['id']}?tab=payload")
    made = served.get(f"/jobs/{page.url.rpartition('/')[2]}")
    assert made["args"] == {"text": [LARGE, 1.5, -LARGE * 3]}


def test_nothing_is_discarded_before_it_was_shown_nor_more_than_was_chosen(page: Page, served: Served) -> None:
    sent: list[Any] = []

    def refuse(route: Route) -> None:
        sent.append(route.request.post_data_json)
        route.abort()

    asked: list[Route] = []
    page.route("**/api/v1/dead/discard", refuse)
    page.route("**/api/v1/bulk", lambda route: asked.append(route))  # noqa: PLW0108
    at(page, served, "/dead")
    page.get_by_label("Select all rows").check()
    page.get_by_role("button", name="Discard…").click()
    button = page.get_by_role("dialog").get_by_role("button", name="Discard")
    expect(button).to_be_disabled()
    eventually_asked(page, lambda: len(asked) > 0)
    for route in asked:
        route.continue_()
    page.unroute("**/api/v1/bulk")
    typed = page.get_by_label("Type discard to confirm")
    expect(button).to_be_enabled()
    if typed.is_visible():
        typed.fill("discard")
    button.click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_be_visible()
    assert sent
    assert all(one["filter"].get("task") and one["filter"].get("error") for one in sent)


def eventually_asked(page: Page, is_so: Callable[[], bool]) -> None:
    for _ in range(50):
        if is_so():
            return
        page.wait_for_timeout(100)
    raise AssertionError("nothing was asked")


def test_a_word_that_is_not_understood_offers_no_change_to_all_that_match(page: Page, served: Served) -> None:
    at(page, served, "/jobs?q=state%3Asucceeded")
    page.get_by_label("Select row").first.check()
    bar = page.get_by_role("toolbar")
    expect(bar.get_by_role("button", name="matching")).to_be_visible()
    at(page, served, "/jobs?q=state%3Asucceeded%20lable%3Aurgent")
    expect(page.locator(".query-troubles")).to_be_visible()
    page.get_by_label("Select row").first.check()
    expect(bar).to_be_visible()
    expect(bar.get_by_role("button", name="matching")).to_have_count(0)


def test_the_palette_waits_for_what_was_typed_before_enter(page: Page, served: Served) -> None:
    job = served.app.named("wait_for_ever").enqueue("findme").id
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox")).to_be_focused()
    page.keyboard.insert_text(job)
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{served.address}/#/jobs/{job}")


def test_to_copy_a_call_out_of_a_form_does_not_send_it(page: Page, served: Served) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    before = served.get("/runs", dag="etl")["items"]
    at(page, served, "/dags/etl")
    page.get_by_role("button", name="Start run").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("day").fill("7")
    dialog.get_by_role("button", name="Copy as").click()
    dialog.get_by_role("menuitem", name="Command").click()
    expect(page.get_by_role("status").filter(has_text="Copied as Command")).to_be_visible()
    command = page.evaluate("navigator.clipboard.readText()")
    assert shlex.split(command)[:4] == ["tickwork", "run", "etl", "--json"]
    assert json.loads(shlex.split(command)[4])["day"] == "7"
    expect(dialog).to_be_visible()
    assert served.get("/runs", dag="etl")["items"] == before


def test_no_button_in_a_form_sends_it_but_the_one_that_says_so(page: Page, served: Served) -> None:
    limit = served.get("/limits")["items"][0]["name"]
    for place, opener in {
        "/dags/etl": "Start run",
        "/queues?tab=gates": "New gate",
        "/queues?tab=tenants": "Set weight",
        f"/queues?tab=limits&limit={quote(limit)}": None,
        "/schedules": "New schedule",
        "/hooks": "New hook",
        "/settings?part=notifications": "New notification",
    }.items():
        at(page, served, place)
        if opener is not None:
            page.get_by_role("button", name=opener).click()
        expect(page.locator("dialog form")).to_be_visible()
        senders = page.locator("dialog form").evaluate(
            "(form) => [...form.elements].filter((one) => one.type === 'submit').map((one) => one.textContent)"
        )
        assert len(senders) == 1, (place, senders)
        page.reload()


def test_a_fault_in_one_page_is_told_and_leaves_the_others(page: Page, served: Served) -> None:
    page.route("**/api/v1/workers", lambda route: route.fulfill(json={"items": [{"id": "from another version"}]}))
    at(page, served, "/workers")
    expect(page.get_by_role("alert")).to_contain_text("This page has an error")
    page.get_by_role("navigation", name="Pages", exact=True).get_by_role("link", name="Jobs").click()
    expect(page.get_by_role("table", name="Jobs")).to_be_visible()
    assert page.watched.wrong  # type: ignore[attr-defined]
    page.watched.wrong.clear()  # type: ignore[attr-defined]
