"""Lists against a scan of everything: every filter, page by page, while jobs are added and end."""

from fnmatch import fnmatch
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.http.work import claimed, fail, succeed
from tickwork import Tickwork
from tickwork.store.reads import job_search

JOBS = "/api/v1/jobs"
RUN = "dags: {ship: {steps: {a: {task: step}, b: {needs: a, task: step}}}}"
FIELDS = {
    "state": st.sampled_from(["queued", "running", "succeeded", "failed", "cancelled"]),
    "task": st.sampled_from(["mail", "mailer", "build", "step", "ship", "nothing"]),
    "queue": st.sampled_from(["default", "slow", "nothing"]),
    "key": st.sampled_from(["k1", "k2", "k", "nothing"]),
    "collection": st.sampled_from(["c", "nothing"]),
    "label": st.sampled_from(["red", "re", 'q"', "nothing"]),
    "dead": st.sampled_from(["true", "false"]),
}
FILTERS = st.fixed_dictionaries({}, optional=FIELDS)


@pytest.fixture
def everything(app: Tickwork, admin: TestClient, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Jobs of all kinds, in a store that walks a few rows at a time."""
    monkeypatch.setattr(job_search, "WALK", 5)
    monkeypatch.setattr(job_search, "ERRORS", 4)
    bodies: list[dict[str, Any]] = []
    for number in range(40):
        body: dict[str, Any] = {"task": ("mail", "mailer", "build")[number % 3], "retries": 0}
        body |= {"queue": "slow"} if number % 4 == 0 else {}
        body |= {"key": f"k{number}"} if number % 5 == 1 else {}
        body |= {"collection": "c"} if number % 6 == 2 else {}
        body |= {"labels": ["red", 'q"'][: 1 + number % 2]} if number % 7 < 3 else {}
        body |= {"delay": "1h"} if number % 8 == 3 else {}
        bodies.append(body)
    admin.post(f"{JOBS}/batch", json={"jobs": bodies}).raise_for_status()
    ends = [succeed, fail, fail, lambda app, one: None]
    for task, queue in (("mail", "default"), ("mailer", "slow"), ("build", "default")):
        for at, one in enumerate(claimed(app, task, queue, limit=7)):
            ends[at % 4](app, one)
    ids = [one["id"] for one in admin.get(JOBS, params={"state": "queued"}).json()["items"]]
    for id in ids[::5]:
        admin.post(f"{JOBS}/{id}/cancel").raise_for_status()
    admin.post("/api/v1/dags", json={"text": RUN}).raise_for_status()
    admin.post("/api/v1/dags/ship/runs", json={"key": "k2", "labels": ["red"]}).raise_for_status()
    claimed(app, "step")
    return scan(admin)


def scan(admin: TestClient) -> list[dict[str, Any]]:
    """Every job, one by one."""
    page = admin.get(JOBS, params={"limit": 1000}).json()
    while page["next_cursor"] is not None:
        more = admin.get(JOBS, params={"limit": 1000, "cursor": page["next_cursor"]}).json()
        page = {"items": page["items"] + more["items"], "next_cursor": more["next_cursor"]}
    found = [admin.get(f"{JOBS}/{one['id']}").json() for one in page["items"]]
    assert len(found) >= 41
    return found


def is_meant(job: dict[str, Any], which: dict[str, str]) -> bool:
    """A second implementation of a filter."""
    for name in ("state", "task", "queue", "key", "collection"):
        if name in which and job[name] != which[name]:
            return False
    if "label" in which and which["label"] not in job["labels"]:
        return False
    return which.get("dead") != "true" or (job["state"] == "failed" and not job["is_discarded"])


def listed(admin: TestClient, which: dict[str, str], limit: int) -> list[str]:
    """The ids on all pages of a list."""
    found: list[str] = []
    count = 0
    query: dict[str, Any] = {**which, "limit": limit}
    while True:
        page = admin.get(JOBS, params=query)
        assert page.status_code == 200, page.text
        assert len(page.json()["items"]) <= limit
        found += [one["id"] for one in page.json()["items"]]
        if page.json()["next_cursor"] is None:
            return found
        count += 1
        assert count < 500, "the pages have no end"
        query["cursor"] = page.json()["next_cursor"]


def test_a_list_is_what_a_scan_finds(admin: TestClient, everything: list[dict[str, Any]]) -> None:
    checks = list(HealthCheck)

    @settings(max_examples=60, deadline=None, suppress_health_check=checks, database=None)
    @given(which=FILTERS, limit=st.integers(1, 12))
    def found(which: dict[str, str], limit: int) -> None:
        expected = [job["id"] for job in everything if is_meant(job, which)]
        assert listed(admin, which, limit) == expected

    found()


@pytest.mark.parametrize("words", ["mail", "mailer", "k1", "k", "ValueError", "build", "nothing", "%", "_", "K1"])
@pytest.mark.parametrize("limit", [1, 3, 100])
def test_a_search_is_what_a_scan_finds(
    admin: TestClient, everything: list[dict[str, Any]], words: str, limit: int
) -> None:
    expected = [
        job["id"]
        for job in everything
        if job["task"].startswith(words)
        or (job["key"] or "").startswith(words)
        or (job["state"] == "failed" and words.lower() in (job["error"] or "").lower())
    ]
    assert listed(admin, {"q": words}, limit) == expected
    failed = [id for id in expected if next(job for job in everything if job["id"] == id)["state"] == "failed"]
    assert listed(admin, {"q": words, "state": "failed"}, limit) == failed


def test_pages_have_each_job_once_while_jobs_are_added_and_end(
    app: Tickwork, admin: TestClient, everything: list[dict[str, Any]]
) -> None:
    query: dict[str, Any] = {"limit": 3, "queue": "default"}
    seen: list[str] = []
    while True:
        page = admin.get(JOBS, params=query).json()
        seen += [one["id"] for one in page["items"]]
        admin.post(JOBS, json={"task": "mail"}).raise_for_status()
        for one in claimed(app, limit=2):
            succeed(app, one)
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert seen == [job["id"] for job in everything if job["queue"] == "default"]


def test_counts_are_what_a_scan_finds(admin: TestClient, everything: list[dict[str, Any]]) -> None:
    queues = {one["name"]: one for one in admin.get("/api/v1/queues").json()["items"]}
    for name, queue in queues.items():
        there = [job for job in everything if job["queue"] == name]
        waiting = [job for job in there if job["state"] == "queued"]
        assert queue["due"] + queue["later"] + queue["held"] == len(waiting)
        assert queue["later"] == len([job for job in waiting if job["run_at"] > job["created_at"]])
        assert queue["running"] == len([job for job in there if job["state"] == "running"])
    dead = admin.get("/api/v1/dead").json()
    failed = [job for job in everything if is_meant(job, {"dead": "true"})]
    assert (dead["total"], dead["is_partial"]) == (len(failed), False)
    body = {"action": "cancel", "filter": {"queue": "default"}, "dry_run": True}
    would = admin.post("/api/v1/bulk", json=body).json()
    live = [job for job in everything if job["queue"] == "default" and job["state"] in ("queued", "running")]
    assert (would["count"], would["is_partial"]) == (len(live), False)


VIEWS = st.fixed_dictionaries(
    {},
    optional={
        "state": st.sampled_from(["due", "delayed", "retrying", "queued", "failed"]),
        "task": st.sampled_from(["mail*", "bu*", "*", "nothing*", "mail"]),
        "tenant": st.sampled_from(["acme", "nothing"]),
        "error": st.sampled_from(["valueerror", "traceback", "nothing"]),
        "worker": st.sampled_from(["tests", "nothing"]),
    },
)


def is_shown(job: dict[str, Any], which: dict[str, str], now: str) -> bool:
    """A second implementation of the other filters."""
    later = "delayed" if job["run_at"] > now else "due"
    word = job["state"] if job["state"] != "queued" else "retrying" if job["failures"] else later
    words = {word, job["state"]}
    return (
        ("state" not in which or which["state"] in words)
        and fnmatch(job["task"], which.get("task", "*"))
        and which.get("tenant") in (None, job["tenant"])
        and which.get("error", "") in (job["error"] or "").lower()
        and which.get("worker") in (None, job["worker"])
    )


def test_views_of_a_list_and_their_counts_are_what_a_scan_finds(
    app: Tickwork, admin: TestClient, everything: list[dict[str, Any]]
) -> None:
    more = [{"task": "mail", "tenant": "acme"}, {"task": "build", "tenant": "acme", "delay": "1h"}]
    admin.post(f"{JOBS}/batch", json={"jobs": more}).raise_for_status()
    jobs, now = scan(admin), admin.get("/api/v1/stats").json()["at"]

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(which=VIEWS)
    def found(which: dict[str, str]) -> None:
        expected = [job for job in jobs if is_shown(job, which, now)]
        assert listed(admin, which, 5) == [job["id"] for job in expected]
        state = which.pop("state", None)
        counts = admin.get(f"{JOBS}/counts", params=which).json()["items"]
        if state in ("due", "delayed", "retrying", "failed"):
            (one,) = [one for one in counts if one["state"] == state]
            assert one["count"] == len(expected) or (one["is_bounded"] and one["count"] < len(expected))

    found()


def test_counts_are_by_state_and_by_how_jobs_wait(
    admin: TestClient, everything: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WALK", "ERRORS"):
        monkeypatch.setattr(job_search, name, 5_000)
    now = admin.get("/api/v1/stats").json()["at"]
    for query in ({}, {"queue": "slow"}, {"dead": "true"}, {"q": "mail"}, {"q": "mail", "label": "red"}):
        counts = admin.get(f"{JOBS}/counts", params=query).json()
        ids = listed(admin, query, 1000)
        there = [job for job in everything if job["id"] in ids]
        assert not any(one["is_bounded"] for one in counts["items"])
        for one in counts["items"]:
            assert one["count"] == sum(is_shown(job, {"state": one["state"]}, now) for job in there), (query, one)
    assert [one["state"] for one in counts["items"]][:4] == ["due", "delayed", "retrying", "running"]
    assert admin.get(f"{JOBS}/counts", params={"state": "failed"}).status_code == 422


def test_bulk_takes_the_same_views(admin: TestClient, everything: list[dict[str, Any]]) -> None:
    now = admin.get("/api/v1/stats").json()["at"]
    which = {"state": "delayed", "task": "mail*"}
    would = admin.post("/api/v1/bulk", json={"action": "cancel", "filter": which, "dry_run": True}).json()
    assert would["count"] == sum(is_shown(job, which, now) for job in everything) > 0
    begun = admin.post("/api/v1/bulk", json={"action": "cancel", "filter": which}).json()
    assert (begun["filter"]["state"], begun["filter"]["task"]) == ("delayed", "mail*")


def test_a_large_list_is_sent_packed_to_those_who_can_unpack_it(admin: TestClient, app: Tickwork) -> None:
    app.named("noop").enqueue_many([{} for _ in range(50)])
    packed = admin.get(JOBS)
    plain = admin.get(JOBS, headers={"Accept-Encoding": "identity"})
    assert (packed.headers["content-encoding"], "content-encoding" in plain.headers) == ("gzip", False)
    assert int(packed.headers["content-length"]) < int(plain.headers["content-length"]) / 3
    assert packed.json() == plain.json()
    assert packed.headers["etag"] == plain.headers["etag"]


def test_a_small_answer_is_sent_as_it_is(admin: TestClient) -> None:
    assert "content-encoding" not in admin.get(JOBS).headers
