"""The scheduler on both stores, in virtual time: what comes due is started once, by whichever scheduler comes first."""

import logging
from datetime import datetime, timedelta
from random import Random
from typing import cast

import msgspec
import pytest

from tests.replaced import Replaced
from tests.services.builders import SECONDS, a_scheduler, fires, put
from tests.store.builders import (
    HOUR,
    MINUTE,
    SECOND,
    a_definition,
    a_worker,
    claim,
    claim_one,
    ending,
    failed,
    reap,
    register,
    succeeded,
)
from tests.store.conftest import OpensStore
from tests.store.hammer import at_once
from tests.store.runs.dag_builders import a_graph, a_step, take
from tickwork.core.ids import IdMaker
from tickwork.core.job import Claimed, JobFilter, JobState, JobView
from tickwork.core.occurrence import Occurrence, decode_occurrence
from tickwork.core.outcome import Cancelled
from tickwork.core.recurrence.calendar import calendar
from tickwork.core.recurrence.cron import cron
from tickwork.core.recurrence.interval import after, at, every
from tickwork.core.schedule.spec import new_spec
from tickwork.errors import InvalidOption, StoreUnreachable, check
from tickwork.services.scheduler import POLL_S, Scheduler
from tickwork.store.base import Store
from tickwork.store.schedules import ScheduleMove
from tickwork.testing import VirtualClock


@pytest.fixture
def scheduler(store: Store, clock: VirtualClock) -> Scheduler:
    return a_scheduler(store, clock)


def go_on(scheduler: Scheduler, clock: VirtualClock, duration: timedelta) -> None:
    """Let time go by, with the scheduler ticking whenever it wants to."""
    until = clock.now() + duration
    while True:
        wait = timedelta(seconds=scheduler.tick(clock.monotonic()))
        if clock.now() + wait > until:
            clock.advance(until - clock.now())
            return
        clock.advance(max(wait, timedelta(microseconds=1)))


def dues(store: Store, name: str = "s") -> list[datetime]:
    return [fire.due_at for fire in fires(store, name)]


def actions(store: Store, name: str = "s") -> list[str]:
    return [fire.action for fire in fires(store, name)]


def end_one(store: Store) -> Claimed:
    claimed = claim_one(store)
    store.finish_attempts([succeeded(claimed)])
    return claimed


def live(store: Store) -> list[JobView]:
    return [view for view in store.reads.list_jobs(JobFilter(), 100) if not view.state.ended]


class TestFiring:
    def test_each_occurrence_is_started_once_at_its_time(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock
    ) -> None:
        began = clock.now()
        put(store, overlap="allow")
        go_on(scheduler, clock, 5 * SECOND + timedelta(milliseconds=500))
        assert dues(store) == [began + n * SECOND for n in (1, 2, 3, 4, 5)]
        assert [fire.fired_at - fire.due_at for fire in fires(store)] == [timedelta(0)] * 5
        jobs = {job.job_id: job.occurrence for job in claim(store)}
        occurrences = {
            one.job_id: Occurrence("s", one.due_at, False, (one.due_at - SECOND, one.due_at)) for one in fires(store)
        }
        assert occurrences == {job_id: decode_occurrence(occurrence or "") for job_id, occurrence in jobs.items()}

    def test_intervals_of_less_than_a_second_are_kept(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock
    ) -> None:
        put(store, every("250ms"), overlap="allow")
        go_on(scheduler, clock, 2 * SECOND)
        assert len(dues(store)) == 8

    def test_it_says_how_long_nothing_is_due_but_looks_around_every_second(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock
    ) -> None:
        assert scheduler.tick(0.0) == POLL_S
        put(store, at(clock.now() + timedelta(milliseconds=300)))
        assert scheduler.tick(0.0) == pytest.approx(0.3)
        clock.advance(timedelta(milliseconds=300))
        assert scheduler.tick(0.0) == POLL_S
        assert actions(store) == ["start"]

    def test_jobs_are_as_the_task_and_the_schedule_say(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock
    ) -> None:
        store.register_worker(a_worker("w"), [a_definition("t", queue="mail", priority=8)], MINUTE)
        now = clock.now()
        spec = new_spec("s", "t", SECONDS, b'{"n":1}', priority="high", deadline="1m", window="1h", labels=["x"])
        store.schedules.put_schedules([spec])
        go_on(scheduler, clock, SECOND + timedelta(milliseconds=1))
        (view,) = live(store)
        assert (view.queue, view.priority, view.args, view.labels) == ("mail", 2, b'{"n":1}', ("x",))
        due = now + SECOND
        assert view.occurrence == Occurrence("s", due, False, (now, due))
        assert due <= view.run_at <= due + HOUR
        assert view.expires_at == view.run_at + MINUTE

    def test_a_schedule_that_is_over_is_not_looked_at_again(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock
    ) -> None:
        put(store, max_runs=2, overlap="allow")
        go_on(scheduler, clock, 5 * SECOND)
        assert actions(store) == ["start", "start"]
        assert store.schedules.get_schedules(["s"])["s"].wake_at is None

    def test_many_more_than_a_batch_are_all_started(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock
    ) -> None:
        store.schedules.put_schedules([new_spec(f"s{n}", "t", at(clock.now() + SECOND)) for n in range(1100)])
        go_on(scheduler, clock, 2 * SECOND)
        assert sum(queue.due for queue in store.reads.queues()) == 1100


class TestMissed:
    @pytest.mark.parametrize(("catchup", "expected"), [("all", 5), ("latest", 1), ("none", 0)])
    def test_after_a_downtime_the_catch_up_policy_says_what_runs(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock, catchup: str, expected: int
    ) -> None:
        put(store, cron("* * * * *"), catchup=catchup, overlap="allow")
        scheduler.tick(0.0)
        clock.advance(5 * MINUTE + 40 * SECOND)
        scheduler.tick(0.0)
        started = [fire for fire in fires(store) if fire.action == "start"]
        assert len(started) == expected
        assert all(fire.is_catchup for fire in started)
        assert len(live(store)) == expected

    def test_what_was_given_up_is_recorded_with_the_reason(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock
    ) -> None:
        put(store, cron("* * * * *"))
        scheduler.tick(0.0)
        clock.advance(5 * MINUTE + 40 * SECOND)
        scheduler.tick(0.0)
        passed, started = fires(store)
        assert (passed.action, passed.job_id, started.action) == ("pass", None, "start")
        assert f"until {(started.due_at - MINUTE).isoformat()}" in (passed.reason or "")

    def test_missed_ones_run_one_after_another(self, store: Store, scheduler: Scheduler, clock: VirtualClock) -> None:
        start = clock.now() - 3 * MINUTE
        put(store, cron("* * * * *"), catchup="all", start=start)
        scheduler.tick(0.0)
        assert actions(store) == ["start", "queue", "queue", "queue"]
        for left in (3, 2, 1):
            assert len(live(store)) == 1
            end_one(store)
            scheduler.tick(0.0)
            assert actions(store).count("queue") == left - 1
        occurrences = [decode_occurrence(end_one(store).occurrence or "")]
        assert [occurrence.is_catchup for occurrence in occurrences] == [True]


class TestOverlap:
    def test_skip_lets_the_earlier_run_be(self, store: Store, scheduler: Scheduler, clock: VirtualClock) -> None:
        put(store)
        go_on(scheduler, clock, 3 * SECOND + timedelta(milliseconds=1))
        assert actions(store) == ["start", "skip", "skip"]
        assert fires(store)[1].reason == "an earlier run lives"
        end_one(store)
        go_on(scheduler, clock, SECOND)
        assert actions(store)[-1] == "start"

    def test_queue_keeps_one_until_the_earlier_run_ended(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock
    ) -> None:
        put(store, overlap="queue")
        go_on(scheduler, clock, 3 * SECOND + timedelta(milliseconds=1))
        assert actions(store) == ["start", "queue", "skip"]
        end_one(store)
        scheduler.tick(0.0)
        assert actions(store) == ["start", "start", "skip"]
        assert len(live(store)) == 1

    def test_cancel_ends_the_older_run(self, store: Store, scheduler: Scheduler, clock: VirtualClock) -> None:
        put(store, overlap="cancel")
        go_on(scheduler, clock, 2 * SECOND + timedelta(milliseconds=1))
        assert actions(store) == ["start", "start"]
        first, second = (fire.job_id for fire in fires(store))
        assert first is not None
        assert second is not None
        views = store.reads.get_jobs([first, second])
        assert (views[first].state, views[second].state) == (JobState.CANCELLED, JobState.QUEUED)

    def test_several_that_come_at_once_leave_the_last_one(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock
    ) -> None:
        put(store, overlap="cancel")
        scheduler.tick(0.0)
        clock.advance(3 * SECOND)
        scheduler.tick(0.0)
        assert actions(store) == ["skip", "skip", "start"]
        assert fires(store)[1].reason == "a later one came before it could start"
        assert [view.id for view in live(store)] == [fires(store)[-1].job_id]

    def test_a_run_that_is_cancelled_ends_before_the_next_one_starts(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock
    ) -> None:
        put(store, overlap="cancel")
        go_on(scheduler, clock, SECOND + timedelta(milliseconds=1))
        old = claim_one(store)
        go_on(scheduler, clock, 2 * SECOND)
        assert actions(store) == ["start", "skip", "cancel_older"], "the latest waits"
        assert [view.id for view in live(store)] == [old.job_id]
        assert store.reads.get_jobs([old.job_id])[old.job_id].cancel_requested
        store.finish_attempts([ending(old, Cancelled())])
        scheduler.tick(0.0)
        assert actions(store) == ["start", "skip", "start"]
        assert [view.id for view in live(store)] == [fires(store)[-1].job_id]

    def test_a_cancelled_run_of_a_dead_worker_ends_with_its_lease(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock
    ) -> None:
        put(store, every("20s"), overlap="cancel")
        go_on(scheduler, clock, 21 * SECOND)
        old = claim_one(store, lease=30 * SECOND)
        go_on(scheduler, clock, 29 * SECOND)
        assert actions(store)[-1] == "cancel_older"
        clock.advance(2 * SECOND)
        reap(store)
        scheduler.tick(0.0)
        assert actions(store)[-1] == "start"
        assert old.job_id not in {view.id for view in live(store)}

    def test_missed_ones_still_run_in_turn_after_the_one_that_cancelled(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock
    ) -> None:
        began = clock.now()
        put(store, every("1m"), overlap="cancel", catchup="all", start=began - 3 * MINUTE)
        scheduler.tick(0.0)
        assert actions(store) == ["start", "queue", "queue", "queue"]
        clock.advance(MINUTE)
        scheduler.tick(0.0)
        assert actions(store) == ["start", "queue", "queue", "queue", "cancel_older"]
        scheduler.tick(0.0)
        assert actions(store)[-1] == "start"
        for _ in range(3):
            end_one(store)
            scheduler.tick(0.0)
        assert set(actions(store)) == {"start"}

    def test_a_run_of_a_dag_ends_with_its_steps_before_the_next_one_starts(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock
    ) -> None:
        store.dags.put_dag(a_graph(a_step("a")))
        store.schedules.put_schedules(
            [msgspec.structs.replace(new_spec("s", "dag", SECONDS, overlap="cancel"), kind="dag")]
        )
        go_on(scheduler, clock, SECOND + timedelta(milliseconds=1))
        assert take(store) == {}, "the run begins"
        step = take(store)["a"]
        go_on(scheduler, clock, 2 * SECOND)
        assert actions(store) == ["start", "skip", "cancel_older"]
        store.finish_attempts([ending(step, Cancelled())])
        scheduler.tick(0.0)
        assert actions(store) == ["start", "skip", "start"]


class TestWaitForPrevious:
    def test_a_run_starts_when_the_one_before_it_has_succeeded(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock
    ) -> None:
        put(store, every("1m"), wait_for_previous=True)
        go_on(scheduler, clock, 2 * MINUTE + SECOND)
        assert actions(store) == ["start", "queue"]
        store.finish_attempts([failed(claim_one(store))])
        go_on(scheduler, clock, 2 * MINUTE)
        assert actions(store) == ["start", "queue", "queue", "queue"]
        assert fires(store)[1].reason == "the run before it has not succeeded yet"
        first = fires(store)[0].job_id
        assert first is not None
        store.retry_jobs([first])
        go_on(scheduler, clock, 20 * SECOND)
        for started in (2, 3, 4):
            assert end_one(store).job_id
            go_on(scheduler, clock, 2 * SECOND)
            assert actions(store)[:4].count("start") == started

    def test_one_that_was_discarded_holds_nothing(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock
    ) -> None:
        put(store, every("1m"), wait_for_previous=True)
        go_on(scheduler, clock, MINUTE + SECOND)
        claimed = claim_one(store)
        store.finish_attempts([failed(claimed)])
        go_on(scheduler, clock, MINUTE)
        assert actions(store) == ["start", "queue"]
        store.discard_jobs([claimed.job_id])
        go_on(scheduler, clock, 20 * SECOND)
        assert actions(store) == ["start", "start"]

    def test_no_more_wait_than_may_be_caught_up_with(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock
    ) -> None:
        put(store, every("1m"), wait_for_previous=True, catchup_limit=2)
        go_on(scheduler, clock, 5 * MINUTE + SECOND)
        assert actions(store) == ["start", "queue", "queue", "skip", "skip"]
        assert fires(store)[-1].reason == "2 wait already for the run before them to succeed"

    def test_a_fixed_delay_waits_too(self, store: Store, scheduler: Scheduler, clock: VirtualClock) -> None:
        put(store, after("5s"), wait_for_previous=True)
        go_on(scheduler, clock, SECOND)
        claimed = claim_one(store)
        store.finish_attempts([failed(claimed)])
        go_on(scheduler, clock, MINUTE)
        assert actions(store) == ["start"]
        store.retry_jobs([claimed.job_id])
        go_on(scheduler, clock, 20 * SECOND)
        end_one(store)
        go_on(scheduler, clock, 30 * SECOND)
        assert actions(store)[:2] == ["start", "start"]

    def test_it_does_not_go_with_runs_side_by_side(self) -> None:
        with pytest.raises(InvalidOption, match="wait_for_previous runs occurrences one after another"):
            new_spec("s", "t", SECONDS, wait_for_previous=True, overlap="allow")


class TestFixedDelay:
    def test_the_next_run_is_due_when_the_last_one_ended_and_the_delay_is_over(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock
    ) -> None:
        put(store, after("3s"))
        scheduler.tick(0.0)
        go_on(scheduler, clock, 10 * SECOND)
        assert len(dues(store)) == 1, "the first waits for nothing, and the next for its end"
        end_one(store)
        ended = clock.now()
        go_on(scheduler, clock, 5 * SECOND)
        assert dues(store)[1:] == [ended + 3 * SECOND]

    def test_a_run_that_failed_has_ended_too(self, store: Store, scheduler: Scheduler, clock: VirtualClock) -> None:
        put(store, after("3s"), retries=0)
        go_on(scheduler, clock, SECOND)
        store.cancel_jobs([view.id for view in live(store)])
        go_on(scheduler, clock, 4 * SECOND)
        assert len(dues(store)) == 2


class TestChanges:
    def test_an_edit_re_fires_nothing(self, store: Store, scheduler: Scheduler, clock: VirtualClock) -> None:
        put(store, every("10s"), overlap="allow")
        go_on(scheduler, clock, 25 * SECOND)
        put(store, every("5s"), overlap="allow")
        go_on(scheduler, clock, 10 * SECOND)
        began = dues(store)[0] - 10 * SECOND
        assert [(due - began) / SECOND for due in dues(store)] == [10, 20, 30, 35]

    def test_a_pause_stops_it_and_what_came_due_meanwhile_was_missed(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock
    ) -> None:
        put(store, cron("* * * * *"), overlap="allow")
        scheduler.tick(0.0)
        store.schedules.pause_schedules(["s"])
        go_on(scheduler, clock, 10 * MINUTE)
        assert dues(store) == []
        store.schedules.resume_schedules(["s"])
        scheduler.tick(0.0)
        assert [(fire.action, fire.is_catchup) for fire in fires(store)] == [("pass", True), ("start", True)]

    def test_a_calendar_moves_the_next_fires_of_all_that_heed_it(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock
    ) -> None:
        store.schedules.put_calendar("closed", calendar())
        for name in "ab":
            put(store, cron("0 12 * * *"), name, calendars="closed")
        scheduler.tick(0.0)
        tomorrow = (clock.now() + timedelta(days=1)).date()
        before = store.schedules.get_schedules(["a"])["a"].wake_at
        store.schedules.put_calendar("closed", calendar(dates=[clock.now().date(), tomorrow]))
        scheduler.tick(0.0)
        moved = {view.wake_at for view in store.schedules.list_schedules(10)}
        assert before is not None
        assert moved == {before + timedelta(days=2)}

    def test_a_step_of_the_hosts_clock_repeats_nothing_and_stops_nothing(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock
    ) -> None:
        put(store, overlap="allow")
        go_on(scheduler, clock, 3 * SECOND + timedelta(milliseconds=1))
        clock.step(-HOUR)
        go_on(scheduler, clock, 3 * SECOND)
        assert len(dues(store)) == len(set(dues(store))) == 6
        clock.step(HOUR)
        go_on(scheduler, clock, 2 * SECOND)
        assert len(dues(store)) == len(set(dues(store))) >= 8


class TestManyAtOnce:
    def test_of_several_schedulers_one_starts_each_occurrence(
        self, open_store: OpensStore, clock: VirtualClock
    ) -> None:
        store = open_store()
        store.schedules.put_schedules([new_spec(f"s{n}", "t", SECONDS, overlap="allow") for n in range(40)])
        schedulers = [a_scheduler(open_store(), clock, seed) for seed in range(4)]
        for _ in range(4):
            at_once(*(lambda one=one: one.tick(0.0) for one in schedulers))  # type: ignore[misc]
            clock.advance(SECOND)
        schedulers[0].tick(0.0)
        assert {len(dues(store, f"s{n}")) for n in range(40)} == {4}
        assert sum(queue.due for queue in store.reads.queues()) == 160

    def test_the_second_scheduler_continues_after_the_first(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock
    ) -> None:
        other = a_scheduler(store, clock, 2)
        put(store, overlap="allow")
        for _ in range(5):
            scheduler.tick(0.0)
            other.tick(0.0)
            clock.advance(SECOND)
        assert len(dues(store)) == 4

    def test_an_answer_that_was_lost_doubles_nothing(self, store: Store, clock: VirtualClock) -> None:
        put(store, overlap="allow")

        def move_schedules(moves: list[ScheduleMove]) -> set[str]:
            store.schedules.move_schedules(moves)
            raise StoreUnreachable("the answer was lost")

        lossy = Replaced(store, schedules=Replaced(store.schedules, move_schedules=move_schedules))
        clock.advance(SECOND)
        with pytest.raises(StoreUnreachable):
            a_scheduler(cast(Store, lossy), clock).tick(0.0)
        a_scheduler(store, clock).tick(0.0)
        assert len(dues(store)) == 1
        assert len(live(store)) == 1


class TestTrouble:
    def test_one_that_cannot_be_judged_does_not_hold_up_the_others(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        put(store, SECONDS, "bad", calendars="missing")
        put(store, SECONDS, "good", overlap="allow")
        with caplog.at_level(logging.ERROR, "tickwork.services"):
            go_on(scheduler, clock, 3 * SECOND)
        assert len(dues(store, "good")) == 3
        (told,) = caplog.messages
        assert "'bad'" in told
        assert "there is no calendar 'missing'" in told

    def test_it_goes_on_as_soon_as_the_cause_is_gone(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock
    ) -> None:
        put(store, SECONDS, "bad", calendars="missing", overlap="allow")
        go_on(scheduler, clock, 3 * SECOND)
        store.schedules.put_calendar("missing", calendar())
        go_on(scheduler, clock, 3 * SECOND)
        assert len(dues(store, "bad")) >= 2


def test_a_workers_jobs_and_those_of_schedules_live_side_by_side(
    store: Store, scheduler: Scheduler, clock: VirtualClock
) -> None:
    put(store)
    go_on(scheduler, clock, SECOND + timedelta(milliseconds=1))
    assert len(claim(store, worker=register(store))) == 1


class TestWhatAReviewFound:
    """Each of these went wrong once."""

    @pytest.mark.parametrize("start", [None, SECOND])
    def test_a_start_that_is_moved_earlier_loses_nothing(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock, start: timedelta | None
    ) -> None:
        put(store, start=clock.now() + 30 * 24 * HOUR)
        go_on(scheduler, clock, SECOND)
        put(store, start=None if start is None else clock.now() + start, overlap="allow")
        go_on(scheduler, clock, 4 * SECOND)
        assert len(fires(store)) >= 3

    def test_a_run_that_is_caught_up_with_expires_from_when_it_is_started(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock
    ) -> None:
        put(store, every("20m"), start=clock.now() - 40 * MINUTE, expires="10m")
        scheduler.tick(clock.monotonic())
        store.expire_jobs(10)
        claimed = claim_one(store)
        assert claimed.occurrence is not None
        assert decode_occurrence(claimed.occurrence).scheduled_for <= clock.now()

    def test_one_whose_records_contradict_it_does_not_hold_up_the_others(
        self, store: Store, clock: VirtualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        def move_schedules(moves: list[ScheduleMove]) -> set[str]:
            """Refuse every occurrence of `bad`, as if it was recorded already."""
            check(all(not move.fires for move in moves if move.name == "bad"), "judged a second time")
            return store.schedules.move_schedules(moves)

        contradicted = Replaced(store, schedules=Replaced(store.schedules, move_schedules=move_schedules))
        for name in ("bad", "good"):
            put(store, name=name, overlap="allow")
        go_on(a_scheduler(cast(Store, contradicted), clock), clock, 5 * SECOND)
        assert len(fires(store, "good")) >= 4
        assert not fires(store, "bad")
        assert caplog.text.count("judged a second time") == 1

    def test_where_a_zone_decides_it_is_looked_at_again_within_the_hour(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock
    ) -> None:
        put(store, cron("0 0 1 1 *", tz="Europe/Berlin"))
        scheduler.tick(clock.monotonic())
        wake_at = store.schedules.get_schedules(["s"])["s"].wake_at
        assert wake_at is not None
        assert wake_at <= clock.now() + HOUR

    def test_what_was_due_while_a_calendar_was_missing_is_caught_up_with(
        self, store: Store, scheduler: Scheduler, clock: VirtualClock
    ) -> None:
        put(store, every("1m"), calendars="holidays", catchup="all", overlap="allow")
        go_on(scheduler, clock, 5 * MINUTE)
        assert not fires(store)
        store.schedules.put_calendar("holidays", calendar(yearly=["12-25"]))
        go_on(scheduler, clock, 5 * SECOND)
        assert len([fire for fire in fires(store) if fire.action == "start"]) >= 4

    def test_nothing_is_fired_before_the_worker_is_known(self, store: Store, clock: VirtualClock) -> None:
        known: list[bool] = []
        waiting = Scheduler(store, IdMaker(lambda: 1, Random(1).getrandbits), clock, lambda: bool(known))
        put(store)
        go_on(waiting, clock, 3 * SECOND)
        assert not fires(store)
        known.append(True)
        go_on(waiting, clock, 3 * SECOND)
        assert fires(store)


def test_a_pause_that_ends_is_ended_and_what_was_missed_is_judged(
    store: Store, clock: VirtualClock, scheduler: Scheduler
) -> None:
    put(store, every("1m"), catchup="latest", overlap="allow")
    go_on(scheduler, clock, 90 * SECOND)
    began = clock.now()
    store.schedules.pause_schedules(["s"], until=began + 10 * MINUTE)
    go_on(scheduler, clock, 5 * MINUTE)
    assert [due for due in dues(store) if due > began] == []
    go_on(scheduler, clock, 7 * MINUTE)
    started = [fire.due_at for fire in fires(store) if fire.action == "start" and fire.due_at > began]
    assert len(started) == 3, "the latest of those that were missed, and two after the end of the pause"
    assert started[0] <= began + 10 * MINUTE < started[1]
    assert store.schedules.get_schedules(["s"])["s"].paused_at is None
