"""A caller with few scopes cannot run commands, send secrets or read the jobs of others, not even indirectly."""

from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from tickwork import Tickwork
from tickwork.core.access.scopes import Scope
from tickwork.core.limits.debounce import debounce
from tickwork.http.asgi import asgi
from tickwork.http.auth.access import StoreAccess, TokenAccess
from tickwork.http.routes import ROUTES
from tickwork.http.server_context import ServerContext
from tickwork.security.credentials import create_key

JOBS = "/api/v1/jobs"
COMMAND = {"task": "shell", "args": {"command": "env"}}
REQUEST = {"task": "http", "args": {"url": "https://x.example/", "secrets": {"auth.bearer": "${secret.STRIPE}"}}}
MAIL = {"task": "smtp", "args": {"host": "x.example", "secrets": {"password": "${secret.STRIPE}"}}}


def with_scopes(app: Tickwork, client: TestClient, *scopes: str) -> TestClient:
    """The client, calling with a key that has these scopes."""
    token, _ = create_key(app.store, "-".join(scopes), list(scopes), None, "tests")
    client.headers["Authorization"] = f"Bearer {token}"
    return client


@pytest.fixture
def operator(app: Tickwork, anybody: TestClient) -> TestClient:
    return with_scopes(app, anybody, "read", "enqueue", "operate")


@pytest.fixture
def enqueuer(app: Tickwork, anybody: TestClient) -> TestClient:
    token, _ = create_key(app.store, "enqueuer", ["enqueue"], None, "tests")
    anybody.headers["Authorization"] = f"Bearer {token}"
    return anybody


SECRET_COMMAND = {"task": "shell", "args": {"command": "ls", "secrets": {"env.A": "${secret.STRIPE}"}}}
ASKING = "{url: 'https://x.example/', headers: {a: '${secret.STRIPE}'}}"
WITH_SCHEDULE = f"dags: {{d: {{steps: {{a: {{task: m}}}}}}}}\nschedules: {{s: {{http: {ASKING}, every: 1h}}}}"
WORK_OF_SHELL: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/jobs", COMMAND),
    ("POST", "/jobs/batch", {"jobs": [{"task": "mail"}, COMMAND]}),
    ("PUT", "/schedules/s", {"shell": "env", "every": "1h"}),
    ("PUT", "/schedules/s", {**COMMAND, "every": "1h"}),
    ("POST", "/dags", {"text": "dags: {d: {steps: {a: {task: mail}, b: {shell: env}}}}"}),
    ("POST", "/dags", {"text": "dags: {d: {steps: {a: {task: shell, args: {command: env}}}}}"}),
    ("POST", "/dags", {"text": "{dags: {d: {steps: {a: {task: m}}}}, schedules: {s: {shell: env, every: 1h}}}"}),
    ("POST", "/dags", {"text": "dags: {d: {steps: {a: {task: shell, map: {command: [env]}}}}}"}),
]
WORK_WITH_SECRETS: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/jobs", REQUEST),
    ("POST", "/jobs", MAIL),
    ("PUT", "/schedules/s", {**REQUEST, "every": "1h"}),
    ("PUT", "/schedules/s", {"http": {"url": "https://x.example/${secret.STRIPE}"}, "every": "1h"}),
    ("POST", "/dags", {"text": f"dags: {{d: {{steps: {{a: {{http: {ASKING}}}}}}}}}"}),
    (
        "POST",
        "/dags",
        {"text": WITH_SCHEDULE},
    ),
]


@pytest.mark.parametrize(
    ("scope", "method", "path", "body"),
    [*(("shell", *work) for work in WORK_OF_SHELL), *(("use-secrets", *work) for work in WORK_WITH_SECRETS)],
)
def test_defining_work_with_commands_or_secrets_takes_their_scope(
    app: Tickwork, operator: TestClient, scope: str, method: str, path: str, body: dict[str, Any]
) -> None:
    answer = operator.request(method, f"/api/v1{path}", json=body)
    assert (answer.status_code, answer.json()["code"]) == (403, "not-allowed")
    assert f"'{scope}'" in answer.json()["detail"]
    assert [*app.jobs(), *app.schedules.views(), *app.dag_versions()] == []
    allowed = with_scopes(app, operator, "read", "enqueue", "operate", scope)
    assert allowed.request(method, f"/api/v1{path}", json=body).status_code in (200, 201)


def test_a_command_with_secrets_takes_both_scopes(app: Tickwork, anybody: TestClient) -> None:
    for missing in ("shell", "use-secrets"):
        scopes = {"enqueue", "operate", "shell", "use-secrets"} - {missing}
        assert with_scopes(app, anybody, *sorted(scopes)).post(JOBS, json=SECRET_COMMAND).status_code == 403
    assert with_scopes(app, anybody, "enqueue", "shell", "use-secrets").post(JOBS, json=SECRET_COMMAND).is_success


def test_an_operator_starts_retries_and_reruns_what_others_defined_but_cannot_edit_it(
    admin: TestClient, app: Tickwork, operator: TestClient
) -> None:
    text = {"text": "{dags: {d: {steps: {a: {shell: env}}}}, schedules: {s: {shell: env, every: 1h}}}"}
    admin.post("/api/v1/dags", json=text).raise_for_status()
    made = admin.post(JOBS, json={**COMMAND, "delay": "1h"}).json()["id"]
    assert operator.post("/api/v1/dags/d/runs", json={}).status_code == 201
    assert operator.post("/api/v1/schedules/s/trigger").status_code == 201
    assert operator.post(f"{JOBS}/{made}/retry").status_code == 200
    again = f"{JOBS}/{made}/rerun"
    assert operator.post(again, json={}).status_code == 201
    assert operator.post(again, json={"args": COMMAND["args"], "delay": "1h"}).status_code == 201
    assert operator.post(again, json={"args": {"command": "id"}}).status_code == 403
    assert operator.post(again, json={"queue": "another"}).status_code == 403


def test_the_scope_admin_includes_all_others(app: Tickwork, anybody: TestClient) -> None:
    client = with_scopes(app, anybody, "admin")
    assert client.get(JOBS).status_code == 200
    assert client.post(JOBS, json=SECRET_COMMAND).status_code == 201
    assert client.post("/api/v1/queues/q/pause", json={}).status_code == 200
    assert client.get("/metrics").status_code == 200
    assert set(client.get("/api/v1/session").json()["scopes"]) == set(Scope)


def test_the_token_of_dev_grants_all_also_where_a_key_with_smaller_scopes_has_it(
    app: Tickwork, parts: ServerContext
) -> None:
    token, _ = create_key(app.store, "small", ["read"], None, "tests")
    served = asgi(app, replace(parts, access=StoreAccess(app, TokenAccess(token))), ROUTES)
    with TestClient(served, headers={"Authorization": f"Bearer {token}"}) as client:
        assert client.post(JOBS, json=COMMAND).status_code == 201


@pytest.mark.parametrize("job", [COMMAND, REQUEST, MAIL])
def test_who_may_only_enqueue_can_neither_run_commands_nor_send_secrets(
    admin: TestClient, enqueuer: TestClient, job: dict[str, Any]
) -> None:
    plain = {"task": "mail", "args": {"secrets": {"a": "${secret.STRIPE}"}}}
    keyed = {**job, "key": "k", "if_exists": "replace"}
    assert enqueuer.post(JOBS, json={**plain, "key": "k", "delay": "1h"}).status_code == 201
    for path, body in ((JOBS, job), (JOBS, keyed), (f"{JOBS}/batch", {"jobs": [plain, job]})):
        answer = enqueuer.post(path, json=body, headers={"Idempotency-Key": "again"})
        assert (answer.status_code, answer.json()["code"]) == (403, "not-allowed")
    (only,) = admin.get(JOBS).json()["items"]
    assert only["task"] == "mail"
    made = admin.post(JOBS, json=job)
    assert made.status_code == 201
    again = f"{JOBS}/{made.json()['id']}/rerun"
    assert enqueuer.post(again, json={}).status_code == 403
    for body in ({}, {"args": {"n": 1}}):
        again = enqueuer.post(f"{JOBS}/{only['id']}/rerun", json=body)
        assert again.status_code == 201
        assert again.json().keys() == {"id", "state"}, "its options are those of somebody else's job"


@pytest.mark.parametrize("job", [COMMAND, REQUEST, MAIL])
def test_who_may_only_enqueue_cannot_replace_a_job_of_a_built_in_task(
    admin: TestClient, enqueuer: TestClient, job: dict[str, Any]
) -> None:
    waiting = {**job, "key": "nightly", "delay": "1h"}
    made = admin.post(JOBS, json=waiting)
    assert made.status_code == 201
    plain = {**job, "args": {**job["args"]}, "key": "nightly", "if_exists": "replace"}
    plain["args"].pop("secrets", None)
    for path, body in ((JOBS, plain), (f"{JOBS}/batch", {"jobs": [{"task": "mail"}, plain]})):
        answer = enqueuer.post(path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (403, "not-allowed")
    (only,) = admin.get(JOBS).json()["items"]
    kept = admin.get(f"{JOBS}/{only['id']}").json()
    assert (kept["id"], kept["args"], kept["run_at"]) == (made.json()["id"], job["args"], made.json()["run_at"])
    assert admin.post(JOBS, json={**waiting, "if_exists": "replace", "delay": "2h"}).status_code == 200


def test_who_may_only_enqueue_may_replace_what_they_could_have_made(admin: TestClient, enqueuer: TestClient) -> None:
    made = admin.post(JOBS, json={"task": "mail", "args": {"n": 1}, "key": "k", "delay": "1h"}).json()
    again = {"task": "mail", "args": {"n": 2}, "key": "k", "if_exists": "replace"}
    assert enqueuer.post(JOBS, json=again).json()["id"] == made["id"]
    assert admin.get(f"{JOBS}/{made['id']}").json()["args"] == {"n": 2}


def test_who_may_not_read_only_learns_that_a_key_is_taken(
    app: Tickwork, admin: TestClient, enqueuer: TestClient
) -> None:
    holder = app.named("payroll").options(key="k", delay="1h").enqueue()
    for path, body in ((JOBS, {"task": "mail", "key": "k"}), (f"{JOBS}/batch", {"jobs": [{"task": "m", "key": "k"}]})):
        answer = enqueuer.post(path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (409, "key-taken")
        assert "payroll" not in answer.text
        assert holder.id not in answer.text


def test_who_may_not_read_sees_the_id_and_state_of_an_existing_job(
    app: Tickwork, admin: TestClient, enqueuer: TestClient
) -> None:
    @app.task(debounce=debounce("1h"))
    def sync(n: int = 0) -> None: ...

    options = {"labels": ["secret"], "tenant": "acme", "collection": "c", "priority": 7}
    keyed = admin.post(JOBS, json={"task": "mail", "args": {"n": 1}, "key": "k", "delay": "1h", **options}).json()
    debounced = admin.post(JOBS, json={"task": "sync", "args": {"n": 1}}).json()
    assert admin.post("/api/v1/dags", json={"text": "dags: {d: {steps: {a: {task: mail}}}}"}).status_code == 200
    run = admin.post("/api/v1/dags/d/runs", json={"key": "r", "labels": ["secret"]}).json()
    for path, body, existing in (
        (JOBS, {"task": "mail", "key": "k"}, keyed),
        (JOBS, {"task": "mail", "key": "k", "if_exists": "replace"}, keyed),
        (JOBS, {"task": "sync", "args": {"n": 2}}, debounced),
        ("/api/v1/dags/d/runs", {"key": "r"}, run),
    ):
        answer = enqueuer.post(path, json=body)
        assert (answer.status_code, answer.json()) == (200, {"id": existing["id"], "state": existing["state"]}), path
        assert admin.post(path, json=body).json().keys() == existing.keys()
    batch = enqueuer.post(f"{JOBS}/batch", json={"jobs": [{"task": "mail", "key": "k"}]})
    assert batch.json() == {"items": [{"id": keyed["id"], "is_new": False}]}
    own = enqueuer.post(JOBS, json={"task": "mail", "args": {"n": 3}})
    assert (own.status_code, own.json()["args"]) == (201, {"n": 3})


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/schedules/s"),
        ("POST", "/schedules/s/trigger"),
        ("POST", "/schedules/s/backfill"),
        ("POST", "/dags"),
        ("POST", "/bulk"),
        ("POST", "/dead/redrive"),
        ("POST", "/runs/r/rerun"),
        ("POST", "/jobs/j/retry"),
        ("PUT", "/hooks/h"),
        ("PUT", "/channels/c"),
        ("PUT", "/notifications/n"),
        ("POST", "/notifications/n/test"),
        ("POST", "/leases"),
        ("PUT", "/secrets/S"),
    ],
)
def test_all_other_ways_to_a_job_take_a_larger_scope(enqueuer: TestClient, method: str, path: str) -> None:
    assert enqueuer.request(method, f"/api/v1{path}", json={}).status_code == 403


@pytest.mark.parametrize(
    "step",
    [
        '{task: shell, args: {command: "${params.p}"}}',
        '{task: shell, args: {command: [sh, "-c", "${first.result}"]}}',
        '{task: shell, args: {command: ls, interpreter: "${params.p}"}}',
        '{shell: ls, interpreter: "${params.p}"}',
        '{task: shell, args: {command: ls, secrets: {"env.A": "${params.p}"}}}',
        '{task: http, args: {url: "https://x.example/", secrets: "${params.p}"}}',
        '{task: http, args: {url: "https://x.example/", secrets: {"auth.bearer": "${first.result}"}}}',
        '{task: smtp, map: {one: "${params.p}"}, args: {secrets: {password: "${item.one}"}}}',
        '{shell: ls, cwd: "${params.p}"}',
        '{shell: ls, env: {PATH: "${params.p}"}}',
        '{shell: ls, env: {LD_PRELOAD: "/srv/${first.result}"}}',
        '{http: {url: "https://x.example${params.p}", auth: {bearer: "${secret.T}"}}}',
        '{http: {url: "${params.p}", headers: {X-Token: "${secret.T}"}}}',
        '{http: {url: "https://${params.p}/x", auth: {basic: "ada:pass"}}}',
        '{task: http, args: {url: "https://x.example:${params.p}/", secrets: {"auth.bearer": "$${secret.T}"}}}',
        '{task: http, args: {url: "https://x.example/", origin: "${params.p}"}}',
        '{task: smtp, args: {host: "${params.p}", secrets: {password: "$${secret.T}"}}}',
    ],
)
def test_nothing_that_a_run_is_given_says_what_is_run_or_which_secret_is_sent(admin: TestClient, step: str) -> None:
    text = f"dags: {{d: {{params: {{p: {{}}}}, steps: {{first: {{task: mail}}, second: {step}}}}}}}"
    answer = admin.post("/api/v1/dags", json={"text": text})
    assert answer.status_code == 422, answer.text
    assert "a value may not say" in answer.json()["detail"]
    assert admin.get("/api/v1/dags").json()["items"] == []


def test_a_run_hands_values_to_commands_and_requests_in_their_places(admin: TestClient) -> None:
    steps = """
      a: {task: shell, args: {command: 'echo "$A"', env: {A: "${params.p}"}, stdin: "${params.p}"}}
      b: {shell: ls, cwd: /srv, env: {A: "${a.result.stdout}", B: "${secret.B}"}}
      c: {task: http, args: {url: "https://x.example/${params.p}", secrets: {"auth.bearer": "$${secret.T}"}}}
    """
    answer = admin.post("/api/v1/dags", json={"text": f"dags:\n  d:\n    params: {{p: {{}}}}\n    steps:{steps}"})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("task", "args"),
    [
        ("http", {"url": "https://x.example/", "secrets": "${body.secrets}"}),
        ("http", {"url": "https://x.example/", "secrets": {"auth.bearer": "${body.a}"}}),
        ("smtp", {"secrets": {"password": "${headers.a}"}}),
        ("shell", {"command": "${body.a}"}),
        ("shell", {"command": "ls", "cwd": "${body.a}"}),
        ("shell", {"command": "ls", "env": {"PATH": "${body.a}"}}),
        ("http", {"url": "https://x.example${body.a}", "auth": {"bearer": "t"}}),
        ("smtp", {"host": "${body.a}", "secrets": {"password": "$${secret.M}"}}),
    ],
)
def test_no_message_says_what_is_run_or_which_secret_is_sent(
    admin: TestClient, task: str, args: dict[str, Any]
) -> None:
    body = {"style": "github", "secret": "A", "task": task, "args": args}
    assert admin.put("/api/v1/hooks/h", json=body).status_code == 422


def test_a_key_that_is_taken_tells_who_may_only_enqueue_nothing_of_the_job_of_another(
    admin: TestClient, enqueuer: TestClient
) -> None:
    made = admin.post(JOBS, json={"task": "pay", "args": {"card": "4111"}, "key": "order/1"}).json()
    answer = enqueuer.post(JOBS, json={"task": "pay", "key": "order/1"})
    assert (answer.status_code, answer.json()) == (200, {"id": made["id"], "state": "queued"})
    assert "4111" not in answer.text
    assert admin.post(JOBS, json={"task": "pay", "key": "order/1"}).json()["args"] == {"card": "4111"}


def test_a_key_that_is_taken_tells_nothing_of_the_run_of_another(admin: TestClient, enqueuer: TestClient) -> None:
    text = "dags: {ship: {params: {card: {type: string}}, steps: {a: {task: mail}}}}"
    admin.post("/api/v1/dags", json={"text": text}).raise_for_status()
    runs = "/api/v1/dags/ship/runs"
    made = admin.post(runs, json={"params": {"card": "4111"}, "key": "order/1"}).json()
    answer = enqueuer.post(runs, json={"params": {"card": "x"}, "key": "order/1"})
    assert (answer.status_code, answer.json()) == (200, {"id": made["id"], "state": "queued"})
    assert "4111" not in answer.text
