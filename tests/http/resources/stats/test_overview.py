"""The overview: statistics over time, findings, next occurrences and failures."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.http.work import claimed, fail, succeed
from tests.waiting import eventually
from tickwork import Tickwork, cron, every
from tickwork.clock import SystemClock
from tickwork.errors import Fatal
from tickwork.services.stats_rollup import StatsRollup
from tickwork.store.reads import stats


def get(admin: TestClient, path: str, **query: Any) -> dict[str, Any]:
    answer = admin.get(f"/api/v1/stats/{path}", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def keep_books(app: Tickwork) -> None:
    StatsRollup(app.store, SystemClock()).count(app.store.stats.rollup_marks(), app.store.now())


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count what has just happened, too."""
    monkeypatch.setattr(stats, "SETTLED", timedelta(0))


@pytest.fixture
def worked(app: Tickwork, at_once: None) -> None:
    """Four jobs: two succeeded, one failed, one runs. They are of one task, in one queue."""
    app.named("mail").enqueue_many([{}] * 4)
    first, second, third, _ = claimed(app)
    succeed(app, first)
    succeed(app, second)
    fail(app, third)
    keep_books(app)


@pytest.mark.usefixtures("worked")
@pytest.mark.parametrize(
    ("span", "count", "bucket_s"), [("1h", 60, 60), ("6h", 72, 300), ("24h", 96, 900), ("7d", 168, 3600)]
)
def test_a_series_has_a_bucket_for_each_part_of_its_range(
    admin: TestClient, span: str, count: int, bucket_s: int
) -> None:
    found = get(admin, "series", range=span)
    assert (len(found["buckets"]), found["bucket_s"]) == (count, bucket_s)
    for name, sum_of_all in (("enqueued", 4), ("started", 4), ("succeeded", 2), ("failed", 1), ("retried", 0)):
        assert sum(one[name] for one in found["buckets"]) == found["total"][name] == sum_of_all, name
    assert (found["recent"]["succeeded"], found["recent"]["failed"]) == (2, 1)
    assert timedelta(minutes=5) <= _between(found["recent"]["at"], found["at"]) < timedelta(minutes=6, seconds=bucket_s)
    assert found["buckets"][-1]["is_partial"]
    assert not any(one["is_partial"] for one in found["buckets"][:-2])
    assert 0 <= found["total"]["wait"]["p95"] < 60
    assert found["buckets"][0]["run"] == {"p50": None, "p95": None, "p99": None}


def _between(start: str, end: str) -> timedelta:
    return datetime.fromisoformat(end) - datetime.fromisoformat(start)


@pytest.mark.usefixtures("worked")
def test_a_series_can_be_of_a_queue_or_a_task(admin: TestClient) -> None:
    for which in ({"queue": "default"}, {"task": "mail"}, {"queue": "default", "task": "mail"}):
        assert get(admin, "series", **which)["total"]["succeeded"] == 2
    for which in ({"queue": "other"}, {"task": "other"}, {"queue": "default", "task": "other"}):
        assert get(admin, "series", **which)["total"]["started"] == 0


def test_what_is_not_counted_yet_is_partial(admin: TestClient, app: Tickwork, monkeypatch: pytest.MonkeyPatch) -> None:
    app.named("mail").enqueue()
    monkeypatch.setattr(stats, "SETTLED", timedelta(0))
    found = get(admin, "series")
    assert found["total"]["enqueued"] == 0
    assert found["buckets"][0]["is_partial"]


@pytest.mark.usefixtures("worked")
def test_every_queue_says_what_goes_in_and_out(admin: TestClient) -> None:
    (one,) = get(admin, "queues")["items"]
    assert (one["name"], len(one["enqueued"]), sum(one["enqueued"]), sum(one["ended"])) == ("default", 30, 4, 3)
    assert one["in_per_minute"] <= 4


@pytest.mark.usefixtures("worked")
def test_failures_are_put_together_by_task_and_error(admin: TestClient, app: Tickwork) -> None:
    app.named("mail").enqueue_many([{}] * 2)
    for one in claimed(app):
        fail(app, one, "KeyError: x")
    found = get(admin, "failures")
    assert [(one["error"], one["count"], one["dead"]) for one in found["items"]] == [
        ("KeyError: x", 2, 2),
        ("ValueError: no", 1, 1),
    ]
    app.store.discard_jobs([found["items"][1]["newest_id"]])
    assert get(admin, "failures")["items"][1]["dead"] == 0
    assert (found["total"], found["is_partial"]) == (3, False)


def test_what_is_due_next_comes_first(admin: TestClient, app: Tickwork) -> None:
    app.schedule("yearly", "mail", cron("0 0 1 1 *"))
    app.schedule("hourly", "mail", every("1h"), queue="slow")
    app.schedule("nightly", "mail", cron("0 2 * * *", tz="Europe/Berlin"))
    app.schedule("never", "mail", cron("* * * * *"), paused=True)
    found = get(admin, "next")["items"]
    assert found[0]["schedule"] == "hourly"
    assert {one["schedule"] for one in found} == {"hourly", "nightly", "yearly"}
    assert [one["due_at"] for one in found] == sorted(one["due_at"] for one in found)
    nightly = next(one for one in found if one["schedule"] == "nightly")
    assert (nightly["zone"], nightly["target"], nightly["kind"]) == ("Europe/Berlin", "mail", "task")
    assert [one["schedule"] for one in get(admin, "next", limit=1)["items"]] == ["hourly"]


ASKS = """\
dags:
  release:
    steps:
      ask: {approve: {text: "Ship it?"}}
      ship: {task: mail, needs: [ask]}
  broken:
    steps:
      fall: {task: fall}
"""


def test_approvals_that_wait_and_runs_that_failed_need_attention(admin: TestClient, app: Tickwork) -> None:
    @app.task(name="mail")
    def mail() -> None: ...

    @app.task(name="fall")
    def fall() -> None:
        raise Fatal("no")

    assert admin.post("/api/v1/dags", json={"text": ASKS}).status_code == 200
    run, broken = (admin.post(f"/api/v1/dags/{dag}/runs", json={}).json()["id"] for dag in ("release", "broken"))
    with app.worker():
        eventually(lambda: admin.get(f"/api/v1/runs/{broken}").json()["state"] == "failed", 20)
        eventually(lambda: app.store.dags.waiting_approvals(10))
        found = {one["kind"]: one for one in get(admin, "attention")["items"]}
    assert found["approval"]["title"] == "step ask of a run of release waits for approval"
    assert found["approval"]["link"] == {"page": "runs", "query": run}
    assert f"tickwork runs approve {run} ask" in found["approval"]["detail"]
    assert found["run_failed"]["link"] == {"page": "runs", "query": "state:failed dag:broken"}
    assert found["failing"]["title"].startswith("task fall fails: 1 job")


def test_attention_is_asked_for_what_is_wrong(admin: TestClient, app: Tickwork) -> None:
    assert get(admin, "attention")["items"] == []
    app.named("mail").enqueue()
    assert [one["kind"] for one in get(admin, "attention")["items"]] == ["no_worker"]
    (one,) = claimed(app)
    fail(app, one)
    app.pause(queue="slow", reason="a test")
    app.schedule("nightly", "mail", cron("0 2 * * *"), paused=True)
    found = {one["kind"]: one for one in get(admin, "attention")["items"]}
    assert list(found) == ["dead", "failing", "schedule_paused", "gate"]
    assert found["failing"]["link"] == {"page": "jobs", "query": "state:failed task:mail"}
    assert "a test" in found["gate"]["detail"]
    assert found["dead"]["since"] is not None
