"""One change to many jobs, and dead letters, on both stores."""

from datetime import timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient

from tests.http.work import claimed, fail
from tickwork import Tickwork
from tickwork.services import bulk_operations
from tickwork.services.bulk_operations import BulkOperations
from tickwork.store.admin.bulk_operations import OperationStep

API = "/api/v1"


def bulk(admin: TestClient, **body: Any) -> Any:
    return admin.post(f"{API}/bulk", json=body)


def carried_out(admin: TestClient, app: Tickwork, answer: Any) -> dict[str, Any]:
    """Run the services of a server, and return the ended operation."""
    assert answer.status_code == 202, answer.text
    service = BulkOperations(app.store)
    while service.tick(0.0) == 0.0:
        pass
    found = admin.get(answer.headers["location"])
    assert found.status_code == 200
    return dict(found.json())


def states(app: Tickwork) -> list[str]:
    return sorted(job.seen.state.value for job in app.jobs())


def failed(app: Tickwork, *errors: str) -> None:
    for error in errors:
        app.enqueue("mail")
        fail(app, claimed(app)[0], error)


def step_of(app: Tickwork, id: str) -> OperationStep:
    """A step that leaves an operation as it is."""
    one = app.store.operations.get_operation(id)
    assert one is not None
    return OperationStep(one.id, one.step, one.phase, one.place, one.looked, one.changed, one.state)


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_operations, "PAGE", 2)


def test_a_dry_run_says_what_would_be_changed_and_changes_nothing(admin: TestClient, app: Tickwork) -> None:
    for _ in range(12):
        app.enqueue("mail")
    app.enqueue("other")
    answer = bulk(admin, action="cancel", filter={"task": "mail"}, dry_run=True)
    assert answer.status_code == 200
    assert (answer.json()["count"], answer.json()["is_partial"], len(answer.json()["sample"])) == (12, False, 10)
    assert set(states(app)) == {"queued"}
    assert admin.get(f"{API}/operations").json()["items"] == []


def test_what_is_made_after_a_dry_run_can_be_left_alone(admin: TestClient, app: Tickwork) -> None:
    before = app.enqueue("mail")
    at = bulk(admin, action="cancel", filter={"task": "mail"}, dry_run=True).json()["at"]
    app.enqueue("mail")
    which = {"task": "mail", "created_before": at}
    shown = bulk(admin, action="cancel", filter=which, dry_run=True).json()["sample"]
    assert [job["id"] for job in shown] == [before.id]


def test_a_dry_run_is_bounded_and_says_so(admin: TestClient, app: Tickwork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tickwork.http.resources.jobs.bulk.COUNTED", 3)
    monkeypatch.setattr("tickwork.http.resources.jobs.bulk._PAGE", 2)
    for _ in range(6):
        app.enqueue("mail")
    answer = bulk(admin, action="cancel", filter={"state": "queued"}, dry_run=True).json()
    assert (answer["count"], answer["is_partial"]) == (4, True)


def test_jobs_are_cancelled_wherever_they_stand_and_newer_ones_are_left_alone(admin: TestClient, app: Tickwork) -> None:
    for _ in range(5):
        app.enqueue("mail")
    claimed(app, limit=2)
    app.enqueue("other")
    answer = bulk(admin, action="cancel", filter={"task": "mail"})
    assert (answer.json()["state"], answer.json()["by"]) == ("running", "dev")
    newer = app.enqueue("mail")
    ended = carried_out(admin, app, answer)
    assert (ended["state"], ended["changed"], ended["filter"]["task"]) == ("succeeded", 5, "mail")
    assert newer.state == "queued"
    assert states(app) == ["cancelled"] * 3 + ["queued"] * 2 + ["running"] * 2
    assert all(job.view.cancel_requested for job in app.jobs(state="running"))


@pytest.mark.parametrize(("action", "after"), [("retry", "queued"), ("redrive", "queued"), ("discard", "failed")])
def test_failed_jobs_run_again_or_are_discarded(admin: TestClient, app: Tickwork, action: str, after: str) -> None:
    failed(app, "a", "b", "c")
    ended = carried_out(admin, app, bulk(admin, action=action, filter={"task": "mail"}))
    assert ended["changed"] == 3
    assert states(app) == [after] * 3
    assert list(app.jobs(state="failed", limit=1)) == [] or all(job.view.discarded for job in app.jobs())


def test_jobs_that_run_again_are_spread_out_by_a_rate(admin: TestClient, app: Tickwork) -> None:
    failed(app, *"abcde")
    carried_out(admin, app, bulk(admin, action="redrive", filter={}, rate="1/m"))
    times = sorted(job.run_at for job in app.jobs())
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
    assert all(55 < gap < 65 for gap in gaps)


def test_jobs_are_rescheduled_by_their_ids(admin: TestClient, app: Tickwork) -> None:
    ids = [app.enqueue("mail").id for _ in range(3)]
    answer = bulk(admin, action="reschedule", ids=[*ids[:2], "x"], at="2999-01-01T00:00:00Z")
    assert carried_out(admin, app, answer)["changed"] == 2
    assert [one.job_id for one in claimed(app)] == ids[2:]


@pytest.mark.parametrize(
    "body",
    [
        {"action": "cancel"},
        {"action": "cancel", "filter": {}},
        {"action": "cancel", "filter": {"task": "a"}, "ids": []},
        {"action": "cancel", "filter": {"colour": "a"}},
        {"action": "cancel", "filter": {"task": "a"}, "rate": "1/s"},
        {"action": "cancel", "filter": {"task": "a"}, "delay": 1},
        {"action": "retry", "filter": {"task": "a"}, "rate": "fast"},
        {"action": "reschedule", "filter": {"task": "a"}},
        {"action": "reschedule", "filter": {"task": "a"}, "delay": 1, "at": "2999-01-01T00:00:00Z"},
        {"action": "delete", "filter": {"task": "a"}},
        {"action": "cancel", "ids": ["x"] * 10_001},
    ],
)
def test_what_is_no_change_is_refused(admin: TestClient, body: dict[str, Any]) -> None:
    assert bulk(admin, **body).status_code == 422
    assert admin.get(f"{API}/operations").json()["items"] == []


def test_an_operation_is_cancelled_between_two_pages(admin: TestClient, app: Tickwork) -> None:
    for _ in range(5):
        app.enqueue("mail")
    answer = bulk(admin, action="cancel", filter={"state": "queued"})
    service = BulkOperations(app.store)
    leased = app.store.operations.lease_operation(bulk_operations.LEASE)
    assert leased is not None
    # A tick executes all pages; the test stops between two.
    further = service._page(leased)
    assert further is not None
    stopped = admin.post(answer.headers["location"] + "/cancel")
    assert (stopped.json()["state"], stopped.json()["changed"]) == ("cancelled", 2)
    assert service._page(further) is None
    assert admin.post(answer.headers["location"] + "/cancel").status_code == 409
    assert admin.get(answer.headers["location"]).json()["changed"] == 2


def test_a_page_that_was_done_and_not_noted_is_done_again_without_harm(admin: TestClient, app: Tickwork) -> None:
    failed(app, *"abc")
    answer = bulk(admin, action="redrive", filter={})
    leased = app.store.operations.lease_operation(bulk_operations.LEASE)
    assert leased is not None
    first, second = BulkOperations(app.store), BulkOperations(app.store)
    assert first._page(leased) is not None
    assert second._page(leased) is None, "the step was taken"
    found = admin.get(answer.headers["location"]).json()
    assert (found["changed"], found["state"]) == (2, "running")
    app.store.operations.step_operation(step_of(app, found["id"]), timedelta(0))
    assert carried_out(admin, app, answer)["state"] == "succeeded"
    assert states(app) == ["queued"] * 3


def test_operations_are_listed_page_by_page(admin: TestClient) -> None:
    ids = [bulk(admin, action="cancel", filter={"task": "x"}).json()["id"] for _ in range(3)]
    page = admin.get(f"{API}/operations", params={"limit": 2}).json()
    assert [one["id"] for one in page["items"]] == ids[:0:-1]
    rest = admin.get(f"{API}/operations", params={"cursor": page["next_cursor"]}).json()
    assert ([one["id"] for one in rest["items"]], rest["next_cursor"]) == (ids[:1], None)
    assert admin.get(f"{API}/operations", params={"cursor": "x"}).status_code == 422
    for path in ("x", ids[0].replace("0", "1")):
        assert admin.get(f"{API}/operations/{path}").status_code == 404
        assert admin.post(f"{API}/operations/{path}/cancel").status_code == 404


# -- dead letters


def test_dead_letters_are_put_together_by_task_and_error(admin: TestClient, app: Tickwork) -> None:
    failed(app, "Traceback\nValueError: a", "Traceback\nKeyError: b", "elsewhere\nValueError: a")
    found = admin.get(f"{API}/dead").json()
    assert [(one["error"], one["count"]) for one in found["items"]] == [("ValueError: a", 2), ("KeyError: b", 1)]
    assert (found["total"], found["is_partial"]) == (3, False)
    newest = app.job(found["items"][0]["newest_id"])
    assert newest is not None
    assert found["items"][0]["oldest_at"] < found["items"][0]["newest_at"]
    assert admin.get(f"{API}/dead", params={"task": "other"}).json()["items"] == []


def test_dead_letters_beyond_a_bound_are_not_looked_at(
    admin: TestClient, app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwork.http.resources.jobs.dead_letters.READ_LIMIT", 2)
    failed(app, "a", "a", "a")
    found = admin.get(f"{API}/dead").json()
    assert (found["total"], found["is_partial"]) == (2, True)


@pytest.mark.parametrize(("verb", "left"), [("redrive", 0), ("discard", 0)])
def test_dead_letters_are_dealt_with(admin: TestClient, app: Tickwork, verb: str, left: int) -> None:
    failed(app, "a", "b")
    answer = admin.post(f"{API}/dead/{verb}", json={"filter": {"task": "mail"}})
    assert carried_out(admin, app, answer)["changed"] == 2
    assert len(admin.get(f"{API}/dead").json()["items"]) == left
    assert admin.post(f"{API}/dead/{verb}", json={"filter": {"state": "queued"}}).status_code == 422
    assert admin.post(f"{API}/dead/{verb}", json={}).status_code == 422


def test_dead_letters_are_put_together_by_task_or_queue_alone(admin: TestClient, app: Tickwork) -> None:
    failed(app, "ValueError: a", "KeyError: b", "ValueError: a")
    by = {by: admin.get(f"{API}/dead", params={"by": by}).json()["items"] for by in ("error", "task", "queue")}
    assert [(one["error"], one["count"]) for one in by["error"]] == [("ValueError: a", 2), ("KeyError: b", 1)]
    assert [(one["task"], one["count"], one["error"]) for one in by["task"]] == [("mail", 3, "ValueError: a")]
    assert [(one["queue"], one["count"]) for one in by["queue"]] == [("default", 3)]
    assert admin.get(f"{API}/dead", params={"by": "worker"}).status_code == 422


@pytest.mark.parametrize("verb", ["redrive", "discard"])
def test_what_would_become_of_dead_letters_is_told_before(admin: TestClient, app: Tickwork, verb: str) -> None:
    failed(app, "ValueError: a", "KeyError: b", "ValueError: a")
    before = admin.get(f"{API}/dead").json()
    answer = admin.post(f"{API}/dead/{verb}", json={"filter": {"task": "mail"}, "dry_run": True})
    assert (answer.status_code, answer.json()["count"]) == (200, before["total"])
    assert admin.get(f"{API}/dead").json() == before


def test_dead_letters_are_written_as_lines(admin: TestClient, app: Tickwork, monkeypatch: pytest.MonkeyPatch) -> None:
    failed(app, "ValueError: a", "KeyError: b", "ValueError: a")
    monkeypatch.setattr("tickwork.http.resources.jobs.dead_letters._PAGE", 1)
    answer = admin.get(f"{API}/dead/export", params={"task": "mail"})
    jobs = [msgspec.json.decode(line) for line in answer.text.splitlines()]
    assert len(jobs) == admin.get(f"{API}/dead").json()["total"]
    assert {(one["task"], one["state"]) for one in jobs} == {("mail", "failed")}
    assert admin.get(f"{API}/dead/export", params={"task": "other"}).text == ""
    (one,) = admin.get(f"{API}/dead/export", params={"error": "KeyError: b"}).text.splitlines()
    assert msgspec.json.decode(one)["error"] == "KeyError: b"
