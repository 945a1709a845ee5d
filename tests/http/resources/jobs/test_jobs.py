"""Jobs over REST, on both stores."""

import asyncio
import threading
import time
import tracemalloc
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient

from tests.http.work import claimed, fail, succeed
from tests.waiting import eventually
from tickwork import Tickwork, debounce, every
from tickwork.blobs import LocalBlobs
from tickwork.core.arguments.payload import RESULT_LIMIT
from tickwork.core.ids import WorkerId
from tickwork.core.job import Policy, TaskDefinition
from tickwork.http import request
from tickwork.http.framework.problems import Problem
from tickwork.http.resources.jobs import job_bodies
from tickwork.http.server_context import ServerContext
from tickwork.store.base import WorkerRegistration

JOBS = "/api/v1/jobs"


def enqueue(admin: TestClient, **body: Any) -> dict[str, Any]:
    answer = admin.post(JOBS, json={"task": "mail", **body})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def listed(admin: TestClient, **query: Any) -> list[str]:
    """The ids on every page of a list."""
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = admin.get(JOBS, params={**query, **cursor}).json()
        found += [one["id"] for one in page["items"]]
        if page["next_cursor"] is None:
            return found
        cursor = {"cursor": page["next_cursor"]}


# -- enqueue


def test_a_job_is_created_with_its_options_and_can_be_read_where_the_answer_says(admin: TestClient) -> None:
    body = {"args": {"to": "ada"}, "queue": "slow", "priority": 2, "delay": 60, "labels": ["a"], "tenant": "acme"}
    answer = admin.post(JOBS, json={"task": "mail", **body})
    assert answer.status_code == 201
    job = answer.json()
    assert (job["task"], job["queue"], job["priority"], job["state"]) == ("mail", "slow", 2, "queued")
    assert (job["labels"], job["tenant"], job["attempt"], job["result"]) == (["a"], "acme", 0, None)
    read = admin.get(answer.headers["location"])
    assert read.status_code == 200
    assert read.json() == {**job, "why": read.json()["why"]}


def test_the_same_key_gives_the_job_that_is_there(admin: TestClient, app: Tickwork) -> None:
    first = enqueue(admin, key="k")
    again = admin.post(JOBS, json={"task": "mail", "key": "k"})
    assert (again.status_code, again.json()["id"]) == (200, first["id"])
    assert again.headers["location"].endswith(first["id"])
    (one,) = claimed(app)
    succeed(app, one)
    assert admin.post(JOBS, json={"task": "mail", "key": "k"}).status_code == 201


def test_a_call_while_the_debounced_job_runs_is_a_job_of_its_own(admin: TestClient, app: Tickwork) -> None:
    @app.task(name="index", debounce=debounce("1ms"))
    def index(n: int) -> None: ...

    with app.worker(queues=["nothing"]):
        pass
    first = enqueue(admin, task="index", args={"n": 1})
    one = eventually(lambda: claimed(app, "index"))[0]
    second, third = (admin.post(JOBS, json={"task": "index", "args": {"n": n}}) for n in (2, 3))
    assert (second.status_code, third.status_code) == (201, 200)
    assert first["id"] == one.job_id != second.json()["id"] == third.json()["id"]
    succeed(app, one)
    assert [two.args for two in eventually(lambda: claimed(app, "index"))] == [b'{"n":3}']


def test_a_replaced_job_is_the_one_that_is_there(admin: TestClient) -> None:
    first = enqueue(admin, key="k", delay="1h")
    again = admin.post(JOBS, json={"task": "mail", "args": {"n": 2}, "key": "k", "delay": "2h", "if_exists": "replace"})
    assert (again.status_code, again.json()["id"], again.json()["args"]) == (200, first["id"], {"n": 2})


@pytest.mark.parametrize("path", [JOBS, f"{JOBS}/batch"])
def test_a_key_that_another_task_holds_is_a_conflict(admin: TestClient, path: str) -> None:
    holder = enqueue(admin, key="k", delay="1h")
    job = {"task": "other", "key": "k"}
    answer = admin.post(path, json={"jobs": [job]} if path.endswith("batch") else job)
    assert (answer.status_code, answer.json()["code"]) == (409, "key-taken")
    assert f"job {holder['id']} of 'mail' (queued)" in answer.json()["detail"]
    assert admin.post(JOBS, json={"task": "mail", "key": "k", "if_exists": "error"}).status_code == 409
    assert len(listed(admin)) == 1


@pytest.mark.parametrize(
    "body",
    [
        {"task": ""},
        {"task": "mail", "delay": "soon"},
        {"task": "mail", "delay": -1},
        {"task": "mail", "delay": 1e300},
        {"task": "mail", "at": "2026-11-01T12:00:00"},
        {"task": "mail", "at": "2026-11-01T12:00:00Z", "delay": 1},
        {"task": "mail", "queue": "a:b"},
        {"task": "mail", "key": "x\0"},
        {"task": "mail", "args": {"x": "\0"}},
        {"task": "mail", "args": {"self": 1}, "retries": -1},
        {"task": "mail", "if_exists": "replace"},
    ],
)
def test_what_cannot_be_enqueued_is_refused_and_not_stored(admin: TestClient, body: dict[str, Any]) -> None:
    answer = admin.post(JOBS, json=body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["code"] == "invalid"
    assert listed(admin) == []


def test_arguments_may_have_any_name(admin: TestClient) -> None:
    assert enqueue(admin, args={"self": 1, "args": 2, "task": 3})["state"] == "queued"


def test_a_batch_is_stored_in_its_order(admin: TestClient) -> None:
    held = enqueue(admin, key="k")["id"]
    jobs = [{"task": "mail", "args": {"n": n}} for n in range(3)] + [{"task": "mail", "key": "k"}]
    answer = admin.post(f"{JOBS}/batch", json={"jobs": jobs})
    assert answer.status_code == 201
    items = answer.json()["items"]
    assert [one["is_new"] for one in items] == [True, True, True, False]
    assert items[3]["id"] == held
    assert sorted(listed(admin)) == sorted({one["id"] for one in items})


def test_a_batch_is_stored_as_a_whole_or_not_at_all(admin: TestClient) -> None:
    jobs = [{"task": "mail"}, {"task": "mail", "delay": "soon"}, {"task": "mail"}, {"task": "mail", "retries": -1}]
    answer = admin.post(f"{JOBS}/batch", json={"jobs": jobs})
    assert answer.status_code == 422
    assert [one["pointer"] for one in answer.json()["errors"]] == ["/jobs/1", "/jobs/3"]
    assert listed(admin) == []


def test_a_batch_has_a_cap_and_room_for_more_than_other_bodies(
    admin: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = {"task": "mail", "args": {"text": "x" * 200_000}}
    assert admin.post(f"{JOBS}/batch", json={"jobs": [large] * 10}).status_code == 201
    monkeypatch.setattr(job_bodies, "BATCH_LIMIT", 2)
    assert admin.post(f"{JOBS}/batch", json={"jobs": [{"task": "mail"}] * 2}).status_code == 201
    assert admin.post(f"{JOBS}/batch", json={"jobs": [{"task": "mail"}] * 3}).status_code == 422


def test_a_batch_is_counted_before_its_jobs_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    def peak(data: bytes, code: int) -> int:
        """Return the peak memory of the refusal of a batch."""
        tracemalloc.start()
        with pytest.raises(Problem) as refused:
            [job_bodies.read_job(job, 0) for job in job_bodies.read_jobs(data)]
        assert refused.value.status == code
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    many = b'{"jobs":[' + b'{"task":"a"},' * 1_200_000 + b'{"task":"a"}]}'
    deep = b'{"jobs":[{"task":"a","args":{"a":[' + b'{"a":{}},' * 1_500_000 + b"1]}}]}"
    wide = b'{"jobs":[{"task":[' + b"{}," * 5_000_000 + b"1]}]}"
    nothing = b'{"jobs":[' + b"1," * 7_500_000 + b"1]}"
    for data in (many, deep, wide, nothing):
        assert peak(data, 422) < 16 * 1024 * 1024, data[:20]


@pytest.mark.parametrize(
    ("batch", "status", "pointer"),
    [
        (b'{"jobs": [{"task": "a"}, {"task": "a", "delai": 1}]}', 422, "/jobs/1/delai"),
        (b'{"jobs": [{"task": "a"}, {"task": "a", "args": {"a": 1}, "priority": [1]}]}', 422, "/jobs/1/priority"),
        (b'{"jobs": [{"task": "a"}, {"args": {}}]}', 422, "/jobs/1"),
        (b'{"jobs": [{"task": "a"}, 7]}', 422, "/jobs/1"),
        (b'{"jobs": [{"task": "a"}], "more": 1}', 422, "/more"),
        (b'{"jobs": [{"task": "a"}]', 400, None),
    ],
)
def test_what_is_no_batch_is_refused_with_its_place(
    admin: TestClient, batch: bytes, status: int, pointer: str | None
) -> None:
    answer = admin.post(f"{JOBS}/batch", content=batch, headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    assert [one["pointer"] for one in answer.json().get("errors", [])] == ([] if pointer is None else [pointer])
    assert listed(admin) == []


def test_bodies_take_no_more_memory_than_there_is_room_for(admin: TestClient, parts: ServerContext) -> None:
    large = {"jobs": [{"task": "mail", "args": {"text": "x" * 200_000}}] * 3}
    parts.bodies.most = 500_000
    answer = admin.post(f"{JOBS}/batch", json=large)
    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (503, "too-busy", "5")
    assert admin.post(f"{JOBS}/batch", json={"jobs": large["jobs"][:2]}).status_code == 201
    parts.unauthenticated_bodies.most = 10
    assert enqueue(admin)["state"] == "queued", "a small body that there is no room for is read after its key"
    assert (parts.bodies.held, parts.unauthenticated_bodies.held) == (0, 0)


def test_large_bodies_are_not_decoded_on_the_event_loop(admin: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def watched(*given: Any, **more: Any) -> Any:
        seen.append(threading.current_thread().name)
        return decode(*given, **more)

    decode = msgspec.json.decode
    monkeypatch.setattr(request.msgspec.json, "decode", watched)
    text = {"text": "x" * 100_000}
    admin.post(JOBS, json={"task": "mail", "args": text}).raise_for_status()
    admin.post(JOBS, json={"task": "mail", "args": text}, headers={"Idempotency-Key": "k"}).raise_for_status()
    assert admin.post("/api/v1/leases", json={"queues": ["q"], "worker": "w", "labels": ["x" * 70_000]}).is_error
    assert len(seen) == 3
    assert all("AnyIO worker" in name for name in seen)


# -- find


def test_jobs_are_listed_page_by_page_without_arguments_and_results(admin: TestClient) -> None:
    ids = [enqueue(admin)["id"] for _ in range(5)]
    page = admin.get(JOBS, params={"limit": 2}).json()
    assert [one["id"] for one in page["items"]] == ids[:-3:-1]
    assert not {"args", "result", "why"} & set(page["items"][0])
    assert listed(admin, limit=2) == ids[::-1]


def test_jobs_are_found_by_each_filter(admin: TestClient, app: Tickwork) -> None:
    about = {"queue": "slow", "key": "k", "collection": "c", "labels": ["l"]}
    wanted = enqueue(admin, **about)
    other = enqueue(admin)
    for query in ({"queue": "slow"}, {"key": "k"}, {"collection": "c"}, {"label": "l"}):
        assert listed(admin, **query) == [wanted["id"]], query
    assert listed(admin, state="queued", task="mail") == [other["id"], wanted["id"]]
    (one,) = claimed(app)
    fail(app, one)
    assert listed(admin, state="failed") == listed(admin, dead=True) == [other["id"]]
    assert listed(admin, parent_id="x") == listed(admin, run_id="x") == listed(admin, run_id=other["id"]) == []
    assert len(listed(admin, created_after="2020-01-01T00:00:00Z", created_before="2999-01-01T00:00:00Z")) == 2
    assert listed(admin, created_before="2020-01-01T00:00:00Z") == []


def test_jobs_are_listed_by_their_ids_as_they_are_now(admin: TestClient, app: Tickwork) -> None:
    first, second, _ = (enqueue(admin, retries=2)["id"] for _ in range(3))
    (one,) = claimed(app, limit=1)
    fail(app, one)
    assert one.job_id == first
    page = admin.get(JOBS, params={"id": [first, second, "x"]}).json()
    assert [(item["id"], item["state"]) for item in page["items"]] == [(second, "queued"), (first, "failed")]
    assert listed(admin, id=[first, second], state="failed") == [first]
    tried = page["items"][1]
    assert (tried["attempt"], tried["failures"], tried["retries"], tried["is_run"]) == (1, 1, 2, False)
    assert admin.get(JOBS, params={"id": [first], "q": "mail"}).status_code == 422
    assert admin.get(JOBS, params={"id": [first] * (job_bodies.IDS_LIMIT + 1)}).status_code == 422


def test_jobs_are_searched_by_words(admin: TestClient, app: Tickwork) -> None:
    by_key = enqueue(admin, key="mailbox", task="x", delay=60)["id"]
    by_task = enqueue(admin, task="mail.send", delay=60)["id"]
    failed = enqueue(admin, task="y")["id"]
    (one,) = claimed(app, "y")
    fail(app, one, "no mail today")
    assert listed(admin, q="mail") == listed(admin, q="mail", limit=1) == [failed, by_task, by_key]
    assert listed(admin, q="mail", state="failed") == [failed]
    assert listed(admin, q="nothing") == []
    assert admin.get(JOBS, params={"q": "mail"}).json()["is_partial"] is False


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=1001",
        "limit=x",
        "state=lost",
        "cursor=x",
        "colour=red",
        "task=",
        "queue=a%00b",
        "created_after=2026-11-01T12:00:00",
        "task=a&task=b",
    ],
)
def test_what_is_no_filter_is_refused(admin: TestClient, query: str) -> None:
    assert admin.get(f"{JOBS}?{query}").status_code == 422


@pytest.mark.parametrize("id", ["x", "019a8f3e-1c2d-7abc-8def-0123456789ab", "..", "%00"])
def test_a_job_that_is_not_there_is_not_found(admin: TestClient, id: str) -> None:
    for path in ("", "/attempts", "/logs", "/events", "/result"):
        assert admin.get(f"{JOBS}/{id}{path}").status_code == 404
    assert admin.post(f"{JOBS}/{id}/cancel").status_code == 404


# -- change


def test_a_job_is_cancelled_once(admin: TestClient) -> None:
    job = enqueue(admin)
    assert admin.post(f"{JOBS}/{job['id']}/cancel").json()["state"] == "cancelled"
    again = admin.post(f"{JOBS}/{job['id']}/cancel")
    assert (again.status_code, again.json()["code"]) == (409, "wrong-state")


def test_a_job_is_retried_and_rescheduled(admin: TestClient, app: Tickwork) -> None:
    job = enqueue(admin)
    path = f"{JOBS}/{job['id']}"
    assert admin.post(f"{path}/retry").status_code == 409
    (one,) = claimed(app)
    assert admin.post(f"{path}/reschedule", json={"delay": "1h"}).status_code == 409
    fail(app, one)
    assert admin.post(f"{path}/retry").json()["state"] == "queued"
    moved = admin.post(f"{path}/reschedule", json={"at": "2999-01-01T00:00:00Z"})
    assert (moved.status_code, moved.json()["run_at"]) == (200, "2999-01-01T00:00:00Z")
    assert admin.post(f"{path}/reschedule", json={"delay": 0}).status_code == 200
    assert len(claimed(app)) == 1


@pytest.mark.parametrize("body", [{}, {"at": "2999-01-01T00:00:00Z", "delay": 1}, {"delay": "x"}, {"delay": -1}])
def test_a_time_that_is_none_is_refused(admin: TestClient, body: dict[str, Any]) -> None:
    job = enqueue(admin)
    assert admin.post(f"{JOBS}/{job['id']}/reschedule", json=body).status_code == 422


# -- trail


@pytest.mark.parametrize("target", ["mail", "letters"])
def test_a_job_of_a_schedule_has_its_occurrence_and_so_have_the_steps_of_its_runs(
    admin: TestClient, app: Tickwork, target: str
) -> None:
    @app.task
    def mail() -> None: ...

    @app.dag
    def letters() -> None:
        mail()

    noon = datetime(2026, 11, 16, 12, tzinfo=UTC)
    (id,) = app.schedule("hourly", target, every("1h"), paused=True).backfilling([noon], 1).enqueue()
    with app.worker():
        eventually(lambda: admin.get(f"{JOBS}/{id}").json()["state"] == "succeeded", 20)
    ids = [id, *(one["id"] for one in admin.get(JOBS, params={"run_id": id}).json()["items"])]
    assert len(ids) == (2 if target == "letters" else 1)
    wanted = ("schedule", "scheduled_for", "is_catchup", "interval")
    for one in ids:
        job = admin.get(f"{JOBS}/{one}").json()
        assert [job[name] for name in wanted] == [
            "hourly",
            "2026-11-16T12:00:00Z",
            True,
            {"from": "2026-11-16T11:00:00Z", "to": "2026-11-16T12:00:00Z"},
        ]
    by_hand = admin.get(f"{JOBS}/{enqueue(admin)['id']}").json()
    assert [by_hand[name] for name in wanted] == [None, None, False, None]


def test_attempts_logs_and_events_tell_what_became_of_a_job(admin: TestClient, app: Tickwork) -> None:
    job = enqueue(admin)
    path = f"{JOBS}/{job['id']}"
    fail(app, claimed(app)[0])
    admin.post(f"{path}/retry")
    succeed(app, claimed(app)[0], b'{"n":1}', ("hello\n", "world\n"))
    tried = admin.get(f"{path}/attempts").json()
    assert [(one["number"], one["state"]) for one in tried["items"]] == [(1, "failed"), (2, "succeeded")]
    first = admin.get(f"{path}/attempts", params={"limit": 1}).json()
    assert (len(first["items"]), first["next_cursor"]) == (1, 1)
    assert admin.get(f"{path}/attempts", params={"cursor": 1}).json()["items"][0]["number"] == 2
    page = admin.get(f"{path}/logs", params={"limit": 1}).json()
    assert [one["text"] for one in page["items"]] == ["hello\n"]
    rest = admin.get(f"{path}/logs", params={"cursor": page["next_cursor"]}).json()
    assert ([one["text"] for one in rest["items"]], rest["next_cursor"]) == (["world\n"], None)
    events = [one["event"] for one in admin.get(f"{path}/events").json()["items"]]
    begun = ["created", "attempt_started", "attempt_failed", "attempt_started", "attempt_succeeded"]
    assert events == [*begun, "succeeded"]
    assert admin.get(f"{path}/result").json() == {"n": 1}


@pytest.mark.parametrize("cursor", ["x", "1", "1:x", "-1:0", "1:9999999999999999"])
def test_a_place_in_a_log_that_is_none_is_refused(admin: TestClient, cursor: str) -> None:
    job = enqueue(admin)
    assert admin.get(f"{JOBS}/{job['id']}/logs", params={"cursor": cursor}).status_code == 422


@pytest.mark.parametrize("how", [{"params": {"follow": "true"}}, {"headers": {"accept": "text/event-stream"}}])
def test_a_log_is_followed_to_the_end_of_its_job(admin: TestClient, app: Tickwork, how: dict[str, Any]) -> None:
    job = enqueue(admin)
    (one,) = claimed(app)
    later = threading.Timer(0.2, lambda: succeed(app, one, logs=("hello\n", "world\n")))
    later.start()
    answer = admin.get(f"{JOBS}/{job['id']}/logs", **how)
    later.join()
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = answer.text.splitlines()
    assert [line for line in lines if line.startswith("event:")] == ["event: log", "event: log", "event: end"]
    assert "id: 1:1" in lines
    assert "data: succeeded" in lines
    resumed = admin.get(f"{JOBS}/{job['id']}/logs", params={"follow": "true"}, headers={"last-event-id": "1:0"})
    assert "world" in resumed.text
    assert "hello" not in resumed.text


def test_a_followed_log_ends_with_the_server(admin: TestClient, parts: ServerContext) -> None:
    job = enqueue(admin)
    parts.stopping.set()
    answer = admin.get(f"{JOBS}/{job['id']}/logs", params={"follow": "true"})
    assert "event: end" not in answer.text


# -- results


def test_a_result_is_waited_for(admin: TestClient, app: Tickwork) -> None:
    job = enqueue(admin)
    (one,) = claimed(app)
    early = admin.get(f"{JOBS}/{job['id']}/result")
    assert (early.status_code, early.json()) == (202, {"id": job["id"], "state": "running"})
    later = threading.Timer(0.3, lambda: succeed(app, one, b"[1,2]"))
    later.start()
    answer = admin.get(f"{JOBS}/{job['id']}/result", params={"wait": "20s"})
    later.join()
    assert (answer.status_code, answer.json()) == (200, [1, 2])


def test_a_wait_for_a_result_ends_at_its_time(admin: TestClient) -> None:
    job = enqueue(admin)
    began = time.monotonic()
    assert admin.get(f"{JOBS}/{job['id']}/result", params={"wait": 0.3}).status_code == 202
    assert 0.3 <= time.monotonic() - began < 5
    assert admin.get(f"{JOBS}/{job['id']}/result", params={"wait": "x"}).status_code == 422


def test_a_wait_for_a_result_ends_with_the_server(admin: TestClient, parts: ServerContext) -> None:
    job = enqueue(admin)
    parts.stopping.set()
    assert admin.get(f"{JOBS}/{job['id']}/result", params={"wait": "50s"}).status_code == 202


@pytest.mark.parametrize("how", ["failed", "cancelled"])
def test_an_end_without_a_result_is_a_problem_with_its_error(admin: TestClient, app: Tickwork, how: str) -> None:
    job = enqueue(admin)
    if how == "failed":
        fail(app, claimed(app)[0], "ValueError: no")
    else:
        admin.post(f"{JOBS}/{job['id']}/cancel")
    answer = admin.get(f"{JOBS}/{job['id']}/result", params={"wait": 5})
    assert (answer.status_code, answer.json()["code"]) == (409, f"job-{how}")
    assert "ValueError: no" in answer.json()["detail"] or how == "cancelled"


def test_many_wait_with_one_look_at_the_store(
    app: Tickwork, parts: ServerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [app.enqueue("mail").id for _ in range(50)]
    looks: list[int] = []
    real = app.store.reads.ended_among

    def look(wanted: Any) -> Any:
        looks.append(len(wanted))
        return real(wanted)

    monkeypatch.setattr(app.store.reads, "ended_among", look)

    async def wait() -> list[bool]:
        waits = [parts.watch.ended(app.store, one, 5.0, parts.stopping) for one in ids]
        gathered = asyncio.gather(*waits)
        await asyncio.sleep(0.25)
        for one in claimed(app):
            succeed(app, one)
        return list(await gathered)

    assert asyncio.run(wait()) == [True] * 50
    assert max(looks) == 50
    assert len(looks) <= 20


def test_a_large_result_is_read_from_where_it_is(admin: TestClient, app: Tickwork, tmp_path: Any) -> None:
    app.__dict__["blobs"] = LocalBlobs(tmp_path)
    job = enqueue(admin)
    (one,) = claimed(app)
    data = msgspec.json.encode("x" * (RESULT_LIMIT + 10))
    succeed(app, one, app.large_results.keep(data, one.job_id, one.attempt, "the result"))
    shown = admin.get(f"{JOBS}/{job['id']}").json()
    assert (shown["result"], shown["is_large"]) == (None, True)
    answer = admin.get(f"{JOBS}/{job['id']}/result")
    assert answer.content == data


def test_who_may_only_enqueue_cannot_have_secrets_sent_anywhere(admin: TestClient) -> None:
    token = admin.post("/api/v1/keys", json={"name": "app", "scopes": ["enqueue"]}).json()["token"]
    headers = {"Authorization": f"Bearer {token}"}
    asks = {"task": "http", "args": {"url": "https://x.example/", "secrets": {"headers.X": "${secret.STRIPE}"}}}
    plain = {"task": "http", "args": {"url": "https://x.example/"}}
    for path, body in (("/api/v1/jobs", asks), ("/api/v1/jobs/batch", {"jobs": [plain, asks]})):
        answer = admin.post(path, json=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "not-allowed")
    assert admin.get("/api/v1/jobs").json()["items"] == []
    assert admin.post("/api/v1/jobs", json=plain, headers=headers).status_code == 201
    assert admin.post("/api/v1/jobs", json=asks).status_code == 201


class TestRerun:
    def test_a_job_is_made_again_with_its_options_and_what_is_changed(self, admin: TestClient, app: Tickwork) -> None:
        given = {
            "task": "mail",
            "args": {"to": "ada"},
            "queue": "slow",
            "priority": 2,
            "key": "k",
            "labels": ["a"],
            "retries": 9,
            "backoff": "7s",
            "timeout": "30s",
            "tenant": "acme",
            "needs": {"gpu": True, "mem": "8GB"},
            "collection": "c",
            "expires": "1h",
        }
        old = admin.post("/api/v1/jobs", json=given).json()
        assert old["options"]["needs"].keys() == {"gpu", "mem"}
        assert (old["options"]["retries"], old["options"]["timeout"]) == (9, "30s")
        answer = admin.post(f"/api/v1/jobs/{old['id']}/rerun", json={})
        assert answer.status_code == 201, answer.text
        new = answer.json()
        assert answer.headers["location"] == f"/api/v1/jobs/{new['id']}"
        assert (new["parent_id"], new["key"]) == (old["id"], None)
        same = ("task", "args", "queue", "priority", "labels", "tenant", "collection", "options")
        assert {name: new[name] for name in same} == {name: old[name] for name in same}
        listed = admin.get("/api/v1/jobs", params={"parent_id": old["id"]}).json()["items"]
        assert [one["id"] for one in listed] == [new["id"]]
        changes = {"args": {"to": "bob"}, "queue": "fast", "priority": "high", "delay": "1h"}
        other = admin.post(f"/api/v1/jobs/{old['id']}/rerun", json=changes).json()
        assert (other["args"], other["queue"], other["priority"]) == ({"to": "bob"}, "fast", 2)
        assert other["run_at"] > other["created_at"]

    def test_what_it_was_due_for_it_is_again(self, admin: TestClient, app: Tickwork) -> None:
        admin.put("/api/v1/schedules/s", json={"task": "mail", "every": "1h"}).raise_for_status()
        old = admin.post("/api/v1/schedules/s/trigger").json()["id"]
        new = admin.post(f"/api/v1/jobs/{old}/rerun", json={}).json()
        assert new["schedule"] == "s"
        views = app.store.reads.get_jobs([old, new["id"]])
        assert views[old].occurrence == views[new["id"]].occurrence is not None

    def test_runs_and_steps_are_run_again_as_such(self, admin: TestClient, app: Tickwork) -> None:
        admin.post("/api/v1/dags", json={"text": "dags: {d: {steps: {a: {task: t}}}}"}).raise_for_status()
        run = admin.post("/api/v1/dags/d/runs", json={}).json()["id"]
        assert admin.get(f"/api/v1/jobs/{run}").json()["is_run"] is True
        answer = admin.post(f"/api/v1/jobs/{run}/rerun", json={})
        assert (answer.status_code, answer.json()["code"]) == (409, "of-a-run")

    @pytest.mark.parametrize("body", [{"args": []}, {"queue": "a:b"}, {"at": "2026-01-01T00:00:00"}, {"key": "x"}])
    def test_what_cannot_be_is_refused(self, admin: TestClient, body: dict[str, Any]) -> None:
        old = admin.post("/api/v1/jobs", json={"task": "mail"}).json()["id"]
        assert admin.post(f"/api/v1/jobs/{old}/rerun", json=body).status_code == 422
        assert admin.post("/api/v1/jobs/nothing/rerun", json={}).status_code == 404


def define(app: Tickwork) -> None:
    """A worker tells of a task `mail(to: str, times: int = 1)`."""
    fields = {"to": {"type": "string"}, "times": {"type": "integer"}}
    schema = msgspec.json.encode({"type": "object", "properties": fields, "required": ["to"]})
    definition = TaskDefinition("mail", "default", 5, Policy(), schema)
    worker = WorkerRegistration(WorkerId("w"), "host", 1, "1.0", ("default",), ("mail",), 1)
    app.store.register_worker(worker, [definition], timedelta(minutes=1))


def test_arguments_are_checked_by_what_a_worker_told(admin: TestClient, app: Tickwork) -> None:
    define(app)
    for args, told in (({"too": "x"}, "did you mean 'to'"), ({}, "needs 'to'"), ({"to": 7}, "is of type string")):
        answer = admin.post(JOBS, json={"task": "mail", "args": args})
        assert answer.status_code == 422
        assert told in answer.json()["detail"]
        jobs = [{"task": "mail", "args": one} for one in ({"to": "x"}, args)]
        answer = admin.post(f"{JOBS}/batch", json={"jobs": jobs})
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/jobs/1")
    assert listed(admin) == []
    made = admin.post(JOBS, json={"task": "mail", "args": {"to": "x"}})
    assert (made.status_code, "tickwork-warning" in made.headers) == (201, False)
    again = f"{JOBS}/{made.json()['id']}/rerun"
    assert admin.post(again, json={"args": {"to": 7}}).status_code == 422
    assert admin.post(again, json={"args": {"to": "y"}}).status_code == 201
    assert admin.put("/api/v1/schedules/s", json={"task": "mail", "args": {"to": 7}, "every": "1h"}).status_code == 422
    hook = {"style": "github", "secret": "A", "task": "mail", "args": {"to": 7}}
    assert admin.put("/api/v1/hooks/h", json=hook).status_code == 422


def test_an_unknown_task_is_taken_with_a_warning(admin: TestClient, app: Tickwork) -> None:
    define(app)
    said = "No worker has reported a task 'mial' yet. Did you mean 'mail'?"
    for path, body in (
        (JOBS, {"task": "mial"}),
        (f"{JOBS}/batch", {"jobs": [{"task": "mial"}, {"task": "mail", "args": {"to": "x"}}]}),
    ):
        answer = admin.post(path, json=body)
        assert answer.status_code == 201
        assert answer.headers["tickwork-warning"].startswith(said)
    answer = admin.put("/api/v1/schedules/s", json={"task": "mial", "every": "1h"})
    assert (answer.status_code, answer.headers["tickwork-warning"][: len(said)]) == (201, said)
    own = admin.post(JOBS, json={"task": "http", "args": {"url": "https://x.example"}})
    assert "tickwork-warning" not in own.headers
