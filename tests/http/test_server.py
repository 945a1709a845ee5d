"""Rules of all routes: access, refusals and their messages."""

import pytest
from starlette.testclient import TestClient

from tickwork import Tickwork
from tickwork.errors import StoreUnreachable
from tickwork.http.asgi import asgi
from tickwork.http.framework.openapi import document
from tickwork.http.framework.route import NO_CREDENTIALS, NoCredentials, Routes
from tickwork.http.request import Call
from tickwork.http.routes import ROUTES
from tickwork.http.server import release_canary
from tickwork.http.server_context import ServerContext


def test_a_route_that_names_a_scope_answers_401_to_a_caller_without_a_token(anybody: TestClient) -> None:
    guarded = [route for route in ROUTES if not isinstance(route.access, NoCredentials)]
    assert guarded
    for route in guarded:
        answer = anybody.request(route.method, route.path.replace("{", "").replace("}", ""))
        assert answer.status_code == 401, route
        assert answer.headers["content-type"] == "application/problem+json"


def test_an_unknown_field_is_refused_with_its_place(admin: TestClient) -> None:
    answer = admin.post("/api/v1/jobs", json={"task": "mail", "dealy": "1s"})
    assert answer.status_code == 422
    assert answer.json()["detail"] == "/dealy: there is no such field (did you mean 'delay'?). Nothing was done."
    assert answer.json()["errors"][0]["pointer"] == "/dealy"


def test_an_unknown_parameter_is_refused_with_its_name(admin: TestClient) -> None:
    answer = admin.get("/api/v1/jobs?stat=failed")
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("stat: there is no such parameter (did you mean 'state'?).")
    assert answer.json()["errors"][0]["parameter"] == "stat"


def test_a_wrong_type_is_refused_with_a_pointer(admin: TestClient) -> None:
    answer = admin.post("/api/v1/jobs", json={"task": "mail", "retries": "many"})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/retries"


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"task": "x"' + b"[" * 100_000])
def test_what_is_no_json_is_malformed(admin: TestClient, body: bytes) -> None:
    answer = admin.post("/api/v1/jobs", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["code"] == "malformed"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_body_that_a_form_could_send_is_refused(admin: TestClient, kind: str) -> None:
    answer = admin.post("/api/v1/jobs", content=b'{"task": "mail"}', headers={"content-type": kind})
    assert answer.status_code == 415


def test_a_body_over_the_cap_is_refused_before_it_is_read(admin: TestClient) -> None:
    answer = admin.post("/api/v1/jobs", content=b" " * 2_000_000, headers={"content-type": "application/json"})
    assert answer.status_code == 413


@pytest.mark.parametrize(
    "path", ["/api/v1/jobs/", "/api/v1//jobs", "/API/v1/jobs", "/api/v1/jobs;x", "/api/v1/nothing"]
)
def test_a_path_that_is_not_declared_is_not_found(admin: TestClient, path: str) -> None:
    assert admin.get(path).status_code == 404


def test_a_method_that_a_path_does_not_have_is_answered_with_those_that_it_has(admin: TestClient) -> None:
    answer = admin.delete("/healthz")
    assert answer.status_code == 405
    assert "GET" in answer.headers["allow"]


def test_ready_means_that_the_database_answered_lately(anybody: TestClient, parts: ServerContext) -> None:
    assert anybody.get("/readyz").status_code == 503
    parts.pulse.tick(0.0)
    assert anybody.get("/readyz").status_code == 200


def test_every_route_is_in_the_document_and_every_body_is_closed() -> None:
    made = document(ROUTES)
    for route in ROUTES:
        assert route.method.lower() in made["paths"][route.path]
    schemas = made["components"]["schemas"].values()
    assert {one["additionalProperties"] for one in schemas if one.get("type") == "object"} == {False}
    assert {one["maxItems"] == len(one["prefixItems"]) for one in schemas if one.get("type") == "array"} == {True}
    assert {one.get("type", "enum") for one in schemas if "enum" not in one} == {"object", "array"}


def test_a_canary_is_released_when_the_settings_say_how_often(app: Tickwork, monkeypatch: pytest.MonkeyPatch) -> None:
    release_canary(app)
    assert list(app.schedules) == []
    monkeypatch.setenv("TICKWORK_CANARY", "1m")
    asked = Tickwork(app.url)
    release_canary(asked)
    release_canary(asked)
    assert list(asked.schedules) == ["@canary"]
    asked.close()


def test_what_a_database_says_is_for_the_log(
    app: Tickwork, parts: ServerContext, caplog: pytest.LogCaptureFixture
) -> None:
    routes = Routes("tests", prefix="")

    @routes.get("/broken", NO_CREDENTIALS)
    def broken(call: Call) -> None:
        """Break."""
        raise StoreUnreachable("PostgreSQL does not answer on postgresql://bob@db.internal:5432/shop")

    with TestClient(asgi(app, parts, routes.all)) as client:
        answer = client.get("/broken")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "db.internal" not in answer.text
    assert f"request {answer.headers['x-request-id']}: PostgreSQL does not answer on" in caplog.text


# -- what a caller has already


def test_an_answer_that_the_caller_has_is_not_sent_again(admin: TestClient) -> None:
    admin.post("/api/v1/jobs", json={"task": "mail", "delay": "1h"}).raise_for_status()
    first = admin.get("/api/v1/jobs")
    assert first.headers["cache-control"] == "private, no-cache"
    tag = first.headers["etag"]
    for known in (tag, tag.removeprefix("W/"), f'"other", {tag}'):
        again = admin.get("/api/v1/jobs", headers={"If-None-Match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert again.headers["cache-control"] == "private, no-cache"
    admin.post("/api/v1/jobs", json={"task": "mail", "delay": "1h"}).raise_for_status()
    changed = admin.get("/api/v1/jobs", headers={"If-None-Match": tag})
    assert (changed.status_code, len(changed.json()["items"])) == (200, 2)


def test_what_not_every_reader_may_see_is_kept_nowhere(admin: TestClient) -> None:
    for path in ("keys", "users", "secrets", "audit", "session"):
        answer = admin.get(f"/api/v1/{path}")
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "no-store"
        assert "etag" not in answer.headers
    assert admin.get("/api/v1/jobs/nothing").headers["cache-control"] == "no-store"


def test_the_etag_of_what_can_be_edited_is_for_edits(admin: TestClient) -> None:
    admin.put("/api/v1/schedules/nightly", json={"every": "1h", "task": "a"}).raise_for_status()
    tag = admin.get("/api/v1/schedules/nightly").headers["etag"]
    answer = admin.get("/api/v1/schedules/nightly", headers={"If-None-Match": tag})
    assert (answer.status_code, answer.headers["etag"]) == (200, tag)
    assert answer.headers["cache-control"] == "no-store", "its next occurrences are others by now"
