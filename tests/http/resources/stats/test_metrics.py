"""Metrics of a server: each metric of the table is in the dashboard or has an alert."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from tests.waiting import eventually
from tickwork import Tickwork, every
from tickwork.clock import SystemClock
from tickwork.core.stats import canary
from tickwork.http.server_context import ServerContext
from tickwork.observe import dashboard
from tickwork.observe.metrics_table import METRICS
from tickwork.services.stats_rollup import StatsRollup
from tickwork.store.reads import stats

FEW = {"queue", "task", "outcome", "dag", "action", "state", "route", "method", "code", "op"}
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scraped(client: TestClient) -> Samples:
    answer = client.get("/metrics")
    assert answer.status_code == 200
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch, parts: ServerContext) -> None:
    """Count what has just happened, too, and look at each scrape."""
    monkeypatch.setattr(stats, "SETTLED", timedelta(0))
    monkeypatch.setattr("tickwork.observe.store_metrics.FRESH_S", 0.0)


@pytest.mark.usefixtures("at_once")
def test_a_scrape_counts_what_was_enqueued_and_what_ended_once(app: Tickwork, admin: TestClient) -> None:
    @app.task(queue="mail")
    def send(ok: bool) -> None:
        if not ok:
            raise ValueError("no")

    with app.worker():
        send.enqueue(ok=True).wait(10)
        send.options(retries=0).enqueue(ok=False).wait(10)
    StatsRollup(app.store, SystemClock()).count(app.store.stats.rollup_marks(), app.store.now())
    seen = scraped(admin)
    again = scraped(admin)
    assert seen["tickwork_jobs_enqueued_total", (("queue", "mail"), ("task", "send"))] == 2
    for outcome in ("succeeded", "failed"):
        labels = (("outcome", outcome), ("queue", "mail"), ("task", "send"))
        assert seen["tickwork_jobs_finished_total", labels] == again["tickwork_jobs_finished_total", labels] == 1
    assert seen["tickwork_dead_jobs", ()] == 1


@pytest.mark.usefixtures("at_once")
def test_a_scrape_says_what_stands_in_a_queue_and_whether_it_is_paused(app: Tickwork, admin: TestClient) -> None:
    app.named("mail").options(queue="slow").enqueue()
    app.named("mail").options(queue="slow", delay="1h").enqueue()
    app.pause(queue="other", reason="a test")
    seen = scraped(admin)
    assert seen["tickwork_queue_jobs", (("queue", "slow"), ("state", "due"))] == 1
    assert seen["tickwork_queue_jobs", (("queue", "slow"), ("state", "later"))] == 1
    assert seen["tickwork_queue_paused", (("queue", "other"),)] == 1
    assert seen["tickwork_queue_paused", (("queue", "slow"),)] == 0


def test_requests_are_measured_by_route(admin: TestClient) -> None:
    admin.get("/api/v1/jobs/nothing")
    labels = (("code", "404"), ("method", "GET"), ("route", "get_job"))
    eventually(lambda: scraped(admin).get(("tickwork_http_request_seconds_count", labels)) == 1)


def test_a_label_of_a_metric_is_never_an_id() -> None:
    for metric in METRICS:
        assert set(metric.labels) <= FEW


def test_a_scrape_says_how_many_workers_a_queue_wants(app: Tickwork, admin: TestClient) -> None:
    app.enqueue("unknown")
    seen = scraped(admin)
    assert seen["tickwork_queue_workers_wanted", (("queue", "default"),)] == 1
    assert seen["tickwork_queue_unplaced_jobs", (("queue", "default"),)] == 1


def test_every_metric_is_in_the_dashboard() -> None:
    drawn = json.dumps(dashboard.dashboard())
    assert [metric.full for metric in METRICS if metric.full not in drawn] == []


def test_the_files_for_grafana_and_prometheus_are_those_that_the_table_makes() -> None:
    folder = Path(__file__).parents[4] / "deploy"
    for name, text in dashboard.files().items():
        assert (folder / name).read_text() == text, f"python -m tickwork.observe.dashboard deploy writes {name} anew"


@pytest.mark.usefixtures("at_once")
def test_a_canary_tells_how_late_work_starts(app: Tickwork, admin: TestClient) -> None:
    name = ("tickwork_canary_delay_seconds", ())
    assert name not in scraped(admin)
    app.schedule(canary.NAME, canary.NAME, every("1s"), catchup="none", overlap="skip")
    with app.worker():
        eventually(lambda: list(app.jobs(task=canary.NAME, state="succeeded")), 20)
    assert 0 <= scraped(admin)[name] < 5
