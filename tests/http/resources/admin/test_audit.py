"""The audit log over REST: what it tells of, and that a change and its row are one transaction."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.store.hammer import at_once
from tests.waiting import eventually
from tickwork import Tickwork, every
from tickwork.core.job import JobFilter
from tickwork.errors import StoreError
from tickwork.http.asgi import asgi
from tickwork.http.auth.refusals import EACH_MINUTE
from tickwork.http.framework.route import Routes, Scope
from tickwork.http.routes import ROUTES
from tickwork.http.server_context import ServerContext
from tickwork.store.admin.audit import AuditRow

JOBS, KEYS = "/api/v1/jobs", "/api/v1/keys"
COMMAND = {"task": "shell", "args": {"command": ["id"]}}
DAY = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
DAG = "dags: {d: {params: {p: {default: 0}}, steps: {a: {task: t}}}}"


def rows(admin: TestClient, **which: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = admin.get("/api/v1/audit", params=which).json()["items"]
    return found


@pytest.fixture
def ops(admin: TestClient) -> dict[str, str]:
    """The header of a key that may do everything but administer."""
    scopes = ["read", "enqueue", "operate", "shell", "use-secrets"]
    token = admin.post(KEYS, json={"name": "ops", "scopes": scopes}).json()["token"]
    return {"Authorization": f"Bearer {token}"}


class TestWhatIsTold:
    def test_a_command_its_rerun_with_another_one_and_a_run(self, admin: TestClient, ops: dict[str, str]) -> None:
        old = admin.post(JOBS, json=COMMAND, headers=ops).json()
        edited = {"args": {"command": ["rm", "-r", "/srv"]}}
        new = admin.post(f"{JOBS}/{old['id']}/rerun", json=edited, headers=ops).json()
        admin.post("/api/v1/dags", json={"text": "dags: {d: {steps: {a: {task: t}}}}"})
        run = admin.post("/api/v1/dags/d/runs", json={}, headers=ops).json()
        started, rerun, created = rows(admin, who="key:ops")
        assert (created["action"], created["target"], created["before"]) == ("create_job", f"job:{old['id']}", None)
        assert created["after"]["args"] == {"command": ["id"]}
        assert (rerun["action"], rerun["target"]) == ("rerun_job", f"job:{new['id']}")
        assert (rerun["before"]["id"], rerun["before"]["args"]) == (old["id"], {"command": ["id"]})
        assert rerun["after"]["args"] == {"command": ["rm", "-r", "/srv"]}
        assert (started["action"], started["target"]) == ("start_run", f"run {run['id']}")

    def test_secrets_for_built_in_tasks_and_replacements(self, admin: TestClient, ops: dict[str, str]) -> None:
        http = {"task": "http", "args": {"url": "http://example.org", "secrets": {"T": "TOKEN"}}}
        assert admin.post(JOBS, json=http, headers=ops).status_code == 201
        keyed = {"task": "t", "key": "k"}
        first = admin.post(JOBS, json={**keyed, "args": {"n": 1}}, headers=ops).json()
        admin.post(JOBS, json={**keyed, "args": {"n": 2}, "if_exists": "replace"}, headers=ops)
        replaced, requested = rows(admin, who="key:ops")
        assert requested["after"]["task"] == "http"
        assert replaced["target"] == f"job:{first['id']}"
        assert (replaced["before"]["args"], replaced["after"]["args"]) == ({"n": 1}, {"n": 2})

    def test_of_a_batch_each_command_has_a_row(self, admin: TestClient, ops: dict[str, str]) -> None:
        jobs = [{"task": "t"}, COMMAND, {"task": "shell", "args": {"command": ["whoami"]}}]
        items = admin.post(f"{JOBS}/batch", json={"jobs": jobs}, headers=ops).json()["items"]
        found = rows(admin, action="create_jobs")
        assert {row["target"] for row in found} == {f"job:{one['id']}" for one in items[1:]}

    def test_a_run_that_is_started_as_a_job(self, admin: TestClient, ops: dict[str, str]) -> None:
        admin.post("/api/v1/dags", json={"text": DAG})
        one = admin.post(JOBS, json={"task": "d", "args": {"p": 1}}, headers=ops).json()
        many = admin.post(f"{JOBS}/batch", json={"jobs": [{"task": "d"}, {"task": "t"}]}, headers=ops).json()["items"]
        batch, alone = rows(admin, who="key:ops")
        assert (alone["action"], alone["target"]) == ("create_job", f"run {one['id']}")
        assert alone["after"]["args"] == {"p": 1}
        assert (batch["action"], batch["target"]) == ("create_jobs", f"run {many[0]['id']}")

    def test_a_run_that_replaces_another_with_the_parameters_of_both(
        self, admin: TestClient, ops: dict[str, str]
    ) -> None:
        admin.post("/api/v1/dags", json={"text": DAG})
        runs, held = "/api/v1/dags/d/runs", {"key": "k", "delay": "1h"}
        id = admin.post(runs, json={**held, "params": {"p": 1}}).json()["id"]
        assert admin.post(runs, json={**held, "params": {"p": 2}}, headers=ops).json()["id"] == id
        assert rows(admin, who="key:ops") == [], "the run was there, and stayed as it was"
        admin.post(runs, json={**held, "params": {"p": 3}, "if_exists": "replace"}, headers=ops)
        (row,) = rows(admin, who="key:ops")
        assert (row["action"], row["target"]) == ("start_run", f"run {id}")
        assert (row["before"]["args"], row["after"]["args"]) == ({"p": 1}, {"p": 3})
        assert (row["before"]["creator"], row["after"]["creator"]) == ("dev", "key:ops")

    def test_what_is_declared_with_all_that_it_says(self, admin: TestClient) -> None:
        text = "{dags: {d: {steps: {a: {shell: id}}}}, schedules: {s: {shell: env, every: 1h}}}"
        admin.post("/api/v1/dags", json={"text": text})
        admin.post("/api/v1/dags", json={"text": text})
        admin.post("/api/v1/dags", json={"text": "dags: {d: {steps: {a: {shell: id}, b: {shell: env}}}}"})
        changed, schedule, dag = rows(admin, action="declare_dags")
        assert (dag["target"], dag["before"], dag["after"]["version"]) == ("dag d", None, 1)
        assert dag["after"]["steps"]["a"]["args"] == {"command": "id"}
        assert (schedule["target"], schedule["before"], schedule["after"]["shell"]) == ("schedule s", None, "env")
        assert (changed["before"]["version"], changed["after"]["version"]) == (1, 2)
        assert changed["after"]["b"]["args"] == {"command": "env"}

    def test_a_bulk_change_with_all_that_was_asked_for(self, admin: TestClient) -> None:
        id = admin.post(JOBS, json={"task": "t", "delay": "1h"}).json()["id"]
        admin.post("/api/v1/bulk", json={"action": "reschedule", "ids": [id], "delay": "2h"})
        admin.post("/api/v1/bulk", json={"action": "retry", "filter": {"task": "t"}, "rate": "2/s"})
        retry, reschedule = rows(admin, action="change_jobs")
        assert (reschedule["after"]["ids"], reschedule["after"]["delay_s"]) == ([id], 7200.0)
        assert (retry["after"]["filter"]["task"], retry["after"]["spacing_s"]) == ("t", 0.5)

    def test_that_a_password_was_changed_and_not_which(self, admin: TestClient) -> None:
        admin.post("/api/v1/users", json={"name": "ada", "role": "viewer", "password": "correct horse"})
        admin.patch("/api/v1/users/ada", json={"password": "battery staple"})
        (row,) = rows(admin, action="change_user")
        assert row["after"]["password"] == "changed"
        assert "battery" not in str(row)

    def test_of_replacements_at_the_same_moment_each_has_the_one_before_it(self, admin: TestClient) -> None:
        def replace(number: int) -> None:
            for count in range(5):
                job = {"task": "t", "args": {"n": [number, count]}, "key": "k", "delay": "1h", "if_exists": "replace"}
                assert admin.post(JOBS, json=job).is_success

        at_once(*(partial(replace, number) for number in range(4)))
        before = [None if row["before"] is None else row["before"]["args"]["n"] for row in rows(admin)]
        after = [row["after"]["args"]["n"] for row in rows(admin)]
        assert len(after) == 20
        assert before == [*after[1:], None]

    def test_a_command_whose_key_is_taken_is_not_told_again(self, admin: TestClient) -> None:
        for _ in range(2):
            admin.post(JOBS, json={**COMMAND, "key": "k"})
        assert [row["action"] for row in rows(admin)] == ["create_job"]

    @pytest.mark.parametrize(
        ("path", "body"),
        [
            ("/dags", {"text": "dags: {d: {steps: {a: {task: t}}}}", "dry_run": True}),
            ("/bulk", {"action": "cancel", "filter": {"task": "t"}, "dry_run": True}),
            ("/dead/redrive", {"filter": {}, "dry_run": True}),
            ("/dead/discard", {"filter": {}, "dry_run": True}),
            ("/schedules/s/backfill", {**DAY, "dry_run": True}),
        ],
    )
    def test_a_dry_run_changes_nothing_and_has_no_row(
        self, admin: TestClient, app: Tickwork, path: str, body: dict[str, Any]
    ) -> None:
        app.schedule("s", "t", every("1h"))
        answer = admin.post(f"/api/v1{path}", json=body)
        assert answer.status_code == 200, answer.text
        assert rows(admin) == []

    def test_plain_jobs_and_reruns_of_them_have_a_creator_and_no_row(
        self, admin: TestClient, ops: dict[str, str]
    ) -> None:
        job = admin.post(JOBS, json={"task": "t"}, headers=ops).json()
        admin.post(f"{JOBS}/{job['id']}/rerun", json={}, headers=ops)
        admin.post(f"{JOBS}/batch", json={"jobs": [{"task": "t"}]}, headers=ops)
        assert rows(admin, who="key:ops") == []

    def test_what_is_too_large_is_told_by_its_digest(self, admin: TestClient) -> None:
        padded = {"task": "shell", "args": {"command": ["x" * 20_000]}}
        assert admin.post(JOBS, json=padded).status_code == 201
        (row,) = rows(admin, action="create_job")
        assert set(row["after"]) == {"truncated", "sha256"}


Call = Callable[[TestClient], Any]
CHANGES: dict[str, Call] = {
    "create_job": lambda admin: admin.post(JOBS, json=COMMAND),
    "create_api_key": lambda admin: admin.post(KEYS, json={"name": "x", "scopes": ["read"]}),
    "pause_queue": lambda admin: admin.post("/api/v1/queues/mail/pause", json={}),
    "set_limit": lambda admin: admin.put("/api/v1/limits/l", json={"concurrency": 1}),
    "set_tenant": lambda admin: admin.put("/api/v1/tenants/acme", json={"weight": 3}),
    "create_user": lambda admin: admin.post(
        "/api/v1/users", json={"name": "ada", "role": "viewer", "password": "correct horse"}
    ),
    "declare_dags": lambda admin: admin.post("/api/v1/dags", json={"text": "dags: {d: {steps: {a: {task: t}}}}"}),
    "put_schedule": lambda admin: admin.put("/api/v1/schedules/s", json={"task": "t", "every": "1h"}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_without_its_row_a_change_is_not_made(
    app: Tickwork, admin: TestClient, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def refuse(changes: Sequence[AuditRow]) -> None:
        assert {change.action for change in changes} == {name}
        raise StoreError("the audit log cannot be written")

    def everything() -> list[Any]:
        store = app.store
        found = [
            store.reads.list_jobs(JobFilter(), 10),
            store.access.list_api_keys(),
            store.limits.list_gates(),
            store.limits.list_limits(),
            store.access.list_users(),
        ]
        return [
            *found,
            store.limits.weights(),
            store.dags.list_dags(),
            store.schedules.list_schedules(10),
            store.reads.task_definitions(10),
        ]

    before = everything()
    with monkeypatch.context() as patched:
        patched.setattr(app.store.audit, "record_changes", refuse)
        assert CHANGES[name](admin).status_code >= 500
    assert everything() == before
    assert CHANGES[name](admin).status_code < 300
    assert [row["action"] for row in rows(admin)] == [name]


def test_a_change_that_is_refused_leaves_no_row(admin: TestClient) -> None:
    made = admin.post(JOBS, json={"task": "t"}).json()
    assert admin.post(f"{JOBS}/{made['id']}/cancel").status_code == 200
    assert admin.post(f"{JOBS}/{made['id']}/cancel").status_code == 409
    assert [row["action"] for row in rows(admin)] == ["cancel_job"]


def test_an_audited_handler_is_not_async() -> None:
    routes = Routes("x")

    async def handler(call: Any) -> None:
        """Do something."""

    with pytest.raises(Exception, match="is audited, and async"):
        routes.post("/x", Scope.ADMIN)(handler)


def test_a_job_that_was_enqueued_with_a_row_is_run(app: Tickwork, admin: TestClient) -> None:
    @app.task
    def t(n: int) -> int:
        return n

    with app.worker(queues=["default"]):
        id = admin.post(JOBS, json={"task": "t", "args": {"n": 1}, "key": "k", "if_exists": "replace"}).json()["id"]
        eventually(lambda: admin.get(f"{JOBS}/{id}").json()["state"] == "succeeded")


class TestRefusedCalls:
    def test_who_was_refused_what_and_why(self, admin: TestClient, anybody: TestClient, ops: dict[str, str]) -> None:
        assert anybody.get(KEYS).status_code == 401
        assert anybody.get(KEYS, headers={"Authorization": "Bearer twk_x"}).status_code == 401
        assert anybody.delete("/api/v1/users/ada", headers=ops).status_code == 403
        enqueue = admin.post(KEYS, json={"name": "e", "scopes": ["enqueue"]}).json()["token"]
        header = {"Authorization": f"Bearer {enqueue}"}
        assert anybody.post(JOBS, json=COMMAND, headers=header).status_code == 403
        command, user, *nobody = rows(admin, action="refused")
        assert (command["who"], command["target"]) == ("key:e", "create_job")
        assert (user["who"], user["target"]) == ("key:ops", "remove_user")
        said = {"status": 403, "code": "not-allowed", "method": "DELETE", "path": "/api/v1/users/ada"}
        assert user["after"] == said
        assert [(row["who"], row["after"]["status"]) for row in nobody] == [("nobody", 401)] * 2

    def test_asking_who_one_is_and_failing_to_log_in_are_not_refusals(
        self, admin: TestClient, anybody: TestClient
    ) -> None:
        assert anybody.get("/api/v1/session").status_code == 401
        assert anybody.post("/api/v1/session", json={"token": "x"}).status_code == 401
        assert [row["action"] for row in rows(admin)] == ["failed_login"]

    def test_a_flood_of_them_is_a_few_rows_and_a_count(
        self, admin: TestClient, anybody: TestClient, parts: ServerContext
    ) -> None:
        for _ in range(EACH_MINUTE + 7):
            assert anybody.get(KEYS).status_code == 401
        assert len(rows(admin, action="refused")) == EACH_MINUTE
        parts.refused.tick(0.0)
        parts.refused.tick(0.0)
        (counted, *_) = rows(admin, action="refused")
        assert (counted["who"], counted["target"], counted["after"]) == (
            "server",
            "other calls",
            {"status": 401, "count": 7},
        )
        assert len(rows(admin, action="refused")) == EACH_MINUTE + 1

    def test_a_flood_of_strangers_hides_no_refused_key(
        self, admin: TestClient, anybody: TestClient, ops: dict[str, str]
    ) -> None:
        for _ in range(EACH_MINUTE + 7):
            assert anybody.get(KEYS).status_code == 401
        assert anybody.get(KEYS, headers=ops).status_code == 403
        assert [row["target"] for row in rows(admin, who="key:ops")] == ["list_api_keys"]

    def test_failed_logins_of_unknown_users_are_a_few_rows_and_a_count(
        self, app: Tickwork, admin: TestClient, parts: ServerContext
    ) -> None:
        served = asgi(app, parts, ROUTES)
        for number in range(EACH_MINUTE + 7):
            client = TestClient(served, client=(f"10.0.0.{number}", 1))
            assert client.post("/api/v1/session", json={"token": "x"}).status_code == 401
        assert len(rows(admin, action="failed_login")) == EACH_MINUTE
        admin.post("/api/v1/users", json={"name": "ada", "role": "viewer", "password": "correct horse"})
        assert client.post("/api/v1/session", json={"user": "ada", "password": "x"}).status_code == 401
        assert rows(admin, action="failed_login")[0]["target"] == "user:ada"
        parts.refused.tick(0.0)
        (counted,) = rows(admin, who="server")
        assert (counted["action"], counted["target"], counted["after"]) == ("failed_login", "others", {"count": 7})

    def test_a_log_that_cannot_be_written_changes_no_answer(
        self, app: Tickwork, anybody: TestClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(changes: Sequence[AuditRow]) -> None:
            raise StoreError("the audit log cannot be written")

        monkeypatch.setattr(app.store.audit, "record_changes", refuse)
        assert anybody.get(KEYS).status_code == 401
