"""Hooks: what is signed is taken once, all else starts nothing, and strangers learn nothing."""

import asyncio
import hashlib
import hmac
import json
from typing import Any

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

from tickwork import Tickwork, debounce
from tickwork.core import hooks
from tickwork.http.connections import bodies
from tickwork.http.connections.bodies import CapacityShare
from tickwork.http.framework.problems import Problem
from tickwork.http.server_context import ServerContext
from tickwork.security import vault

SECRET = "it's a secret to everybody"
GITHUB = {
    "style": "github",
    "secret": "${secret.HOOK_SECRET}",
    "task": "build",
    "args": {"commit": "${body.after}", "what": "${event} of ${body.repository.name}"},
}
PUSH = {"after": "abc", "repository": {"name": "shop"}}


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    monkeypatch.setenv("TICKWORK_SECRET_ENV", "HOOK_SECRET")


def put(admin: TestClient, spec: dict[str, Any], name: str = "h") -> None:
    answer = admin.put(f"/api/v1/hooks/{name}", json=spec)
    assert answer.status_code in (200, 201), answer.text


def digest(data: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), data, hashlib.sha256).hexdigest()


def github(data: bytes, **headers: str) -> dict[str, str]:
    return {"X-Hub-Signature-256": f"sha256={digest(data)}", "X-GitHub-Event": "push", **headers}


def timed(data: bytes, app: Tickwork, age_s: int = 0, header: str = "X-Tickwork-Signature") -> dict[str, str]:
    at = str(int(app.store.now().timestamp()) - age_s)
    return {header: f"t={at},v1={digest(at.encode() + b'.' + data)}"}


def send(client: TestClient, data: bytes, headers: dict[str, str], name: str = "h") -> Any:
    return client.post(f"/hooks/{name}", content=data, headers=headers)


def outcomes(admin: TestClient, name: str = "h") -> list[tuple[bool, str]]:
    items = admin.get(f"/api/v1/hooks/{name}/deliveries").json()["items"]
    return [(one["is_genuine"], one["outcome"]) for one in items]


def test_a_message_of_github_becomes_a_job(admin: TestClient, anybody: TestClient, app: Tickwork) -> None:
    put(admin, GITHUB)
    data = json.dumps(PUSH, indent=3).encode()
    answer = send(anybody, data, github(data))
    assert (answer.status_code, answer.json()["outcome"]) == (202, "accepted")
    job = app.job(answer.json()["job_id"])
    assert job is not None
    assert (job.task, json.loads(job.view.args)) == ("build", {"commit": "abc", "what": "push of shop"})
    (one,) = admin.get("/api/v1/hooks/h/deliveries").json()["items"]
    assert (one["event"], one["job_id"], one["size"], one["is_genuine"]) == ("push", job.id, len(data), True)


def test_a_message_of_stripe_starts_a_run_and_its_repetition_is_known_by_its_id(
    admin: TestClient, anybody: TestClient, app: Tickwork
) -> None:
    admin.post("/api/v1/dags", json={"text": "dags: {ship: {params: {order: string}, steps: {s: {task: t}}}}"})
    put(admin, {"style": "stripe", "secret": "HOOK_SECRET", "dag": "ship", "args": {"order": "${body.data.object.id}"}})
    data = b'{"id": "evt_1", "type": "charge.succeeded", "data": {"object": {"id": "order-7"}}}'
    first = send(anybody, data, timed(data, app, header="Stripe-Signature"))
    assert first.status_code == 202, first.text
    run = app.run(first.json()["job_id"])
    assert run is not None
    assert (run.dag, json.loads(run.view.args)) == ("ship", {"order": "order-7"})
    assert run.view.key == "hook/h/evt_1"
    again = send(anybody, data, timed(data, app, age_s=60, header="Stripe-Signature"))
    assert (again.json()["outcome"], again.json()["job_id"]) == ("duplicate", run.id)


def test_several_signatures_of_which_one_holds(admin: TestClient, anybody: TestClient, app: Tickwork) -> None:
    put(admin, {"style": "stripe", "secret": "HOOK_SECRET", "task": "t"})
    data = b"{}"
    (said,) = timed(data, app).values()
    assert send(anybody, data, {"Stripe-Signature": f"v0=ff,v1={'0' * 64}, {said}"}).status_code == 202


def test_a_message_that_is_replayed_is_taken_once(admin: TestClient, anybody: TestClient, app: Tickwork) -> None:
    for style in ("github", "generic"):
        put(admin, {"style": style, "secret": "HOOK_SECRET", "task": "t"}, style)
        data = b'{"n": 1}'
        headers = github(data) if style == "github" else timed(data, app)
        first = send(anybody, data, {**headers, "X-GitHub-Delivery": "1"}, style)
        second = send(anybody, data, {**headers, "X-GitHub-Delivery": "2"}, style)
        assert first.json()["job_id"] == second.json()["job_id"]
        assert outcomes(admin, style) == [(True, "duplicate"), (True, "accepted")]
    assert len(list(app.jobs())) == 2


def test_it_is_not_taken_again_when_its_job_has_ended(admin: TestClient, anybody: TestClient, app: Tickwork) -> None:
    @app.task(name="t")
    def t() -> None: ...

    put(admin, {"style": "github", "secret": "HOOK_SECRET", "task": "t"})
    data = b'{"n": 1}'
    first = send(anybody, data, github(data)).json()["job_id"]
    with app.worker():
        job = app.job(first)
        assert job is not None
        job.wait(timeout=20)
    assert send(anybody, data, github(data)).json()["job_id"] == first


def test_a_hook_may_say_what_messages_are_known_by(admin: TestClient, anybody: TestClient, app: Tickwork) -> None:
    put(admin, {"style": "generic", "secret": "HOOK_SECRET", "task": "t", "key": "${body.id}"})
    first, second, other = b'{"id": 7}', b'{"id": 7, "try": 2}', b'{"id": 8}'
    jobs = [send(anybody, one, timed(one, app)).json()["job_id"] for one in (first, second, other)]
    assert jobs[0] == jobs[1] != jobs[2]


DATA = json.dumps(PUSH).encode()
GOOD = digest(DATA)


@pytest.mark.parametrize(
    ("data", "header"),
    [
        (DATA, None),
        (DATA, ""),
        (DATA, "sha256="),
        (DATA, GOOD),
        (DATA, f"sha1={GOOD}"),
        (DATA, f"sha256={GOOD[:-1]}"),
        (DATA, f"sha256={GOOD.upper()}"),
        (DATA, f"sha256={digest(DATA, 'another secret')}"),
        (DATA, f"sha256={digest(DATA, '')}"),
        (DATA + b" ", f"sha256={GOOD}"),
        (DATA.replace(b"abc", b"abd"), f"sha256={GOOD}"),
        (b"", f"sha256={GOOD}"),
        (DATA, "sha256=" + "é" * 64),
        (DATA, "sha256=" + "\xff" * 64),
        (DATA, "x" * 10_000),
    ],
)
def test_what_is_not_signed_starts_nothing(
    admin: TestClient, anybody: TestClient, app: Tickwork, parts: ServerContext, data: bytes, header: str | None
) -> None:
    put(admin, GITHUB)
    headers = {} if header is None else {"X-Hub-Signature-256": header.encode("latin-1", "replace").decode("latin-1")}
    raw: Any = {name.encode(): value.encode("latin-1") for name, value in headers.items()}
    answer = anybody.post("/hooks/h", content=data, headers=raw)
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")
    unknown = anybody.post("/hooks/unknown", content=data, headers=raw)
    assert told(unknown) == told(answer)
    assert list(app.jobs()) == []
    parts.refusals.tick(0.0)
    assert outcomes(admin) == [(False, "refused")]


@pytest.mark.parametrize(
    "header",
    [
        "",
        "t=,v1=",
        "t=1",
        "v1=00",
        "t=1,t=2,v1=00",
        "t=-5,v1=00",
        "t=1e3,v1=00",
        "t=" + "9" * 500,
        "t=\u0661,v1=0",
        ",,,=,",
    ],
)
def test_headers_that_are_none(admin: TestClient, anybody: TestClient, header: str) -> None:
    put(admin, {"style": "generic", "secret": "HOOK_SECRET", "task": "t"})
    raw: Any = {b"X-Tickwork-Signature": header.encode("utf-8")}
    assert anybody.post("/hooks/h", content=b"{}", headers=raw).status_code == 404


@pytest.mark.parametrize(("age_s", "status"), [(290, 202), (-290, 202), (310, 401), (-310, 401), (10**9, 401)])
@pytest.mark.parametrize("style", ["stripe", "generic"])
def test_a_message_may_be_five_minutes_old(
    admin: TestClient, anybody: TestClient, app: Tickwork, style: str, age_s: int, status: int
) -> None:
    put(admin, {"style": style, "secret": "HOOK_SECRET", "task": "t"})
    header = {"stripe": "Stripe-Signature", "generic": "X-Tickwork-Signature"}[style]
    answer = send(anybody, b"{}", timed(b"{}", app, age_s, header))
    assert answer.status_code == status, answer.text
    assert len(list(app.jobs())) == (status == 202)


def test_the_time_of_a_message_is_signed_too(admin: TestClient, anybody: TestClient, app: Tickwork) -> None:
    put(admin, {"style": "generic", "secret": "HOOK_SECRET", "task": "t"})
    (old,) = timed(b"{}", app, age_s=600).values()
    now = int(app.store.now().timestamp())
    forged = f"t={now},{old.partition(',')[2]}"
    assert send(anybody, b"{}", {"X-Tickwork-Signature": forged}).status_code == 404


def test_types_that_a_hook_does_not_take_are_ignored(admin: TestClient, anybody: TestClient, app: Tickwork) -> None:
    put(admin, {**GITHUB, "events": ["push"]})
    for event, outcome in (("push", "accepted"), ("issues", "ignored"), ("ping", "ignored")):
        answer = send(anybody, DATA, github(DATA, **{"X-GitHub-Event": event}))
        assert (answer.status_code, answer.json()["outcome"]) == (202, outcome)
    put(admin, GITHUB)
    ping = send(anybody, b'{"zen": "x"}', github(b'{"zen": "x"}', **{"X-GitHub-Event": "ping"}))
    assert ping.json()["outcome"] == "ignored"
    put(admin, {"style": "generic", "secret": "HOOK_SECRET", "task": "t", "events": ["paid"]}, "g")
    for data, outcome in ((b'{"type": "paid"}', "accepted"), (b'{"type": "lost"}', "ignored"), (b"[]", "ignored")):
        assert send(anybody, data, timed(data, app), "g").json()["outcome"] == outcome


@pytest.mark.parametrize(
    ("data", "status", "words"),
    [
        (b"not json", 400, "cannot be read as JSON"),
        (b"\xff\xfe", 400, "cannot be read as JSON"),
        (b"[" * 100_000, 400, "cannot be read as JSON"),
        (b"{}", 422, "has no 'after'"),
        (b"[1]", 422, "has no 'after'"),
        (b'{"after": "' + b"x" * 300_000 + b'", "repository": {"name": "a"}}', 422, "the arguments of task"),
        (b'{"after": "\\u0000", "repository": {"name": "a"}}', 422, "the arguments of task"),
    ],
)
def test_a_genuine_message_that_cannot_be_used_is_refused_with_the_reason(
    admin: TestClient, anybody: TestClient, app: Tickwork, data: bytes, status: int, words: str
) -> None:
    put(admin, GITHUB)
    answer = send(anybody, data, github(data))
    assert (answer.status_code, words in answer.json()["detail"]) == (status, True), answer.text
    assert outcomes(admin) == [(True, "refused")]
    assert list(app.jobs()) == []


def test_a_huge_message_is_refused_before_anything_else(admin: TestClient, anybody: TestClient) -> None:
    put(admin, GITHUB)
    for name in ("h", "unknown"):
        assert send(anybody, b" " * 1_100_000, {}, name).status_code == 413
    assert send(anybody, DATA, {**github(DATA), "Content-Encoding": "gzip"}).status_code == 415


def test_a_body_cannot_pass_for_a_reference_to_a_blob(admin: TestClient, anybody: TestClient, app: Tickwork) -> None:
    put(admin, {"style": "github", "secret": "HOOK_SECRET", "task": "t", "args": {"x": "${body.x}"}})
    key = f"{'0' * 64}.019a8f3e-1c2d-7abc-8def-0123456789ab.1"
    data = f'{{"x": {{"$blob": {{"key":"{key}","size":3}}}}}}'.encode()
    job = app.job(send(anybody, data, github(data)).json()["job_id"])
    assert job is not None
    assert b'{"$blob": ' not in job.view.args


def test_headers_may_be_arguments_but_not_those_that_hold_secrets(
    admin: TestClient, anybody: TestClient, app: Tickwork
) -> None:
    args = {"event": "${headers.x-github-event}", "all": "${headers}"}
    put(admin, {"style": "github", "secret": "HOOK_SECRET", "task": "t", "args": args})
    answer = send(anybody, b"{}", github(b"{}", Authorization="Basic abc", Cookie="a=b"))
    job = app.job(answer.json()["job_id"])
    assert job is not None
    found = json.loads(job.view.args)
    assert found["event"] == "push"
    assert not {"authorization", "cookie", "x-hub-signature-256"} & set(found["all"])


def test_the_secret_of_a_hook_is_that_of_the_store_before_that_of_the_environment(
    admin: TestClient, anybody: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(admin, GITHUB)
    monkeypatch.setenv("TICKWORK_SECRET_KEY", "ab" * 32)
    assert admin.put("/api/v1/secrets/HOOK_SECRET", json={"value": "of the store"}).status_code == 200
    data = json.dumps(PUSH).encode()
    assert send(anybody, data, github(data)).status_code == 404
    signed = github(data) | {"X-Hub-Signature-256": f"sha256={digest(data, 'of the store')}"}
    assert send(anybody, data, signed).status_code == 202
    monkeypatch.setenv("TICKWORK_SECRET_KEY", "cd" * 32)
    assert send(anybody, data, signed).status_code == 404, "it is sealed with another key"


def test_without_its_secret_a_hook_takes_nothing_and_says_so_to_those_who_may_see_it(
    admin: TestClient,
    anybody: TestClient,
    app: Tickwork,
    parts: ServerContext,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    put(admin, GITHUB)
    for value in (None, ""):
        monkeypatch.delenv("HOOK_SECRET") if value is None else monkeypatch.setenv("HOOK_SECRET", value)
        for _ in range(20):
            answer = send(anybody, DATA, {"X-Hub-Signature-256": f"sha256={digest(DATA, '')}"})
            assert told(answer) == told(send(anybody, DATA, {}, "unknown"))
    for second in range(30):
        send(anybody, DATA, {})
        parts.refusals.tick(float(second))
    (one, *_) = admin.get("/api/v1/hooks/h/deliveries").json()["items"]
    assert "the secret HOOK_SECRET is not set" in one["reason"]
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [
        "Hook 'h' refuses all messages: the secret HOOK_SECRET is not set on this server."
    ]
    assert list(app.jobs()) == []


def test_a_dag_that_is_gone_and_a_task_that_is_debounced(admin: TestClient, anybody: TestClient, app: Tickwork) -> None:
    @app.task(name="slow", debounce=debounce("1h"))
    def slow() -> None: ...

    with app.worker():
        pass
    put(admin, {"style": "github", "secret": "HOOK_SECRET", "dag": "gone"})
    assert send(anybody, b"{}", github(b"{}")).status_code == 409
    put(admin, {"style": "github", "secret": "HOOK_SECRET", "task": "slow"}, "s")
    assert send(anybody, b"{}", github(b"{}"), "s").json()["outcome"] == "accepted"


def test_the_secret_is_in_no_answer_and_not_in_the_store(admin: TestClient, anybody: TestClient, app: Tickwork) -> None:
    put(admin, GITHUB)
    texts = [send(anybody, DATA, github(DATA)).text, send(anybody, b"{}", github(DATA)).text]
    texts += [admin.get(f"/api/v1/hooks{more}").text for more in ("", "/h", "/h/deliveries")]
    view = app.store.hooks.get_hook("h")
    assert view is not None
    assert SECRET not in "".join([*texts, repr(view.hook), *(repr(one) for one in app.store.hooks.deliveries("h"))])


def test_hooks_are_put_listed_edited_and_deleted(admin: TestClient) -> None:
    made = admin.put("/api/v1/hooks/h", json=GITHUB, headers={"If-None-Match": "*"})
    assert (made.status_code, made.json()["spec"]) == (201, {**GITHUB, "secret": "HOOK_SECRET"})
    assert made.json()["url"] == "/hooks/h"
    seen = admin.get("/api/v1/hooks/h").headers["etag"]
    again = made.json()["spec"]
    assert admin.put("/api/v1/hooks/h", json=again, headers={"If-Match": seen}).status_code == 200
    assert admin.put("/api/v1/hooks/h", json=again, headers={"If-Match": '"x"'}).status_code == 412
    assert [one["name"] for one in admin.get("/api/v1/hooks").json()["items"]] == ["h"]
    assert admin.delete("/api/v1/hooks/h").status_code == 204
    assert admin.delete("/api/v1/hooks/h").status_code == 404
    assert admin.get("/api/v1/hooks/h/deliveries").status_code == 404


@pytest.mark.parametrize(
    ("spec", "pointer"),
    [
        ({"style": "github", "secret": "S"}, ""),
        ({"style": "github", "secret": SECRET, "task": "t"}, "/secret"),
        ({"style": "github", "secret": "S", "task": "t", "args": {"a": ["${bdy}"]}}, "/args/a/0"),
        ({"style": "github", "secret": "S", "task": "t", "window": "x"}, "/window"),
        ({"style": "github", "secret": "S", "task": "shell", "args": {"command": "${body.x}"}}, "/args"),
    ],
)
def test_a_hook_that_cannot_be_is_refused_with_a_pointer(admin: TestClient, spec: dict[str, Any], pointer: str) -> None:
    answer = admin.put("/api/v1/hooks/h", json=spec)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, pointer)
    assert admin.get("/api/v1/hooks").json()["items"] == []


def test_the_parameters_of_its_dag_are_checked_and_an_unknown_dag_is_a_warning(admin: TestClient) -> None:
    text = "dags: {ship: {params: {order: string, n: {type: integer, default: 1}}, steps: {a: {task: t}}}}"
    admin.post("/api/v1/dags", json={"text": text}).raise_for_status()
    spec = {"style": "github", "secret": "S", "dag": "ship", "args": {"order": "${body.id}", "n": "many"}}
    answer = admin.put("/api/v1/hooks/h", json=spec)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/args/n")
    assert admin.put("/api/v1/hooks/h", json={**spec, "args": {"n": "${body.n}"}}).status_code == 422, "no order"
    assert admin.get("/api/v1/hooks").json()["items"] == []
    made = admin.put("/api/v1/hooks/h", json={**spec, "args": {"order": "${body.id}", "n": "${body.n}"}})
    assert (made.status_code, "Tickwork-Warning" in made.headers) == (201, False)
    made = admin.put("/api/v1/hooks/h", json={**spec, "dag": "shp"})
    assert (made.status_code, "Did you mean 'ship'?" in made.headers["Tickwork-Warning"]) == (200, True)


def test_of_strangers_one_in_a_second_is_recorded(admin: TestClient, anybody: TestClient, parts: ServerContext) -> None:
    put(admin, GITHUB)
    for _ in range(30):
        assert send(anybody, DATA, {}).status_code == 404
    assert outcomes(admin) == [], "a request that is refused writes nothing"
    parts.refusals.tick(0.0)
    assert outcomes(admin) == [(False, "refused")]


def test_a_hook_named_as_any_other_has_no_record_of_strangers_at_other_names(
    admin: TestClient, anybody: TestClient, app: Tickwork, parts: ServerContext
) -> None:
    put(admin, GITHUB, "nobody")
    assert send(anybody, DATA, github(DATA), "unknown").status_code == 404
    parts.refusals.tick(0.0)
    assert outcomes(admin, "nobody") == []
    assert list(app.jobs()) == []


@pytest.mark.parametrize("name", ["nobody", "HOOK_SECRET"])
def test_no_secret_opens_a_hook_that_is_not_there(
    anybody: TestClient, app: Tickwork, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, SECRET)
    for headers in (github(DATA), timed(DATA, app), timed(DATA, app, header="Stripe-Signature")):
        assert send(anybody, DATA, headers, "unknown").status_code == 404


STRANGE: list[dict[str, str]] = [
    {},
    {"X-Hub-Signature-256": f"sha256={'0' * 64}"},
    {"X-Tickwork-Signature": "t=1,v1=00"},
    {"Stripe-Signature": "t=1,v1=00"},
    {"X-Tickwork-Signature": "," * 4096, "Stripe-Signature": "=," * 2048},
]


@pytest.mark.parametrize("style", ["github", "stripe", "generic"])
@pytest.mark.parametrize("headers", STRANGE, ids=["none", "github", "generic", "stripe", "long"])
def test_a_stranger_is_answered_alike_after_the_same_work_whether_a_hook_is_there(
    admin: TestClient,
    anybody: TestClient,
    app: Tickwork,
    monkeypatch: pytest.MonkeyPatch,
    style: str,
    headers: dict[str, str],
) -> None:
    monkeypatch.setenv("TICKWORK_SECRET_KEY", "ab" * 32)
    for name, secret in (("sealed", "SEALED"), ("of-environment", "HOOK_SECRET"), ("unset", "UNSET")):
        put(admin, {"style": style, "secret": secret, "task": "t"}, name)
    assert admin.put("/api/v1/secrets/SEALED", json={"value": "of the store"}).status_code == 200
    done: list[str] = []
    watch_calls(app, monkeypatch, done)
    seen = []
    for name in ("unknown", "sealed", "of-environment", "unset"):
        done.clear()
        answer = send(anybody, DATA, headers, name)
        seen.append((told(answer), sorted(name for name in answer.headers), list(done)))
    assert seen[1:] == seen[:1] * 3
    assert seen[0][2] == ["get_hook", "get_secret", "AES-GCM", "now", "HMAC"]


def watch_calls(app: Tickwork, monkeypatch: pytest.MonkeyPatch, done: list[str]) -> None:
    """Note what takes time: the calls of the store, what is sealed or opened, and what is signed."""
    store = app.store
    for group, verb in (
        (store.hooks, "get_hook"),
        (store.hooks, "record_delivery"),
        (store.access, "get_secret"),
        (store, "now"),
    ):
        monkeypatch.setattr(group, verb, noting(getattr(group, verb), verb, done))
    for verb in ("_sealed", "_opened"):
        monkeypatch.setattr(vault, verb, noting(getattr(vault, verb), "AES-GCM", done))
    # The number of HMACs is only visible here.
    monkeypatch.setattr(hooks, "_digest", noting(hooks._digest, "HMAC", done))


def noting(function: Any, name: str, done: list[str]) -> Any:
    def noted(*args: Any, **kwargs: Any) -> Any:
        done.append(name)
        return function(*args, **kwargs)

    return noted


def told(answer: Any) -> tuple[int, dict[str, Any]]:
    """Return a response without the id of its request."""
    same = ("status", "code", "detail", "title", "type")
    return answer.status_code, {name: answer.json()[name] for name in same}


def test_a_name_that_is_not_there_takes_the_work_of_a_signature_that_does_not_hold(
    admin: TestClient, anybody: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(admin, GITHUB)
    digested: list[tuple[int, int]] = []
    new = hmac.new

    def watched(key: bytes, message: bytes, digest: Any) -> Any:
        digested.append((len(key), len(message)))
        return new(key, message, digest)

    monkeypatch.setattr(hooks.hmac, "new", watched)
    for headers in ({}, {"X-Hub-Signature-256": f"sha256={'0' * 64}"}):
        for name in ("h", "unknown"):
            assert send(anybody, DATA, headers, name).status_code == 404
    # Of a hook that is not there the time stands before the body, as in the style that it would have. The body of a
    # message without any signature is not read.
    assert digested == [(len(SECRET), size) if known else (32, 2 + size) for size in (0, len(DATA)) for known in (1, 0)]


HOOK_PATHS = ("/hooks/h", "/hooks/unknown")


def test_a_message_that_no_hook_can_take_is_not_kept_in_memory(
    admin: TestClient, anybody: TestClient, parts: ServerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(admin, GITHUB)
    kept: list[int] = []

    class Watched(CapacityShare):
        def take(self, count: int) -> None:
            kept.append(count)
            super().take(count)

    monkeypatch.setattr(bodies, "CapacityShare", Watched)
    zeros = f"sha256={'0' * 64}"
    for path in HOOK_PATHS:
        assert anybody.post(path, content=DATA).status_code == 404
        assert anybody.post(path, content=DATA, headers={"Stripe-Signature": f"t=1,v1={'0' * 64}"}).status_code == 404
    assert anybody.post("/hooks/unknown", content=DATA, headers={"X-Hub-Signature-256": zeros}).status_code == 404
    assert kept == []
    assert send(anybody, DATA, github(DATA)).status_code == 202
    assert sum(kept) == len(DATA)
    assert parts.unauthenticated_bodies.held == 0


def test_hooks_take_no_more_than_there_is_room_for_whether_they_are_there_or_not(
    admin: TestClient, anybody: TestClient, parts: ServerContext
) -> None:
    put(admin, GITHUB)
    parts.unauthenticated_bodies.most = len(DATA) - 1
    for path in HOOK_PATHS:
        answer = anybody.post(path, content=DATA, headers={"X-Hub-Signature-256": f"sha256={'0' * 64}"})
        assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (503, "too-busy", "5")
    assert parts.unauthenticated_bodies.held == 0
    assert admin.put("/api/v1/hooks/g", json=GITHUB).status_code == 201, "known callers have room of their own"


def test_a_message_in_pieces_is_refused_at_the_same_piece_whether_it_is_kept_or_not() -> None:
    bounded = bodies.Capacity(10, "It is full.")

    async def read_until_refused(read: Any, held: Any) -> int:
        pieces = 0

        async def receive() -> dict[str, Any]:
            nonlocal pieces
            pieces += 1
            return {"type": "http.request", "body": b"1234", "more_body": True}

        with pytest.raises(Problem) as refused:
            await read(Request({"type": "http", "method": "POST", "headers": []}, receive), 100, held)
        assert refused.value.status == 503
        return pieces

    kept = asyncio.run(read_until_refused(bodies.read_bytes, CapacityShare(bounded)))
    bounded.held = 0
    assert asyncio.run(read_until_refused(bodies.skip_bytes, bounded)) == kept == 3
