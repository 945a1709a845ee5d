"""Queues, workers, limits, gates, tenants and the whole at a glance, on both stores."""

from datetime import timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.http.work import WORKER, claimed, fail, register, succeed
from tests.waiting import eventually
from tickwork import Tickwork, breaker, concurrency, every
from tickwork.core.ids import WorkerId
from tickwork.core.job import Policy, TaskDefinition
from tickwork.core.limits.job_limits import LimitKey
from tickwork.core.placement import Offer
from tickwork.store.attempt_types import Progress
from tickwork.store.base import WorkerRegistration

API = "/api/v1"
MINUTE = timedelta(minutes=1)


def get(admin: TestClient, path: str, **query: Any) -> dict[str, Any]:
    answer = admin.get(f"{API}/{path}", params=query)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


# -- queues


def test_queues_tell_what_stands_in_them_and_who_serves_them(admin: TestClient, app: Tickwork) -> None:
    register(app, "mail")
    app.enqueue("mail")
    app.named("mail").options(delay="1h", queue="slow").enqueue()
    default, slow = get(admin, "queues")["items"]
    assert (default["name"], default["due"], default["workers"], default["wanted"]) == ("default", 1, 1, 1)
    assert (slow["name"], slow["later"], slow["at_least"], slow["is_paused"]) == ("slow", 1, [], False)
    assert get(admin, "queues/slow") == slow
    assert admin.get(f"{API}/queues/nobody's").status_code == 404


def test_a_queue_wants_workers_for_jobs_that_none_can_run(admin: TestClient, app: Tickwork) -> None:
    register(app, "mail")
    app.enqueue("mail")
    app.named("mail").options(needs={"gpu": True}).enqueue()
    app.named("unknown").enqueue()
    (queue,) = get(admin, "queues")["items"]
    assert (queue["due"], queue["workers"], queue["unplaced"], queue["wanted"]) == (3, 1, 2, 2)


def test_a_queue_is_paused_in_the_callers_name_and_resumed(admin: TestClient, app: Tickwork) -> None:
    app.enqueue("mail")
    gate = admin.post(f"{API}/queues/default/pause", json={"until": "2h", "reason": "the provider is down"})
    assert gate.status_code == 200
    assert (gate.json()["kind"], gate.json()["queue"], gate.json()["by"]) == ("pause", "default", "dev")
    assert claimed(app) == []
    assert get(admin, "queues/default")["is_paused"]
    assert admin.post(f"{API}/queues/default/resume").json() == {"lifted": 1}
    assert admin.post(f"{API}/queues/default/resume").status_code == 409
    assert len(claimed(app)) == 1


@pytest.mark.parametrize("until", ["soon", "-1h", "2020-01-01T00:00:00Z", "2020-99-99"])
def test_an_end_that_is_none_is_refused(admin: TestClient, until: str) -> None:
    assert admin.post(f"{API}/queues/default/pause", json={"until": until}).status_code == 422
    assert get(admin, "gates")["items"] == []


def test_a_queue_has_its_limit_changed(admin: TestClient, app: Tickwork) -> None:
    assert admin.post(f"{API}/queues/mail/limit", json={"concurrency": 2}).status_code == 422
    app.store.limits.declare_limits({"queue:mail#1": concurrency(5)})
    changed = admin.post(f"{API}/queues/mail/limit", json={"rate": "5/s", "burst": 3})
    assert changed.status_code == 200
    assert (changed.json()["name"], changed.json()["rule"]["rate"]) == ("queue:mail#1", "5/s")


# -- limits


def test_a_limit_is_set_and_reset(admin: TestClient, app: Tickwork) -> None:
    app.store.limits.declare_limits({"stripe": concurrency(5)})
    changed = admin.put(f"{API}/limits/stripe", json={"concurrency": 2}).json()
    assert (changed["rule"]["concurrency"], changed["declared"]["concurrency"]) == (2, 5)
    assert get(admin, "limits")["items"] == [changed]
    assert admin.delete(f"{API}/limits/stripe").status_code == 204
    assert get(admin, "limits")["items"][0]["override"] is None
    assert admin.delete(f"{API}/limits/nothing").status_code == 404


def test_a_limit_tells_of_its_keys_and_a_breaker_that_it_is_open(admin: TestClient, app: Tickwork) -> None:
    @app.task(limits=[concurrency(1, key="account")])
    def mail(account: str) -> None: ...

    app.store.limits.declare_limits(
        {"task:mail#1": concurrency(1, key="account"), "frail": breaker(failures=1, pause="1h")}
    )
    for account in "aab":
        mail.enqueue(account=account)
    first, *_ = claimed(app)
    held, live = get(admin, "limits/task:mail%231/keys")["items"]
    assert (held["key"], held["live"], held["held"], live["key"], live["held"]) == ("a", 1, 1, "b", 0)
    assert (held["phase"], get(admin, "limits/frail/keys")["items"]) == (None, [])

    app.store.limits.end_probes([(LimitKey("frail", ""), first.job_id, True)])
    (key,) = get(admin, "limits/frail/keys")["items"]
    assert (key["phase"], key["opens_at"] is None) == ("open", False)
    frail = next(one for one in get(admin, "limits")["items"] if one["name"] == "frail")
    assert (frail["open_keys"], frail["open_until"]) == (1, key["opens_at"])
    assert admin.get(f"{API}/limits/nothing/keys").status_code == 404


@pytest.mark.parametrize(
    "body", [{}, {"concurrency": 1, "rate": "1/s"}, {"burst": 1}, {"concurrency": 0}, {"rate": "x"}, {"rate": "1/y"}]
)
def test_a_rule_that_is_none_is_refused(admin: TestClient, body: dict[str, Any]) -> None:
    assert admin.put(f"{API}/limits/stripe", json=body).status_code == 422
    assert get(admin, "limits")["items"] == []


# -- gates and tenants


@pytest.mark.parametrize(
    ("kind", "more"), [("pause", {}), ("drop", {}), ("slow", {"rate": "1/h"}), ("divert", {"to": "spare"})]
)
def test_gates_are_put_listed_and_lifted(admin: TestClient, kind: str, more: dict[str, str]) -> None:
    put = admin.post(f"{API}/gates/{kind}", json={"task": "mail", "label": "bulk", "reason": "why", **more})
    assert put.status_code == 200, put.text
    (gate,) = get(admin, "gates")["items"]
    assert {**gate, "since": None} == {**put.json(), "since": None}
    assert (gate["kind"], gate["task"], gate["label"], gate["held"]) == (kind, "mail", "bulk", 0)
    assert admin.post(f"{API}/gates/resume", json={"task": "mail"}).status_code == 409
    assert admin.post(f"{API}/gates/resume", json={"task": "mail", "label": "bulk"}).json() == {"lifted": 1}
    assert get(admin, "gates")["items"] == []


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("pause", {}),
        ("slow", {"task": "a"}),
        ("slow", {"task": "a", "rate": "x"}),
        ("divert", {"task": "a"}),
        ("pause", {"task": "a", "rate": "1/s"}),
        ("resume", {}),
        ("divert", {"task": "a", "to": "x:y"}),
    ],
)
def test_a_gate_that_is_none_is_refused(admin: TestClient, kind: str, body: dict[str, Any]) -> None:
    assert admin.post(f"{API}/gates/{kind}", json=body).status_code == 422
    assert get(admin, "gates")["items"] == []


def test_tenants_are_given_turns(admin: TestClient) -> None:
    assert admin.put(f"{API}/tenants/acme", json={"weight": 3}).json() == {"name": "acme", "weight": 3}
    assert get(admin, "tenants")["items"] == [{"name": "acme", "weight": 3}]
    for weight in (0, 101, "x"):
        assert admin.put(f"{API}/tenants/acme", json={"weight": weight}).status_code == 422


# -- workers


def test_a_worker_tells_what_it_has_and_what_it_runs(admin: TestClient, app: Tickwork) -> None:
    offer = Offer(frozenset({"gpu", "region:eu"}), {"mem": 8 * 1024**3})
    app.store.register_worker(
        WorkerRegistration(WORKER, "host", 1, "1", ("default",), ("mail",), 10, (), offer), [], MINUTE
    )
    job = app.enqueue("mail", to="ada")
    (held,) = app.store.claim_jobs(WORKER, ["default"], ["mail"], 5).jobs
    assert held.job_id == job.id
    app.store.set_progress([Progress(job.id, held.claim, 0.5, "half")])
    (listed,) = get(admin, "workers")["items"]
    assert (listed["labels"], list(listed["resources"]), listed["running"]) == (["gpu", "region:eu"], ["mem"], 1)
    assert 0 < listed["lease_left_s"] <= 60
    assert "jobs" not in listed
    (held,) = get(admin, f"workers/{WORKER}")["jobs"]
    assert (held["id"], held["task"], held["progress"], held["progress_note"]) == (job.id, "mail", 0.5, "half")
    assert held["since"] is not None


def test_workers_are_listed_and_asked(admin: TestClient, app: Tickwork) -> None:
    assert get(admin, "workers")["items"] == []
    register(app, "mail")
    (worker,) = eventually(lambda: get(admin, "workers")["items"])  # a server remembers them for a second
    assert (worker["id"], worker["tasks"], worker["asked"], worker["state"]) == (WORKER, ["mail"], None, "working")
    asked = admin.post(f"{API}/workers/{WORKER}/quiet").json()
    assert (asked["asked"], asked["state"]) == ("quiet", "quiet")
    assert app.store.operations.asked_of(WORKER) == "quiet"
    assert admin.post(f"{API}/workers/{WORKER}/resume").json()["asked"] is None
    assert admin.post(f"{API}/workers/{WORKER}/stop").json()["asked"] == "stop"
    assert get(admin, f"workers/{WORKER}")["state"] == "stopping"
    for verb in ("quiet", "stop", "resume"):
        assert admin.post(f"{API}/workers/nobody/{verb}").status_code == 404
    assert admin.get(f"{API}/workers/nobody").status_code == 404


# -- at a glance


def test_stats_tell_what_waits_runs_ended_and_failed(admin: TestClient, app: Tickwork) -> None:
    for _ in range(6):
        app.enqueue("mail")
    app.named("mail").options(delay="1h").enqueue()
    first, second, *_ = claimed(app, limit=4)
    succeed(app, first)
    fail(app, second, "ValueError: no")
    found = get(admin, "stats")
    assert (found["due"], found["later"], found["running"], found["held"]) == (2, 1, 2, 0)
    assert (found["workers"], found["slots"], found["dead"], found["is_partial"]) == (1, 10, 1, False)
    assert [(one["error"], one["count"]) for one in found["causes"]] == [("ValueError: no", 1)]
    assert found["queues"] == get(admin, "queues")["items"]


def test_a_search_goes_over_jobs_schedules_and_dags(admin: TestClient, app: Tickwork) -> None:
    @app.task
    def send() -> None: ...

    @app.dag
    def mail_flow() -> None:
        send()

    app.schedule("mail-daily", "mail", every("1d"))
    app.schedule("other", "mail", every("1d"))
    job = app.named("x").options(key="mail-7").enqueue()
    mail_flow.put()
    found = get(admin, "search", q="mail")
    assert [one["id"] for one in found["jobs"]] == [job.id]
    assert (found["schedules"], found["dags"], found["is_partial"]) == (["mail-daily"], ["mail_flow"], False)
    assert get(admin, "search", q="mail-daily")["schedules"] == ["mail-daily"]
    assert admin.get(f"{API}/search").status_code == 422


def test_a_search_leads_to_everything_that_has_a_name(admin: TestClient, app: Tickwork) -> None:
    @app.task
    def send() -> None: ...

    @app.dag
    def mail_flow() -> None:
        send()

    told = TaskDefinition("mail.send", "default", 5, Policy(), b"{}")
    worker = WorkerRegistration(WorkerId("w-7"), "mailhost", 1, "1", ("default",), ("mail.send",), 10)
    app.store.register_worker(worker, [told], timedelta(minutes=5))
    app.named("x").options(queue="slow-mail").enqueue()
    hook = {"style": "github", "secret": "A", "task": "a"}
    admin.put(f"{API}/hooks/on-mail", json=hook).raise_for_status()
    run = mail_flow.options(key="mail-7").enqueue()
    found = get(admin, "search", q="MAIL")
    assert (found["queues"], found["tasks"], found["hooks"]) == (["slow-mail"], ["mail.send"], ["on-mail"])
    assert (found["dags"], found["workers"]) == (["mail_flow"], [{"id": "w-7", "host": "mailhost"}])
    hit = {"id": run.id, "dag": "mail_flow", "state": "queued", "key": "mail-7"}
    for words in ("mail-7", "mail_f", run.id, run.id[:23]):
        found = get(admin, "search", q=words)
        assert (found["runs"], found["jobs"]) == ([hit], []), words
    assert get(admin, "search", q="0" * 8)["runs"] == []
