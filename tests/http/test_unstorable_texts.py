"""Texts that one store can hold and the other cannot are refused by both, on every route."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.waiting import eventually
from tickwork import Tickwork
from tickwork.errors import InvalidInput

API = "/api/v1"
DAG = "dags: {ask: {steps: {ready: {approve: {text: 'Go on?'}}}}}"
NUL = "a\0b"


@pytest.fixture
def asked(admin: TestClient, app: Tickwork) -> Any:
    """A run with a step that waits for approval."""
    admin.post(f"{API}/dags", json={"text": DAG}).raise_for_status()
    run = app.run(admin.post(f"{API}/dags/ask/runs", json={}).json()["id"])
    assert run is not None
    with app.worker():
        eventually(lambda: run.steps["ready"].standing.state == "open")
        yield run


def test_an_approval_takes_no_note_with_a_zero_byte(admin: TestClient, asked: Any) -> None:
    answer = admin.post(f"{API}/runs/{asked.id}/approve", json={"step": "ready", "note": NUL})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/note")
    assert "NUL character" in answer.json()["detail"]
    body = b'{"step": "ready", "note": "\\ud800"}'
    headers = {"content-type": "application/json"}
    assert admin.post(f"{API}/runs/{asked.id}/approve", content=body, headers=headers).status_code == 400
    for text in (NUL, "\ud800"):
        with pytest.raises(InvalidInput, match="note: the text"):
            asked.approve("ready", note=text)
        with pytest.raises(InvalidInput, match="by: the text"):
            asked.reject("ready", by=text)
    assert asked.steps["ready"].standing.state == "open"
    asked.approve("ready", note="a\\0b")


def test_a_pause_takes_no_reason_with_a_zero_byte(admin: TestClient, app: Tickwork) -> None:
    admin.put(f"{API}/schedules/s", json={"every": "1h", "task": "a"}).raise_for_status()
    assert admin.post(f"{API}/schedules/s/pause", json={"reason": NUL}).status_code == 422
    with pytest.raises(InvalidInput, match="reason: the text"):
        app.schedules["s"].pause(NUL)
    with pytest.raises(InvalidInput, match="by: the text"):
        app.schedules["s"].pause(by="\ud800")
    assert app.schedules["s"].state == "active"


def test_a_channel_takes_no_text_with_a_zero_byte(admin: TestClient, app: Tickwork) -> None:
    mail = {"kind": "smtp", "host": "mail.example", "sender": "a@b.example", "to": ["c@d.example"]}
    for field in ("host", "user"):
        more = {field: NUL, "password": "${secret.P}"} if field == "user" else {field: NUL}
        assert admin.put(f"{API}/channels/c", json={**mail, **more}).status_code == 422
        with pytest.raises(InvalidInput, match=f"{field}: the text"):
            app.notifications.put_channel("c", **{**mail, **more})
    assert app.notifications.channels() == {}


def test_no_parameter_has_a_zero_byte(admin: TestClient) -> None:
    for query in ("task=a%00b", "cursor=a%00b", "a%00=1"):
        answer = admin.get(f"{API}/jobs?{query}")
        assert answer.status_code == 422, answer.text


def test_what_an_attempt_wrote_is_kept_the_same_on_both_stores(admin: TestClient) -> None:
    """The job has run: one character of its result must not lose the end of the attempt."""
    admin.post(f"{API}/jobs", json={"task": "mail"}).raise_for_status()
    (job,) = admin.post(f"{API}/leases", json={"queues": ["default"], "worker": "w"}).json()["jobs"]
    at = {"attempt": job["attempt"]}
    path = f"{API}/jobs/{job['id']}"
    admin.post(f"{path}/log", json={**at, "text": NUL}).raise_for_status()
    admin.post(f"{path}/heartbeat", json={**at, "progress": 0.5, "note": NUL}).raise_for_status()
    assert admin.get(path).json()["progress_note"] == "a\\0b"
    admin.post(f"{path}/fail", json={**at, "error": NUL, "retry": False}).raise_for_status()
    assert admin.get(path).json()["error"] == "a\ufffdb"
    assert [line["text"] for line in admin.get(f"{path}/logs").json()["items"]] == ["a\ufffdb"]
