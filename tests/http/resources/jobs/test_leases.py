"""Work over REST: claims with leases, heartbeats, ends, logs and checkpoints, all fenced by the claim."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.http.work import open_polls
from tests.store.builders import claim_one
from tests.waiting import eventually
from tests.worker.job_helpers import output_of, supersede
from tickwork import Job, Tickwork, at, concurrency, every
from tickwork.clock import SystemClock
from tickwork.config import load_settings
from tickwork.core.access.scopes import Scope
from tickwork.core.ids import IdMaker
from tickwork.core.limits.limits import Concurrency
from tickwork.http.server_context import ServerContext
from tickwork.security.credentials import create_key
from tickwork.services.reaper import Reaper
from tickwork.services.scheduler import Scheduler

JSON = dict[str, Any]


def enqueue(app: Tickwork, task: str = "resize", queue: str = "images", /, **options: Any) -> Job:
    args = options.pop("args", {"width": 320})
    return app.named(task).options(queue=queue, **options).enqueue(**args)


def lease(client: TestClient, **asked: Any) -> list[JSON]:
    answer = client.post("/api/v1/leases", json={"queues": ["images"], "worker": "bash-1", **asked})
    assert answer.status_code == 200, answer.text
    return answer.json()["jobs"]  # type: ignore[no-any-return]


def lease_one(client: TestClient, **asked: Any) -> JSON:
    (job,) = lease(client, **asked)
    return job


def say(client: TestClient, job: JSON, verb: str, /, **said: Any) -> JSON:
    answer = client.post(f"/api/v1/jobs/{job['id']}/{verb}", json={"attempt": job["attempt"], **said})
    assert answer.status_code in (200, 204), answer.text
    return answer.json() if answer.content else {}


def refused(client: TestClient, job: JSON, verb: str, /, **said: Any) -> tuple[int, str]:
    answer = client.post(f"/api/v1/jobs/{job['id']}/{verb}", json={"attempt": job["attempt"], **said})
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.status_code, answer.json()["code"]


VERBS: list[tuple[str, JSON]] = [
    ("heartbeat", {}),
    ("complete", {"result": 1}),
    ("fail", {"error": "x"}),
    ("release", {}),
    ("log", {"text": "x"}),
    ("checkpoint", {"state": 1}),
]


class TestWhoseAttempt:
    """A call names the claim of its lease; one that does not must come from the caller that leased the job."""

    @pytest.mark.parametrize(("verb", "said"), VERBS)
    def test_another_claim_is_refused_and_the_right_one_accepted(
        self, admin: TestClient, app: Tickwork, verb: str, said: JSON
    ) -> None:
        job = enqueue(app)
        leased = lease_one(admin)
        for claim in ("0" * 16, "", "no claim at all"):
            assert refused(admin, leased, verb, claim=claim, **said) == (409, "lease-lost")
        assert (job.state, job.logs(), job.view.progress) == ("running", [], None)
        say(admin, leased, verb, claim=leased["claim"], **said)

    @pytest.mark.parametrize(("verb", "said"), VERBS)
    def test_another_key_must_send_the_claim(self, admin: TestClient, app: Tickwork, verb: str, said: JSON) -> None:
        job = enqueue(app)
        leased = lease_one(admin)
        token, _ = create_key(app.store, "other", [Scope.WORK], None, "test")
        path, headers = f"/api/v1/jobs/{job.id}/{verb}", {"Authorization": f"Bearer {token}"}
        answer = admin.post(path, json={"attempt": 1, **said}, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (409, "lease-lost")
        assert "was not leased by key:other. Send the `claim`" in answer.json()["detail"]
        assert job.state == "running"
        answer = admin.post(path, json={"attempt": 1, "claim": leased["claim"], **said}, headers=headers)
        assert answer.status_code in (200, 204)

    def test_a_claim_that_the_store_has_lost_ends_nothing(self, admin: TestClient, app: Tickwork) -> None:
        """The number of the attempt is the same, as after a restored backup."""
        job = enqueue(app)
        first = lease_one(admin)
        say(admin, first, "release")
        with app.connection() as tx:
            table = "tickwork_queue" if app.url.startswith("sqlite") else "tickwork.queue"
            tx.execute(f"UPDATE {table} SET attempt = 0")
            tx.execute(f"DELETE FROM {table.replace('queue', 'attempts')}")
        second = lease_one(admin)
        assert (first["attempt"], second["attempt"]) == (1, 1)
        assert refused(admin, first, "complete", claim=first["claim"], result=1) == (409, "lease-lost")
        say(admin, second, "complete", claim=second["claim"], result=2)
        assert job.result() == 2


class TestLostAgainAndAgain:
    """A job whose leases ran out three times in a row is granted to a worker that holds no other lease."""

    def suspect(self, admin: TestClient, app: Tickwork) -> Job:
        job = enqueue(app)
        for _ in range(3):
            lease_one(admin, worker="victim", lease="1s")
            self.reclaim(app)
        assert job.view.losses == 3
        return job

    def reclaim(self, app: Tickwork) -> None:
        """End the leases of all remote workers, and reap."""
        table = "tickwork_workers" if app.url.startswith("sqlite") else "tickwork.workers"
        past = "lease_until - 60000000" if app.url.startswith("sqlite") else "lease_until - interval '1 minute'"
        with app.connection() as tx:
            tx.execute(f"UPDATE {table} SET lease_until = {past} WHERE state = 'remote'")
        Reaper(app.store, Random(1)).tick(0.0)

    def test_the_fourth_loss_ends_it(self, admin: TestClient, app: Tickwork) -> None:
        job = self.suspect(admin, app)
        assert lease_one(admin)["id"] == job.id
        self.reclaim(app)
        assert job.state == "failed"
        assert "died 4 times in a row" in str(job.error)
        shown = admin.get(f"/api/v1/jobs/{job.id}").json()
        assert (shown["losses"], shown["options"]["max_lost"]) == (4, 3)

    def test_a_worker_that_holds_another_lease_does_not_get_it(self, admin: TestClient, app: Tickwork) -> None:
        other = enqueue(app)
        assert lease_one(admin, worker="busy", lease="1h")["id"] == other.id
        table = "tickwork_workers" if app.url.startswith("sqlite") else "tickwork.workers"
        with app.connection() as tx:
            tx.execute(f"UPDATE {table} SET state = 'remote-kept' WHERE state = 'remote'")
        job = self.suspect(admin, app)
        with app.connection() as tx:
            tx.execute(f"UPDATE {table} SET state = 'remote' WHERE state = 'remote-kept'")
        assert lease(admin, worker="busy", max=5) == []
        assert (job.state, job.view.losses) == ("queued", 3)
        assert "runs alone in its worker" in job.why()
        job.reschedule(delay="0s")
        assert lease_one(admin, worker="free", max=5)["id"] == job.id

    def test_it_comes_without_company(self, admin: TestClient, app: Tickwork) -> None:
        job = self.suspect(admin, app)
        others = {enqueue(app, priority="low").id for _ in range(2)}
        assert [one["id"] for one in lease(admin, worker="free", max=3)] == [job.id]
        assert {one["id"] for one in lease(admin, worker="other", max=3)} == others


class TestClaiming:
    def test_a_job_comes_with_all_that_it_takes_to_do_it(self, admin: TestClient, app: Tickwork) -> None:
        job = enqueue(app, timeout="1m")
        leased = lease_one(admin, lease="10s")
        until = datetime.fromisoformat(leased.pop("lease_until"))
        assert timedelta(seconds=5) < until - app.store.now() <= timedelta(seconds=10)
        run_at = datetime.fromisoformat(leased.pop("run_at"))
        assert run_at == job.run_at
        assert len(leased.pop("claim")) == 16
        assert leased == {
            "id": job.id,
            "task": "resize",
            "args": {"width": 320},
            "attempt": 1,
            "queue": "images",
            "priority": 5,
            "timeout": 60.0,
            "state": None,
            "run_id": None,
            "map_index": None,
            "map_count": None,
            "step": None,
            "schedule": None,
            "scheduled_for": None,
            "is_catchup": False,
            "interval": None,
        }
        assert job.state == "running"
        assert job.why().startswith("it is running: attempt 1 on bash-1")

    def test_an_instance_of_a_mapped_step_comes_with_its_place(self, admin: TestClient, app: Tickwork) -> None:
        @app.task(queue="images")
        def resize(width: int) -> None: ...

        @app.dag
        def gallery() -> None:
            resize.map([320, 640])

        gallery.enqueue()
        queues = ["images", "default"]  # its run stands in the second one
        found = lease(admin, queues=queues, max=5, wait="5s")
        found += lease(admin, queues=queues, max=5, wait="5s") if len(found) < 2 else []
        assert {(one["args"]["width"], one["map_index"], one["map_count"]) for one in found} == {
            (320, 0, 2),
            (640, 1, 2),
        }

    def test_without_work_and_without_a_wait_the_list_is_empty_at_once(self, admin: TestClient) -> None:
        assert lease(admin) == []

    def test_without_work_the_list_is_empty_when_the_wait_is_over(self, admin: TestClient) -> None:
        began = time.monotonic()
        assert lease(admin, wait="300ms") == []
        assert time.monotonic() - began >= 0.3

    def test_one_who_waits_gets_a_job_that_comes_in_meanwhile(
        self, admin: TestClient, app: Tickwork, parts: ServerContext
    ) -> None:
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(lease_one, admin, wait="20s")
            eventually(lambda: open_polls(parts.long_polls) == 1)
            assert not waiting.done()
            job = enqueue(app)
            assert waiting.result(timeout=10)["id"] == job.id

    def test_one_who_waits_gets_a_job_when_it_is_due(self, admin: TestClient, app: Tickwork) -> None:
        job = enqueue(app, delay="400ms")
        assert lease_one(admin, wait="10s")["id"] == job.id
        assert app.store.now() >= job.run_at

    def test_many_who_wait_for_the_same_get_a_job_each_and_the_first_is_first(
        self, admin: TestClient, app: Tickwork, parts: ServerContext
    ) -> None:
        with ThreadPoolExecutor(5) as pool:
            waiting = []
            for number in range(1, 6):
                waiting.append(pool.submit(lease_one, admin, wait="20s", worker=f"w{number}"))
                eventually(lambda count=number: open_polls(parts.long_polls) == count)
            jobs = [enqueue(app) for _ in range(3)]
            for one in waiting[:3]:
                one.result(timeout=10)
            assert [one.done() for one in waiting] == [True] * 3 + [False] * 2
            jobs += [enqueue(app) for _ in range(2)]
            assert {one.result(timeout=10)["id"] for one in waiting} == {job.id for job in jobs}

    def test_no_more_come_than_were_asked_for(self, admin: TestClient, app: Tickwork) -> None:
        jobs = [enqueue(app) for _ in range(5)]
        first = lease(admin, max=3)
        assert [job["id"] for job in first] == [job.id for job in jobs[:3]]
        assert len({app.job(job["id"]).view.worker for job in first}) == 3  # type: ignore[union-attr]
        assert len(lease(admin, max=3)) == 2

    def test_only_the_tasks_and_queues_that_were_asked_for_come(self, admin: TestClient, app: Tickwork) -> None:
        enqueue(app, "crop")
        enqueue(app, "resize", "other")
        wanted = enqueue(app)
        assert lease_one(admin, tasks=["resize", "turn"], max=10)["id"] == wanted.id

    def test_without_tasks_any_comes_but_those_of_tickwork_itself(self, admin: TestClient, app: Tickwork) -> None:
        enqueue(app, "shell", args={"command": "true"})
        enqueue(app, "crop", priority="low")
        enqueue(app, "resize")
        assert [job["task"] for job in lease(admin, max=10)] == ["resize", "crop"]
        assert [job["task"] for job in lease(admin, tasks=["shell"])] == ["shell"]

    def test_jobs_under_a_limit_come_one_after_the_other(self, admin: TestClient, app: Tickwork) -> None:
        limited = app.task(name="limited", queue="images", limits=[concurrency(1, name="one")])(_nothing)
        app.store.limits.declare_limits({"one": Concurrency(capacity=1)})
        first, second = limited.enqueue(), limited.enqueue()
        leased = lease_one(admin, max=10)
        assert leased["id"] == first.id
        assert lease(admin, max=10) == []
        say(admin, leased, "complete")
        assert lease_one(admin, wait="10s")["id"] == second.id

    def test_needs_are_met_by_what_was_offered(self, admin: TestClient, app: Tickwork) -> None:
        enqueue(app, needs={"gpu": True, "mem": "8GB"})
        assert lease(admin) == []
        assert lease(admin, labels=["gpu"], resources={"mem": "4GB"}) == []
        assert len(lease(admin, labels=["gpu"], resources={"mem": "16GB"})) == 1

    @pytest.mark.parametrize(
        "asked",
        [
            {"queues": []},
            {"queues": ["a:b"]},
            {"queues": [":one\x1e\x1fimages:|"]},
            {"worker": ""},
            {"worker": "a\nb"},
            {"tasks": ["@dag"]},
            {"wait": "2h"},
            {"wait": -1},
            {"wait": 1e300},
            {"wait": "soon"},
            {"lease": 0},
            {"lease": "2d"},
            {"max": 0},
            {"max": 10**20},
            {"labels": ["a b"]},
            {"resources": {"mem": "lots"}},
            {"queue": "images"},
        ],
    )
    def test_what_makes_no_sense_is_refused(self, admin: TestClient, app: Tickwork, asked: JSON) -> None:
        job = enqueue(app)
        answer = admin.post("/api/v1/leases", json={"queues": ["images"], "worker": "w", **asked})
        assert answer.status_code == 422, answer.text
        assert job.state == "queued"

    def test_one_who_hung_up_gets_nothing_and_no_claim_waits_for_it(
        self, admin: TestClient, app: Tickwork, parts: ServerContext
    ) -> None:
        """The claim is made while they hang up: what it brought is given back, uncharged."""
        # The claimer of long polls is not public; the claim must be interrupted.
        claimer = parts.long_polls._claimer
        claim, reached, go_on = claimer.claim, threading.Event(), threading.Event()

        def slowly(*asked: Any) -> Any:
            found = claim(*asked)
            reached.set()
            go_on.wait(10)
            return found

        job = enqueue(app)
        claimer.claim = slowly  # type: ignore[method-assign]
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(_hang_up_when, admin, reached)
            assert reached.wait(10)
            assert job.state == "running"
            waiting.result(timeout=10)
            go_on.set()
            eventually(lambda: job.state == "queued", 10)
        claimer.claim = claim  # type: ignore[method-assign]
        assert [one.state.value for one in job.attempts()] == ["released"]
        assert job.view.failures == 0
        assert lease_one(admin)["attempt"] == 2

    def test_a_server_that_stops_answers_all_that_wait(self, admin: TestClient, parts: ServerContext) -> None:
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(lease, admin, wait="30s")
            eventually(lambda: open_polls(parts.long_polls), 5)
            assert admin.portal is not None
            admin.portal.call(parts.long_polls.stop)
            assert waiting.result(timeout=5) == []
        assert lease(admin, wait="30s") == []


class TestOccurrence:
    """Jobs of a schedule, and steps of its runs, come with their occurrence, as `current_job()` has it."""

    NOON, HOUR = datetime(2026, 11, 16, 12, tzinfo=UTC), timedelta(hours=1)

    @pytest.fixture(params=["task", "limited task", "dag", "dag of limited steps"])
    def target(self, app: Tickwork, request: pytest.FixtureRequest) -> str:
        limits = [concurrency(5, name="disk")] if "limited" in request.param else []

        @app.task(queue="images", limits=limits)
        def resize(width: int = 320) -> None: ...

        @app.dag
        def gallery() -> None:
            resize.map([320, 640])

        return "gallery" if "dag" in request.param else "resize"

    def fire(self, app: Tickwork) -> None:
        """Run a scheduler until it has started a job."""
        ids = IdMaker(lambda: time.time_ns() // 1_000_000, Random(1).getrandbits)
        scheduler = Scheduler(app.store, ids, SystemClock())
        eventually(lambda: (scheduler.tick(0.0), list(app.jobs()) + list(app.runs()))[1])

    def known(self, admin: TestClient, target: str) -> tuple[Any, ...]:
        """Lease a job; return what its worker knows of the occurrence."""
        queues = ["images", "default"]  # runs stand in the second one
        found = lease(admin, queues=queues, wait="5s") or lease(admin, queues=queues, wait="5s")
        assert (found[0]["step"] is not None) == (target == "gallery")
        interval = found[0]["interval"]
        period = None if interval is None else (self.instant(interval["from"]), self.instant(interval["to"]))
        return found[0]["schedule"], self.instant(found[0]["scheduled_for"]), found[0]["is_catchup"], period

    def instant(self, text: str) -> datetime:
        return datetime.fromisoformat(text)

    def test_that_was_backfilled(self, admin: TestClient, app: Tickwork, target: str) -> None:
        app.schedule("hourly", target, every("1h"), paused=True).backfilling([self.NOON], 1).enqueue()
        assert self.known(admin, target) == ("hourly", self.NOON, True, (self.NOON - self.HOUR, self.NOON))

    def test_that_was_missed(self, admin: TestClient, app: Tickwork, target: str) -> None:
        now = app.store.now()
        app.schedule("once", target, at(now - self.HOUR), start=now - 2 * self.HOUR)
        self.fire(app)
        assert self.known(admin, target) == ("once", now - self.HOUR, True, None)

    def test_that_was_started_in_time(self, admin: TestClient, app: Tickwork, target: str) -> None:
        schedule = app.schedule("often", target, every("500ms"), overlap="skip")
        self.fire(app)
        (fire,) = [one for one in schedule.fires() if one.job_id is not None]
        due = fire.due_at
        assert self.known(admin, target) == ("often", due, fire.is_catchup, (due - timedelta(milliseconds=500), due))


class TestLease:
    @pytest.mark.parametrize(("setting", "length_s"), [("30s", 30), ("2m", 120), ("3h", 3600)])
    def test_one_without_a_length_is_as_long_as_the_setting_says_up_to_an_hour(
        self, admin: TestClient, app: Tickwork, setting: str, length_s: int
    ) -> None:
        app.settings = load_settings({"url": app.settings.url}, {"TICKWORK_LEASE": setting})
        enqueue(app)
        job = lease_one(admin)
        renewed = say(admin, job, "heartbeat")
        for answer in (job, renewed):
            left_s = (datetime.fromisoformat(answer["lease_until"]) - app.store.now()).total_seconds()
            assert length_s - 10 < left_s <= length_s

    def test_one_with_a_length_does_not_follow_the_setting(self, admin: TestClient, app: Tickwork) -> None:
        app.settings = load_settings({"url": app.settings.url}, {"TICKWORK_LEASE": "2m"})
        enqueue(app)
        job = lease_one(admin, lease="1m")
        renewed = say(admin, job, "heartbeat", lease=60)
        for answer in (job, renewed):
            left_s = (datetime.fromisoformat(answer["lease_until"]) - app.store.now()).total_seconds()
            assert 50 < left_s <= 60

    def test_a_heartbeat_extends_it(self, admin: TestClient, app: Tickwork) -> None:
        enqueue(app)
        job = lease_one(admin, lease="2s")
        renewed = say(admin, job, "heartbeat", lease="1m", progress=0.5, note="half")
        assert not renewed["cancel"]
        left = datetime.fromisoformat(renewed["lease_until"]) - app.store.now()
        assert timedelta(seconds=50) < left <= timedelta(minutes=1)
        view = app.job(job["id"]).view  # type: ignore[union-attr]
        assert (view.progress, view.progress_note) == (0.5, "half")

    def test_one_that_runs_out_is_taken_back_and_the_old_attempt_refused(
        self, admin: TestClient, app: Tickwork
    ) -> None:
        job = enqueue(app)
        stale = lease_one(admin, lease="1s")
        reaper = Reaper(app.store, Random(1))
        eventually(lambda: (reaper.tick(0.0), reaper.reclaimed)[1], 10)
        current = lease_one(admin)
        assert (current["id"], current["attempt"]) == (job.id, 2)
        for verb, said in VERBS:
            assert refused(admin, stale, verb, **said) == (409, "lease-lost")
        assert job.view.attempt == 2
        assert job.state == "running"
        assert job.logs() == []
        say(admin, current, "complete", result=7)
        assert job.result() == 7

    def test_a_heartbeat_tells_that_the_job_should_stop(self, admin: TestClient, app: Tickwork) -> None:
        job = enqueue(app)
        leased = lease_one(admin)
        assert job.cancel()
        assert say(admin, leased, "heartbeat")["cancel"]
        assert say(admin, leased, "complete", result=1)["state"] == "cancelled"
        assert job.state == "cancelled"

    def test_an_attempt_past_its_timeout_ends_at_a_heartbeat(self, admin: TestClient, app: Tickwork) -> None:
        job = enqueue(app, timeout="300ms", retries=0)
        leased = lease_one(admin)
        say(admin, leased, "heartbeat")
        time.sleep(0.4)
        assert refused(admin, leased, "heartbeat") == (409, "lease-lost")
        assert job.state == "failed"
        assert "its timeout of 0.3 s" in (job.error or "")
        assert [one.state.value for one in job.attempts()] == ["timed_out"]

    @pytest.mark.parametrize(("verb", "said"), VERBS)
    def test_an_attempt_that_a_worker_makes_is_out_of_reach(
        self, admin: TestClient, app: Tickwork, verb: str, said: JSON
    ) -> None:
        job = enqueue(app, "theirs", "default")
        claim_one(app.store, tasks=["theirs"])
        assert refused(admin, {"id": job.id, "attempt": 1}, verb, **said) == (409, "lease-lost")
        assert job.state == "running"

    @pytest.mark.parametrize(("verb", "said"), VERBS)
    @pytest.mark.parametrize("id", ["nothing", "019a8f3e-1c2d-7abc-8def-0123456789ab"])
    def test_a_job_that_is_not_there_is_not_found(self, admin: TestClient, id: str, verb: str, said: JSON) -> None:
        assert refused(admin, {"id": id, "attempt": 1}, verb, **said) == (404, "not-found")

    @pytest.mark.parametrize(("verb", "said"), VERBS)
    @pytest.mark.parametrize("attempt", [0, -1, 2**31, 10**30, "1", 1.5, None])
    def test_what_is_no_attempt_is_refused(self, admin: TestClient, attempt: Any, verb: str, said: JSON) -> None:
        id = "019a8f3e-1c2d-7abc-8def-0123456789ab"
        assert refused(admin, {"id": id, "attempt": attempt}, verb, **said) == (422, "invalid")


class TestEnds:
    def test_a_completed_job_has_its_result(self, admin: TestClient, app: Tickwork) -> None:
        job = enqueue(app)
        leased = lease_one(admin)
        assert say(admin, leased, "complete", result={"bytes": 1234}) == {"id": job.id, "state": "succeeded"}
        assert job.result() == {"bytes": 1234}
        assert job.attempts()[0].worker is not None
        assert job.attempts()[0].worker.startswith("bash-1/")

    def test_complete_again_with_an_equal_result_is_answered_alike(self, admin: TestClient, app: Tickwork) -> None:
        enqueue(app)
        leased = lease_one(admin)
        first = say(admin, leased, "complete", result={"a": 1, "b": [1.5]})
        assert say(admin, leased, "complete", result={"a": 1, "b": [1.5]}) == first
        assert refused(admin, leased, "complete", result={"a": 2}) == (409, "lease-lost")
        assert refused(admin, leased, "fail", error="x") == (409, "lease-lost")

    @pytest.mark.parametrize("verb", ["complete", "fail"])
    def test_the_end_of_a_cancelled_attempt_is_answered_alike_again(
        self, admin: TestClient, app: Tickwork, verb: str
    ) -> None:
        job = enqueue(app)
        leased = lease_one(admin)
        job.cancel()
        said = {"result": 1} if verb == "complete" else {"error": "x"}
        answers = [say(admin, leased, verb, **said) for _ in range(2)]
        assert [one["state"] for one in answers] == ["cancelled", "cancelled"]
        assert refused(admin, {**leased, "attempt": 2}, verb, **said) == (409, "lease-lost")

    def test_a_lease_that_ran_out_and_was_not_taken_back_goes_on(self, admin: TestClient, app: Tickwork) -> None:
        enqueue(app)
        stale = lease_one(admin, lease="1s")
        ran_out = datetime.fromisoformat(stale["lease_until"])
        eventually(lambda: app.store.now() > ran_out, 10)
        assert datetime.fromisoformat(say(admin, stale, "heartbeat")["lease_until"]) > ran_out
        assert say(admin, stale, "complete", result=1)["state"] == "succeeded"

    def test_a_failed_attempt_is_tried_again_as_the_policy_says(self, admin: TestClient, app: Tickwork) -> None:
        job = enqueue(app, retries=1, backoff="1ms")
        first = lease_one(admin)
        assert say(admin, first, "fail", error="no disk")["state"] == "queued"
        assert say(admin, first, "fail", error="no disk")["state"] in ("queued", "running")
        second = lease_one(admin, wait="10s")
        assert second["attempt"] == 2
        assert say(admin, second, "fail", error="no disk, again")["state"] == "failed"
        assert job.error == "no disk, again"
        assert [one.error for one in job.attempts()] == ["no disk", "no disk, again"]

    def test_one_that_no_retry_can_help_has_failed_for_good(self, admin: TestClient, app: Tickwork) -> None:
        job = enqueue(app, retries=10)
        assert say(admin, lease_one(admin), "fail", error="no such image", retry=False)["state"] == "failed"
        assert job.view.failures == 1

    def test_a_failed_attempt_may_say_when_to_try_again(self, admin: TestClient, app: Tickwork) -> None:
        job = enqueue(app, retries=3)
        say(admin, lease_one(admin), "fail", error="busy", after="1h")
        assert timedelta(minutes=59) < job.run_at - app.store.now() <= timedelta(hours=1)

    def test_one_that_is_given_back_is_not_charged(self, admin: TestClient, app: Tickwork) -> None:
        job = enqueue(app, retries=0)
        say(admin, lease_one(admin), "release")
        again = lease_one(admin)
        assert (again["id"], again["attempt"]) == (job.id, 2)
        assert job.view.failures == 0

    def test_an_attempt_that_ended_leaves_no_lease_behind(self, admin: TestClient, app: Tickwork) -> None:
        jobs = [enqueue(app) for _ in range(60)]
        for leased in lease(admin, max=100):
            say(admin, leased, "complete")
        assert all(job.state == "succeeded" for job in jobs)
        assert app.store.reads.workers() == []

    @pytest.mark.parametrize(
        "result", ['"a\\u0000b"', "[" * 70 + "]" * 70, "9223372036854775808", f'"{"x" * 2**20}"'], ids=range(4)
    )
    def test_a_result_that_no_store_may_hold_is_refused_and_the_job_goes_on(
        self, admin: TestClient, app: Tickwork, result: str
    ) -> None:
        job = enqueue(app)
        leased = lease_one(admin)
        body = f'{{"attempt": 1, "result": {result}}}'
        kind = {"content-type": "application/json"}
        answer = admin.post(f"/api/v1/jobs/{leased['id']}/complete", content=body.encode(), headers=kind)
        assert answer.status_code == 422, answer.text
        assert job.state == "running"

    def test_an_end_that_the_reaper_was_faster_than_is_refused(self, admin: TestClient, app: Tickwork) -> None:
        job = enqueue(app)
        leased = lease_one(admin)
        supersede(app, job)
        assert refused(admin, leased, "complete", result=1) == (409, "lease-lost")
        assert job.state == "queued"


class TestNotes:
    def test_lines_are_there_before_the_end_is(self, admin: TestClient, app: Tickwork) -> None:
        job = enqueue(app)
        leased = lease_one(admin)
        assert say(admin, leased, "log", text="one\n") == {"seq": 0}
        assert say(admin, leased, "log", text="two\x00\n") == {"seq": 1}
        assert say(admin, leased, "log", text="two again\n", seq=1) == {"seq": 1}
        say(admin, leased, "complete")
        assert output_of(job) == "one\ntwo\ufffd\n"
        assert refused(admin, leased, "log", text="late") == (409, "lease-lost")

    def test_a_later_attempt_finds_what_an_earlier_one_saved(self, admin: TestClient, app: Tickwork) -> None:
        enqueue(app)
        first = lease_one(admin)
        assert first["state"] is None
        say(admin, first, "checkpoint", state={"rows": 100})
        say(admin, first, "release")
        assert lease_one(admin)["state"] == {"rows": 100}

    def test_a_checkpoint_that_no_store_may_hold_is_refused(self, admin: TestClient, app: Tickwork) -> None:
        enqueue(app)
        assert refused(admin, lease_one(admin), "checkpoint", state="x" * 2**20) == (422, "invalid")


def _nothing() -> None: ...


def _hang_up_when(client: TestClient, reached: threading.Event) -> None:
    """Ask, and hang up once the claim is under way: what a client does whose connection breaks."""

    async def ask() -> None:
        body = [{"type": "http.request", "body": b'{"queues": ["images"], "worker": "w", "wait": "30s"}'}]

        async def receive() -> JSON:
            if body:
                return {**body.pop(), "more_body": False}
            await asyncio.to_thread(reached.wait, 10)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None: ...

        headers = [(b"content-type", b"application/json"), (b"authorization", client.headers["authorization"].encode())]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "path": "/api/v1/leases",
            "raw_path": b"/api/v1/leases",
            "query_string": b"",
            "root_path": "",
            "scheme": "http",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
        }
        await client.app(scope, receive, send)

    assert client.portal is not None
    client.portal.call(ask)
