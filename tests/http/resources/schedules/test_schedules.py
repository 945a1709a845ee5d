"""Schedules over REST: one shape for files and requests, edits that expect something, pauses, backfills."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.http.work import claimed, succeed
from tests.waiting import eventually
from tickwork import Tickwork, calendar, current_job, every
from tickwork.core.text.yaml_loader import write_yaml
from tickwork.declare.read_declarations import read_declared
from tickwork.store.admin.hooks import DeclaredThing

API = "/api/v1/schedules"
SPEC = {"task": "report", "args": {"to": "ada"}, "cron": "0 8 * * *", "tz": "Europe/Berlin", "retries": 5}

SPECS: list[dict[str, Any]] = [
    SPEC,
    {"shell": "date -u", "every": "1m", "env": {"A": "b"}},
    {"dag": "etl", "every": "1h"},
    {"task": "t", "at": ["2099-12-24T18:00:00+00:00"], "description": "once", "paused": True},
    {"task": "t", "rrule": "FREQ=MONTHLY;BYDAY=-1FR", "tz": "Europe/Berlin", "dst": "skip"},
    {
        "task": "t",
        "any_of": [{"cron": "0 9 * * *", "tz": "Asia/Tokyo"}, {"all_of": [{"every": "3600s"}, {"except_on": ["c"]}]}],
        "catchup": "all",
        "overlap": "queue",
        "jitter": "5s",
        "start": "2026-01-01T00:00:00+00:00",
        "calendars": ["c", {"weekdays": ["sun"]}],
        "queue": "slow",
        "labels": ["a"],
        "needs": {"gpu": True},
        "give_up_on": ["builtins.ValueError"],
    },
]


@pytest.fixture
def report(admin: TestClient) -> TestClient:
    """A server with a schedule."""
    assert admin.put(f"{API}/report", json=SPEC).status_code == 201
    return admin


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_what_is_put_is_given_back_and_is_what_a_file_would_say(
    admin: TestClient, app: Tickwork, spec: dict[str, Any]
) -> None:
    app.put_calendar("c", calendar(weekdays=["sat"]))
    made = admin.put(f"{API}/s", json=spec)
    assert made.status_code == 201, made.text
    given = admin.get(f"{API}/s").json()["spec"]
    assert admin.put(f"{API}/s", json=given).json()["spec"] == given
    of_file = read_declared(write_yaml({"schedules": {"s": spec}}), lambda task: None, file="f.yaml").schedules["s"]
    assert app.schedules["s"].spec == of_file
    assert {name: given[name] for name in spec if name not in {"every"}} == {
        name: value for name, value in spec.items() if name not in {"every"}
    }


def test_a_schedule_is_listed_with_how_it_stands(report: TestClient) -> None:
    report.put(f"{API}/another", json={"task": "t", "every": "1h"})
    page = report.get(API, params={"limit": 1}).json()
    assert ([one["name"] for one in page["items"]], page["next_cursor"]) == (["another"], "another")
    page = report.get(API, params={"limit": 1, "cursor": "another"}).json()
    (one,) = page["items"]
    assert (one["name"], one["state"], one["run_count"]) == ("report", "active", 0)
    assert one["explanation"].startswith("At 08:00")
    assert one["next_due_at"].endswith("Z")


@pytest.mark.parametrize(
    ("body", "pointer", "words"),
    [
        ({"task": "t"}, "", "say when it is due"),
        ({"every": "1h"}, "", "say what it starts"),
        ({"task": "t", "cron": "0 0 31 2 *"}, "/cron", "is never due"),
        ({"task": "t", "every": "1h", "tz": "Europe/Berlin"}, "/tz", "does not go with every"),
        ({"task": "t", "every": "1h", "overlap": "maybe"}, "/overlap", "Invalid enum value"),
        ({"task": "t", "every": "1h", "retries": "many"}, "/retries", "Expected `int`"),
        ({"task": "t", "any_of": [{"every": "1h"}, {"evry": "1h"}]}, "/any_of/1/evry", "did you mean 'every'?"),
        ({"task": "t", "every": "1h", "calendars": [{"weekdays": ["fun"]}]}, "/calendars/0", "is not one"),
    ],
)
def test_what_is_wrong_is_told_with_a_pointer(
    admin: TestClient, app: Tickwork, body: dict[str, Any], pointer: str, words: str
) -> None:
    answer = admin.put(f"{API}/s", json=body)
    assert answer.status_code == 422
    assert (answer.json()["errors"][0]["pointer"], words in answer.text) == (pointer, True)
    assert list(app.schedules) == []


ETL = """\
dags:
  etl:
    params: {day: string, parts: {type: integer, default: 3}}
    steps:
      fetch: {task: fetch, args: {day: "${params.day}"}}
"""


def test_the_parameters_of_a_dag_are_checked_against_the_stored_one(admin: TestClient, app: Tickwork) -> None:
    assert admin.post("/api/v1/dags", json={"text": ETL}).status_code < 300
    for args, faults in (
        ({"day": "x", "prats": 1}, [("/args/prats", "there is no parameter 'prats' (did you mean 'parts'?).")]),
        (
            {"parts": "many"},
            [
                ("/args/parts", "it must be of the type integer, not 'many'."),
                ("", "the parameter 'day' has no default, and args does not say what it is."),
            ],
        ),
    ):
        answer = admin.put(f"{API}/s", json={"dag": "etl", "every": "1h", "args": args})
        assert answer.status_code == 422
        assert {(one["pointer"], one["detail"]) for one in answer.json()["errors"]} == set(faults)
        assert "Nothing was stored." in answer.json()["detail"]
    assert list(app.schedules) == []
    made = admin.put(f"{API}/s", json={"dag": "etl", "every": "1h", "args": {"day": "x"}})
    assert (made.status_code, "tickwork-warning" in made.headers) == (201, False)
    assert app.schedules["s"].spec.args == '{"day":"x"}', "a default is that of the version which is started"


def test_a_dag_that_is_not_stored_is_taken_with_a_warning(admin: TestClient, app: Tickwork) -> None:
    admin.post("/api/v1/dags", json={"text": ETL})
    app.task(name="job")(lambda: None)
    for dag, near in (("elt", " Did you mean 'etl'?"), ("job", "")):
        answer = admin.put(f"{API}/s", json={"dag": dag, "every": "1h", "args": {"n": 1}})
        assert answer.status_code in (200, 201)
        assert answer.headers["tickwork-warning"].startswith(f"No dag {dag!r} is stored yet.{near} Store it before")


def test_an_unknown_field_and_a_calendar_that_is_nowhere_are_refused(admin: TestClient) -> None:
    assert "evry" in admin.put(f"{API}/s", json={"task": "t", "evry": "1h"}).json()["detail"]
    answer = admin.put(f"{API}/s", json={"task": "t", "every": "1h", "calendars": "nowhere"})
    assert (answer.status_code, "heeds the calendar 'nowhere'" in answer.json()["detail"]) == (422, True)


def test_an_edit_that_expects_something_else_changes_nothing(report: TestClient, app: Tickwork) -> None:
    seen = report.get(f"{API}/report").headers["etag"]
    other = {**SPEC, "retries": 6}
    assert report.put(f"{API}/report", json=other, headers={"If-None-Match": "*"}).status_code == 412
    assert report.put(f"{API}/report", json=other, headers={"If-Match": '"0"'}).status_code == 412
    assert app.schedules["report"].spec.options.retries == 5
    edited = report.put(f"{API}/report", json=other, headers={"If-Match": f'"0", {seen}'})
    assert (edited.status_code, edited.headers["etag"] != seen) == (200, True)
    assert report.put(f"{API}/report", json=SPEC, headers={"If-Match": seen}).status_code == 412
    assert report.put(f"{API}/new", json=SPEC, headers={"If-Match": "*"}).status_code == 412
    assert report.put(f"{API}/new", json=SPEC, headers={"If-None-Match": "*"}).status_code == 201


def test_firing_does_not_change_the_etag(report: TestClient, app: Tickwork) -> None:
    seen = report.get(f"{API}/report").headers["etag"]
    report.post(f"{API}/report/pause", json={})
    assert report.get(f"{API}/report").headers["etag"] == seen


def test_the_next_occurrences_are_marked_where_clocks_change(admin: TestClient) -> None:
    admin.put(f"{API}/s", json={"task": "t", "cron": "30 2 * * *", "tz": "Europe/Berlin"})
    items = admin.get(f"{API}/s/next", params={"n": 366}).json()["items"]
    assert len(items) == 366
    assert sorted(one["clock_change"] for one in items if one["clock_change"]) == [
        "02:00 -> 03:00, 1h forward",
        "03:00 -> 02:00, 1h back",
    ]
    assert all(one["local"].endswith(("+01:00", "+02:00")) for one in items)
    assert len(admin.get(f"{API}/s/next").json()["items"]) == 10


def test_it_is_triggered_now(report: TestClient, app: Tickwork) -> None:
    answer = report.post(f"{API}/report/trigger")
    job = app.job(answer.json()["id"])
    assert job is not None
    assert (answer.status_code, job.task, job.view.args) == (201, "report", b'{"to":"ada"}')
    assert answer.headers["location"] == answer.json()["url"] == f"/api/v1/jobs/{job.id}"


def test_it_is_paused_for_a_while_by_who_asks_and_resumed(report: TestClient, app: Tickwork) -> None:
    answer = report.post(f"{API}/report/pause", json={"until": "2h", "reason": "is down"})
    body = answer.json()
    assert (answer.status_code, body["state"], body["paused_by"], body["paused_why"]) == (
        200,
        "paused",
        "dev",
        "is down",
    )
    until = datetime.fromisoformat(body["paused_until"])
    assert timedelta(hours=1, minutes=59) < until - app.store.now() <= timedelta(hours=2)
    assert report.post(f"{API}/report/pause", json={}).status_code == 409
    assert report.post(f"{API}/report/resume").json()["paused_until"] is None
    assert report.post(f"{API}/report/resume").status_code == 409
    for wrong in ("yesterday", "2020-01-01T00:00:00Z", "2099-01-01T00:00:00"):
        assert report.post(f"{API}/report/pause", json={"until": wrong}).status_code == 422


def test_a_dry_backfill_says_for_when_and_starts_nothing(report: TestClient, app: Tickwork) -> None:
    span = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-04T00:00:00Z"}
    answer = report.post(f"{API}/report/backfill", json={**span, "dry_run": True})
    assert (answer.status_code, answer.json()["count"]) == (200, 3)
    assert answer.json()["due_at"][0] == "2026-01-01T07:00:00Z"
    assert list(app.jobs()) == []


def test_a_backfill_runs_a_limited_number_at_a_time_and_nothing_twice(admin: TestClient, app: Tickwork) -> None:
    live, most, ran = [0], [0], []

    @app.task
    def report(n: int = 0) -> None:
        live[0] += 1
        most[0] = max(most[0], live[0])
        ran.append(current_job().scheduled_for)
        live[0] -= 1

    app.schedule("report", report, every("1h"))
    span = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T05:00:00Z", "parallel": 1}
    answer = admin.post(f"{API}/report/backfill", json=span)
    assert (answer.status_code, answer.json()["count"]) == (202, 6)
    again = admin.post(f"{API}/report/backfill", json=span)
    assert again.json()["job_ids"] == answer.json()["job_ids"]
    with app.worker(concurrency=4):
        for id in answer.json()["job_ids"]:
            job = app.job(id)
            assert job is not None
            job.wait(timeout=20)
    assert most == [1]
    assert sorted(ran) == [datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in range(6)], "a limit keeps no order"


def test_a_backfill_that_would_not_wait_for_the_previous_run_is_refused(admin: TestClient, app: Tickwork) -> None:
    admin.put(f"{API}/s", json={"task": "t", "every": "1h", "wait_for_previous": True})
    for dry_run in (False, True):
        span = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T05:00:00Z", "dry_run": dry_run}
        answer = admin.post(f"{API}/s/backfill", json=span)
        assert answer.status_code == 422
        assert "wait_for_previous" in answer.json()["detail"]
        assert "tickwork schedules backfill s" in answer.json()["detail"]
    assert list(app.jobs()) == []


def test_too_many_occurrences_are_refused(admin: TestClient, app: Tickwork) -> None:
    admin.put(f"{API}/s", json={"task": "t", "every": "1s"})
    answer = admin.post(f"{API}/s/backfill", json={"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"})
    assert (answer.status_code, "10,000 are the most" in answer.text) == (422, True)
    naive = admin.post(f"{API}/s/backfill", json={"from": "2026-01-01T00:00:00", "to": "2026-01-02T00:00:00Z"})
    assert naive.status_code == 422
    assert list(app.jobs()) == []


def test_what_became_of_occurrences_is_listed(admin: TestClient, app: Tickwork) -> None:
    admin.put(f"{API}/s", json={"task": "t", "every": "200ms", "overlap": "allow"})
    with app.worker():
        eventually(lambda: len(admin.get(f"{API}/s/fires").json()["items"]) >= 3)
    admin.post(f"{API}/s/pause", json={})
    first = admin.get(f"{API}/s/fires", params={"limit": 1}).json()
    second = admin.get(f"{API}/s/fires", params={"limit": 1, "cursor": first["next_cursor"]}).json()
    latest, before = (datetime.fromisoformat(one["items"][0]["due_at"]) for one in (first, second))
    assert latest > before
    assert first["items"][0]["action"] == "start"
    assert admin.get(f"{API}/s/fires", params={"cursor": "x"}).status_code == 422


def test_one_that_is_deleted_is_not_there(report: TestClient) -> None:
    assert report.delete(f"{API}/report").status_code == 204
    assert report.delete(f"{API}/report").status_code == 404
    for verb in ("trigger", "resume"):
        assert report.post(f"{API}/report/{verb}").status_code == 404
    assert report.get(f"{API}/%00").status_code == 404
    assert report.get(API, params={"cursor": "\0"}).status_code == 422


def test_calendars(admin: TestClient) -> None:
    calendars = "/api/v1/calendars"
    put = admin.put(f"{calendars}/closed", json={"weekdays": ["sun", "sat"], "dates": ["2026-12-31"]})
    assert put.status_code == 200
    assert admin.get(f"{calendars}/closed").json()["weekdays"] == ["sat", "sun"]
    assert [one["name"] for one in admin.get(calendars).json()["items"]] == ["closed"]
    wrong = admin.put(f"{calendars}/closed", json={"weekdays": ["funday"]})
    assert (wrong.status_code, "is not one" in wrong.text) == (422, True)
    admin.put(f"{API}/s", json={"task": "t", "every": "1h", "calendars": "closed"})
    assert admin.delete(f"{calendars}/closed").status_code == 409
    admin.delete(f"{API}/s")
    assert admin.delete(f"{calendars}/closed").status_code == 204
    assert admin.get(f"{calendars}/closed").status_code == 404


def test_an_expression_is_explained(admin: TestClient) -> None:
    answer = admin.post("/api/v1/cron/explain", json={"expression": "30 2 * * *", "tz": "Europe/Berlin", "n": 3}).json()
    assert answer["explanation"].startswith("At 02:30")
    assert len(answer["next"]) == 3
    for body in ({"expression": "nonsense"}, {"expression": "H * * * *"}, {"expression": "* * * * *", "tz": "Nowhere"}):
        assert admin.post("/api/v1/cron/explain", json=body).status_code == 422


@pytest.mark.parametrize(
    ("expression", "kind", "words"),
    [
        ("@daily", "cron", "At 00:00"),
        ("1h30m", "every", "Every 1h30m"),
        ("@every 90s", "every", "Every 1m30s"),
        ("R5/2099-01-01T00:00Z/PT10M", "every", "5 times"),
        ("FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17", "rrule", "17"),
    ],
)
def test_expressions_of_every_kind_are_explained(admin: TestClient, expression: str, kind: str, words: str) -> None:
    answer = admin.post("/api/v1/cron/explain", json={"expression": expression, "n": 2}).json()
    assert (answer["kind"], len(answer["next"])) == (kind, 2)
    assert words in answer["explanation"]


@pytest.mark.parametrize(
    ("expression", "wrong"),
    [
        ("61 * * * *", "61"),
        ("13 13 * 13 13", "13"),
        ("* * * * mox", "mox"),
        ("*/0 * * * *", "*/0"),
        ("FREQ=DAYLY", "DAYLY"),
        ("R/2026-13-01T00:00Z/PT10M", "2026-13-01T00:00Z"),
        ("* * * *", "* * * *"),
        ("", ""),
    ],
)
def test_the_place_of_a_mistake_is_told(admin: TestClient, expression: str, wrong: str) -> None:
    answer = admin.post("/api/v1/cron/explain", json={"expression": expression})
    assert answer.status_code == 422
    (fault,) = answer.json()["errors"]
    assert expression[fault["start"] : fault["end"]] == wrong
    assert fault["pointer"] == "/expression"
    if expression.startswith("13"):
        assert fault["start"] == 8, "the month is wrong, and not the minute"


class TestPages:
    def test_a_list_tells_what_each_last_did_and_who_says_what_it_is(self, admin: TestClient, app: Tickwork) -> None:
        @app.task(name="report")
        def report() -> None: ...

        admin.put(f"{API}/often", json={"task": "report", "every": "1s"}).raise_for_status()
        with app.worker():
            eventually(lambda: _listed(admin)["often"]["average_s"] is not None)
        one = _listed(admin)["often"]
        assert (one["owner"], one["source"], one["zone"]) == ("api", None, "UTC")
        last = one["last"]
        assert (last["action"], last["is_run"], last["late_s"] >= 0) == ("start", False, True)
        assert admin.get(f"/api/v1/jobs/{last['job_id']}").json()["task"] == "report"
        assert one["average_s"] >= 0
        days = admin.get(f"{API}/often/days", params={"weeks": 1}).json()
        assert len(days["items"]) in (1, 2)
        assert sum(day["ok"] for day in days["items"]) > 0
        assert days["is_partial"] is False

    def test_what_a_file_declares_says_so(self, report: TestClient, app: Tickwork) -> None:
        app.store.hooks.mark_declared("shop", [DeclaredThing("schedule", "report")])
        one = _listed(report)["report"]
        assert (one["owner"], one["source"], one["zone"], one["last"]) == ("file", "shop", "Europe/Berlin", None)

    def test_days_are_bounded(self, report: TestClient) -> None:
        days = report.get(f"{API}/report/days").json()
        assert (days["zone"], days["items"], days["is_partial"]) == ("Europe/Berlin", [], False)
        assert report.get(f"{API}/report/days", params={"weeks": 54}).status_code == 422
        assert report.get(f"{API}/nothing/days").status_code == 404

    def test_the_density_of_a_day_counts_every_schedule(self, report: TestClient) -> None:
        report.put(f"{API}/second", json={"task": "t", "every": "1s"}).raise_for_status()
        report.put(f"{API}/idle", json={"task": "t", "every": "1s", "paused": True}).raise_for_status()
        found = report.get("/api/v1/density", params={"day": "2026-12-01", "tz": "Europe/Berlin"}).json()
        assert (found["start"], found["schedules"], found["is_partial"]) == ("2026-11-30T23:00:00Z", 2, False)
        assert len(found["minutes"]) == 1440
        assert (found["minutes"][8 * 60], set(found["minutes"])) == (61, {60, 61})
        assert len(report.get("/api/v1/density").json()["minutes"]) == 1440
        for wrong in ({"day": "0001-01-01"}, {"day": "9999-12-31"}, {"day": "x"}, {"day": "2026-01-01", "tz": "Mars"}):
            assert report.get("/api/v1/density", params=wrong).status_code == 422


def _listed(client: TestClient) -> dict[str, Any]:
    return {one["name"]: one for one in client.get(API).json()["items"]}


def test_a_forced_backfill_runs_what_succeeded_again(admin: TestClient, app: Tickwork) -> None:
    admin.put(f"{API}/s", json={"task": "mail", "every": "1h", "paused": True}).raise_for_status()
    span = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"}
    (first,) = admin.post(f"{API}/s/backfill", json=span).json()["job_ids"]
    for one in claimed(app):
        succeed(app, one)
    assert admin.post(f"{API}/s/backfill", json=span).json()["job_ids"] == [first]
    (again,) = admin.post(f"{API}/s/backfill", json={**span, "force": True}).json()["job_ids"]
    assert again != first
    assert admin.get(f"/api/v1/jobs/{again}").json()["state"] == "queued"
