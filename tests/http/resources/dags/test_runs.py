"""Runs over REST: started, looked at from all sides, cancelled, rerun and approved."""

from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.waiting import eventually
from tickwork import Tickwork, every
from tickwork.errors import Fatal

API = "/api/v1/runs"
FILE = """\
dags:
  sum:
    params: {numbers: array, factor: {type: integer, default: 10}}
    result: "${total.result}"
    steps:
      double: {task: times, map: "${params.numbers}", args: {n: "${item}", by: "${params.factor}"}}
      total: {task: add, args: {numbers: "${double.result}"}}
  ask:
    steps:
      ready: {approve: {text: "Go on?", who: [dev, ada]}}
      other: {approve: {text: "And you?", who: [ada]}}
      go: {task: add, args: {numbers: [1]}, needs: [ready]}
"""


@pytest.fixture
def server(admin: TestClient, app: Tickwork) -> TestClient:
    """A server that knows two dags, and an app whose workers can run them."""

    @app.task(name="times", retries=0)
    def times(n: int, by: int) -> int:
        if n > 100:
            raise Fatal(f"{n} is too much")
        return n * by

    @app.task(name="add")
    def add(numbers: list[int]) -> int:
        return sum(numbers)

    assert admin.post("/api/v1/dags", json={"text": FILE}).status_code == 200
    return admin


def start(server: TestClient, dag: str = "sum", **body: Any) -> str:
    given = {"params": {"numbers": [1, 2, 3]}, **body} if dag == "sum" else body
    answer = server.post(f"/api/v1/dags/{dag}/runs", json=given)
    assert answer.status_code in (200, 201), answer.text
    assert answer.headers["location"] == f"{API}/{answer.json()['id']}"
    return str(answer.json()["id"])


def end(app: Tickwork, id: str) -> None:
    run = app.run(id)
    assert run is not None
    with app.worker(queues=["default"]):
        run.wait(timeout=30)


def test_a_run_is_started_and_runs(server: TestClient, app: Tickwork) -> None:
    id = start(server, labels=["mine"])
    before = server.get(f"{API}/{id}").json()
    assert (before["state"], before["params"]) == ("queued", {"numbers": [1, 2, 3], "factor": 10})
    assert "steps" not in before
    end(app, id)
    after = server.get(f"{API}/{id}").json()
    assert (after["state"], after["result"], after["generation"], after["dag"]) == ("succeeded", 60, 1, "sum")


def test_a_live_key_gives_the_run_that_is_there(server: TestClient) -> None:
    body = {"params": {"numbers": []}, "key": "today"}
    first = server.post("/api/v1/dags/sum/runs", json=body)
    second = server.post("/api/v1/dags/sum/runs", json=body)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]


@pytest.mark.parametrize(
    ("dag", "body", "status"),
    [
        ("sum", {}, 422),
        ("sum", {"params": {"numbers": 3}}, 422),
        ("sum", {"params": {"numbers": [], "nmbr": 1}}, 422),
        ("sum", {"params": {"numbers": []}, "queue": "slow"}, 422),
        ("times", {"params": {}}, 404),
        ("nothing", {}, 404),
    ],
)
def test_what_cannot_be_started_is_refused(server: TestClient, dag: str, body: dict[str, Any], status: int) -> None:
    assert server.post(f"/api/v1/dags/{dag}/runs", json=body).status_code == status


def test_runs_are_listed_by_what_they_are(server: TestClient, app: Tickwork) -> None:
    first, second = start(server, key="a"), start(server, labels=["mine"])
    other = start(server, "ask")
    assert [one["id"] for one in server.get(API).json()["items"]] == [other, second, first]
    page = server.get(API, params={"dag": "sum", "limit": 1}).json()
    assert [one["id"] for one in page["items"]] == [second]
    page = server.get(API, params={"dag": "sum", "limit": 1, "cursor": page["next_cursor"]}).json()
    assert [one["id"] for one in page["items"]] == [first]
    assert [one["id"] for one in server.get(API, params={"key": "a"}).json()["items"]] == [first]
    assert [one["id"] for one in server.get(API, params={"label": "mine"}).json()["items"]] == [second]
    assert server.get(API, params={"state": "failed"}).json()["items"] == []
    assert server.get(API, params={"state": "nonsense"}).status_code == 422
    assert server.get(API, params={"cursor": "nonsense"}).status_code == 422


def test_its_steps_and_their_jobs_are_listed_a_page_at_a_time(server: TestClient, app: Tickwork) -> None:
    id = start(server)
    end(app, id)
    page = server.get(f"{API}/{id}/steps", params={"limit": 1}).json()
    (double,) = page["items"]
    assert (double["name"], double["state"], double["total"], double["ended"]) == ("double", "succeeded", 3, 3)
    rest = server.get(f"{API}/{id}/steps", params={"limit": 1, "cursor": page["next_cursor"]}).json()
    assert ([one["name"] for one in rest["items"]], rest["next_cursor"]) == (["total"], None)
    found, cursor = [], None
    while found == [] or cursor is not None:
        given = {"limit": 3, **({} if cursor is None else {"cursor": cursor})}
        page = server.get(f"{API}/{id}/instances", params=given).json()
        found += [(one["step"], one["idx"], one["state"]) for one in page["items"]]
        cursor = page["next_cursor"]
    assert found == [*(("double", n, "succeeded") for n in range(3)), ("total", 0, "succeeded")]
    for wrong in ("x", "-1", "1:\0", ":a"):
        assert server.get(f"{API}/{id}/instances", params={"cursor": wrong}).status_code == 422


def test_the_jobs_of_one_step_are_found_and_those_of_them_that_failed(server: TestClient, app: Tickwork) -> None:
    id = start(server, params={"numbers": [1, 200, 3, 400, 500]})
    end(app, id)

    def listed(**which: Any) -> list[int]:
        found, cursor = [], None
        while True:
            given = {**which, **({} if cursor is None else {"cursor": cursor})}
            page = server.get(f"{API}/{id}/instances", params=given).json()
            found += [one["idx"] for one in page["items"] if one["step"] == "double"]
            cursor = page["next_cursor"]
            if cursor is None:
                return found

    for limit in (1, 2, 50):
        assert listed(step="double", limit=limit) == [0, 1, 2, 3, 4]
        assert listed(step="double", state="failed", limit=limit) == [1, 3, 4]
        assert listed(state="failed", limit=limit) == [1, 3, 4]
    assert listed(step="total") == listed(step="nonsense") == []
    assert server.get(f"{API}/{id}/instances", params={"state": "nonsense"}).status_code == 422


def test_it_is_drawn_with_its_states_and_its_times(server: TestClient, app: Tickwork) -> None:
    id = start(server)
    assert {node["state"] for node in server.get(f"{API}/{id}/graph").json()["nodes"]} == {"waiting"}
    end(app, id)
    graph = server.get(f"{API}/{id}/graph").json()
    assert {node["name"]: node["state"] for node in graph["nodes"]} == {"double": "succeeded", "total": "succeeded"}
    drawn = server.get(f"{API}/{id}/graph", params={"format": "mermaid"})
    assert "classDef succeeded" in drawn.text
    timeline = server.get(f"{API}/{id}/timeline").json()
    assert len(timeline["bars"]) == 4
    assert [one["step"] for one in timeline["critical_path"]] == ["double", "total"]
    short = server.get(f"{API}/{id}/timeline", params={"bars": "false"}).json()
    assert (short["bars"], short["critical_path"]) == ([], timeline["critical_path"])


def test_why_is_said_of_each_step(server: TestClient) -> None:
    id = start(server)
    answer = server.get(f"{API}/{id}/why/total").json()
    assert (answer["state"], answer["why"]) == ("waiting", "waits for double")
    assert server.get(f"{API}/{id}/why/nothing").status_code == 404


def test_a_run_is_cancelled_once(server: TestClient, app: Tickwork) -> None:
    id = start(server)
    assert server.post(f"{API}/{id}/cancel").json()["state"] == "cancelled"
    assert server.post(f"{API}/{id}/cancel").status_code == 409


def test_what_failed_is_rerun_with_other_inputs(server: TestClient, app: Tickwork) -> None:
    id = start(server, params={"numbers": [1, 101]})
    assert server.post(f"{API}/{id}/rerun", json={}).status_code == 409
    end(app, id)
    failed = server.get(f"{API}/{id}").json()
    assert failed["state"] == "failed"
    for wrong in ({"from": ["nothing"]}, {"from": ["double"], "only_failed": True}, {"with_inputs": {"x": 1}}):
        assert server.post(f"{API}/{id}/rerun", json=wrong).status_code == 422
    again = server.post(f"{API}/{id}/rerun", json={"with_inputs": {"numbers": [1, 2], "factor": 2}})
    assert again.status_code == 200, again.text
    end(app, id)
    after = server.get(f"{API}/{id}").json()
    assert (after["state"], after["result"], after["generation"]) == ("succeeded", 6, 2)
    assert server.post(f"{API}/{id}/rerun", json={}).status_code == 422, "nothing failed"
    assert server.post(f"{API}/{id}/clear", json={"steps": ["total"]}).status_code == 200
    end(app, id)
    assert server.get(f"{API}/{id}").json()["generation"] == 3
    assert server.post(f"{API}/{id}/clear", json={"steps": []}).status_code == 422


def test_a_step_is_approved_by_who_may(server: TestClient, app: Tickwork) -> None:
    id = start(server, "ask")

    def answer(**body: Any) -> int:
        return server.post(f"{API}/{id}/approve", json=body).status_code

    assert answer(step="ready") == 409, "the run has not begun"
    run = app.run(id)
    assert run is not None
    with app.worker():
        eventually(lambda: run.steps["ready"].standing.state == "open")
        assert answer(step="other") == 403
        assert answer(step="go") == 404
        assert answer(step="ready", note="looks right") == 200
        assert answer(step="ready", approved=False) == 409
        eventually(lambda: run.steps["go"].state == "succeeded")
    assert "dev" in server.get(f"{API}/{id}/why/ready").json()["why"]


def test_assets_are_listed(server: TestClient, app: Tickwork) -> None:
    @app.task(name="make", produce="prices")
    def make() -> None: ...

    job = make.enqueue()
    with app.worker():
        job.wait(timeout=20)
    (asset,) = server.get("/api/v1/assets").json()["items"]
    assert (asset["name"], asset["made_by"]) == ("prices", job.id)


@pytest.mark.parametrize("id", ["nothing", "019a8f3e-1c2d-7abc-8def-0123456789ab", "%00"])
@pytest.mark.parametrize("more", ["", "/steps", "/graph", "/timeline", "/why/x", "/instances"])
def test_what_is_no_run_is_not_found(server: TestClient, id: str, more: str) -> None:
    assert server.get(f"{API}/{id}{more}").status_code == 404


def test_a_job_is_no_run(server: TestClient, app: Tickwork) -> None:
    job = app.enqueue("add", numbers=[1])
    assert server.get(f"{API}/{job.id}").status_code == 404


def test_a_schedule_of_a_dag_is_triggered_and_backfilled(server: TestClient, app: Tickwork) -> None:
    spec = {"dag": "sum", "args": {"numbers": [1]}, "every": "1h"}
    assert server.put("/api/v1/schedules/hourly", json=spec).status_code == 201
    triggered = server.post("/api/v1/schedules/hourly/trigger").json()
    assert triggered["url"] == f"{API}/{triggered['id']}"
    span = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T03:00:00Z", "parallel": 2}
    ids = server.post("/api/v1/schedules/hourly/backfill", json=span).json()["job_ids"]
    assert len(ids) == 4
    with app.worker():
        for id in (triggered["id"], *ids):
            run = app.run(id)
            assert run is not None
            assert run.result(timeout=30) == 10


def test_a_run_is_of_the_version_that_was_declared_just_before(admin: TestClient) -> None:
    assert admin.post("/api/v1/dags/ship/runs", json={}).status_code == 404
    for version, task in enumerate(("pack", "send"), 1):
        text = f"dags: {{ship: {{steps: {{a: {{task: {task}}}}}}}}}"
        admin.post("/api/v1/dags", json={"text": text}).raise_for_status()
        assert admin.post("/api/v1/dags/ship/runs", json={}).json()["version"] == version
    admin.delete("/api/v1/dags/ship").raise_for_status()
    assert admin.post("/api/v1/dags/ship/runs", json={}).status_code == 404


def test_a_run_of_a_schedule_has_its_occurrence(server: TestClient, app: Tickwork) -> None:
    noon = datetime(2026, 11, 16, 12, tzinfo=UTC)
    schedule = app.schedule("hourly", "ask", every("1h"), paused=True)
    (id,) = schedule.backfilling([noon], 1).enqueue()
    by_hand = start(server, "ask")
    items = {one["id"]: one for one in server.get(API).json()["items"]}
    wanted = ("schedule", "scheduled_for", "is_catchup", "interval")
    assert [items[id][name] for name in wanted] == [
        "hourly",
        "2026-11-16T12:00:00Z",
        True,
        {"from": "2026-11-16T11:00:00Z", "to": "2026-11-16T12:00:00Z"},
    ]
    assert server.get(f"{API}/{id}").json()["scheduled_for"] == "2026-11-16T12:00:00Z"
    assert [items[by_hand][name] for name in wanted] == [None, None, False, None]
