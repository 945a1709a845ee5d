"""Changes of jobs by callers, operators and services: cancel, retry, discard, expire, prune."""

import pytest

from tests.store.builders import (
    DAY,
    HOUR,
    MICROSECOND,
    MINUTE,
    NOTHING,
    SECOND,
    a_job,
    again,
    an_id,
    claim,
    claim_one,
    ended,
    failed,
    insert_one,
    jobs,
    log,
    running,
    state_of,
    states_of,
    succeeded,
)
from tickwork.core.ids import JobId
from tickwork.core.job import AttemptState, JobFilter, JobState, Policy
from tickwork.core.retention import Retention, read_retention
from tickwork.store.base import Store
from tickwork.store.rows.instants import to_us
from tickwork.testing import VirtualClock

NOT_AN_ID = JobId("not an id")


class TestCancel:
    def test_a_waiting_job_ends_at_once(self, store: Store, clock: VirtualClock) -> None:
        due, later = insert_one(store), insert_one(store, delay=HOUR)
        assert store.cancel_jobs([due, later]) == [due, later]
        assert states_of(store, [due, later]) == [JobState.CANCELLED] * 2
        view = store.reads.get_jobs([due])[due]
        assert (view.ended_at, view.attempt) == (clock.now(), 0)
        assert view.error
        assert store.reads.attempts(due) == []
        clock.advance(DAY)
        assert claim(store) == []

    def test_a_running_job_is_asked_to_stop(self, store: Store) -> None:
        claimed = running(store)
        assert store.cancel_jobs([claimed.job_id]) == [claimed.job_id]
        view = store.reads.get_jobs([claimed.job_id])[claimed.job_id]
        assert (view.state, view.cancel_requested) == (JobState.RUNNING, True)

    def test_to_ask_twice_is_to_ask_once(self, store: Store, clock: VirtualClock) -> None:
        claimed = running(store)
        store.cancel_jobs([claimed.job_id])
        clock.advance(SECOND)
        assert store.cancel_jobs([claimed.job_id, claimed.job_id]) == [claimed.job_id]

    def test_an_ended_job_stays_as_it_is(self, store: Store) -> None:
        done, dead = ended(store), ended(store, failed)
        assert store.cancel_jobs([done, dead]) == []
        assert states_of(store, [done, dead]) == [JobState.SUCCEEDED, JobState.FAILED]

    def test_a_job_that_waits_for_a_retry_keeps_its_tries(self, store: Store) -> None:
        claimed = running(store)
        store.finish_attempts([again(claimed, HOUR)])
        assert store.cancel_jobs([claimed.job_id]) == [claimed.job_id]
        assert [tried.state for tried in store.reads.attempts(claimed.job_id)] == [AttemptState.FAILED]
        assert store.reads.get_jobs([claimed.job_id])[claimed.job_id].attempt == 1

    def test_the_answer_is_in_the_order_of_the_question(self, store: Store) -> None:
        queued = [insert_one(store, queue="q") for _ in range(3)]
        active = [running(store).job_id for _ in range(3)]
        asked = [queued[2], active[0], an_id(), queued[0], NOT_AN_ID, active[2], queued[1], active[1]]
        assert store.cancel_jobs(asked) == [one for one in asked if one in {*queued, *active}]

    def test_unknown_jobs_and_none_are_no_trouble(self, store: Store) -> None:
        assert store.cancel_jobs([]) == store.cancel_jobs([an_id(), NOT_AN_ID]) == []


class TestRetry:
    @pytest.mark.parametrize("how", ["failed", "cancelled", "cancelled while it ran", "expired"])
    def test_an_ended_job_runs_again(self, store: Store, clock: VirtualClock, how: str) -> None:
        if how == "failed":
            job_id = ended(store, failed)
        elif how == "expired":
            job_id = insert_one(store, policy=Policy(expires=SECOND))
            clock.advance(MINUTE)
            store.expire_jobs(10)
        else:
            job_id = insert_one(store)
            claimed = [claim_one(store)] if how == "cancelled while it ran" else []
            store.cancel_jobs([job_id])
            store.finish_attempts([succeeded(one) for one in claimed])
        tried = len(store.reads.attempts(job_id))

        assert store.retry_jobs([job_id]) == [job_id]
        view = store.reads.get_jobs([job_id])[job_id]
        assert (view.state, view.failures, view.error, view.ended_at) == (JobState.QUEUED, 0, None, None)
        again = claim_one(store)
        assert (again.job_id, again.attempt) == (job_id, tried + 1)
        assert store.finish_attempts([succeeded(again)]) == {job_id}
        assert [one.number for one in store.reads.attempts(job_id)] == list(range(1, tried + 2))

    def test_the_count_of_failures_begins_again_that_of_attempts_goes_on(self, store: Store) -> None:
        claimed = running(store)
        store.finish_attempts([again(claimed)])
        store.finish_attempts([failed(claim_one(store))])
        store.retry_jobs([claimed.job_id])
        third = claim_one(store)
        assert (third.attempt, third.failures) == (3, 0)

    def test_a_job_that_succeeded_is_not_run_again(self, store: Store) -> None:
        job_id = ended(store)
        assert store.retry_jobs([job_id]) == []
        assert state_of(store, job_id) is JobState.SUCCEEDED

    def test_a_running_job_is_left_alone(self, store: Store) -> None:
        claimed = running(store)
        assert store.retry_jobs([claimed.job_id]) == []
        assert store.finish_attempts([succeeded(claimed)]) == {claimed.job_id}

    def test_a_job_whose_time_has_not_come_becomes_due(self, store: Store, clock: VirtualClock) -> None:
        job_id = insert_one(store, delay=DAY)
        assert store.retry_jobs([job_id]) == [job_id]
        assert claim_one(store).run_at_us == to_us(clock.now())

    def test_one_that_is_due_already_is_not_touched(self, store: Store) -> None:
        assert store.retry_jobs([insert_one(store)]) == []

    def test_jobs_become_due_one_spacing_after_the_other(self, store: Store, clock: VirtualClock) -> None:
        dead = [ended(store, failed) for _ in range(3)]
        waiting = insert_one(store, delay=DAY)
        asked = [dead[2], ended(store), dead[0], waiting, dead[1]]
        assert store.retry_jobs(asked, spacing=MINUTE, first=HOUR) == [dead[2], dead[0], waiting, dead[1]]
        views = store.reads.get_jobs(asked)
        began = clock.now() + HOUR
        assert [views[one].run_at - began for one in (dead[2], dead[0], waiting, dead[1])] == [
            n * MINUTE for n in range(4)
        ]

    def test_spacing_does_not_make_a_waiting_job_wait_longer(self, store: Store, clock: VirtualClock) -> None:
        waiting = insert_one(store, delay=MINUTE)
        assert store.retry_jobs([waiting], first=HOUR) == [waiting]
        assert store.reads.get_jobs([waiting])[waiting].run_at == clock.now() + MINUTE

    def test_it_does_not_take_a_key_from_a_live_job(self, store: Store) -> None:
        old = ended(store, failed, key="k")
        insert_one(store, key="k")
        assert store.retry_jobs([old]) == []
        assert state_of(store, old) is JobState.FAILED

    def test_it_takes_its_key_back_when_that_is_free(self, store: Store) -> None:
        old = ended(store, failed, key="k")
        assert store.retry_jobs([old]) == [old]
        assert insert_one(store, key="k") == old
        store.finish_attempts([succeeded(claim_one(store))])
        assert insert_one(store, key="k") != old

    def test_its_own_lingering_key_is_no_hindrance(self, store: Store, clock: VirtualClock) -> None:
        old = ended(store, failed, key="k", policy=Policy(key_for=HOUR))
        assert store.retry_jobs([old]) == [old]
        clock.advance(DAY)
        assert insert_one(store, key="k") == old, "it lives: the hour has not begun"

    def test_the_lingering_key_of_another_is(self, store: Store, clock: VirtualClock) -> None:
        old = ended(store, failed, key="k")
        ended(store, key="k", policy=Policy(key_for=HOUR))
        assert store.retry_jobs([old]) == []
        clock.advance(HOUR)
        assert store.retry_jobs([old]) == [old]

    def test_of_two_with_one_key_the_first_is_queued(self, store: Store) -> None:
        dead = [ended(store, failed, key="k") for _ in range(2)]
        assert store.retry_jobs([dead[1], dead[0]]) == [dead[1]]
        assert states_of(store, dead) == [JobState.FAILED, JobState.QUEUED]

    def test_a_job_with_an_old_deadline_is_run_all_the_same(self, store: Store, clock: VirtualClock) -> None:
        job_id = insert_one(store, policy=Policy(expires=SECOND))
        clock.advance(HOUR)
        store.expire_jobs(10)
        store.retry_jobs([job_id])
        assert store.expire_jobs(10) == 0
        assert claim_one(store).job_id == job_id

    def test_unknown_jobs_and_none_are_no_trouble(self, store: Store) -> None:
        assert store.retry_jobs([]) == store.retry_jobs([an_id(), NOT_AN_ID]) == []


class TestDiscard:
    def test_a_dead_letter_is_taken_out_and_stays_readable(self, store: Store) -> None:
        dead, other = ended(store, failed), ended(store, failed)
        assert store.discard_jobs([dead]) == [dead]
        assert store.discard_jobs([dead]) == []
        assert [view.id for view in store.reads.list_jobs(JobFilter(dead=True), 10)] == [other]
        view = store.reads.get_jobs([dead])[dead]
        assert (view.state, view.discarded) == (JobState.FAILED, True)

    def test_only_failed_jobs_are_dead_letters(self, store: Store) -> None:
        cancelled = insert_one(store)
        store.cancel_jobs([cancelled])
        others = [ended(store), cancelled, insert_one(store), an_id(), NOT_AN_ID]
        assert store.discard_jobs(others) == []

    def test_a_discarded_job_can_be_retried_and_is_a_dead_letter_again(self, store: Store) -> None:
        dead = ended(store, failed)
        store.discard_jobs([dead])
        assert store.retry_jobs([dead]) == [dead]
        store.finish_attempts([failed(claim_one(store))])
        assert [view.id for view in store.reads.list_jobs(JobFilter(dead=True), 10)] == [dead]


class TestExpire:
    def test_a_job_that_was_not_started_in_time_expires(self, store: Store, clock: VirtualClock) -> None:
        job_id = insert_one(store, policy=Policy(expires=MINUTE))
        clock.advance(MINUTE - MICROSECOND)
        assert store.expire_jobs(10) == 0
        clock.advance(MICROSECOND)
        assert store.expire_jobs(10) == 1
        view = store.reads.get_jobs([job_id])[job_id]
        assert (view.state, view.ended_at) == (JobState.EXPIRED, clock.now())
        assert view.error

    def test_a_running_job_does_not(self, store: Store, clock: VirtualClock) -> None:
        claimed = running(store, policy=Policy(expires=MINUTE))
        clock.advance(HOUR)
        assert store.expire_jobs(10) == 0
        assert store.finish_attempts([succeeded(claimed)]) == {claimed.job_id}

    def test_a_batch_is_bounded(self, store: Store, clock: VirtualClock) -> None:
        store.insert_jobs(jobs(5, policy=Policy(expires=MINUTE)))
        clock.advance(HOUR)
        assert [store.expire_jobs(2) for _ in range(4)] == [2, 2, 1, 0]


class TestPrune:
    def test_ended_jobs_go_when_they_are_old_enough(self, store: Store, clock: VirtualClock) -> None:
        done, dead = ended(store), ended(store, failed)
        live = [insert_one(store, queue="q"), running(store).job_id]
        clock.advance(7 * DAY)
        assert store.prune(Retention(), 10).count == 0
        clock.advance(SECOND)
        assert store.prune(Retention(), 10).count == 1
        assert set(store.reads.get_jobs([done, dead, *live])) == {dead, *live}
        clock.advance(23 * DAY)
        assert store.prune(Retention(), 10).count == 1
        assert set(store.reads.get_jobs([done, dead, *live])) == set(live)

    def test_everything_of_a_job_goes_with_it(self, store: Store, clock: VirtualClock) -> None:
        claimed = running(store, key="k")
        store.append_logs([log(claimed, "text")])
        store.save_state(claimed.job_id, claimed.claim, b"1")
        store.finish_attempts([again(claimed)])
        store.finish_attempts([succeeded(claim_one(store))])
        clock.advance(DAY)
        assert store.prune(Retention(ended=HOUR), 10).count == 1
        assert store.reads.attempts(claimed.job_id) == []
        assert store.reads.logs(claimed.job_id) == []
        assert store.saved_state(claimed.job_id) is None
        assert store.reads.find_key("k") is None

    def test_a_batch_is_bounded_and_takes_the_oldest(self, store: Store, clock: VirtualClock) -> None:
        ids = []
        for _ in range(5):
            ids.append(ended(store))
            clock.advance(SECOND)
        assert store.prune(Retention(ended=NOTHING), 2).count == 2
        assert set(store.reads.get_jobs(ids)) == set(ids[2:])
        assert [store.prune(Retention(ended=NOTHING), 2).count for _ in range(3)] == [2, 1, 0]

    def test_the_narrowest_rule_for_a_job_counts(self, store: Store, clock: VirtualClock) -> None:
        kept = read_retention("1d, failed=3d, queue:mail=2d, queue:mail/failed=4d, task:o'hara=forever, task:u=6d")
        names = {"task": "t"}, {"task": "t", "queue": "mail"}, {"task": "u", "queue": "mail"}
        ages = {}
        for about in names:
            for how, state in ((succeeded, "succeeded"), (failed, "failed")):
                ages[ended(store, how, **about)] = kept.age(about["task"], about.get("queue", "default"), state)
        for day in range(1, 8):
            clock.advance(DAY if day > 1 else DAY + SECOND)
            while store.prune(kept, 10).count:
                pass
            assert set(store.reads.get_jobs(list(ages))) == {
                id for id, age in ages.items() if age >= day * DAY + SECOND
            }

    def test_a_look_goes_on_behind_the_jobs_that_are_kept(self, store: Store, clock: VirtualClock) -> None:
        ids = [ended(store, how) for how in (failed, failed, failed, succeeded, succeeded)]
        clock.advance(8 * DAY)
        first = store.prune(Retention(), 2)
        assert (first.count, first.next is None) == (0, False)
        second = store.prune(Retention(), 2, first.next)
        assert (second.count, second.next is None) == (1, False)
        third = store.prune(Retention(), 2, second.next)
        assert (third.count, third.next) == (1, None)
        assert set(store.reads.get_jobs(ids)) == set(ids[:3])

    def test_a_job_that_runs_again_is_not_pruned_for_its_past(self, store: Store, clock: VirtualClock) -> None:
        job_id = ended(store, failed)
        clock.advance(365 * DAY)
        store.retry_jobs([job_id])
        assert store.prune(Retention(), 10).count == 0
        assert claim_one(store).job_id == job_id


def test_changing_a_job_leaves_its_neighbours_alone(store: Store) -> None:
    batch = [a_job(priority=n) for n in range(10)]
    ids = store.insert_jobs(batch)
    before = store.reads.get_jobs(ids)
    store.cancel_jobs([ids[3]])
    store.retry_jobs([ids[3]])
    after = store.reads.get_jobs(ids)
    assert {one: after[one] for one in ids if one != ids[3]} == {one: before[one] for one in ids if one != ids[3]}
