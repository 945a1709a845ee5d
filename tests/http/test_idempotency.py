"""A POST with an Idempotency-Key is carried out once, whatever happens to its answer."""

from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from tickwork import Tickwork
from tickwork.errors import StoreUnreachable
from tickwork.http import idempotency
from tickwork.security.credentials import create_key
from tickwork.store.admin.access import BegunRequest, KeptAnswer

JOBS = "/api/v1/jobs"
KEY = {"Idempotency-Key": "order-1"}
BODY = {"task": "mail", "args": {"to": "ada"}}


def count(app: Tickwork) -> int:
    return len(list(app.jobs()))


def test_the_second_time_the_same_is_answered_and_nothing_is_done(app: Tickwork, admin: TestClient) -> None:
    first, second = (admin.post(JOBS, json=BODY, headers=KEY) for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.content == second.content
    assert first.headers["location"] == second.headers["location"]
    assert second.headers["content-type"] == "application/json"
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"
    assert first.headers["x-request-id"] != second.headers["x-request-id"]
    assert count(app) == 1


def test_another_body_under_the_same_key_is_refused(app: Tickwork, admin: TestClient) -> None:
    admin.post(JOBS, json=BODY, headers=KEY)
    answer = admin.post(JOBS, json={"task": "other"}, headers=KEY)
    assert (answer.status_code, answer.json()["code"]) == (422, "key-reused")
    assert count(app) == 1


def test_keys_of_callers_are_their_own(app: Tickwork, admin: TestClient) -> None:
    token, _ = create_key(app.store, "other", ["enqueue"], None, "test")
    first = admin.post(JOBS, json=BODY, headers=KEY).json()
    second = admin.post(JOBS, json=BODY, headers={**KEY, "Authorization": f"Bearer {token}"}).json()
    assert first["id"] != second["id"]
    assert count(app) == 2


def test_one_that_is_being_carried_out_is_409(
    app: Tickwork, admin: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[Any] = []
    insert = app.store.insert_jobs

    def meanwhile(*args: Any, **kwargs: Any) -> Any:
        if not answers:
            answers.append(None)
            answers[0] = admin.post(JOBS, json=BODY, headers=KEY)
        return insert(*args, **kwargs)

    monkeypatch.setattr(app.store, "insert_jobs", meanwhile)
    assert admin.post(JOBS, json=BODY, headers=KEY).status_code == 201
    assert (answers[0].status_code, answers[0].json()["code"]) == (409, "in-flight")
    assert answers[0].headers["retry-after"] == "1"
    assert count(app) == 1


def test_one_that_was_refused_is_forgotten(app: Tickwork, admin: TestClient) -> None:
    bad = {"task": "mail", "delay": "5 parsecs"}
    assert admin.post(JOBS, json=bad, headers=KEY).status_code == 422
    assert admin.post(JOBS, json=BODY, headers=KEY).status_code == 201


def _before(insert: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    raise StoreUnreachable("gone before")


def _after(insert: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    insert(*args, **kwargs)
    raise StoreUnreachable("gone after")


def _by_a_fault(insert: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    insert(*args, **kwargs)
    raise RuntimeError("a fault of the server")


@pytest.mark.parametrize("fails", [_before, _after, _by_a_fault])
def test_a_request_with_an_unknown_outcome_is_carried_out_again_and_makes_one_job(
    app: Tickwork, admin: TestClient, monkeypatch: pytest.MonkeyPatch, fails: Callable[..., Any]
) -> None:
    insert = app.store.insert_jobs
    with monkeypatch.context() as patched:
        patched.setattr(app.store, "insert_jobs", lambda *args, **kwargs: fails(insert, *args, **kwargs))
        assert admin.post(JOBS, json=BODY, headers=KEY).status_code in (500, 503)
    again = admin.post(JOBS, json=BODY, headers=KEY)
    assert again.status_code == 201, again.text
    assert "idempotent-replayed" not in again.headers
    assert [job.id for job in app.jobs()] == [again.json()["id"]]


def test_one_whose_server_died_is_taken_on_after_a_while_and_finds_its_job(
    app: Tickwork, admin: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        # There is no public way to stop between the commit and the answer.
        patched.setattr(idempotency, "_keep", lambda *args: None)  # as if it had ended here
        first = admin.post(JOBS, json=BODY, headers=KEY).json()
    assert admin.post(JOBS, json=BODY, headers=KEY).status_code == 409
    monkeypatch.setattr(idempotency, "IN_FLIGHT_LIMIT", idempotency.IN_FLIGHT_LIMIT * 0)
    assert admin.post(JOBS, json=BODY, headers=KEY).json()["id"] == first["id"]
    assert count(app) == 1


@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb"])
def test_what_is_no_key_is_refused(app: Tickwork, admin: TestClient, key: str) -> None:
    assert admin.post(JOBS, json=BODY, headers={"Idempotency-Key": key}).status_code == 422
    assert count(app) == 0


def test_answers_with_secrets_are_not_kept(app: Tickwork, admin: TestClient) -> None:
    body = {"name": "deploy", "scopes": ["read"]}
    assert admin.post("/api/v1/keys", json=body, headers=KEY).status_code == 201
    assert admin.post("/api/v1/keys", json=body, headers=KEY).status_code == 422
    assert isinstance(
        app.store.access.begin_answer("dev", "order-1", "d", idempotency.IN_FLIGHT_LIMIT), BegunRequest
    ), "nothing is known of it"


def test_other_methods_are_what_they_are_already(app: Tickwork, admin: TestClient) -> None:
    job = admin.post(JOBS, json=BODY).json()
    assert "idempotent-replayed" not in admin.get(f"{JOBS}/{job['id']}", headers=KEY).headers
    assert not isinstance(app.store.access.begin_answer("dev", "order-1", "d", idempotency.IN_FLIGHT_LIMIT), KeptAnswer)
