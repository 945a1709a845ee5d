"""Requests that could be taken and then harm everybody: refused before anything is stored."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from tickwork.core.text.yaml_loader import VALUES_LIMIT

JSON = {"content-type": "application/json"}
API = "/api/v1"
DAG = "dags: {ship: {params: {p: {}}, steps: {a: {task: mail}}}}"


@pytest.fixture
def run(admin: TestClient) -> str:
    """The id of a run that has ended."""
    admin.post(f"{API}/dags", json={"text": DAG}).raise_for_status()
    id = str(admin.post(f"{API}/dags/ship/runs", json={"params": {"p": 1}}).json()["id"])
    admin.post(f"{API}/runs/{id}/cancel").raise_for_status()
    return id


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/jobs", {"task": "@dag"}),
        ("POST", "/jobs/batch", {"jobs": [{"task": "mail"}, {"task": "@dag"}]}),
        ("PUT", "/schedules/s", {"every": "1h", "task": "@dag"}),
        ("PUT", "/hooks/h", {"style": "github", "secret": "A", "task": "@dag"}),
        ("POST", "/dags", {"text": "dags: {d: {steps: {a: {task: '@dag'}}}}"}),
        ("POST", "/dags", {"text": "dags: {'@dag': {steps: {a: {task: mail}}}}"}),
    ],
)
def test_no_caller_makes_a_job_that_passes_for_a_run(
    admin: TestClient, method: str, path: str, body: dict[str, Any]
) -> None:
    """Each worker that claimed it would fail and claim it again, and its queue would never advance."""
    assert admin.request(method, f"{API}{path}", json=body).status_code == 422
    assert admin.get(f"{API}/jobs").json()["items"] == []
    admin.post(f"{API}/jobs", json={"task": "mail"}).raise_for_status()
    (job,) = admin.post(f"{API}/leases", json={"queues": ["default"], "worker": "w"}).json()["jobs"]
    assert job["task"] == "mail"


@pytest.mark.parametrize(
    "value",
    [b"9" * 30, b"9" * 5000, b"[" * 70 + b"]" * 70, b'"\\u0000"', b'"' + b"x" * 300_000 + b'"'],
    ids=["30 digits", "5000 digits", "deep", "NUL", "large"],
)
def test_a_rerun_takes_what_a_run_takes(admin: TestClient, run: str, value: bytes) -> None:
    for path, name in ((f"/runs/{run}/rerun", b"with_inputs"), ("/dags/ship/runs", b"params")):
        answer = admin.post(f"{API}{path}", content=b'{"%s": {"p": %s}}' % (name, value), headers=JSON)
        assert answer.status_code in (400, 422), answer.text
    assert admin.get(f"{API}/runs/{run}").json()["params"] == {"p": 1}
    assert admin.post(f"{API}/runs/{run}/rerun", json={"with_inputs": {"p": 2}}).json()["params"] == {"p": 2}


def test_a_run_is_not_started_under_the_key_of_a_job(admin: TestClient, run: str) -> None:
    admin.post(f"{API}/jobs", json={"task": "mail", "key": "k"}).raise_for_status()
    answer = admin.post(f"{API}/dags/ship/runs", json={"params": {"p": 1}, "key": "k"})
    assert (answer.status_code, answer.json()["code"]) == (409, "key-taken")


def test_a_text_of_very_many_values_is_not_read_to_its_end(admin: TestClient) -> None:
    answer = admin.post(f"{API}/dags", json={"text": "x:\n" + "- a\n" * (VALUES_LIMIT + 10)})
    assert answer.status_code == 422
    assert "250,000 values" in answer.json()["detail"]
