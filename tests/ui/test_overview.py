"""The overview: its figures are those of the store, it names what needs attention, and failures are rerun from it."""

import re
from datetime import datetime
from typing import Any

from playwright.sync_api import Browser, Locator, Page, expect

from tests.ui.browsing import watched_page
from tests.ui.conftest import enter
from tests.ui.serving import Served
from tests.waiting import eventually
from tickwork.core.job import JobFilter, JobState

SETTLE_S = 30
BUCKETS = {"1h": 60, "6h": 72, "24h": 96, "7d": 168}


def test_what_it_shows_to_have_succeeded_is_what_succeeded_in_the_store(page: Page, served: Served) -> None:
    mails = 40
    eventually(lambda: _counted(served) >= mails, SETTLE_S, "what the shop did is counted")
    _stand_still(page)
    with page.expect_response(re.compile(r"/stats/series\?range=6h")) as answered:
        page.get_by_role("button", name="6h", exact=True).click()
    told = answered.value.json()
    total = told["total"]["succeeded"]
    least, most = (_succeeded(served, told[instant]) for instant in ("known_until", "at"))
    assert mails <= least <= total <= most

    expect(page.locator("[data-figure=succeeded] .note")).to_have_text(f"{total} in 6h")
    shown = page.locator("table", has_text="Throughput").locator("tbody td:nth-of-type(1)")
    expect(shown).to_have_count(BUCKETS["6h"])
    assert sum(int(text.replace(",", "")) for text in shown.all_inner_texts()) == total


def test_the_range_stands_in_the_address_and_back_leads_to_the_one_before(page: Page) -> None:
    rows = page.locator("table", has_text="Latency").locator("tbody tr")
    expect(rows).to_have_count(BUCKETS["1h"])
    for range_ in ("24h", "7d"):
        page.get_by_role("button", name=range_, exact=True).click()
        expect(page).to_have_url(re.compile(rf"#/\?range={range_}$"))
        expect(rows).to_have_count(BUCKETS[range_])
    page.go_back()
    expect(rows).to_have_count(BUCKETS["24h"])
    expect(page.get_by_role("button", name="24h", exact=True)).to_have_attribute("aria-pressed", "true")


def test_the_charts_are_walked_with_keys_and_show_the_same_instant(page: Page) -> None:
    _stand_still(page)
    throughput, latency = page.get_by_role("slider").all()
    throughput.focus()
    page.keyboard.press("Home")
    first = _instant(throughput)
    page.keyboard.press("ArrowRight")
    assert _instant(throughput) == _instant(latency) != first
    page.keyboard.press("End")
    expect(throughput).to_have_attribute("aria-valuenow", str(BUCKETS["1h"] - 1))
    expect(page.locator(".tip")).to_have_count(2)
    page.keyboard.press("Escape")
    expect(page.locator(".tip")).to_have_count(0)


def test_what_needs_attention_is_what_the_api_says_and_leads_to_it(page: Page, served: Served) -> None:
    told = served.get("/stats/attention")["items"]
    lines = page.get_by_role("region", name="Needs attention").locator("li")
    expect(lines.filter(has_text="dead letters").locator("a")).to_have_attribute("href", "#/dead")
    failing = next(one for one in told if one["kind"] == "failing" and "task charge" in one["title"])
    line = lines.filter(has_text="task charge fails")
    expect(line).to_contain_text(failing["detail"])
    expect(line.locator("a")).to_have_attribute("href", "#/jobs?q=state%3Afailed+task%3Acharge")
    severities = [line.get_attribute("data-severity") for line in lines.all()]
    assert severities == sorted(severities, key=["error", "warning", "info"].index)


def test_what_is_due_next_and_what_runs_now_are_listed(page: Page, served: Served) -> None:
    told = [one["schedule"] for one in served.get("/stats/next", limit=7)["items"]]
    upcoming = page.get_by_role("region", name="Next runs").locator("li b")
    expect(upcoming.first).to_have_text("tick")
    assert sorted(upcoming.all_inner_texts()) == sorted(told)
    running = page.get_by_role("region", name="Running now").locator("li", has_text="import_file")
    expect(running).to_contain_text(re.compile(r"row \d+"))


def test_all_jobs_of_one_failure_run_again_after_a_look_at_which_they_are(page: Page, served: Served) -> None:
    group = next(one for one in served.get("/stats/failures")["items"] if "the card of customer 1" in one["error"])
    row = page.get_by_role("region", name="Recent failures").locator("tr", has_text=group["error"])
    row.get_by_role("button", name=re.compile("Retry")).click()
    dialog = page.get_by_role("dialog")
    tried = dialog.locator(".retry-sample code")
    expect(tried).to_have_count(group["dead"])
    jobs = tried.all_inner_texts()
    tries = [_job(served, job)["attempt"] for job in jobs]
    assert all("the card of customer 1" in _job(served, job)["error"] for job in jobs)
    others = [one["id"] for one in served.get("/jobs", task="charge", state="failed")["items"] if one["id"] not in jobs]
    before = [_job(served, job)["attempt"] for job in others]

    dialog.get_by_role("button", name=re.compile("^Retry")).click()
    expect(page.locator(".operation")).to_contain_text(f"redrive done: {len(jobs)} job", timeout=SETTLE_S * 1000)
    again = [number + 1 for number in tries]
    eventually(lambda: [_job(served, job)["attempt"] for job in jobs] == again, SETTLE_S, "they ran again")
    assert [_job(served, job)["attempt"] for job in others] == before


def test_who_may_only_look_is_offered_no_change(viewer_page: Page) -> None:
    failures = viewer_page.get_by_role("region", name="Recent failures")
    expect(failures.locator("tbody tr").first).to_be_visible()
    expect(failures.get_by_role("button")).to_have_count(0)


def test_a_store_where_nothing_was_ever_enqueued_says_how_to_begin(browser: Browser, empty: Served) -> None:
    with watched_page(browser, empty.address) as page:
        enter(page, empty)
        expect(page.get_by_role("heading", name="Create your first job")).to_be_visible()
        expect(page.locator(".code")).to_contain_text("tickwork enqueue send_email to=ada@example.org --wait")


def _stand_still(page: Page) -> None:
    """Freeze the page until the test refreshes it."""
    page.locator("button.live").click()
    expect(page.locator("button.live")).to_have_text("Paused")
    expect(page.get_by_role("slider")).to_have_count(2)


def _counted(served: Served) -> int:
    return int(served.get("/stats/series")["total"]["succeeded"])


def _instant(chart: Locator) -> str:
    return (chart.get_attribute("aria-valuetext") or "").partition(": ")[0]


def _succeeded(served: Served, until: str) -> int:
    """Return the number of jobs, without runs of dags, that succeeded before an instant."""
    found, before = 0, None
    while True:
        page = served.app.store.reads.find_jobs(JobFilter(state=JobState.SUCCEEDED), 500, before)
        ends = [view.ended_at for view in page.jobs if view.version is None]
        found += sum(end is not None and end < datetime.fromisoformat(until) for end in ends)
        if (before := page.next) is None:
            return found


def _job(served: Served, id: str) -> dict[str, Any]:
    return dict(served.get(f"/jobs/{id}"))
