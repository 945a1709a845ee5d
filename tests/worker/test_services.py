"""The loops beside a worker: reclaiming, expiring, pruning, renewing, and what ticks them."""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Self, cast

import pytest

from tests.waiting import eventually
from tickwork import Job, Tickwork
from tickwork.clock import SystemClock
from tickwork.core.ids import WorkerId
from tickwork.core.retention import Retention
from tickwork.errors import StoreUnreachable
from tickwork.services.pruner import Pruner
from tickwork.services.reaper import INTERVAL_S, Expirer, Reaper
from tickwork.services.runner import LAST_BACKOFF_S, Backoff, Runner
from tickwork.store.admin.bulk_operations import Ask
from tickwork.store.base import Store, WorkerRegistration
from tickwork.testing import VirtualClock
from tickwork.worker.lease import Heartbeat, Lease

MINUTE = timedelta(minutes=1)
MOMENT = timedelta(milliseconds=50)
NO_TIME = timedelta(0)


def claimed(app: Tickwork, worker: str, lease: timedelta) -> Job:
    """A job that a worker holds for so long."""
    job = app.enqueue("work")
    app.store.register_worker(
        WorkerRegistration(WorkerId(worker), "host", 1, "0", ("default",), ("work",), 1), [], lease
    )
    (taken,) = app.store.claim_jobs(WorkerId(worker), ["default"], ["work"], 1).jobs
    assert taken.job_id == job.id
    return job


def test_the_reaper_takes_back_what_a_silent_worker_held(app: Tickwork) -> None:
    alive, lost = claimed(app, "alive", timedelta(minutes=1)), claimed(app, "silent", MOMENT)
    reaper = Reaper(app.store, Random(1))
    reaper.tick(0.0)
    assert (alive.state, reaper.reclaimed) == ("running", 0)
    eventually(lambda: app.store.expired_attempts(10))
    assert reaper.tick(0.0) == INTERVAL_S
    assert (alive.state, lost.state, reaper.reclaimed) == ("running", "queued", 1)
    assert [attempt.state for attempt in lost.attempts()] == ["lost"]
    assert (lost.view.failures, lost.view.crashes) == (0, 0)


def test_the_reaper_leaves_its_own_worker_to_itself(app: Tickwork) -> None:
    """After a pause of the whole process its own worker has the first word: it may have results to store."""
    job = claimed(app, "mine", MOMENT)
    eventually(lambda: app.store.expired_attempts(10))
    assert Reaper(app.store, Random(1), lambda: WorkerId("mine")).tick(0.0) == INTERVAL_S
    assert job.state == "running"
    Reaper(app.store, Random(1), lambda: WorkerId("other")).tick(0.0)
    assert job.state == "queued"


def test_a_job_that_must_not_run_twice_is_not_queued_again(app: Tickwork) -> None:
    job = app.named("work").options(on_lost="fail").enqueue()
    app.store.register_worker(WorkerRegistration(WorkerId("w"), "host", 1, "0", ("default",), ("work",), 1), [], MOMENT)
    app.store.claim_jobs(WorkerId("w"), ["default"], ["work"], 1)
    eventually(lambda: app.store.expired_attempts(10))
    Reaper(app.store, Random(1)).tick(0.0)
    assert job.state == "failed"
    assert "went silent" in (job.error or "")


def test_jobs_past_their_deadline_expire(app: Tickwork) -> None:
    late = app.named("work").options(expires=datetime(2020, 1, 1, tzinfo=UTC)).enqueue()
    on_time = app.named("work").options(expires="1h").enqueue()
    Expirer(app.store, VirtualClock()).tick(0.0)
    assert (late.state, on_time.state) == ("expired", "queued")


@pytest.mark.parametrize(("took_s", "waits_s"), [(0.001, 2.0), (0.2, 10.0), (5.0, 30.0)])
def test_a_look_for_deadlines_that_takes_long_is_not_repeated_soon(took_s: float, waits_s: float) -> None:
    clock = VirtualClock()

    class Slow:
        @property
        def dags(self) -> Self:
            return self

        def expire_jobs(self, limit: int) -> int:
            clock.advance(timedelta(seconds=took_s))
            return 0

        def answer_overdue(self, limit: int) -> int:
            return 0

    assert Expirer(cast(Store, Slow()), clock).tick(clock.monotonic()) == pytest.approx(waits_s)


def test_old_jobs_are_pruned_and_others_kept(app: Tickwork) -> None:
    ended, live = app.enqueue("work"), app.enqueue("work")
    ended.cancel()
    Pruner(app.store, Retention(), SystemClock()).tick(0.0)
    assert ended.state == "cancelled"
    eventually(lambda: app.store.now() > ended.view.ended_at)
    Pruner(app.store, Retention(NO_TIME, NO_TIME), SystemClock()).tick(0.0)
    assert app.job(ended.id) is None
    assert live.state == "queued"


def test_a_heartbeat_renews_and_counts_from_when_it_was_sent(app: Tickwork) -> None:
    job, lease = claimed(app, "w", timedelta(seconds=1)), Lease(timedelta(seconds=1))
    heartbeat = Heartbeat(app.store, lease)
    heartbeat.tick(100.0)  # no worker is registered yet
    lease.begin(WorkerId("w"), sent=100.0)
    assert lease.left(100.0) == pytest.approx(0.9), "it stops a margin before the end"
    assert heartbeat.tick(100.5) == pytest.approx(1 / 3)
    assert lease.left(100.5) == pytest.approx(0.9)
    assert not lease.lost
    assert job.state == "running"


def test_a_heartbeat_of_a_worker_that_lost_its_jobs_is_refused(app: Tickwork) -> None:
    lease = Lease(timedelta(seconds=10))
    claimed(app, "w", MOMENT)
    lease.begin(WorkerId("w"), sent=0.0)
    eventually(lambda: app.store.expired_attempts(10))
    Reaper(app.store, Random(1)).tick(0.0)
    Heartbeat(app.store, lease).tick(0.0)
    assert lease.lost


def test_an_older_renewal_that_is_answered_last_does_not_shorten_the_lease() -> None:
    lease = Lease(timedelta(seconds=10))
    lease.begin(WorkerId("w"), 0.0)
    lease.renewed(WorkerId("w"), 5.0, granted=True)
    lease.renewed(WorkerId("w"), 3.0, granted=True)
    assert lease.until == 15.0


def test_a_heartbeat_beats_as_often_as_it_is_told(app: Tickwork) -> None:
    claimed(app, "w", timedelta(seconds=10))
    for lease, interval in ((Lease(MINUTE), 20.0), (Lease(MINUTE, timedelta(seconds=7)), 7.0)):
        lease.begin(WorkerId("w"), sent=0.0)
        assert Heartbeat(app.store, lease).tick(0.0) == interval


def test_a_reaper_looks_as_often_as_it_is_told(app: Tickwork) -> None:
    assert Reaper(app.store, Random(1), interval_s=7.0).tick(0.0) == 7.0


def test_a_heartbeat_tells_what_is_asked_of_its_worker_once(app: Tickwork) -> None:
    told: list[str | None] = []
    lease = Lease(timedelta(seconds=10))
    claimed(app, "w", timedelta(seconds=10))
    lease.begin(WorkerId("w"), sent=0.0)
    heartbeat = Heartbeat(app.store, lease, told.append)
    asks: tuple[Ask | None, ...] = (None, "quiet", "quiet", None, "stop")
    for asked in asks:
        app.store.operations.ask_worker(WorkerId("w"), asked)
        heartbeat.tick(0.0)
    assert told == ["quiet", None, "stop"]


# -- what ticks them


class Service:
    def __init__(self, tick: Callable[[int], float]) -> None:
        self._tick = tick
        self.ticks = 0

    def tick(self, now: float) -> float:
        self.ticks += 1
        return self._tick(self.ticks)


@pytest.fixture
def runner() -> Iterator[Runner]:
    runner = Runner(SystemClock(), Random(1))
    yield runner
    runner.stop()


def test_a_service_is_ticked_again_when_it_asked_for_it(runner: Runner) -> None:
    service = Service(lambda tick: 0.01)
    runner.start(service)
    eventually(lambda: service.ticks >= 5)


def test_a_service_that_fails_goes_on_and_says_so_once(runner: Runner, caplog: pytest.LogCaptureFixture) -> None:
    def tick(number: int) -> float:
        if number in (1, 2):
            raise StoreUnreachable("the database does not answer.")
        return 0.01

    service = Service(tick)
    runner.start(service)
    eventually(lambda: service.ticks >= 5)
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "service: the database does not answer. Trying again until it works.",
        "service works again, after 2 failed tries.",
    ]


def test_a_bug_in_a_service_does_not_end_it(runner: Runner, caplog: pytest.LogCaptureFixture) -> None:
    service = Service(lambda number: 1 // (number - 1) * 0.01)
    runner.start(service)
    eventually(lambda: service.ticks >= 3)
    assert "ZeroDivisionError" in caplog.text


def test_a_runner_stops_its_services_at_once(runner: Runner) -> None:
    service = Service(lambda tick: 1000.0)
    runner.start(service)
    eventually(lambda: service.ticks == 1)
    runner.stop()
    assert not any(thread.name == "tickwork-service" for thread in threading.enumerate())


def test_the_waits_between_failures_grow_up_to_a_cap_and_start_again() -> None:
    backoff = Backoff("service", Random(1))
    waits = [backoff.failed(StoreUnreachable("no.")) for _ in range(100)]
    assert 0.1 <= waits[0] <= 0.2
    assert all(LAST_BACKOFF_S / 2 <= wait <= LAST_BACKOFF_S for wait in waits[10:])
    backoff.worked()
    assert backoff.failed(StoreUnreachable("no.")) <= 0.2
