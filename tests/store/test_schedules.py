"""Schedules in the store: a look brings what is due, a move happens once and as a whole, edits re-fire nothing."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec
import pytest

from tests.store.builders import (
    DAY,
    HOUR,
    MICROSECOND,
    MINUTE,
    SECOND,
    a_definition,
    a_job,
    a_worker,
    an_id,
    claim_one,
    register,
    state_of,
    succeeded,
)
from tests.store.conftest import OpensStore
from tests.store.hammer import at_once
from tickwork.core.ids import JobId
from tickwork.core.job import JobState, NewJob
from tickwork.core.occurrence import Occurrence, encode_occurrence
from tickwork.core.recurrence.calendar import calendar
from tickwork.core.recurrence.cron import cron
from tickwork.core.recurrence.interval import after, every
from tickwork.core.retention import Retention
from tickwork.core.schedule.spec import ScheduleSpec, decode_spec, new_spec
from tickwork.core.schedule.state import WaitingOccurrence
from tickwork.errors import InvalidInput, InvariantBroken
from tickwork.store.base import Store
from tickwork.store.schedules import DueSchedule, DueSchedules, Fired, ScheduleMove
from tickwork.testing import VirtualClock

MINUTES = every("1m")


def a_spec(name: str = "s", rule: Any = MINUTES, **given: Any) -> ScheduleSpec:
    return new_spec(name, "t", rule, **given)


def put(store: Store, name: str = "s", rule: Any = MINUTES, **given: Any) -> ScheduleSpec:
    spec = a_spec(name, rule, **given)
    store.schedules.put_schedules([spec])
    return spec


def see(store: Store) -> DueSchedule:
    """The one schedule that is to be looked at."""
    (seen,) = store.schedules.look_at_schedules(10).schedules
    return seen


def names(look: DueSchedules) -> list[str]:
    return sorted(seen.name for seen in look.schedules)


def a_move(seen: DueSchedule, wake_at: datetime | None = None, **changes: Any) -> ScheduleMove:
    """A move that leaves the standing as it was seen, unless told otherwise."""
    return ScheduleMove(
        **{"name": seen.name, "version": seen.version, "standing": seen.standing, "wake_at": wake_at, **changes}
    )


def a_start(due_at: datetime, job: NewJob, **changes: Any) -> dict[str, Any]:
    """Return the move that starts a run for an occurrence."""
    return {"fires": (Fired(due_at, "start", False, job.id),), "jobs": (job,), **changes}


def a_run(schedule: str, at: datetime, **changes: Any) -> NewJob:
    return a_job(at=at, occurrence=encode_occurrence(Occurrence(schedule, at)), **changes)


def start_run(store: Store, clock: VirtualClock, seen: DueSchedule | None = None, **changes: Any) -> JobId:
    """Start a run of the schedule now, without a next wake-up."""
    seen = seen or see(store)
    job = a_run(seen.name, clock.now())
    assert store.schedules.move_schedules([a_move(seen, **a_start(clock.now(), job, **changes))]) == {seen.name}
    return job.id


class TestPutting:
    def test_a_new_schedule_is_looked_at_at_once_and_begins_now(self, store: Store, clock: VirtualClock) -> None:
        spec = put(store)
        seen = see(store)
        assert decode_spec(seen.spec) == spec
        assert (seen.standing.handled_at, seen.standing.active_since) == (clock.now(), clock.now())
        assert (seen.standing.run_count, seen.standing.live_count, seen.standing.waiting) == (0, 0, ())

    def test_with_a_start_in_the_past_it_looks_back_to_it(self, store: Store, clock: VirtualClock) -> None:
        start = clock.now() - HOUR
        put(store, start=start)
        assert see(store).standing.handled_at == start - MICROSECOND

    def test_the_same_again_changes_nothing(self, store: Store, clock: VirtualClock) -> None:
        put(store)
        before = see(store)
        store.schedules.move_schedules([a_move(before, clock.now() + HOUR)])
        put(store)
        assert store.schedules.look_at_schedules(10).schedules == []

    def test_an_edit_of_when_it_is_due_holds_from_now_on(self, store: Store, clock: VirtualClock) -> None:
        put(store)
        store.schedules.move_schedules([a_move(see(store), clock.now() + MINUTE)])
        clock.advance(HOUR)
        put(store, rule=every("1h"))
        assert see(store).standing.handled_at == clock.now()

    def test_an_edit_of_anything_else_loses_nothing_that_is_due(self, store: Store, clock: VirtualClock) -> None:
        put(store)
        before = see(store)
        clock.advance(MINUTE)
        put(store, overlap="queue", queue="mail")
        after_edit = see(store)
        assert after_edit.standing.handled_at == before.standing.handled_at
        assert after_edit.version > before.version

    def test_an_edit_never_sets_back_what_was_handled(self, store: Store, clock: VirtualClock) -> None:
        put(store)
        seen = see(store)
        ahead = msgspec.structs.replace(seen.standing, handled_at=clock.now() + HOUR)
        store.schedules.move_schedules([a_move(seen, clock.now(), standing=ahead)])
        put(store, rule=every("1h"))
        assert see(store).standing.handled_at == clock.now() + HOUR

    def test_it_can_begin_paused(self, store: Store) -> None:
        put(store, paused=True)
        assert store.schedules.look_at_schedules(10).schedules == []
        assert store.schedules.get_schedules(["s"])["s"].paused_at is not None

    def test_many_are_stored_at_once_and_the_last_of_a_name_counts(self, store: Store) -> None:
        store.schedules.put_schedules([a_spec("a"), a_spec("b"), a_spec("b", every("2m"))])
        assert names(store.schedules.look_at_schedules(10)) == ["a", "b"]
        assert store.schedules.get_schedules(["b"])["b"].spec.rule == every("2m")


class TestReading:
    def test_what_exists_is_found_by_name(self, store: Store, clock: VirtualClock) -> None:
        spec = put(store)
        found = store.schedules.get_schedules(["s", "nobody's"])
        assert list(found) == ["s"]
        view = found["s"]
        assert (view.spec, view.is_declared, view.paused_at) == (spec, False, None)
        assert (view.created_at, view.edited_at, view.wake_at) == (clock.now(),) * 3

    def test_lists_are_pages_by_name(self, store: Store) -> None:
        store.schedules.put_schedules([a_spec(name) for name in ("b", "a", "d", "c")])
        assert [view.name for view in store.schedules.list_schedules(2)] == ["a", "b"]
        assert [view.name for view in store.schedules.list_schedules(5, after="b")] == ["c", "d"]

    def test_it_says_how_many_of_its_runs_live(self, store: Store, clock: VirtualClock) -> None:
        put(store)
        start_run(store, clock)
        assert store.schedules.get_schedules(["s"])["s"].standing.live_count == 1
        store.finish_attempts([succeeded(claim_one(store))])
        assert store.schedules.get_schedules(["s"])["s"].standing.live_count == 0


class TestPausing:
    def test_a_paused_schedule_is_not_looked_at(self, store: Store, clock: VirtualClock) -> None:
        put(store)
        assert store.schedules.pause_schedules(["s", "nobody's"], "ada", "too loud") == ["s"]
        assert store.schedules.look_at_schedules(10).schedules == []
        view = store.schedules.get_schedules(["s"])["s"]
        assert (view.paused_at, view.paused_by, view.paused_why) == (clock.now(), "ada", "too loud")
        assert view.standing.paused

    def test_pausing_twice_keeps_the_first_reason(self, store: Store) -> None:
        put(store)
        store.schedules.pause_schedules(["s"], "ada", "first")
        assert store.schedules.pause_schedules(["s"], "bob", "second") == []
        assert store.schedules.get_schedules(["s"])["s"].paused_by == "ada"

    def test_what_came_due_in_a_pause_was_missed(self, store: Store, clock: VirtualClock) -> None:
        put(store)
        handled = see(store).standing.handled_at
        store.schedules.pause_schedules(["s"])
        clock.advance(HOUR)
        assert store.schedules.resume_schedules(["s"]) == ["s"]
        standing = see(store).standing
        assert (standing.handled_at, standing.active_since, standing.paused) == (handled, clock.now(), False)
        assert store.schedules.resume_schedules(["s"]) == []

    def test_an_edit_does_not_wake_a_paused_one(self, store: Store) -> None:
        put(store)
        store.schedules.pause_schedules(["s"])
        put(store, rule=every("1h"))
        assert store.schedules.look_at_schedules(10).schedules == []

    def test_a_scheduler_that_looked_before_the_pause_moves_nothing(self, store: Store, clock: VirtualClock) -> None:
        put(store)
        seen = see(store)
        store.schedules.pause_schedules(["s"])
        job = a_run("s", clock.now())
        assert store.schedules.move_schedules([a_move(seen, clock.now(), **a_start(clock.now(), job))]) == set()
        assert store.reads.get_jobs([job.id]) == {}


class TestDeleting:
    def test_it_is_gone_with_its_records_and_its_jobs_go_on(self, store: Store, clock: VirtualClock) -> None:
        put(store)
        job_id = start_run(store, clock)
        assert store.schedules.delete_schedules(["s", "nobody's"]) == ["s"]
        assert store.schedules.delete_schedules(["s"]) == []
        assert (store.schedules.get_schedules(["s"]), store.schedules.fires("s", 10)) == ({}, [])
        assert state_of(store, job_id) is JobState.QUEUED

    def test_a_new_one_of_that_name_starts_from_nothing(self, store: Store, clock: VirtualClock) -> None:
        put(store)
        due_at = clock.now()
        start_run(store, clock)
        store.schedules.delete_schedules(["s"])
        put(store, start=due_at)
        seen = see(store)
        assert (seen.live, seen.standing.run_count) == ((), 0)
        assert store.schedules.move_schedules([a_move(seen, **a_start(due_at, a_run("s", due_at)))]) == {"s"}


class TestLooking:
    def test_what_is_not_due_is_not_seen_and_said_to_come(self, store: Store, clock: VirtualClock) -> None:
        put(store)
        store.schedules.move_schedules([a_move(see(store), clock.now() + MINUTE)])
        look = store.schedules.look_at_schedules(10)
        assert (look.now, look.schedules, look.next_wake_s) == (clock.now(), [], 60.0)
        clock.advance(MINUTE - MICROSECOND)
        assert store.schedules.look_at_schedules(10).schedules == []
        clock.advance(MICROSECOND)
        assert names(store.schedules.look_at_schedules(10)) == ["s"]

    def test_nothing_to_come_is_said_too(self, store: Store) -> None:
        assert store.schedules.look_at_schedules(10).next_wake_s is None

    def test_the_first_to_be_due_are_seen_first(self, store: Store, clock: VirtualClock) -> None:
        store.schedules.put_schedules([a_spec(name) for name in "abc"])
        wakes = {"a": 3, "b": 1, "c": 2}
        look = store.schedules.look_at_schedules(10)
        store.schedules.move_schedules(
            [a_move(seen, clock.now() + wakes[seen.name] * SECOND) for seen in look.schedules]
        )
        clock.advance(MINUTE)
        assert names(store.schedules.look_at_schedules(2)) == ["b", "c"]

    def test_what_deciding_takes_comes_with_it(self, store: Store) -> None:
        days = calendar(weekdays=["sun"])
        store.schedules.put_calendar("closed", days)
        store.schedules.put_calendar("another", days)
        store.register_worker(a_worker("w"), [a_definition("t", queue="mail"), a_definition("u")], MINUTE)
        put(store, calendars="closed")
        look = store.schedules.look_at_schedules(10)
        assert list(look.calendars) == ["closed"]
        assert {name: task.queue for name, task in look.definitions.items()} == {"t": "mail"}

    def test_runs_that_live_and_that_ended_are_told_apart(self, store: Store, clock: VirtualClock) -> None:
        put(store)
        first = start_run(store, clock, wake_at=clock.now())
        clock.advance(SECOND)
        second = start_run(store, clock, wake_at=clock.now())
        store.finish_attempts([succeeded(claim_one(store))])
        seen = see(store)
        assert (seen.live, seen.ended) == ((second,), (first,))
        assert (seen.standing.live_count, seen.standing.last_ended_at) == (1, clock.now())

    def test_an_ended_run_is_forgotten_by_the_move_and_its_end_is_kept(self, store: Store, clock: VirtualClock) -> None:
        put(store)
        start_run(store, clock, wake_at=clock.now())
        store.finish_attempts([succeeded(claim_one(store))])
        ended_at = clock.now()
        clock.advance(HOUR)
        seen = see(store)
        store.schedules.move_schedules([a_move(seen, clock.now(), ended=seen.ended)])
        seen = see(store)
        assert (seen.live, seen.ended, seen.standing.last_ended_at) == ((), (), ended_at)

    def test_the_end_of_an_awaited_run_is_answered_with_a_look(self, store: Store, clock: VirtualClock) -> None:
        put(store, rule=after("1m"))
        start_run(store, clock, awaits_end=True)
        assert store.schedules.look_at_schedules(10).schedules == []
        store.finish_attempts([succeeded(claim_one(store))])
        assert len(see(store).ended) == 1

    def test_the_end_of_a_run_that_is_not_awaited_is_not(self, store: Store, clock: VirtualClock) -> None:
        put(store)
        start_run(store, clock)
        store.finish_attempts([succeeded(claim_one(store))])
        assert store.schedules.look_at_schedules(10).schedules == []

    def test_a_later_move_may_begin_to_await_earlier_runs(self, store: Store, clock: VirtualClock) -> None:
        put(store, overlap="queue")
        start_run(store, clock, wake_at=clock.now())
        store.schedules.move_schedules([a_move(see(store), awaits_end=True)])
        assert store.schedules.look_at_schedules(10).schedules == []
        store.finish_attempts([succeeded(claim_one(store))])
        assert names(store.schedules.look_at_schedules(10)) == ["s"]

    @pytest.mark.parametrize("awaited", [True, False])
    def test_a_run_that_was_pruned_has_ended(self, store: Store, clock: VirtualClock, awaited: bool) -> None:
        put(store)
        start_run(store, clock, awaits_end=awaited, wake_at=clock.now() + 30 * DAY)
        store.finish_attempts([succeeded(claim_one(store))])
        clock.advance(30 * DAY)
        assert store.prune(Retention(), 10).count == 1
        seen = see(store)
        assert (seen.live, len(seen.ended)) == ((), 1)
        assert seen.standing.last_ended_at is not None


class TestMoving:
    def test_a_run_is_started_recorded_and_remembered(self, store: Store, clock: VirtualClock) -> None:
        put(store)
        due_at = clock.now()
        seen = see(store)
        job = a_run("s", due_at, queue="mail", priority=2, labels=("x",), collection="c")
        handled = msgspec.structs.replace(seen.standing, handled_at=due_at, run_count=1)
        assert store.schedules.move_schedules(
            [a_move(seen, due_at + MINUTE, standing=handled, **a_start(due_at, job))],
        ) == {"s"}
        (fire,) = store.schedules.fires("s", 10)
        assert (fire.due_at, fire.action, fire.job_id, fire.fired_at) == (due_at, "start", job.id, due_at)
        view = store.reads.get_jobs([job.id])[job.id]
        assert (view.queue, view.priority, view.labels, view.collection) == ("mail", 2, ("x",), "c")
        assert (view.state, view.occurrence) == (JobState.QUEUED, Occurrence("s", due_at))
        clock.advance(MINUTE)
        seen = see(store)
        assert (seen.live, seen.standing.run_count, seen.standing.handled_at) == ((job.id,), 1, due_at)

    def test_a_claimed_run_knows_its_tick_and_another_job_none(self, store: Store, clock: VirtualClock) -> None:
        put(store)
        start_run(store, clock)
        assert claim_one(store).occurrence == encode_occurrence(Occurrence("s", clock.now()))
        store.insert_jobs([a_job()])
        assert claim_one(store).occurrence is None

    def test_a_run_is_due_at_its_time_and_expires_by_its_deadline(self, store: Store, clock: VirtualClock) -> None:
        put(store)
        now = clock.now()
        later = a_run("s", now + MINUTE, expires_at=now + HOUR)
        store.schedules.move_schedules([a_move(see(store), **a_start(now, later))])
        view = store.reads.get_jobs([later.id])[later.id]
        assert (view.run_at, view.expires_at) == (now + MINUTE, now + HOUR)

    def test_what_waits_comes_back(self, store: Store, clock: VirtualClock) -> None:
        put(store)
        seen = see(store)
        waiting = (WaitingOccurrence(clock.now(), True), WaitingOccurrence(clock.now() + SECOND, False))
        standing = msgspec.structs.replace(seen.standing, waiting=waiting)
        store.schedules.move_schedules([a_move(seen, clock.now(), standing=standing)])
        assert see(store).standing.waiting == waiting

    def test_the_second_scheduler_does_nothing(self, store: Store, clock: VirtualClock) -> None:
        put(store)
        seen = see(store)
        first, second = a_run("s", clock.now()), a_run("s", clock.now())
        assert store.schedules.move_schedules([a_move(seen, **a_start(clock.now(), first))]) == {"s"}
        assert store.schedules.move_schedules([a_move(seen, **a_start(clock.now(), second))]) == set()
        assert [fire.job_id for fire in store.schedules.fires("s", 10)] == [first.id]
        assert list(store.reads.get_jobs([first.id, second.id])) == [first.id]

    def test_a_lost_schedule_does_not_hold_up_the_others_of_its_batch(self, store: Store, clock: VirtualClock) -> None:
        store.schedules.put_schedules([a_spec("a"), a_spec("b")])
        seen = {one.name: one for one in store.schedules.look_at_schedules(10).schedules}
        store.schedules.move_schedules([a_move(seen["a"], clock.now() + HOUR)])
        jobs = {name: a_run(name, clock.now()) for name in "ab"}
        batch = [a_move(seen[name], **a_start(clock.now(), jobs[name])) for name in "ab"]
        assert store.schedules.move_schedules(batch) == {"b"}
        assert list(store.reads.get_jobs([jobs["a"].id, jobs["b"].id])) == [jobs["b"].id]
        assert (store.schedules.fires("a", 10), len(store.schedules.fires("b", 10))) == ([], 1)

    def test_a_deleted_schedule_is_not_moved(self, store: Store, clock: VirtualClock) -> None:
        put(store)
        seen = see(store)
        store.schedules.delete_schedules(["s"])
        assert store.schedules.move_schedules([a_move(seen, **a_start(clock.now(), a_run("s", clock.now())))]) == set()
        assert store.schedules.fires("s", 10) == []

    def test_an_occurrence_cannot_be_judged_a_second_time(self, store: Store, clock: VirtualClock) -> None:
        """The version keeps schedulers apart; should one ever decide wrongly, the record of fires still refuses."""
        store.schedules.put_schedules([a_spec("s"), a_spec("other")])
        due_at = clock.now()
        seen = {one.name: one for one in store.schedules.look_at_schedules(10).schedules}
        store.schedules.move_schedules([a_move(seen["s"], due_at, **a_start(due_at, a_run("s", due_at)))])
        again, other = a_run("s", due_at), a_run("other", due_at)
        seen["s"] = next(one for one in store.schedules.look_at_schedules(10).schedules if one.name == "s")
        batch = [a_move(seen["s"], **a_start(due_at, again)), a_move(seen["other"], **a_start(due_at, other))]
        with pytest.raises(InvariantBroken, match="second time"):
            store.schedules.move_schedules(batch)
        assert store.reads.get_jobs([again.id, other.id]) == {}
        assert names(store.schedules.look_at_schedules(10)) == ["other", "s"]

    def test_one_that_was_queued_is_judged_once_more(self, store: Store, clock: VirtualClock) -> None:
        put(store)
        due_at, queued = clock.now(), Fired(clock.now(), "queue", True)
        store.schedules.move_schedules([a_move(see(store), due_at, fires=(queued,))])
        clock.advance(HOUR)
        job = a_run("s", due_at)
        started = Fired(due_at, "start", True, job.id)
        store.schedules.move_schedules([a_move(see(store), fires=(started,), jobs=(job,))])
        (fire,) = store.schedules.fires("s", 10)
        assert (fire.action, fire.job_id, fire.fired_at, fire.is_catchup) == ("start", job.id, clock.now(), True)

    def test_older_runs_are_cancelled_with_it(self, store: Store, clock: VirtualClock) -> None:
        put(store, overlap="cancel")
        queued = start_run(store, clock, wake_at=clock.now())
        clock.advance(SECOND)
        running = start_run(store, clock, wake_at=clock.now())
        worker = register(store)
        held = claim_one(store, worker)
        assert held.job_id == queued
        clock.advance(SECOND)
        newest = start_run(store, clock, cancels=(queued, running))
        assert store.cancel_requests(worker) == [(queued, held.claim)]
        assert state_of(store, running) is JobState.CANCELLED
        assert state_of(store, newest) is JobState.QUEUED

    def test_many_schedulers_at_once_move_each_schedule_once(self, open_store: OpensStore, clock: VirtualClock) -> None:
        store = open_store()
        count = 60
        store.schedules.put_schedules([a_spec(f"s{n}") for n in range(count)])

        def schedule(number: int) -> Sequence[str]:
            own = open_store()
            seen = sorted(
                own.schedules.look_at_schedules(1000).schedules, key=lambda one: (hash(one.name) * number) % 97
            )
            moves = [a_move(one, **a_start(clock.now(), a_run(one.name, clock.now()))) for one in seen]
            return sorted(own.schedules.move_schedules(moves))

        moved = [name for moved in at_once(*(partial(schedule, n) for n in (1, 2, 3, 4))) for name in moved]
        assert sorted(moved) == sorted(f"s{n}" for n in range(count))
        assert sum(queue.due for queue in store.reads.queues()) == count


class TestFires:
    def test_they_are_pages_from_the_latest_on(self, store: Store, clock: VirtualClock) -> None:
        put(store)
        began = clock.now()
        skipped = tuple(Fired(began + n * SECOND, "skip", False, reason="an earlier run lives") for n in range(5))
        store.schedules.move_schedules([a_move(see(store), fires=skipped)])
        latest = store.schedules.fires("s", 2)
        assert [fire.due_at for fire in latest] == [began + 4 * SECOND, began + 3 * SECOND]
        assert latest[0].reason == "an earlier run lives"
        assert store.schedules.fires("s", 10, before=latest[1].due_at)[0].due_at == began + 2 * SECOND

    def test_old_ones_are_pruned_but_not_what_is_still_queued(self, store: Store, clock: VirtualClock) -> None:
        put(store)
        fires = (Fired(clock.now(), "skip", False), Fired(clock.now() + SECOND, "queue", False))
        store.schedules.move_schedules([a_move(see(store), clock.now(), fires=fires)])
        clock.advance(8 * DAY)
        store.schedules.move_schedules([a_move(see(store), fires=(Fired(clock.now(), "skip", False),))])
        assert store.prune(Retention(), 10).count == 1
        assert [fire.action for fire in store.schedules.fires("s", 10)] == ["skip", "queue"]


class TestDeclaring:
    def test_a_declared_schedule_is_stored_and_known_as_such(self, store: Store) -> None:
        spec = a_spec()
        store.schedules.declare_schedules([spec])
        view = store.schedules.get_schedules(["s"])["s"]
        assert (view.spec, view.is_declared) == (spec, True)

    def test_declaring_it_again_changes_nothing(self, store: Store, clock: VirtualClock) -> None:
        store.schedules.declare_schedules([a_spec()])
        store.schedules.move_schedules([a_move(see(store), clock.now() + HOUR)])
        store.schedules.declare_schedules([a_spec()])
        assert store.schedules.look_at_schedules(10).schedules == []

    def test_an_edit_stays_until_code_changes_that_very_field(self, store: Store) -> None:
        store.schedules.declare_schedules([a_spec(catchup="all")])
        put(store, rule=every("1h"), catchup="all", queue="mail")
        store.schedules.declare_schedules([a_spec(catchup="all")])
        assert store.schedules.get_schedules(["s"])["s"].spec == a_spec(rule=every("1h"), catchup="all", queue="mail")
        store.schedules.declare_schedules([a_spec(rule=every("2h"), catchup="all")])
        assert store.schedules.get_schedules(["s"])["s"].spec == a_spec(rule=every("2h"), catchup="all", queue="mail")

    def test_a_pause_belongs_to_run_time(self, store: Store) -> None:
        store.schedules.declare_schedules([a_spec()])
        store.schedules.pause_schedules(["s"])
        store.schedules.declare_schedules([a_spec(rule=every("1h"))])
        assert store.schedules.get_schedules(["s"])["s"].paused_at is not None

    def test_what_was_made_at_run_time_becomes_codes(self, store: Store) -> None:
        put(store, queue="mail")
        store.schedules.declare_schedules([a_spec(rule=every("1h"))])
        view = store.schedules.get_schedules(["s"])["s"]
        assert (view.spec, view.is_declared) == (a_spec(rule=every("1h")), True)

    def test_workers_say_which_ones_they_declare(self, store: Store) -> None:
        store.register_worker(replace(a_worker("w"), schedules=("s",)), [], MINUTE)
        (view,) = store.reads.workers()
        assert view.schedules == ("s",)


class TestCalendars:
    def test_they_are_stored_by_name(self, store: Store) -> None:
        weekend, sundays = calendar(weekdays=["sat", "sun"]), calendar(weekdays=["sun"])
        store.schedules.put_calendar("closed", weekend)
        store.schedules.put_calendar("closed", sundays)
        assert store.schedules.calendars() == {"closed": sundays}
        assert store.schedules.delete_calendar("closed") is True
        assert store.schedules.delete_calendar("closed") is False

    def test_editing_one_has_those_that_heed_it_looked_at_again(self, store: Store, clock: VirtualClock) -> None:
        store.schedules.put_calendar("closed", calendar(weekdays=["sun"]))
        store.schedules.put_schedules([a_spec("a", calendars="closed"), a_spec("b", cron("0 9 * * *"))])
        store.schedules.move_schedules(
            [a_move(one, clock.now() + DAY) for one in store.schedules.look_at_schedules(10).schedules]
        )
        before = clock.now()
        clock.advance(HOUR)
        store.schedules.put_calendar("closed", calendar(weekdays=["sat"]))
        seen = see(store)
        assert seen.name == "a"
        assert seen.standing.handled_at == clock.now(), "what was left out before does not fire after all"
        store.schedules.move_schedules([a_move(seen, clock.now() + DAY)])
        store.schedules.put_calendar("closed", calendar(weekdays=["sat"]))
        assert store.schedules.look_at_schedules(10).schedules == [], "the same again changes nothing"
        assert before < clock.now()

    def test_what_is_due_and_not_judged_stays_due(self, store: Store, clock: VirtualClock) -> None:
        store.schedules.put_calendar("closed", calendar(weekdays=["sun"]))
        put(store, calendars="closed")
        seen = see(store)
        store.schedules.move_schedules([a_move(seen, clock.now() + MINUTE)])
        clock.advance(MINUTE)
        store.schedules.put_calendar("closed", calendar(weekdays=["sat"]))
        assert see(store).standing.handled_at == seen.standing.handled_at

    def test_a_scheduler_that_decided_by_the_old_one_moves_nothing(self, store: Store, clock: VirtualClock) -> None:
        store.schedules.put_calendar("closed", calendar(weekdays=["sun"]))
        put(store, calendars="closed")
        seen = see(store)
        store.schedules.put_calendar("closed", calendar(weekdays=["sat"]))
        assert store.schedules.move_schedules([a_move(seen, clock.now())]) == set()

    def test_one_that_is_heeded_is_not_deleted(self, store: Store) -> None:
        store.schedules.put_calendar("closed", calendar(weekdays=["sun"]))
        put(store, calendars="closed")
        with pytest.raises(InvalidInput, match="heeded by schedule 's'"):
            store.schedules.delete_calendar("closed")
        assert list(store.schedules.calendars()) == ["closed"]


def test_jobs_that_are_inserted_with_a_tick_keep_it(store: Store, clock: VirtualClock) -> None:
    """A run outside of the rule, and a backfill, come this way."""
    jobs = [a_run("s", clock.now() - n * timedelta(hours=1), id=an_id(), key=f"k{n}") for n in range(3)]
    ids = store.insert_jobs(jobs)
    occurrences = [store.reads.get_jobs(ids)[job_id].occurrence for job_id in ids]
    assert [occurrence and occurrence.scheduled_for for occurrence in occurrences] == [
        clock.now() - n * HOUR for n in range(3)
    ]


class TestPausesThatEnd:
    def test_it_is_looked_at_when_its_pause_ends(self, store: Store, clock: VirtualClock) -> None:
        put(store)
        store.schedules.move_schedules([a_move(see(store))])
        until = store.now() + HOUR
        assert store.schedules.pause_schedules(["s"], "ada", "is down", until) == ["s"]
        assert store.schedules.get_schedules(["s"])["s"].paused_until == until
        assert store.schedules.look_at_schedules(10).schedules == []
        assert store.schedules.end_pauses() == []
        clock.advance(HOUR)
        assert (see(store).standing.paused, see(store).paused_until) == (True, until)
        assert store.schedules.end_pauses() == ["s"]
        view = store.schedules.get_schedules(["s"])["s"]
        assert (view.paused_at, view.paused_until, view.standing.active_since) == (None, None, store.now())
        assert store.schedules.end_pauses() == []

    def test_nothing_else_that_happens_to_it_makes_it_forget_that(self, store: Store, clock: VirtualClock) -> None:
        store.schedules.put_calendar("c", calendar(weekdays=["sat"]))
        put(store, calendars="c")
        seen = see(store)
        until = store.now() + HOUR
        store.schedules.pause_schedules(["s"], until=until)
        put(store, rule=every("2m"), calendars="c")
        store.schedules.put_calendar("c", calendar(weekdays=["sun"]))
        store.schedules.move_schedules([a_move(seen)])
        assert store.schedules.get_schedules(["s"])["s"].wake_at == until
        clock.advance(HOUR)
        store.schedules.move_schedules([a_move(see(store))])
        assert store.schedules.end_pauses() == ["s"]

    def test_one_that_is_resumed_before_stays_so(self, store: Store, clock: VirtualClock) -> None:
        put(store)
        store.schedules.pause_schedules(["s"], until=store.now() + HOUR)
        assert store.schedules.resume_schedules(["s"]) == ["s"]
        store.schedules.pause_schedules(["s"])
        clock.advance(2 * HOUR)
        assert store.schedules.end_pauses() == []
        assert store.schedules.get_schedules(["s"])["s"].standing.paused


def test_a_schedule_is_replaced_only_where_it_is_what_was_seen(store: Store) -> None:
    first, second, third = a_spec(), a_spec(rule=every("2m")), a_spec(rule=every("3m"))
    assert not store.schedules.replace_schedule(second, first), "there is none"
    assert store.schedules.replace_schedule(first, None)
    assert not store.schedules.replace_schedule(second, None), "there is one"
    assert not store.schedules.replace_schedule(second, third)
    assert store.schedules.replace_schedule(second, first)
    assert store.schedules.get_schedules(["s"])["s"].spec == second


def test_of_two_who_make_a_schedule_at_once_one_does(open_store: OpensStore) -> None:
    stores = [open_store() for _ in range(4)]
    specs = [a_spec(rule=every(f"{n + 1}m")) for n in range(4)]
    made = at_once(
        *[partial(one.schedules.replace_schedule, spec, None) for one, spec in zip(stores, specs, strict=True)]
    )
    assert sorted(made) == [False, False, False, True]
    assert stores[0].schedules.get_schedules(["s"])["s"].spec == specs[made.index(True)]
