"""The page of queues: what it shows is what the store has, and what is done there is done."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from urllib.parse import quote

from playwright.sync_api import Locator, Page, expect

from tests.ui.hostile import HOSTILE
from tests.ui.pages import show
from tests.ui.serving import Served
from tests.waiting import eventually
from tickwork import breaker, concurrency
from tickwork.core.job import JobFilter, JobState
from tickwork.core.limits.job_limits import LimitKey

SOON_MS = 15_000


def row(page: Page, table: str, id: str) -> Locator:
    return page.get_by_role("table", name=table).locator("tbody tr").and_(page.locator(f'[data-id="{id}"]'))


def cell(page: Page, table: str, id: str, column: str) -> Locator:
    return row(page, table, id).locator(f'td[data-column="{column}"]')


def queue_menu(page: Page, queue: str, item: str) -> None:
    page.get_by_role("button", name=f"Actions for queue {queue}", exact=True).click()
    page.get_by_role("menuitem", name=item).click()


def test_a_queue_shows_what_the_store_has_of_it(page: Page, served: Served) -> None:
    served.app.named("send_email").options(queue="later", delay="1h").enqueue_many([(f"{n}",) for n in range(7)])
    show(page, served.address, "/queues")
    (later,) = [one for one in served.get("/queues")["items"] if one["name"] == "later"]
    assert (later["due"], later["later"], later["running"], later["workers"]) == (0, 7, 0, 0)
    for column, said in (("due", "0"), ("later", "7"), ("running", "0"), ("held", "0"), ("workers", "0")):
        expect(cell(page, "Queues", "later", column)).to_have_text(said)
    served.app.named("send_email").options(queue="later", delay="1h").enqueue("one more")
    expect(cell(page, "Queues", "later", "later")).to_have_text("8", timeout=SOON_MS)
    cell(page, "Queues", "later", "later").get_by_role("link").click()
    expect(page).to_have_url(re.compile("#/jobs.*later"))


def test_a_page_shows_itself_where_answers_take_longer_than_changes_come(page: Page, served: Served) -> None:
    slow = {"offline": False, "latency": 3000, "downloadThroughput": -1, "uploadThroughput": -1}
    show(page, served.address, "/queues")
    page.context.new_cdp_session(page).send("Network.emulateNetworkConditions", slow)
    with changing(served):
        page.goto(f"{served.address}/#/workers")
        expect(page.get_by_role("table", name="Workers")).to_be_visible(timeout=SOON_MS)


@contextmanager
def changing(served: Served) -> Iterator[None]:
    """Change the store a few times a second."""
    is_over = Event()

    def change() -> None:
        while not is_over.wait(0.3):
            served.app.named("send_email").options(queue="later", delay="1h").enqueue("again")

    thread = Thread(target=change)
    thread.start()
    yield
    is_over.set()
    thread.join()


def test_a_queue_is_paused_with_a_reason_and_goes_on(page: Page, served: Served) -> None:
    served.app.named("send_email").options(queue="stopped", delay="1h").enqueue("a")
    show(page, served.address, "/queues")
    queue_menu(page, "stopped", "Pause…")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Duration").select_option("1h")
    dialog.get_by_label(re.compile("^Reason")).fill(f"the provider is down {HOSTILE}")
    dialog.get_by_role("button", name="Pause", exact=True).click()
    name = cell(page, "Queues", "stopped", "name")
    expect(name).to_contain_text("paused")
    expect(name).to_contain_text(f"the provider is down {HOSTILE}")
    (gate,) = [one for one in served.get("/gates")["items"] if one["queue"] == "stopped"]
    assert (gate["kind"], gate["until"] is None, gate["reason"]) == ("pause", False, f"the provider is down {HOSTILE}")

    queue_menu(page, "stopped", "Resume")
    expect(name).to_have_text("stopped")
    assert [one for one in served.get("/gates")["items"] if one["queue"] == "stopped"] == []


def test_what_waits_in_a_queue_is_cancelled_after_its_name_was_typed(page: Page, served: Served) -> None:
    served.app.named("send_email").options(queue="purged", delay="1h").enqueue_many([(f"{n}",) for n in range(5)])
    show(page, served.address, "/queues")
    queue_menu(page, "purged", "Cancel waiting jobs")
    dialog = page.get_by_role("dialog", name="Cancel 5 jobs?")
    expect(dialog.get_by_role("button", name="Cancel 5 jobs")).to_be_disabled()
    dialog.get_by_role("textbox").fill("purged")
    dialog.get_by_role("button", name="Cancel 5 jobs").click()
    expect(page.locator(".operation")).to_contain_text("cancel done: 5 jobs changed", timeout=SOON_MS)
    jobs = served.app.store.reads.find_jobs(JobFilter(queue="purged"), 100).jobs
    assert [view.state for view in jobs] == [JobState.CANCELLED] * 5


def test_a_limit_is_changed_while_jobs_wait_and_is_what_code_says_again(page: Page, served: Served) -> None:
    served.app.store.limits.declare_limits({"stripe": concurrency(5)})
    show(page, served.address, "/queues?tab=limits&limit=stripe")
    drawer = page.get_by_role("dialog", name="Limit stripe")
    drawer.get_by_label("Rate of starts").check()
    drawer.get_by_label("Rate", exact=True).fill("30/m")
    drawer.get_by_role("button", name="Change limit").click()
    expect(cell(page, "Limits", "stripe", "rule")).to_contain_text("30/m")
    assert limit(served, "stripe")["override"]["rate"] == "30/m"

    drawer.get_by_role("button", name="Reset to the value in code").click()
    page.get_by_role("button", name="Reset", exact=True).click()
    expect(cell(page, "Limits", "stripe", "rule")).to_have_text("5 at once")
    assert limit(served, "stripe")["override"] is None


def test_a_breaker_that_is_open_is_told_on_every_tab(page: Page, served: Served) -> None:
    store = served.app.store
    store.limits.declare_limits({"frail": breaker(failures=1, pause="1h")})
    store.limits.end_probes([(LimitKey("frail", ""), store.reads.find_jobs(JobFilter(), 1).jobs[0].id, True)])
    for tab in ("queues", "gates", "tenants", "limits"):
        show(page, served.address, f"/queues?tab={tab}")
        expect(page.locator(".notice").filter(has_text="The breaker of frail is open.")).to_be_visible()
    expect(cell(page, "Limits", "frail", "live")).to_have_text("open")
    page.get_by_role("link", name="View", exact=True).click()
    keys = page.get_by_role("dialog").get_by_role("table", name="Keys of the limit")
    expect(keys).to_contain_text("open")
    store.limits.end_probes([(LimitKey("frail", ""), store.reads.find_jobs(JobFilter(), 1).jobs[0].id, False)])
    store.limits.set_limit("frail", concurrency(1))


def test_a_gate_says_what_it_will_do_before_it_is_in_force_and_is_lifted(page: Page, served: Served) -> None:
    name = f"bulk {HOSTILE}"
    served.app.named("wait_for_ever").options(labels=[name], delay="1h").enqueue_many([(f"{n}",) for n in range(4)])
    show(page, served.address, "/queues?tab=gates")
    page.get_by_role("button", name="New gate").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label(re.compile("^Divert")).check()
    dialog.get_by_label("Label").fill(name)
    dialog.get_by_label("Target queue").fill("spare")
    expect(dialog.locator(".notice")).to_contain_text(
        f"Jobs of label {name} move to queue spare when they would start."
    )
    expect(dialog.locator(".notice")).to_contain_text("4 are waiting now.")
    dialog.get_by_role("button", name="Divert").click()
    gate = page.locator(".gate").filter(has_text=name)
    expect(gate).to_contain_text("to queue spare")
    (stored,) = [one for one in served.get("/gates")["items"] if one["label"] == name]
    assert (stored["kind"], stored["to"]) == ("divert", "spare")

    gate.get_by_role("button", name="Remove").click()
    expect(gate).to_have_count(0)
    assert [one for one in served.get("/gates")["items"] if one["label"] == name] == []


def test_a_gate_that_is_refused_says_why_and_stays_open(page: Page, served: Served) -> None:
    page.watched.may_answer(422, "/gates/pause$")
    show(page, served.address, "/queues")
    page.get_by_role("button", name="New gate").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("a gate says what it is for")


def test_a_tenant_is_given_turns(page: Page, served: Served) -> None:
    show(page, served.address, "/queues?tab=tenants")
    page.get_by_role("button", name="Set weight").click()
    page.get_by_role("textbox", name="Tenant").fill("acme")
    page.get_by_label("Weight (1 to 100)").fill("7")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(cell(page, "Tenants", "acme", "weight")).to_have_text("7")
    assert {"name": "acme", "weight": 7} in served.get("/tenants")["items"]


def test_a_viewer_is_offered_nothing_to_change(viewer_page: Page, served: Served) -> None:
    for path in ("/queues", "/queues?tab=gates", "/queues?tab=tenants", f"/queues?tab=limits&limit={quote('cards')}"):
        show(viewer_page, served.address, path)
        for name in ("New gate", "Set weight", "Remove", re.compile("^Actions for"), "Change limit"):
            expect(viewer_page.locator("#content").get_by_role("button", name=name)).to_have_count(0)


def limit(served: Served, name: str) -> dict[str, dict[str, str]]:
    found = eventually(
        lambda: [one for one in served.get("/limits")["items"] if one["name"] == name], 10, f"there is a limit {name}"
    )
    return dict(found[0])
