"""Leases: one for each worker, renewed by heartbeats, taken back by the reaper only while they are past."""

import pytest

from tests.store.builders import (
    DAY,
    HOUR,
    MICROSECOND,
    MINUTE,
    SECOND,
    a_definition,
    a_worker,
    abandoned,
    claim,
    claim_one,
    jobs,
    reap,
    register,
    running,
    state_of,
    succeeded,
)
from tickwork.core.ids import WorkerId
from tickwork.core.job import AttemptState, JobState, Policy
from tickwork.core.retention import Retention
from tickwork.errors import LeaseLost
from tickwork.store.base import Store
from tickwork.testing import VirtualClock


def test_open_attempts_of_a_worker_that_fell_silent_are_found(store: Store, clock: VirtualClock) -> None:
    worker = register(store, lease=MINUTE)
    policy = Policy(on_lost="fail")
    claimed = running(store, worker, policy=policy)
    clock.advance(MINUTE)
    assert store.expired_attempts(10) == [], "a lease holds up to its last moment"
    clock.advance(MICROSECOND)
    (found,) = store.expired_attempts(10)
    assert (found.job_id, found.attempt, found.worker, found.policy) == (claimed.job_id, 1, worker, policy)
    assert (found.failures, found.crashes, found.alone) == (0, 0, False)


def test_attempts_of_living_workers_are_not_in_the_way_of_lost_ones(store: Store, clock: VirtualClock) -> None:
    lost = running(store)
    clock.advance(2 * MINUTE)
    store.insert_jobs(jobs(50))
    claim(store)
    assert [found.job_id for found in store.expired_attempts(1)] == [lost.job_id]


def test_a_reclaimed_job_runs_again_at_once_and_is_not_charged(store: Store, clock: VirtualClock) -> None:
    lost = running(store)
    clock.advance(HOUR)
    assert reap(store) == {lost.job_id}
    second = claim_one(store)
    assert (second.job_id, second.attempt, second.failures) == (lost.job_id, 2, 0)
    first, _ = store.reads.attempts(lost.job_id)
    assert first.state is AttemptState.LOST
    assert first.error
    assert "lease" in first.error


def test_a_renewal_in_between_wins_over_the_reaper(store: Store, clock: VirtualClock) -> None:
    worker = register(store)
    claimed = running(store, worker)
    clock.advance(HOUR)
    found = store.expired_attempts(10)
    assert store.renew_lease(worker, MINUTE)
    assert store.reclaim_attempts([abandoned(attempt) for attempt in found]) == set()
    assert store.finish_attempts([succeeded(claimed)]) == {claimed.job_id}


def test_a_finish_in_between_wins_over_the_reaper(store: Store, clock: VirtualClock) -> None:
    claimed = running(store)
    clock.advance(HOUR)
    found = store.expired_attempts(10)
    store.finish_attempts([succeeded(claimed)])
    assert store.reclaim_attempts([abandoned(attempt) for attempt in found]) == set()
    assert state_of(store, claimed.job_id) is JobState.SUCCEEDED


def test_two_reapers_reclaim_once(store: Store, clock: VirtualClock) -> None:
    running(store)
    clock.advance(HOUR)
    found = [abandoned(attempt) for attempt in store.expired_attempts(10)]
    assert len(store.reclaim_attempts(found)) == 1
    assert store.reclaim_attempts(found) == set()
    assert len(claim(store)) == 1


def test_a_reclaimed_attempt_is_not_mistaken_for_the_one_after_it(store: Store, clock: VirtualClock) -> None:
    running(store)
    clock.advance(HOUR)
    found = [abandoned(attempt) for attempt in store.expired_attempts(10)]
    store.reclaim_attempts(found)
    second = claim_one(store, lease=MINUTE)
    clock.advance(HOUR)
    assert store.reclaim_attempts(found) == set(), "this one is not what was found"
    assert reap(store) == {second.job_id}


class TestRenewing:
    def test_a_renewed_lease_counts_from_now(self, store: Store, clock: VirtualClock) -> None:
        worker = register(store, lease=MINUTE)
        clock.advance(30 * SECOND)
        assert store.renew_lease(worker, MINUTE)
        (view,) = store.reads.workers()
        assert view.lease_until == clock.now() + MINUTE

    def test_a_worker_that_came_back_before_the_reaper_goes_on(self, store: Store, clock: VirtualClock) -> None:
        worker = register(store)
        running(store, worker)
        clock.advance(DAY)
        assert store.renew_lease(worker, MINUTE)
        assert reap(store) == set()

    def test_an_unknown_worker_is_told_so(self, store: Store) -> None:
        assert not store.renew_lease(WorkerId("nobody"), MINUTE)

    def test_a_worker_that_lost_an_attempt_must_register_again(self, store: Store, clock: VirtualClock) -> None:
        """Otherwise it would go on with what it still holds, and with what it does not hold any more."""
        worker = register(store, lease=MINUTE)
        running(store, worker)
        running(store, worker)
        clock.advance(HOUR)
        store.reclaim_attempts([abandoned(attempt) for attempt in store.expired_attempts(1)])
        assert not store.renew_lease(worker, MINUTE)
        assert len(reap(store)) == 1, "and the rest is reclaimed, too"

    def test_one_that_only_went_silent_and_held_nothing_may_go_on(self, store: Store, clock: VirtualClock) -> None:
        worker = register(store, lease=MINUTE)
        clock.advance(HOUR)
        reap(store)
        assert store.renew_lease(worker, MINUTE)

    def test_a_worker_that_ended_cannot_renew(self, store: Store) -> None:
        worker = register(store)
        store.end_worker(worker)
        assert not store.renew_lease(worker, MINUTE)


class TestRegistering:
    def test_a_registration_that_is_repeated_changes_nothing(self, store: Store) -> None:
        register(store, "w")
        before = store.reads.workers()
        register(store, "w")
        assert store.reads.workers() == before

    @pytest.mark.parametrize("how", ["lost", "ended"])
    def test_an_id_is_not_used_again(self, store: Store, clock: VirtualClock, how: str) -> None:
        """Attempts that the old one left open would look like the new one's."""
        worker = register(store, "w")
        left = running(store, worker)
        if how == "lost":
            lost = running(store, worker)
            clock.advance(HOUR)
            assert store.reclaim_attempts([abandoned(lost)]) == {lost.job_id}
        else:
            store.end_worker(worker)
        with pytest.raises(LeaseLost, match="new id"):
            register(store, "w")
        clock.advance(HOUR)
        assert left.job_id in {attempt.job_id for attempt in store.expired_attempts(10)}

    def test_a_worker_is_seen_as_it_registered(self, store: Store, clock: VirtualClock) -> None:
        store.register_worker(a_worker("w", ("a", "b")), [], MINUTE)
        running(store, WorkerId("w"))
        (view,) = store.reads.workers()
        assert (view.id, view.host, view.pid, view.version) == ("w", "host", 1, "1.0")
        assert (view.queues, view.tasks, view.slots) == (("default",), ("a", "b"), 10)
        assert (view.state, view.running) == ("running", 1)
        assert (view.started_at, view.lease_until) == (clock.now(), clock.now() + MINUTE)

    def test_what_workers_say_of_a_task_is_kept_the_last_word_counts(self, store: Store) -> None:
        assert store.reads.task_definition("t") is None
        store.register_worker(a_worker("w"), [a_definition(), a_definition("other")], MINUTE)
        changed = a_definition(queue="mail", priority=2, policy=Policy(timeout=MINUTE), schema=b'{"type": "object"}')
        store.register_worker(a_worker("w2"), [changed], MINUTE)
        assert store.reads.task_definition("t") == changed
        assert store.reads.task_definition("other") == a_definition("other")


class TestLeaving:
    def test_a_draining_worker_is_seen_as_such_and_finishes_what_it_holds(self, store: Store) -> None:
        worker = register(store)
        claimed = running(store, worker)
        store.drain_worker(worker)
        assert [view.state for view in store.reads.workers()] == ["draining"]
        assert store.renew_lease(worker, MINUTE)
        assert store.finish_attempts([succeeded(claimed)]) == {claimed.job_id}

    def test_a_worker_that_ended_is_forgotten(self, store: Store) -> None:
        store.end_worker(register(store))
        assert store.reads.workers() == []

    def test_whatever_it_left_open_is_reclaimed_at_once(self, store: Store) -> None:
        worker = register(store)
        left = running(store, worker)
        store.end_worker(worker)
        assert reap(store) == {left.job_id}
        assert not store.renew_lease(worker, MINUTE)

    def test_a_lost_worker_is_seen_for_a_while(self, store: Store, clock: VirtualClock) -> None:
        worker = register(store, lease=MINUTE)
        clock.advance(2 * MINUTE)
        assert [(view.id, view.state) for view in store.reads.workers()] == [(worker, "lost")]
        clock.advance(DAY)
        store.prune(Retention(), 10)
        assert store.reads.workers() == []

    def test_a_lost_worker_is_remembered_until_its_attempts_are_reclaimed(
        self, store: Store, clock: VirtualClock
    ) -> None:
        claimed = running(store)
        clock.advance(DAY)
        store.prune(Retention(), 10)
        assert reap(store) == {claimed.job_id}


def test_a_worker_learns_what_it_holds(store: Store) -> None:
    worker = register(store)
    assert store.open_attempts(worker) == []
    claimed = [running(store, worker) for _ in range(2)]
    running(store)
    assert [(held.job_id, held.attempt, held.worker) for held in store.open_attempts(worker)] == [
        (one.job_id, 1, worker) for one in claimed
    ]
    store.finish_attempts([succeeded(claimed[0])])
    assert [held.job_id for held in store.open_attempts(worker)] == [claimed[1].job_id]


def test_requests_to_stop_reach_the_worker_that_runs_the_job(store: Store) -> None:
    worker, other = register(store), register(store)
    wanted, kept, elsewhere = running(store, worker), running(store, worker), running(store, other)
    store.cancel_jobs([wanted.job_id, elsewhere.job_id])
    assert store.cancel_requests(worker) == [(wanted.job_id, wanted.claim)]
    assert store.cancel_requests(other) == [(elsewhere.job_id, elsewhere.claim)]
    store.finish_attempts([succeeded(wanted), succeeded(kept)])
    assert store.cancel_requests(worker) == []


def test_a_store_with_stuck_leases_says_so(store: Store, clock: VirtualClock) -> None:
    running(store)
    assert store.health().facts["stuck leases"] == "0"
    clock.advance(HOUR)
    health = store.health()
    assert health.facts["stuck leases"] == "1"
    assert any("start a worker" in warning for warning in health.warnings)
    reap(store)
    assert store.health().facts["stuck leases"] == "0"
