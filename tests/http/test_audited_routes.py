"""Each route that changes something leaves a row of the audit log: found in the table of routes, called, and looked up.

A new route fails here until it is named: with a call of it and what its row has, or among those that leave none.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from starlette.testclient import TestClient

from tests.http.conftest import TOKEN
from tests.store.builders import a_worker
from tests.store.contents import contents
from tests.waiting import eventually
from tickwork import Tickwork, every
from tickwork.core.limits.limits import concurrency
from tickwork.errors import StoreError
from tickwork.http.framework.route import API
from tickwork.http.routes import ROUTES
from tickwork.store.admin.audit import AuditFilter, AuditRow

NOT_AUDITED = {
    "explain_cron": "it changes nothing",
    "deliver": "messages at hooks are among the deliveries of the hook",
    **dict.fromkeys(
        (
            "lease_jobs",
            "renew_lease",
            "complete_job",
            "fail_job",
            "release_job",
            "append_log",
            "save_checkpoint",
        ),
        "work of a remote worker, which is recorded with the attempts of the job",
    ),
}
ANY = AuditFilter()
NOTED = ("logins", "known_logins")  # what is noted of those who log in, before it is known whether they may
COMMAND = {"task": "shell", "args": {"command": ["id"]}, "delay": "1h"}
DAY = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
HOOK = {"style": "github", "secret": "${secret.A}", "task": "t"}
WEBHOOK = {"kind": "webhook", "url": "https://example.org/a"}
NOTIFICATION = {"on": "failed", "to": ["ops"]}
ADA = {"name": "ada", "role": "viewer", "password": "correct horse"}


class Desk:
    """A call of an admin, and the objects that it needs."""

    def __init__(self, app: Tickwork, admin: TestClient) -> None:
        self.app = app
        self.client = admin

    def __call__(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """Call a route, which must do it; return the body of its answer."""
        answer = self.client.request(method, f"{API}{path}", json=body, **more)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    def job(self) -> str:
        id: str = self("POST", "/jobs", COMMAND)["id"]
        return id

    def dag(self, text: str = "dags: {d: {steps: {a: {task: t}}}}") -> None:
        self("POST", "/dags", {"text": text})

    def run(self) -> str:
        id: str = self("POST", "/dags/d/runs", {})["id"]
        return id

    def ended_run(self) -> str:
        """A run that was cancelled before it began."""

        @self.app.task
        def t() -> None:
            raise ValueError("no")

        self.dag("dags: {d: {steps: {a: {task: t, retries: 0}}}}")
        id = self.run()
        with self.app.worker(queues=["default"]):
            eventually(lambda: self("GET", f"/runs/{id}")["state"] == "failed")
        return id

    def asking_run(self) -> str:
        self.dag("dags: {d: {steps: {a: {approve: {text: Go?}}}}}")
        id = self.run()
        with self.app.worker(queues=["default"]):
            eventually(lambda: self("GET", "/approvals")["items"])
        return id

    def schedule(self) -> None:
        self.app.schedule("s", "t", every("1h"))

    def channel(self) -> None:
        self("PUT", "/channels/ops", WEBHOOK)

    def notification(self) -> None:
        self.channel()
        self("PUT", "/notifications/n", NOTIFICATION)

    def worker(self, asked: str = "quiet") -> str:
        """A worker that was asked for something, and takes no notice."""
        worker = a_worker("w")
        self.app.store.register_worker(worker, [], timedelta(minutes=5))
        self("POST", f"/workers/{worker.id}/stop")
        self("POST", f"/workers/{worker.id}/{asked}")
        return worker.id

    def login(self) -> dict[str, str]:
        """Log ada in; what her browser sends beside the cookie."""
        self("POST", "/users", ADA)
        self.client.headers.pop("Authorization")
        self("POST", "/session", {"user": "ada", "password": ADA["password"]})
        return {"Sec-Fetch-Site": "same-origin"}


class Verb(NamedTuple):
    """A call of a route, after what is made first; and which sides its row has: before, after, both or none."""

    sides: str
    act: Callable[[Desk, Any], Any]
    first: Callable[[Desk], Any] = lambda desk: None


def plain(sides: str, method: str, path: str, body: Any = None, first: Any = None) -> Verb:
    """A call that says which thing was made first as {}, if it does."""
    return Verb(sides, lambda desk, id: desk(method, path.format(id), body), first or (lambda desk: None))


def of_worker(what: str) -> Verb:
    asked = "stop" if what == "quiet" else "quiet"
    return plain("both", "POST", f"/workers/{{}}/{what}", first=lambda desk: desk.worker(asked))


def said(method: str, path: str, body: Any) -> Callable[[Desk], Any]:
    return lambda desk: desk(method, path, body)


VERBS: dict[str, Verb] = {
    "create_session": plain("none", "POST", "/session", {"token": TOKEN}),
    "delete_session": Verb("none", lambda desk, headers: desk("DELETE", "/session", headers=headers), Desk.login),
    "change_own_password": Verb(
        "after",
        lambda desk, headers: desk(
            "POST", "/session/password", {"old": ADA["password"], "new": "battery staple"}, headers=headers
        ),
        Desk.login,
    ),
    "end_session": Verb(
        "before",
        lambda desk, headers: desk(
            "DELETE", f"/sessions/{desk('GET', '/sessions')['items'][0]['id']}", headers=headers
        ),
        Desk.login,
    ),
    "create_job": plain("after", "POST", "/jobs", COMMAND),
    "create_jobs": plain("after", "POST", "/jobs/batch", {"jobs": [COMMAND, {"task": "t"}]}),
    "rerun_job": plain("both", "POST", "/jobs/{}/rerun", {"args": {"command": ["env"]}, "delay": "1h"}, Desk.job),
    "cancel_job": plain("both", "POST", "/jobs/{}/cancel", first=Desk.job),
    "retry_job": plain("both", "POST", "/jobs/{}/retry", first=Desk.job),
    "reschedule_job": plain("both", "POST", "/jobs/{}/reschedule", {"delay": "2h"}, Desk.job),
    "change_jobs": plain("after", "POST", "/bulk", {"action": "cancel", "filter": {"task": "shell"}}, Desk.job),
    "cancel_operation": plain(
        "both",
        "POST",
        "/operations/{}/cancel",
        first=lambda desk: desk("POST", "/bulk", {"action": "cancel", "filter": {"task": "x"}})["id"],
    ),
    "redrive_dead": plain("after", "POST", "/dead/redrive", {"filter": {}}),
    "discard_dead": plain("after", "POST", "/dead/discard", {"filter": {}}),
    "pause_queue": plain(
        "both", "POST", "/queues/q/pause", {"reason": "b"}, said("POST", "/queues/q/pause", {"reason": "a"})
    ),
    "resume_queue": plain("before", "POST", "/queues/q/resume", first=said("POST", "/queues/q/pause", {})),
    "limit_queue": plain(
        "both",
        "POST",
        "/queues/q/limit",
        {"concurrency": 2},
        lambda desk: desk.app.store.limits.declare_limits({"queue:q#1": concurrency(5)}),
    ),
    "quiet_worker": of_worker("quiet"),
    "stop_worker": of_worker("stop"),
    "resume_worker": of_worker("resume"),
    "set_limit": plain("both", "PUT", "/limits/l", {"concurrency": 2}, said("PUT", "/limits/l", {"concurrency": 1})),
    "reset_limit": plain("before", "DELETE", "/limits/l", first=said("PUT", "/limits/l", {"concurrency": 1})),
    "pause_jobs": plain(
        "both", "POST", "/gates/pause", {"task": "t", "reason": "b"}, said("POST", "/gates/pause", {"task": "t"})
    ),
    "drop_jobs": plain("after", "POST", "/gates/drop", {"task": "t"}),
    "slow_jobs": plain(
        "both",
        "POST",
        "/gates/slow",
        {"task": "t", "rate": "5/s"},
        said("POST", "/gates/slow", {"task": "t", "rate": "9/s"}),
    ),
    "divert_jobs": plain("after", "POST", "/gates/divert", {"task": "t", "to": "q"}),
    "resume_jobs": plain("before", "POST", "/gates/resume", {"task": "t"}, said("POST", "/gates/pause", {"task": "t"})),
    "set_tenant": plain("both", "PUT", "/tenants/acme", {"weight": 3}),
    "put_schedule": plain("both", "PUT", "/schedules/s", {"task": "t", "every": "2h"}, Desk.schedule),
    "delete_schedule": plain("before", "DELETE", "/schedules/s", first=Desk.schedule),
    "trigger_schedule": plain("after", "POST", "/schedules/s/trigger", first=Desk.schedule),
    "pause_schedule": plain("both", "POST", "/schedules/s/pause", {"reason": "a"}, Desk.schedule),
    "resume_schedule": plain(
        "both",
        "POST",
        "/schedules/s/resume",
        first=lambda desk: (desk.schedule(), desk("POST", "/schedules/s/pause", {"reason": "a"})),
    ),
    "backfill_schedule": plain("after", "POST", "/schedules/s/backfill", DAY, Desk.schedule),
    "put_calendar": plain(
        "both",
        "PUT",
        "/calendars/c",
        {"dates": ["2026-12-26"]},
        said("PUT", "/calendars/c", {"dates": ["2026-12-25"]}),
    ),
    "delete_calendar": plain(
        "before", "DELETE", "/calendars/c", first=said("PUT", "/calendars/c", {"dates": ["2026-12-25"]})
    ),
    "declare_dags": plain("both", "POST", "/dags", {"text": "dags: {d: {steps: {a: {shell: id}}}}"}, Desk.dag),
    "delete_dag": plain("before", "DELETE", "/dags/d", first=Desk.dag),
    "start_run": plain("after", "POST", "/dags/d/runs", {}, Desk.dag),
    "cancel_run": plain("both", "POST", "/runs/{}/cancel", first=lambda desk: (desk.dag(), desk.run())[1]),
    "rerun_run": plain("both", "POST", "/runs/{}/rerun", {}, Desk.ended_run),
    "clear_run": plain("both", "POST", "/runs/{}/clear", {"steps": ["a"]}, Desk.ended_run),
    "approve_step": plain("after", "POST", "/runs/{}/approve", {"step": "a"}, Desk.asking_run),
    "put_hook": plain("both", "PUT", "/hooks/h", {**HOOK, "task": "u"}, said("PUT", "/hooks/h", HOOK)),
    "delete_hook": plain("before", "DELETE", "/hooks/h", first=said("PUT", "/hooks/h", HOOK)),
    "put_notification": plain("both", "PUT", "/notifications/n", {**NOTIFICATION, "task": "t"}, Desk.notification),
    "delete_notification": plain("before", "DELETE", "/notifications/n", first=Desk.notification),
    "test_notification": plain("after", "POST", "/notifications/n/test", first=Desk.notification),
    "put_channel": plain("both", "PUT", "/channels/ops", {**WEBHOOK, "url": "https://example.org/b"}, Desk.channel),
    "delete_channel": plain("before", "DELETE", "/channels/ops", first=Desk.channel),
    "create_api_key": plain("after", "POST", "/keys", {"name": "k", "scopes": ["read"]}),
    "revoke_api_key": plain(
        "both", "POST", "/keys/k/revoke", first=said("POST", "/keys", {"name": "k", "scopes": ["read"]})
    ),
    "create_user": plain("after", "POST", "/users", ADA),
    "change_user": plain("both", "PATCH", "/users/ada", {"role": "admin"}, said("POST", "/users", ADA)),
    "remove_user": plain("before", "DELETE", "/users/ada", first=said("POST", "/users", ADA)),
    "set_secret": plain(
        "both", "PUT", "/secrets/S", {"value": "b", "uses": ["task:t"]}, said("PUT", "/secrets/S", {"value": "a"})
    ),
    "delete_secret": plain("before", "DELETE", "/secrets/S", first=said("PUT", "/secrets/S", {"value": "a"})),
}


def test_each_route_that_changes_something_is_named_here() -> None:
    changes = {route.name for route in ROUTES if route.method != "GET"}
    assert changes == set(VERBS) | set(NOT_AUDITED)
    assert not set(VERBS) & set(NOT_AUDITED)


@pytest.fixture(autouse=True)
def secret_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TICKWORK_SECRET_KEY", "11" * 32)


@pytest.mark.parametrize("name", VERBS)
def test_it_leaves_a_row_with_how_it_was_and_how_it_is(app: Tickwork, admin: TestClient, name: str) -> None:
    verb, desk = VERBS[name], Desk(app, admin)
    made = verb.first(desk)
    known = {one.id for one in app.store.audit.list_changes(ANY, 100)}
    verb.act(desk, made)
    found = [one.change for one in app.store.audit.list_changes(ANY, 100) if one.id not in known]
    assert {change.action for change in found} == {name}
    (change,) = found
    assert change.who in ("dev", "user:ada")
    assert (change.request_id, change.address) != ("", "")
    assert not change.target.startswith("/"), "it says what was changed, not only which route was called"
    assert (change.before is not None) == (verb.sides in ("before", "both")), change
    if verb.sides in ("after", "both"):
        assert change.after is not None
        assert change.before != change.after
    if verb.sides == "none":
        assert change.after is None


@pytest.mark.parametrize("name", VERBS)
def test_without_its_row_it_changes_nothing(
    app: Tickwork, admin: TestClient, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def refuse(changes: Sequence[AuditRow]) -> None:
        assert {change.action for change in changes} == {name}
        raise StoreError("the audit log cannot be written")

    verb, desk = VERBS[name], Desk(app, admin)
    made = verb.first(desk)
    before = contents(app.store, but=NOTED)
    monkeypatch.setattr(app.store.audit, "record_changes", refuse)
    with pytest.raises(AssertionError, match="store-unavailable"):
        verb.act(desk, made)
    assert contents(app.store, but=NOTED) == before
