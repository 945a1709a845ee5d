"""Notifications and channels in a store: what is kept, what is looked at, and that a look counts once."""

from datetime import timedelta

import pytest

from tests.store.builders import (
    HOUR,
    MICROSECOND,
    MINUTE,
    SECOND,
    a_job,
    claim_one,
    ended,
    failed,
    insert_one,
    jobs,
    running,
    succeeded,
)
from tests.store.conftest import OpensStore
from tests.store.hammer import at_once
from tickwork.core.limits.job_limits import JobLimits
from tickwork.core.notify.channels import new_channel
from tickwork.core.notify.rule import new_notification
from tickwork.core.notify.state import AlertState, EndedMark
from tickwork.core.occurrence import Occurrence, encode_occurrence
from tickwork.core.recurrence.interval import every
from tickwork.core.schedule.spec import new_spec
from tickwork.errors import InvalidInput
from tickwork.store.admin.notifications import NotificationMove
from tickwork.store.base import Store
from tickwork.testing import VirtualClock

OPS = new_channel("ops", "slack", url="https://chat.example/x")
NIGHT = new_notification("night", "failed", "ops")


def test_channels_are_put_changed_and_deleted(store: Store) -> None:
    store.notifications.put_channel(OPS)
    other = new_channel("ops", "webhook", url="https://hook.example/")
    store.notifications.put_channel(other)
    assert store.notifications.list_channels() == {"ops": other}
    assert store.notifications.delete_channel("ops")
    assert not store.notifications.delete_channel("ops")
    assert store.notifications.list_channels() == {}


def test_a_channel_that_is_named_stays_and_one_that_is_not_there_cannot_be_named(store: Store) -> None:
    with pytest.raises(InvalidInput, match=r"no channel 'ops'; there are none yet"):
        store.notifications.put_notification(NIGHT)
    store.notifications.put_channel(OPS)
    store.notifications.put_notification(NIGHT)
    with pytest.raises(InvalidInput, match="the notification 'night' goes to the channel 'ops'"):
        store.notifications.delete_channel("ops")
    assert store.notifications.delete_notification("night")
    assert not store.notifications.delete_notification("night")
    assert store.notifications.delete_channel("ops")


def test_a_notification_begins_now_and_one_that_is_changed_begins_again(store: Store, clock: VirtualClock) -> None:
    store.notifications.put_channel(OPS)
    store.notifications.put_notification(NIGHT)
    (view,) = store.notifications.list_notifications()
    assert (view.notification, view.watch.mark, view.version) == (NIGHT, EndedMark(clock.now()), 1)
    clock.advance(MINUTE)
    store.notifications.put_notification(NIGHT)
    assert store.notifications.list_notifications() == [view], "nothing was said that it did not say before"
    store.notifications.put_notification(new_notification("night", "failed", "ops", task="t"))
    (again,) = store.notifications.list_notifications()
    assert (again.watch.mark.at, again.version) == (clock.now(), 2)


def test_a_look_counts_once_and_its_messages_come_with_it(store: Store, clock: VirtualClock) -> None:
    store.notifications.put_channel(OPS)
    store.notifications.put_notification(NIGHT)
    (view,) = store.notifications.due_notifications()
    later = clock.now() + 5 * SECOND
    watch = AlertState(EndedMark(clock.now(), "0" * 8), count=3)
    job, lost = a_job(), a_job()
    assert store.notifications.move_notification(NotificationMove("night", view.version, watch, later, (job,)))
    assert not store.notifications.move_notification(NotificationMove("night", view.version, watch, later, (lost,)))
    assert set(store.reads.get_jobs([job.id, lost.id])) == {job.id}
    assert store.notifications.due_notifications() == []
    clock.advance(5 * SECOND)
    (moved,) = store.notifications.due_notifications()
    assert (moved.watch, moved.version) == (watch, view.version + 1)


def test_of_many_that_look_at_once_one_is_counted(open_store: OpensStore, clock: VirtualClock) -> None:
    stores = [open_store() for _ in range(4)]
    stores[0].notifications.put_channel(OPS)
    stores[0].notifications.put_notification(NIGHT)
    made = [a_job() for _ in stores]
    moves = [NotificationMove("night", 1, AlertState(EndedMark(clock.now())), clock.now(), (job,)) for job in made]
    pairs = list(zip(stores, moves, strict=True))
    done = at_once(*[lambda pair=pair: pair[0].notifications.move_notification(pair[1]) for pair in pairs])
    assert sorted(done) == [False, False, False, True]
    assert len(stores[0].reads.get_jobs([job.id for job in made])) == 1


def test_what_ended_is_seen_in_order_page_by_page(store: Store, clock: VirtualClock) -> None:
    since = clock.now()
    clock.advance(SECOND)
    bad = [ended(store, failed) for _ in range(5)]
    good = ended(store)
    clock.advance(SECOND)
    last = ended(store, failed, task="u")
    until = clock.now()
    clock.advance(SECOND)
    ended(store, failed)
    first = store.notifications.ended_jobs(EndedMark(since), until, 3, badly=True)
    rest = store.notifications.ended_jobs(
        EndedMark(first[-1].ended_at or since, first[-1].job_id), until, 9, badly=True
    )
    assert [one.job_id for one in [*first, *rest]] == [*sorted(bad), last]
    assert {one.job_id for one in store.notifications.ended_jobs(EndedMark(since), until, 9, badly=False)} == {
        *bad,
        good,
        last,
    }
    assert [
        one.job_id for one in store.notifications.ended_jobs(EndedMark(since), until, 9, badly=False, task="u")
    ] == [last]
    assert store.notifications.ended_jobs(EndedMark(until), until, 9, badly=True) == []
    assert rest[-1].state == "failed"
    assert (rest[-1].task, rest[-1].is_run, rest[-1].is_step, rest[-1].discarded) == ("u", False, False, False)
    store.discard_jobs([last])
    assert store.notifications.ended_jobs(EndedMark(since), until, 9, badly=True)[-1].discarded


def test_what_runs_is_seen_with_when_it_was_due_and_began(store: Store, clock: VirtualClock) -> None:
    occurrence = encode_occurrence(Occurrence("s", clock.now()))
    insert_one(store, occurrence=occurrence, collection="c")
    due = clock.now()
    clock.advance(MINUTE)
    claimed = claim_one(store)
    (seen,) = store.notifications.running_jobs(10)
    assert (seen.job_id, seen.state, seen.due_at, seen.run_at) == (claimed.job_id, None, due, due)
    assert (seen.started_at, seen.ended_at, seen.schedule, seen.collection) == (clock.now(), None, "s", "c")
    store.finish_attempts([succeeded(claimed)])
    assert store.notifications.running_jobs(10) == []


def test_what_waits_is_seen_in_all_lanes_by_its_time(store: Store, clock: VirtualClock) -> None:
    early = clock.now()
    lanes = [{"queue": queue, "priority": priority} for queue in ("a", "b", "default") for priority in (1, 5, 9)]
    ids = [insert_one(store, **lane) for lane in lanes]
    guarded = insert_one(store, job_limits=JobLimits(tenant="x"), queue="a")
    clock.advance(MINUTE)
    insert_one(store)
    insert_one(store, delay=HOUR)
    seen = store.notifications.waiting_jobs(early - MICROSECOND, clock.now() - SECOND, 100)
    assert {one.job_id for one in seen} == {*ids, guarded}
    assert store.notifications.waiting_jobs(early, clock.now() - SECOND, 100) == []
    assert len(store.notifications.waiting_jobs(early, clock.now(), 100)) == 1
    assert len(store.notifications.waiting_jobs(early - MICROSECOND, clock.now(), 4)) == 4


def test_nothing_waits_in_an_empty_store(store: Store, clock: VirtualClock) -> None:
    assert store.notifications.waiting_jobs(clock.now() - HOUR, clock.now(), 10) == []
    running(store)
    assert store.notifications.waiting_jobs(clock.now() - HOUR, clock.now(), 10) == []


def test_many_waiting_jobs_cost_no_more_than_those_that_are_new(store: Store, clock: VirtualClock) -> None:
    store.insert_jobs(jobs(3000))
    clock.advance(MINUTE)
    new = insert_one(store)
    assert [one.job_id for one in store.notifications.waiting_jobs(clock.now() - SECOND, clock.now(), 10)] == [new]


def test_occurrences_that_were_missed_are_seen(store: Store, clock: VirtualClock) -> None:
    from tests.services.builders import a_scheduler

    store.schedules.put_schedules([new_spec("s", "t", every("1h"), catchup="latest")])
    began = clock.now()
    a_scheduler(store, clock).tick(0)
    clock.advance(timedelta(hours=5))
    a_scheduler(store, clock).tick(0)
    missed = store.notifications.missed_fires(began, clock.now(), 100)
    assert missed
    assert {one.schedule for one in missed} == {"s"}
    assert store.notifications.missed_fires(clock.now(), clock.now() + HOUR, 100) == []
