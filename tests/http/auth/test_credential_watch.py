"""Streams and long polls end with the credentials that they began with, and their number is limited."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.waiting import eventually
from tickwork import Tickwork
from tickwork.core.access.scopes import digest_of
from tickwork.http.auth.access import COOKIE
from tickwork.http.server_context import ServerContext
from tickwork.security.credentials import create_key

API = "/api/v1"
REVOKED_AFTER_S = 0.5
ENDS_WITHIN_S = 5.0  # after the credentials
PASSWORD = "a long password"


def follow(client: TestClient, job_id: str, **headers: str) -> Any:
    return client.get(f"{API}/jobs/{job_id}/logs?follow=true", headers=headers)


def listen(client: TestClient, job_id: str, **headers: str) -> Any:
    return client.get(f"{API}/stream", headers=headers)


def wait_for_the_result(client: TestClient, job_id: str, **headers: str) -> Any:
    return client.get(f"{API}/jobs/{job_id}/result?wait=30", headers=headers)


def wait_for_work(client: TestClient, job_id: str, **headers: str) -> Any:
    return client.post(f"{API}/leases", json={"queues": ["q"], "worker": "w", "wait": 30}, headers=headers)


@contextmanager
def ending_in_time(revoke: Callable[[], object]) -> Iterator[None]:
    """Revoke something in a moment; whatever is waited for meanwhile ends soon after that."""
    later = threading.Timer(REVOKED_AFTER_S, revoke)
    later.start()
    began = time.monotonic()
    yield
    later.join()
    assert REVOKED_AFTER_S <= time.monotonic() - began < REVOKED_AFTER_S + ENDS_WITHIN_S


@pytest.mark.parametrize(
    ("ask", "status"), [(follow, 200), (listen, 200), (wait_for_the_result, 401), (wait_for_work, 401)]
)
def test_what_was_begun_with_a_key_ends_with_it(
    anybody: TestClient, app: Tickwork, parts: ServerContext, ask: Callable[..., Any], status: int
) -> None:
    job = app.named("mail").options(delay="1h").enqueue()
    token, key = create_key(app.store, "k", ["read", "work"], None, "test")
    with ending_in_time(lambda: app.store.access.revoke_api_key(key.id)):
        answer = ask(anybody, job.id, Authorization=f"Bearer {token}")
    assert answer.status_code == status, answer.text
    late = app.named("mail").options(queue="q").enqueue()
    assert late.state == "queued", "nothing is claimed for it any more"
    assert (parts.followers.held, parts.listeners.held) == (0, 0)


@pytest.mark.parametrize("how", ["the session", "the user", "the password", "the role"])
def test_a_log_is_followed_no_more_when_a_login_ends(
    anybody: TestClient, admin: TestClient, app: Tickwork, how: str
) -> None:
    user = {"name": "ada", "role": "viewer", "password": PASSWORD}
    admin.post(f"{API}/users", json=user).raise_for_status()
    login = {"user": "ada", "password": PASSWORD}
    anybody.post(f"{API}/session", json=login).raise_for_status()
    job = app.named("mail").options(delay="1h").enqueue()
    calls: dict[str, Callable[[], Any]] = {
        "the session": lambda: app.store.access.end_session(digest_of(anybody.cookies[COOKIE].encode())),
        "the user": lambda: admin.delete(f"{API}/users/ada"),
        "the password": lambda: app.store.access.change_user("ada", password="another"),
        "the role": lambda: app.store.access.change_user("ada", role="nothing"),
    }
    with ending_in_time(calls[how]):
        answer = follow(anybody, job.id)
    assert answer.status_code == 200
    assert follow(anybody, job.id).status_code in (401, 403)


@pytest.mark.parametrize(("ask", "code"), [(follow, "too-many-followers"), (listen, "too-many-listeners")])
def test_a_burst_does_not_pass_the_cap_of_streams(
    admin: TestClient, app: Tickwork, parts: ServerContext, ask: Callable[..., Any], code: str
) -> None:
    parts.followers.most = parts.listeners.most = 3
    job = app.named("mail").options(delay="1h").enqueue()
    answers: list[Any] = []
    asking = [threading.Thread(target=lambda: answers.append(ask(admin, job.id))) for _ in range(12)]
    for thread in asking:
        thread.start()
    eventually(lambda: len(answers) == 9, 20, "all but three were refused")
    assert {(one.status_code, one.json()["code"], one.headers["retry-after"]) for one in answers} == {(503, code, "5")}
    parts.stopping.set()
    for thread in asking:
        thread.join(20)
    assert sorted(one.status_code for one in answers) == [200] * 3 + [503] * 9
    assert (parts.followers.held, parts.listeners.held) == (0, 0)


def test_a_stream_that_never_begins_leaves_its_place(admin: TestClient, app: Tickwork, parts: ServerContext) -> None:
    job = app.named("mail").enqueue()
    for path in (f"{API}/stream", f"{API}/jobs/{job.id}/logs?follow=true"):
        assert admin.head(path).status_code == 200
    assert (parts.followers.held, parts.listeners.held) == (0, 0)
