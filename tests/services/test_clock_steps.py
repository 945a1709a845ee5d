"""A database whose clock steps forward or back: work goes on within two minutes, and no instant starts work twice.

SQLite's clock never goes back, so there the same tests say that nothing changes.
"""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from tests.services.builders import a_notifier, a_scheduler, fires, messages, put
from tests.store.builders import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    a_job,
    again,
    claim,
    claim_one,
    ended,
    failed,
    insert_one,
    register,
    succeeded,
)
from tests.store.claim.limits_helpers import limited
from tests.store.conftest import OpensStore
from tests.store.hammer import at_once
from tickwork.core.job import Policy
from tickwork.core.limits.breaker import breaker
from tickwork.core.limits.job_limits import LimitKey
from tickwork.core.limits.limits import rate
from tickwork.core.notify.channels import new_channel
from tickwork.core.notify.rule import new_notification
from tickwork.core.recurrence.cron import cron
from tickwork.core.recurrence.interval import after, at, every
from tickwork.services.scheduler import Scheduler
from tickwork.store.base import Store
from tickwork.testing import VirtualClock

BOUND = 2 * MINUTE
JUMP = 37 * SECOND  # how long the clock was wrong


@pytest.fixture
def scheduler(store: Store, clock: VirtualClock) -> Scheduler:
    return a_scheduler(store, clock)


def go_on(scheduler: Scheduler, clock: VirtualClock, duration: timedelta) -> None:
    """Let time go by, with the scheduler looking every ten seconds."""
    until = clock.monotonic() + duration.total_seconds()
    while clock.monotonic() < until:
        while not scheduler.tick(clock.monotonic()):
            pass
        clock.advance(10 * SECOND)


def run_count(store: Store) -> int:
    return store.schedules.get_schedules(["s"])["s"].standing.run_count


def step_and_return(scheduler: Scheduler, clock: VirtualClock, by: timedelta, during: timedelta = JUMP) -> None:
    go_on(scheduler, clock, 30 * SECOND)
    clock.step(by)
    go_on(scheduler, clock, during)
    clock.step(-by)


def started(store: Store) -> Counter[Any]:
    return Counter(fire.due_at for fire in fires(store) if fire.job_id is not None)


@pytest.mark.parametrize("by", [10 * SECOND, HOUR, 400 * DAY, -3 * DAY], ids=str)
def test_a_schedule_fires_again_within_two_minutes(
    store: Store, scheduler: Scheduler, clock: VirtualClock, by: timedelta
) -> None:
    put(store, every("10s"), overlap="allow", catchup="all", catchup_limit=5)
    step_and_return(scheduler, clock, by)
    runs = run_count(store)
    go_on(scheduler, clock, BOUND)
    assert run_count(store) - runs >= 6
    assert max(started(store).values()) == 1


@pytest.mark.parametrize(
    "rule", [cron("* * * * *"), cron("* * * * *", tz="Europe/Berlin"), after("5s")], ids=["cron", "zone", "after"]
)
def test_every_kind_of_rule_goes_on(store: Store, scheduler: Scheduler, clock: VirtualClock, rule: Any) -> None:
    put(store, rule, overlap="skip")
    for _ in range(2):
        step_and_return(scheduler, clock, HOUR)
    before = run_count(store)
    for _ in range(6):
        store.finish_attempts([succeeded(claimed) for claimed in claim(store)])
        go_on(scheduler, clock, BOUND / 6)
    assert run_count(store) > before


def test_an_instant_that_started_work_in_the_jump_does_not_start_it_again(
    store: Store, scheduler: Scheduler, clock: VirtualClock
) -> None:
    put(store, cron("*/2 * * * *"), overlap="allow", catchup="all", catchup_limit=3)
    step_and_return(scheduler, clock, 7 * MINUTE)
    in_jump = started(store)
    assert in_jump
    go_on(scheduler, clock, 9 * MINUTE)
    assert max(started(store).values()) == 1
    assert started(store).keys() >= in_jump.keys()
    assert len(started(store)) == run_count(store)


def test_an_instant_that_was_only_passed_over_in_the_jump_fires_in_time(
    store: Store, scheduler: Scheduler, clock: VirtualClock, kind: str
) -> None:
    if kind.startswith("sqlite"):
        pytest.skip("its clock does not go back: the instant does not come again")
    began = clock.now()
    put(store, at(began + 4 * MINUTE), catchup="none")
    step_and_return(scheduler, clock, 7 * MINUTE)
    assert not started(store)
    go_on(scheduler, clock, 5 * MINUTE)
    assert list(started(store)) == [began + 4 * MINUTE]


def test_a_schedule_that_ended_in_the_jump_goes_on(
    store: Store, scheduler: Scheduler, clock: VirtualClock, kind: str
) -> None:
    if kind.startswith("sqlite"):
        pytest.skip("its clock does not go back: the schedule has ended")
    began = clock.now()
    put(store, every("10s"), end=began + 5 * MINUTE, overlap="allow")
    step_and_return(scheduler, clock, 7 * MINUTE)
    go_on(scheduler, clock, 3 * MINUTE)
    assert started(store)[began + 3 * MINUTE] == 1


def test_the_missed_instants_after_a_jump_are_recorded_once(
    store: Store, scheduler: Scheduler, clock: VirtualClock
) -> None:
    """The first of those that are passed over may have started work while the clock was ahead."""
    put(store, every("10s"), overlap="allow", catchup="latest")
    step_and_return(scheduler, clock, 60 * SECOND)
    go_on(scheduler, clock, 20 * SECOND)
    clock.advance(10 * MINUTE)  # no service ticks
    runs = run_count(store)
    go_on(scheduler, clock, MINUTE)
    assert run_count(store) > runs + 3
    assert max(started(store).values()) == 1


def test_of_several_processes_one_repairs_a_step(open_store: OpensStore, clock: VirtualClock, kind: str) -> None:
    stores = [open_store() for _ in range(4)]
    stores[0].check_clock()
    clock.step(-HOUR)
    found = at_once(*(store.check_clock for store in stores))
    assert sorted(back is not None for back in found) == [False] * 3 + [not kind.startswith("sqlite")]


class TestJobs:
    """Other objects with an instant by the store's clock."""

    def jump(self, scheduler: Scheduler, clock: VirtualClock) -> None:
        scheduler.tick(clock.monotonic())
        clock.step(HOUR)
        clock.advance(SECOND)
        scheduler.tick(clock.monotonic())

    def back(self, scheduler: Scheduler, clock: VirtualClock) -> None:
        clock.advance(SECOND)
        clock.step(-HOUR)
        clock.advance(SECOND)
        scheduler.tick(clock.monotonic())
        clock.advance(BOUND)

    def test_a_job_that_was_due_is_due(self, store: Store, scheduler: Scheduler, clock: VirtualClock) -> None:
        self.jump(scheduler, clock)
        job_id = insert_one(store)
        self.back(scheduler, clock)
        assert claim_one(store).job_id == job_id

    def test_a_retry_does_not_wait_for_the_jump(self, store: Store, scheduler: Scheduler, clock: VirtualClock) -> None:
        self.jump(scheduler, clock)
        job_id = insert_one(store)
        store.finish_attempts([again(claim_one(store), delay=MINUTE)])
        self.back(scheduler, clock)
        assert claim_one(store).job_id == job_id

    def test_a_job_for_a_later_instant_keeps_it(self, store: Store, scheduler: Scheduler, clock: VirtualClock) -> None:
        began = clock.now()
        early = insert_one(store, at=began + 90 * MINUTE)
        self.jump(scheduler, clock)
        late = insert_one(store, at=began + 95 * MINUTE)
        self.back(scheduler, clock)
        assert claim(store) == []
        clock.advance(95 * MINUTE)
        assert {one.job_id for one in claim(store)} == {early, late}

    def test_the_jobs_of_a_dead_worker_come_back(self, store: Store, scheduler: Scheduler, clock: VirtualClock) -> None:
        self.jump(scheduler, clock)
        insert_one(store)
        claimed = claim_one(store, lease=30 * SECOND)
        self.back(scheduler, clock)
        assert [one.job_id for one in store.expired_attempts(10)] == [claimed.job_id]

    def test_a_worker_that_lives_keeps_its_lease(self, store: Store, scheduler: Scheduler, clock: VirtualClock) -> None:
        self.jump(scheduler, clock)
        worker = register(store, lease=30 * SECOND)
        insert_one(store)
        claim_one(store, worker)
        clock.step(-HOUR)
        scheduler.tick(clock.monotonic())
        clock.advance(29 * SECOND)
        assert store.expired_attempts(10) == []

    def test_a_key_is_free_in_time(self, store: Store, scheduler: Scheduler, clock: VirtualClock) -> None:
        self.jump(scheduler, clock)
        first = ended(store, key="k", policy=Policy(key_for=MINUTE))
        self.back(scheduler, clock)
        assert insert_one(store, a_job(key="k")) != first

    def test_a_rate_and_a_breaker_open_in_time(self, store: Store, scheduler: Scheduler, clock: VirtualClock) -> None:
        store.limits.declare_limits({"slow": rate("1/m"), "frail": breaker(failures=1, window="1m", pause="1m")})
        self.jump(scheduler, clock)
        slow = store.insert_jobs([limited(limit="slow") for _ in range(2)])
        frail = store.insert_jobs([limited(limit="frail") for _ in range(2)])
        worker = register(store, lease=HOUR)
        taken = claim(store, 3, worker)
        store.limits.end_probes([(LimitKey("frail", ""), frail[0], True)])
        self.back(scheduler, clock)
        assert {*slow, *frail} == {one.job_id for one in (*taken, *claim(store))}

    def test_people_are_told_of_what_fails_afterwards(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock
    ) -> None:
        store.notifications.put_channel(new_channel("ops", "webhook", url="https://hook.example/"))
        store.notifications.put_notification(new_notification("n", "failed", "ops"))
        notifier = a_notifier(store, clock)
        self.jump(scheduler, clock)
        clock.advance(MINUTE)
        notifier.tick(clock.monotonic())
        self.back(scheduler, clock)
        notifier.tick(clock.monotonic())
        clock.advance(MINUTE)
        ended(store, failed)
        clock.advance(MINUTE)
        notifier.tick(clock.monotonic())
        assert len(messages(store)) == 1


class TestDoctor:
    def test_it_names_a_step_back(self, store: Store, scheduler: Scheduler, clock: VirtualClock, kind: str) -> None:
        if kind.startswith("sqlite"):
            pytest.skip("see test_sqlite_clock.py")
        scheduler.tick(clock.monotonic())
        clock.step(-HOUR)
        scheduler.tick(clock.monotonic())
        (warning,) = _about_steps(store)
        assert "went back by 1h" in warning
        assert f"{clock.now():%Y-%m-%d %H:%M:%S}" in warning

    def test_it_names_a_step_forward(self, store: Store, scheduler: Scheduler, clock: VirtualClock, kind: str) -> None:
        if kind.startswith("sqlite"):
            pytest.skip("see test_sqlite_clock.py")
        scheduler.tick(clock.monotonic())
        clock.advance(SECOND)
        clock.step(HOUR)
        scheduler.tick(clock.monotonic())
        (warning,) = _about_steps(store)
        assert "went forward by 1h" in warning

    def test_it_says_nothing_of_a_steady_clock(self, store: Store, scheduler: Scheduler, clock: VirtualClock) -> None:
        for _ in range(5):
            scheduler.tick(clock.monotonic())
            clock.advance(MINUTE)
        assert _about_steps(store) == []


def _about_steps(store: Store) -> list[str]:
    return [one for one in store.health().warnings if "went " in one]
