"""Over REST, every job and run names who created it: the caller, a hook, a schedule, or the job that enqueued it."""

import hashlib
import hmac
import json

import pytest
from starlette.testclient import TestClient

from tickwork import Tickwork, every

DAG = "dags: {d: {steps: {a: {task: t}}}}"


@pytest.fixture
def deploy(admin: TestClient) -> dict[str, str]:
    """The header of an API key."""
    token = admin.post("/api/v1/keys", json={"name": "deploy", "scopes": ["enqueue", "read"]}).json()["token"]
    return {"Authorization": f"Bearer {token}"}


def test_a_job_names_the_caller(admin: TestClient, deploy: dict[str, str]) -> None:
    made = admin.post("/api/v1/jobs", json={"task": "t"}, headers=deploy).json()
    assert made["creator"] == "key:deploy"
    batch = admin.post("/api/v1/jobs/batch", json={"jobs": [{"task": "t"}, {"task": "t"}]}).json()["items"]
    assert {admin.get(f"/api/v1/jobs/{one['id']}").json()["creator"] for one in batch} == {"dev"}
    listed = admin.get("/api/v1/jobs", params={"creator": "key:deploy"}).json()["items"]
    assert [(one["id"], one["creator"]) for one in listed] == [(made["id"], "key:deploy")]
    assert admin.get("/api/v1/jobs/counts", params={"creator": "key:deploy"}).status_code == 200


def test_no_caller_can_claim_to_be_another_creator(admin: TestClient) -> None:
    assert admin.post("/api/v1/jobs", json={"task": "t", "creator": "user:ada"}).status_code == 422


def test_a_repeatable_request_and_a_rerun_name_their_caller(admin: TestClient, deploy: dict[str, str]) -> None:
    old = admin.post("/api/v1/jobs", json={"task": "t"}, headers={"Idempotency-Key": "one"}).json()
    new = admin.post(f"/api/v1/jobs/{old['id']}/rerun", json={}, headers=deploy).json()
    assert (old["creator"], new["creator"]) == ("dev", "key:deploy")


def test_a_run_names_the_caller(admin: TestClient, deploy: dict[str, str]) -> None:
    assert admin.post("/api/v1/dags", json={"text": DAG}).status_code == 200
    made = admin.post("/api/v1/dags/d/runs", json={}, headers=deploy).json()
    assert made["creator"] == "key:deploy"
    listed = admin.get("/api/v1/runs", params={"creator": "key:deploy"}).json()["items"]
    assert [one["creator"] for one in listed] == ["key:deploy"]
    assert admin.get("/api/v1/runs", params={"creator": "user:ada"}).json()["items"] == []


@pytest.fixture
def hook_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", "told to nobody")
    monkeypatch.setenv("TICKWORK_SECRET_ENV", "HOOK_SECRET")


def test_a_job_of_a_hook_names_the_hook(hook_secret: None, admin: TestClient, anybody: TestClient) -> None:
    spec = {"style": "github", "secret": "${secret.HOOK_SECRET}", "task": "t"}
    assert admin.put("/api/v1/hooks/ci", json=spec).status_code == 201
    data = json.dumps({}).encode()
    signature = "sha256=" + hmac.new(b"told to nobody", data, hashlib.sha256).hexdigest()
    headers = {"X-Hub-Signature-256": signature, "X-GitHub-Event": "push"}
    taken = anybody.post("/hooks/ci", content=data, headers=headers).json()
    assert admin.get(f"/api/v1/jobs/{taken['job_id']}").json()["creator"] == "hook:ci"


def test_a_schedule_that_is_triggered_names_who_did_so(app: Tickwork, admin: TestClient) -> None:
    app.schedule("nightly", "t", every("1h"))
    started = admin.post("/api/v1/schedules/nightly/trigger").json()
    found = admin.get("/api/v1/jobs", params={"creator": "dev"}).json()["items"]
    assert [one["id"] for one in found] == [started["id"]]


def test_a_handler_creates_jobs_as_its_job_and_a_program_without_a_creator(app: Tickwork, admin: TestClient) -> None:
    @app.task
    def child() -> None: ...

    @app.task
    def parent() -> str:
        return child.enqueue().id

    job = parent.enqueue()
    with app.worker(queues=["default"]):
        made = job.result(timeout=30)
    assert admin.get(f"/api/v1/jobs/{job.id}").json()["creator"] is None
    assert admin.get(f"/api/v1/jobs/{made}").json()["creator"] == f"job:{job.id}"
