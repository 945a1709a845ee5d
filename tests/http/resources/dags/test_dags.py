"""Dags and tasks over REST: what they run, what changed, and declaring one by a text."""

import pytest
from starlette.testclient import TestClient

from tickwork import Tickwork

FILE = """\
calendars: {closed: {weekdays: [sun]}}
dags:
  nightly:
    description: Count
    params: {n: {type: integer, default: 3}}
    schedule: {every: 1h, calendars: [closed]}
    steps:
      first: {task: count, args: {n: "${params.n}"}}
      last: {task: count, args: {n: "${first.result}"}, retries: 1}
"""


def put(client: TestClient, text: str = FILE, **more: object) -> dict[str, object]:
    answer = client.post("/api/v1/dags", json={"text": text, **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, object] = answer.json()
    return found


def test_a_text_is_stored_and_told_of_as_apply_does(admin: TestClient, app: Tickwork) -> None:
    dry = put(admin, dry_run=True)
    assert app.dag_versions() == []
    made = put(admin)
    assert made["items"] == dry["items"]
    kinds = [(one["kind"], one["name"], one["change"]) for one in made["items"]]  # type: ignore[attr-defined]
    assert kinds == [("dag", "nightly", "new"), ("calendar", "closed", "new"), ("schedule", "nightly", "new")]
    assert {one["change"] for one in put(admin)["items"]} == {"unchanged"}  # type: ignore[attr-defined]
    changed = put(admin, FILE.replace("retries: 1", "retries: 2"))["items"][0]  # type: ignore[index]
    assert (changed["version"], changed["fields"]) == (2, [{"field": "last.retries", "old": 1, "new": 2}])


def test_json_is_read_too(admin: TestClient) -> None:
    put(admin, '{"dags": {"d": {"steps": {"x": {"task":\t"t"}}}}}', format="json")
    assert admin.get("/api/v1/dags/d").json()["version"] == 1


def test_every_problem_of_a_text_has_a_pointer_and_a_line(admin: TestClient, app: Tickwork) -> None:
    text = FILE.replace("last: {task:", "last: {tsk:").replace("every: 1h", "every: 1x")
    answer = admin.post("/api/v1/dags", json={"text": text})
    assert answer.status_code == 422
    places = [(one["pointer"], one["line"]) for one in answer.json()["errors"]]
    assert ("/dags/nightly/schedule/every", 6) in places
    assert ("/dags/nightly/steps/last/tsk", 9) in places
    assert app.dag_versions() == []
    assert admin.post("/api/v1/dags", json={"text": "a: ["}).status_code == 422
    assert admin.post("/api/v1/dags", json={"text": "schedules: {}"}).status_code == 422
    hooks = FILE + "hooks: {h: {style: github, secret: S, task: t}}\n"
    assert "PUT /api/v1/hooks" in admin.post("/api/v1/dags", json={"text": hooks}).json()["detail"]


def test_a_dag_has_nodes_edges_versions_and_a_drawing(admin: TestClient) -> None:
    put(admin)
    put(admin, FILE.replace("retries: 1", "retries: 2"))
    dag = admin.get("/api/v1/dags/nightly").json()
    assert (dag["version"], dag["newest"], [node["name"] for node in dag["nodes"]]) == (2, 2, ["first", "last"])
    assert dag["edges"] == [{"from": "first", "to": "last", "kind": "data"}]
    assert dag["params"]["properties"]["n"]["default"] == 3
    drawn = admin.get("/api/v1/dags/nightly", params={"format": "mermaid"})
    assert drawn.headers["content-type"].startswith("text/vnd.mermaid")
    assert drawn.text.startswith("flowchart TD")
    page = admin.get("/api/v1/dags/nightly/versions", params={"limit": 1}).json()
    assert ([one["version"] for one in page["items"]], page["next_cursor"]) == ([2], "2")
    page = admin.get("/api/v1/dags/nightly/versions", params={"cursor": "2"}).json()
    assert ([one["version"] for one in page["items"]], page["next_cursor"]) == ([1], None)
    assert admin.get("/api/v1/dags/nightly/versions/1").json()["version"] == 1
    for wrong in ("3", "x", "-1", "99999999999"):
        assert admin.get(f"/api/v1/dags/nightly/versions/{wrong}").status_code == 404
    assert [one["name"] for one in admin.get("/api/v1/dags").json()["items"]] == ["nightly"]


def test_versions_are_compared(admin: TestClient) -> None:
    put(admin)
    diff = "/api/v1/dags/nightly/diff"
    assert admin.get(diff).status_code == 422
    put(admin, FILE.replace("      last:", "      other: {task: count}\n      last:"))
    answer = admin.get(diff).json()
    assert (answer["old"], answer["new"]) == (1, 2)
    assert answer["changes"] == [{"what": "added", "step": "other", "field": None, "old": None, "new": None}]
    assert admin.get(diff, params={"old": 2, "new": 1}).json()["changes"][0]["what"] == "removed"
    assert admin.get(diff, params={"old": 7}).status_code == 404


def test_a_dag_is_deleted_once_no_schedule_starts_it(admin: TestClient) -> None:
    put(admin)
    assert admin.delete("/api/v1/dags/nightly").status_code == 409
    admin.delete("/api/v1/schedules/nightly")
    assert admin.delete("/api/v1/dags/nightly").status_code == 204
    assert admin.get("/api/v1/dags/nightly").status_code == 404
    assert admin.post("/api/v1/dags/nightly/runs", json={}).status_code == 404
    put(admin)
    assert admin.get("/api/v1/dags/nightly").json()["version"] == 1


def test_tasks_are_listed_with_their_schema(admin: TestClient, app: Tickwork) -> None:
    @app.task(queue="mail", retries=7, timeout="30s")
    def send(to: str, n: int = 1) -> None: ...

    with app.worker():
        pass
    put(admin)
    task = admin.get("/api/v1/tasks/" + send.name).json()
    assert (task["kind"], task["queue"], task["retries"], task["timeout"]) == ("task", "mail", 7, "30s")
    assert "to" in str(task["schema"])
    listed = {one["name"]: one["kind"] for one in admin.get("/api/v1/tasks").json()["items"]}
    assert (listed[send.name], listed["nightly"]) == ("task", "dag")
    assert admin.get("/api/v1/tasks/nothing").status_code == 404


@pytest.mark.parametrize("path", ["/api/v1/dags/nothing", "/api/v1/dags/%00", "/api/v1/dags/nothing/versions"])
def test_what_is_not_there_is_not_found(admin: TestClient, path: str) -> None:
    assert admin.get(path).status_code == 404


@pytest.mark.parametrize("shell", ["true", "[true]", "{a: b}", "7"])
def test_a_command_that_is_no_text_is_a_problem_of_the_text(admin: TestClient, shell: str) -> None:
    answer = admin.post("/api/v1/dags", json={"text": f"dags:\n  d:\n    steps:\n      a: {{shell: {shell}}}"})
    assert answer.status_code == 422, answer.text
    (fault,) = answer.json()["errors"]
    assert (fault["line"], "must be" in fault["detail"]) == (4, True)
