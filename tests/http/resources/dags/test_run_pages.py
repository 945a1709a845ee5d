"""Routes of the pages of dags and runs: the grid, changed steps, events, waiting approvals, lists."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.http.work import fail, register, succeed
from tickwork import Tickwork
from tickwork.core.job import RUN, Claimed
from tickwork.http.framework.route import Scope
from tickwork.http.resources.dags import run_steps
from tickwork.security.credentials import create_key

API = "/api/v1"
FILE = """\
dags:
  etl:
    params: {xs: {type: array, default: []}}
    schedule: {every: 1h}
    steps:
      first: {task: t, args: {n: 1}}
      each: {task: t, map: "${params.xs}", args: {n: "${item}"}, needs: [first]}
      last: {task: t, args: {n: 2}, needs: [each], retries: 0}
  ask:
    steps:
      ready: {approve: {text: "Go on?", who: ["key:ada"], timeout: 1h}}
      go: {task: t, args: {n: 1}, needs: [ready]}
"""


@pytest.fixture
def server(admin: TestClient, app: Tickwork) -> TestClient:
    admin.post(f"{API}/dags", json={"text": FILE}).raise_for_status()
    return admin


def start(server: TestClient, dag: str = "etl", **params: Any) -> str:
    given = {"params": {"xs": [1, 2], **params}} if dag == "etl" else {}
    answer = server.post(f"{API}/dags/{dag}/runs", json=given)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def claim(app: Tickwork) -> dict[str, Claimed]:
    """Claim what is due, runs included: those begin."""
    worker = register(app, "t", RUN)
    for _ in range(2):
        jobs = app.store.claim_jobs(worker, ["default"], ["t", RUN], 100).jobs
        if jobs:
            views = app.store.reads.get_jobs([one.job_id for one in jobs])
            return {f"{views[one.job_id].step}{views[one.job_id].idx}": one for one in jobs}
    return {}


def work(app: Tickwork) -> None:
    while jobs := claim(app):
        for one in jobs.values():
            succeed(app, one)


def get(server: TestClient, path: str, **params: Any) -> Any:
    answer = server.get(f"{API}{path}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


class TestGrid:
    def test_runs_are_columns_and_steps_are_rows(self, server: TestClient, app: Tickwork) -> None:
        done = start(server)
        work(app)
        new = start(server, xs=[1, 2, 3])
        grid = get(server, "/dags/etl/grid")
        assert [run["id"] for run in grid["runs"]] == [new, done]
        assert [(step["name"], step["is_mapped"]) for step in grid["steps"]] == [
            ("first", False),
            ("each", True),
            ("last", False),
        ]
        assert {step["cells"][0] for step in grid["steps"]} == {None}, "it has not begun"
        first, each, _ = (step["cells"][1] for step in grid["steps"])
        assert (first[0], first[2:]) == ("succeeded", [1, 1, 1, 0])
        assert (each[0], each[2:]) == ("succeeded", [1, 2, 2, 0])
        assert first[1] >= 0
        assert (grid["next_cursor"], grid["next_step"], grid["step_count"]) == (None, None, 3)

    def test_it_is_paged_both_ways(self, server: TestClient) -> None:
        old, new = start(server), start(server)
        page = get(server, "/dags/etl/grid", runs=1, steps=2)
        assert [run["id"] for run in page["runs"]] == [new]
        assert (page["next_cursor"], page["next_step"]) == (new, "each")
        page = get(server, "/dags/etl/grid", runs=1, cursor=new, steps=2, steps_after="each")
        assert [run["id"] for run in page["runs"]] == [old]
        assert [step["name"] for step in page["steps"]] == ["last"]
        for wrong in ({"cursor": "x"}, {"steps_after": "nothing"}, {"runs": 51}, {"steps": 0}):
            assert server.get(f"{API}/dags/etl/grid", params=wrong).status_code == 422  # type: ignore[arg-type]
        assert server.get(f"{API}/dags/nothing/grid").status_code == 404

    def test_steps_that_only_older_runs_had_come_last(self, server: TestClient, app: Tickwork) -> None:
        start(server)
        work(app)
        server.post(f"{API}/dags", json={"text": FILE.replace("first", "begin")}).raise_for_status()
        grid = get(server, "/dags/etl/grid")
        assert [(step["name"], step["is_current"]) for step in grid["steps"]] == [
            ("begin", True),
            ("each", True),
            ("last", True),
            ("first", False),
        ]
        assert (grid["newest"], grid["runs"][0]["version"], grid["steps"][0]["cells"]) == (2, 1, [None])


class TestSteps:
    def test_a_step_says_how_its_jobs_stand(self, server: TestClient, app: Tickwork) -> None:
        id = start(server)
        for one in claim(app).values():
            succeed(app, one)
        jobs = claim(app)
        fail(app, jobs["each0"])
        first, each, last = get(server, f"/runs/{id}/steps")["items"]
        assert (each["state"], each["counts"], each["bad"]) == ("running", {"failed": 1, "running": 1}, 1)
        assert (first["job_id"], first["attempts"], first["counts"]) == (first["job_id"], 1, {"succeeded": 1})
        assert each["job_id"] == jobs["each0"].job_id
        assert (last["state"], last["job_id"], last["duration_s"]) == ("waiting", None, None)

    def test_only_what_changed_is_told(
        self, server: TestClient, app: Tickwork, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(run_steps, "OVERLAP", timedelta(0))
        id = start(server)

        def changed(since: str) -> list[str]:
            found = get(server, f"/runs/{id}/steps", changed_since=since)
            return [one["name"] for one in found["items"]]

        at = get(server, f"/runs/{id}/steps")["at"]
        assert changed(at) == [], "the run has not begun"
        jobs = claim(app)
        assert changed(at) == ["first", "each", "last"]
        at = get(server, f"/runs/{id}/steps")["at"]
        assert changed(at) == []
        succeed(app, jobs["first0"])
        assert changed(at) == ["first", "each"]
        assert server.get(f"{API}/runs/{id}/steps", params={"changed_since": "2026-01-01T00:00:00"}).status_code == 422

    def test_changes_are_paged_by_places_that_stay(self, server: TestClient, app: Tickwork) -> None:
        id = start(server)
        at = get(server, f"/runs/{id}/steps")["at"]
        work(app)
        found, cursor = [], None
        while found == [] or cursor is not None:
            given = {"limit": 1, "changed_since": at, **({} if cursor is None else {"cursor": cursor})}
            page = get(server, f"/runs/{id}/steps", **given)
            found += [one["name"] for one in page["items"]]
            cursor = page["next_cursor"]
        assert found == ["first", "each", "last"]

    def test_the_structure_of_a_graph_is_that_of_its_drawing(self, server: TestClient, app: Tickwork) -> None:
        id = start(server)
        before = get(server, f"/runs/{id}/graph")
        work(app)
        after = get(server, f"/runs/{id}/graph")
        assert before["structure"] == after["structure"]
        assert {node["state"] for node in after["nodes"]} == {"succeeded"}
        assert get(server, f"/runs/{start(server, 'ask')}/graph")["structure"] != after["structure"]


def test_events_are_told_in_their_order_a_page_at_a_time(server: TestClient, app: Tickwork) -> None:
    id = start(server)
    for one in claim(app).values():
        succeed(app, one)
    for one in claim(app).values():
        fail(app, one, "Traceback\nValueError: no")
    found, cursor = [], None
    while found == [] or cursor is not None:
        page = get(server, f"/runs/{id}/events", limit=2, **({} if cursor is None else {"cursor": cursor}))
        found += page["items"]
        cursor = page["next_cursor"]
    assert [one["event"] for one in found][:3] == ["run_created", "run_started", "step_started"]
    assert [one["event"] for one in found][-1] == "run_ended"
    failures = [one for one in found if one["state"] == "failed" and one["idx"] is not None]
    assert {one["detail"] for one in failures} == {"ValueError: no"}
    assert [datetime.fromisoformat(one["at"]) for one in found] == sorted(
        datetime.fromisoformat(one["at"]) for one in found
    )
    for wrong in ("x", "1:2", "1:2:3:", "9" * 30 + ":1:1:x", "1:x:1:x"):
        assert server.get(f"{API}/runs/{id}/events", params={"cursor": wrong}).status_code == 422


def test_approvals_that_wait_are_listed_with_who_may_answer(
    server: TestClient, anybody: TestClient, app: Tickwork
) -> None:
    waiting, other = start(server, "ask"), start(server)
    claim(app)
    (one,) = get(server, "/approvals")["items"]
    assert (one["run_id"], one["dag"], one["step"], one["text"]) == (waiting, "ask", "ready", "Go on?")
    assert (one["who"], one["default"], one["may_answer"]) == (["key:ada"], "reject", False)
    assert datetime.fromisoformat(one["answered_at"]) - datetime.fromisoformat(one["since"]) == timedelta(hours=1)
    token, _ = create_key(app.store, "ada", [Scope.READ, Scope.OPERATE], None, "test")
    (hers,) = anybody.get(f"{API}/approvals", headers={"Authorization": f"Bearer {token}"}).json()["items"]
    assert hers["may_answer"] is True
    app.store.dags.answer(waiting, "ready", True, "ada")  # type: ignore[arg-type]
    assert get(server, "/approvals")["items"] == []
    assert get(server, f"/runs/{other}")["state"] == "running"
    assert server.get(f"{API}/approvals", params={"cursor": "x"}).status_code == 422


def test_dags_are_listed_with_their_newest_runs_and_what_starts_them(server: TestClient, app: Tickwork) -> None:
    good = start(server)
    work(app)
    bad = start(server)
    for one in claim(app).values():
        fail(app, one)
    ask, etl = get(server, "/dags")["items"]
    assert (ask["name"], ask["recent"], ask["success_rate"], ask["next_due_at"]) == ("ask", [], None, None)
    assert [(run["id"], run["state"]) for run in etl["recent"]] == [(bad, "failed"), (good, "succeeded")]
    assert (etl["success_rate"], etl["schedules"]) == (0.5, ["etl"])
    assert etl["average_s"] == etl["recent"][1]["duration_s"] >= 0
    assert etl["next_due_at"] == get(server, "/schedules/etl")["next_due_at"]
    page = get(server, "/dags", limit=1)
    assert page["next_cursor"] == "ask"
    assert [one["name"] for one in get(server, "/dags", cursor="ask")["items"]] == ["etl"]


def test_the_source_of_a_version_is_a_text(server: TestClient) -> None:
    server.post(f"{API}/dags", json={"text": FILE.replace("retries: 0", "retries: 7")}).raise_for_status()
    source = get(server, "/dags/etl/source")
    assert (source["version"], source["format"]) == (2, "yaml")
    assert "retries: 7" in source["text"]
    assert "retries: 7" not in get(server, "/dags/etl/source", version=1)["text"]
    assert server.get(f"{API}/dags/etl/source", params={"version": 3}).status_code == 404


def test_runs_are_found_by_when_they_were_made(server: TestClient) -> None:
    first, second = start(server), start(server)
    made = get(server, f"/runs/{second}")["created_at"]
    soon = (datetime.fromisoformat(made) + timedelta(hours=1)).isoformat()
    assert {one["id"] for one in get(server, "/runs", dag="etl", created_before=soon)["items"]} == {first, second}
    assert get(server, "/runs", dag="etl", created_after=soon)["items"] == []
    assert get(server, "/runs", state="running", dag="etl")["items"] == []
