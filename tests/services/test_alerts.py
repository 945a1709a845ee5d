"""Alerts on both stores, in virtual time: a case is reported once, a storm in one message, by the first service."""

import logging
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from tests.services.builders import a_notifier, messages
from tests.store.builders import (
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
    reap,
    register,
    running,
    succeeded,
)
from tests.store.conftest import OpensStore
from tests.store.hammer import at_once
from tickwork.core.ids import IdMaker
from tickwork.core.job import JobFilter, JobView
from tickwork.core.notify.channels import new_channel
from tickwork.core.notify.delivery import DELIVERY
from tickwork.core.notify.rule import OWN, new_notification
from tickwork.core.occurrence import Occurrence, encode_occurrence
from tickwork.core.recurrence.interval import every
from tickwork.core.schedule.spec import new_spec
from tickwork.services.alerts import INTERVAL_S, LAG, Alerts
from tickwork.services.scheduler import Scheduler
from tickwork.store.base import Store
from tickwork.testing import VirtualClock

TICK = timedelta(seconds=INTERVAL_S)


@pytest.fixture
def notifier(store: Store, clock: VirtualClock) -> Alerts:
    store.notifications.put_channel(new_channel("ops", "webhook", url="https://hook.example/"))
    return a_notifier(store, clock)


def want(store: Store, on: str, **given: Any) -> None:
    store.notifications.put_notification(new_notification("n", on, "ops", **given))


def go_on(notifier: Alerts, clock: VirtualClock, duration: timedelta = 3 * LAG) -> None:
    """Let time go by, with the notifier ticking when it wants to, or later."""
    until, least = clock.now() + duration, duration / 20
    while clock.now() < until:
        wait = timedelta(seconds=notifier.tick(clock.monotonic()))
        clock.advance(max(wait, least) if wait else timedelta(microseconds=1))


def texts(store: Store) -> list[str]:
    return [item["text"] for message in messages(store) for item in message["items"]]


def deliveries(store: Store) -> list[JobView]:
    return store.reads.list_jobs(JobFilter(collection=OWN), 1000)


def test_a_failure_is_told_once_with_why_and_a_link(notifier: Alerts, store: Store, clock: VirtualClock) -> None:
    ended(store, failed)
    want(store, "failed")
    clock.advance(SECOND)
    job = ended(store, lambda claimed: failed(claimed, "Traceback (most recent call last):\n  x\nValueError: no rows"))
    ended(store)
    go_on(notifier, clock, HOUR)
    (message,) = messages(store)
    assert (message["count"], message["on"], message["notification"]) == (1, "failed", "n")
    (item,) = message["items"]
    assert item["job"] == job
    assert item["text"].startswith(f"t {job}: it ended as failed at ")
    assert item["text"].endswith("ValueError: no rows")
    assert item["link"] == f"https://tick.example/#/jobs/{job}"
    (delivery,) = deliveries(store)
    assert (delivery.task, delivery.labels, delivery.policy) == ("http", ("channel:ops",), DELIVERY)


def test_a_storm_is_one_message_for_each_window(notifier: Alerts, store: Store, clock: VirtualClock) -> None:
    want(store, "failed", window="5m")
    clock.advance(SECOND)
    store.insert_jobs([a_job() for _ in range(2500)])
    worker = register(store, lease=24 * HOUR)
    while claimed := claim(store, 500, worker):
        store.finish_attempts([failed(one) for one in claimed])
        go_on(notifier, clock, 7 * SECOND)
    go_on(notifier, clock, HOUR)
    counts = [message["count"] for message in messages(store)]
    assert len(counts) == 2
    assert sum(counts) == 2500
    assert [len(message["items"]) for message in messages(store)] == [5, 5]


def test_many_failures_at_one_instant_are_counted_page_by_page(
    notifier: Alerts, store: Store, clock: VirtualClock
) -> None:
    want(store, "failed")
    clock.advance(SECOND)
    store.insert_jobs([a_job() for _ in range(2300)])
    worker = register(store, lease=HOUR)
    while claimed := claim(store, 1000, worker):
        store.finish_attempts([failed(one) for one in claimed])
    go_on(notifier, clock, HOUR)
    assert sum(message["count"] for message in messages(store)) == 2300


def test_two_notifiers_tell_it_once(open_store: OpensStore, clock: VirtualClock) -> None:
    stores = [open_store() for _ in range(4)]
    stores[0].notifications.put_channel(new_channel("ops", "webhook", url="https://hook.example/"))
    want(stores[0], "failed", window="0s")
    notifiers = [a_notifier(store, clock, seed) for seed, store in enumerate(stores)]
    clock.advance(SECOND)
    for _ in range(5):
        ended(stores[0], failed)
        clock.advance(LAG + TICK)
        at_once(*[lambda one=one: one.tick(0.0) for one in notifiers])
    clock.advance(LAG + TICK)
    at_once(*[lambda one=one: one.tick(0.0) for one in notifiers])
    assert sum(message["count"] for message in messages(stores[0])) == 5


def test_filters(notifier: Alerts, store: Store, clock: VirtualClock) -> None:
    want(store, "failed", task="u", queue="q", schedule="s")
    clock.advance(SECOND)
    occurrence = encode_occurrence(Occurrence("s", clock.now()))
    ended(store, failed, task="u", queue="q")
    ended(store, failed, task="u", occurrence=occurrence)
    ended(store, failed, queue="q", occurrence=occurrence)
    wanted = ended(store, failed, task="u", queue="q", occurrence=occurrence)
    go_on(notifier, clock)
    assert [item["job"] for message in messages(store) for item in message["items"]] == [wanted]


def test_a_message_that_cannot_be_delivered_makes_no_other(notifier: Alerts, store: Store, clock: VirtualClock) -> None:
    want(store, "failed", window="0s")
    clock.advance(SECOND)
    ended(store, failed)
    go_on(notifier, clock)
    (claimed,) = claim(store, tasks=["http"])
    store.finish_attempts([failed(claimed)])
    go_on(notifier, clock, HOUR)
    assert len(messages(store)) == 1


def test_a_dead_letter_is_told_when_it_was_neither_redriven_nor_discarded(
    notifier: Alerts, store: Store, clock: VirtualClock
) -> None:
    want(store, "dead", after="1h")
    clock.advance(SECOND)
    left, gone, retried = (ended(store, failed) for _ in range(3))
    go_on(notifier, clock, 30 * MINUTE)
    store.discard_jobs([gone])
    store.retry_jobs([retried])
    assert messages(store) == []
    go_on(notifier, clock, HOUR)
    assert [item["job"] for message in messages(store) for item in message["items"]] == [left]


def test_a_job_that_does_not_start_is_told_with_what_it_waits_for(
    notifier: Alerts, store: Store, clock: VirtualClock
) -> None:
    want(store, "never_started", after="10m")
    insert_one(store, delay=HOUR)
    waiting = insert_one(store)
    insert_one(store, expires_at=clock.now() + 2 * MINUTE)
    go_on(notifier, clock, 5 * MINUTE)
    store.expire_jobs(10)
    go_on(notifier, clock, 3 * MINUTE)
    assert [text for text in texts(store) if "ended as expired" in text] == texts(store)
    assert len(texts(store)) == 1
    go_on(notifier, clock, 30 * MINUTE)
    assert len(texts(store)) == 2
    assert texts(store)[1].startswith(f"t {waiting}: it can run now, but no worker is running")


@pytest.mark.parametrize("kind", ["late", "sla_missed"])
def test_a_job_that_takes_too_long_is_told_while_it_runs_and_not_again(
    notifier: Alerts, store: Store, clock: VirtualClock, kind: str
) -> None:
    want(store, kind, after="5m", window="0s")
    clock.advance(SECOND)
    insert_one(store)
    clock.advance(6 * MINUTE)
    worker = register(store, lease=24 * HOUR)
    slow = claim_one(store, worker)
    go_on(notifier, clock, MINUTE)
    assert [item["job"] for message in messages(store) for item in message["items"]] == [slow.job_id]
    store.finish_attempts([again(slow, delay=MINUTE)])
    go_on(notifier, clock, 2 * MINUTE)
    store.finish_attempts([succeeded(claim_one(store, worker))])
    ended(store)
    go_on(notifier, clock, HOUR)
    assert len(messages(store)) == 1


@pytest.mark.parametrize("kind", ["late", "sla_missed"])
def test_one_that_began_and_ended_between_two_looks_is_told_as_well(
    notifier: Alerts, store: Store, clock: VirtualClock, kind: str
) -> None:
    want(store, kind, after="5m")
    clock.advance(SECOND)
    job = insert_one(store)
    clock.advance(6 * MINUTE)
    store.finish_attempts([succeeded(claim_one(store))])
    go_on(notifier, clock, MINUTE)
    assert [item["job"] for message in messages(store) for item in message["items"]] == [job]


def test_missed_occurrences_are_told(notifier: Alerts, store: Store, clock: VirtualClock) -> None:
    scheduler = Scheduler(store, IdMaker(lambda: clock.wall_us() // 1000, Random(2).getrandbits), clock)
    store.schedules.put_schedules([new_spec("hourly", "t", every("1h"), catchup="latest")])
    want(store, "schedule_missed")
    scheduler.tick(0)
    clock.advance(timedelta(hours=1, seconds=1))
    scheduler.tick(0)
    go_on(notifier, clock, MINUTE)
    assert messages(store) == [], "one that is on time is not missed"
    clock.advance(timedelta(hours=3))
    scheduler.tick(0)
    go_on(notifier, clock, MINUTE)
    assert texts(store)
    assert all(text.startswith("schedule hourly missed 2026-01-01 ") for text in texts(store))


def test_a_worker_that_falls_silent_is_told_once(notifier: Alerts, store: Store, clock: VirtualClock) -> None:
    worker = register(store, "early", lease=SECOND)
    running(store, worker)
    clock.advance(MINUTE)
    want(store, "worker_lost", window="0s")
    running(store, register(store, "w1", lease=MINUTE))
    go_on(notifier, clock, 30 * SECOND)
    assert messages(store) == []
    go_on(notifier, clock, 2 * MINUTE)
    reap(store)
    go_on(notifier, clock, 10 * MINUTE)
    assert len(texts(store)) == 1
    assert texts(store)[0].startswith("worker host:1 fell silent at 2026-01-01 00:02:00 UTC")


def test_a_queue_that_does_not_keep_up_is_told_when_it_begins_and_when_it_begins_again(
    notifier: Alerts, store: Store, clock: VirtualClock
) -> None:
    want(store, "queue_older_than", after="10m", queue="default", window="0s")
    insert_one(store, queue="other")
    insert_one(store)
    go_on(notifier, clock, 5 * MINUTE)
    assert messages(store) == []
    go_on(notifier, clock, 30 * MINUTE)
    assert len(messages(store)) == 1
    assert texts(store)[0].startswith("queue default: 1 jobs are due, the oldest since 00:00 UTC")
    claim(store)
    claim(store, tasks=["http"])
    go_on(notifier, clock, MINUTE)
    insert_one(store)
    go_on(notifier, clock, HOUR)
    assert len(messages(store)) == 2


@pytest.mark.parametrize("whom", [{"task": "t"}, {"schedule": "s"}])
def test_a_success_that_does_not_come_is_told(
    notifier: Alerts, store: Store, clock: VirtualClock, whom: dict[str, str]
) -> None:
    want(store, "silent", after="10m", window="0s", **whom)
    occurrence = encode_occurrence(Occurrence("s", clock.now()))
    for _ in range(4):
        go_on(notifier, clock, 5 * MINUTE)
        ended(store, occurrence=occurrence)
    ended(store, failed, occurrence=occurrence)
    ended(store, task="another")
    assert messages(store) == []
    go_on(notifier, clock, HOUR)
    (name,) = whom.values()
    assert len(texts(store)) == 1
    assert texts(store)[0].startswith(f"{name} has not succeeded since 2026-01-01 00:2")
    ended(store, occurrence=occurrence)
    go_on(notifier, clock, HOUR)
    assert len(messages(store)) == 2


def test_one_that_cannot_be_judged_does_not_hold_up_the_others(
    notifier: Alerts,
    store: Store,
    clock: VirtualClock,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store.notifications.put_notification(new_notification("a", "queue_older_than", "ops"))
    want(store, "failed")
    monkeypatch.setattr(store.reads, "queues", lambda: 1 / 0)
    clock.advance(SECOND)
    ended(store, failed)
    with caplog.at_level(logging.ERROR):
        go_on(notifier, clock, MINUTE)
    assert len(messages(store)) == 1
    assert [record.getMessage() for record in caplog.records] == [
        "Notification 'a' cannot be judged for now. ZeroDivisionError: division by zero"
    ]
