"""Attempts over REST: each has a lease of its own, which is renewed, lost and reclaimed without the others."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.store.builders import (
    DAY,
    HOUR,
    MICROSECOND,
    MINUTE,
    SECOND,
    a_job,
    a_worker,
    abandoned,
    claim,
    claim_one,
    ending,
    insert_one,
    jobs,
    reap,
    running,
    succeeded,
)
from tests.store.conftest import EveryMeeting
from tickwork.core.ids import ClaimId, JobId, WorkerId
from tickwork.core.job import RUN, AttemptState, Claimed
from tickwork.core.limits.gates import Gate
from tickwork.core.limits.job_limits import JobLimits, LimitUse
from tickwork.core.limits.limits import Concurrency
from tickwork.core.outcome import Released
from tickwork.core.retention import Retention
from tickwork.store.base import Store, WorkerRegistration
from tickwork.store.remote_leases import LeaseGrant, RemoteAttempt, RemoteName
from tickwork.testing import VirtualClock

CLAIMER = WorkerId("server/1")
KEY = "key:ci"


def claimer(store: Store, name: WorkerId = CLAIMER) -> WorkerId:
    """A server, which claims for others and has no slots."""
    store.register_worker(WorkerRegistration(name, "host", 1, "1.0", (), (), 0), [], MINUTE)
    return name


def grant(attempt: Claimed, name: str = "bash-1", lease: timedelta = MINUTE) -> LeaseGrant:
    return LeaseGrant(
        attempt.job_id, attempt.claim, WorkerId(f"{name}/{attempt.job_id}"), name, KEY, ("default",), ("t",), lease
    )


def named(attempt: Claimed) -> RemoteName:
    return RemoteName(attempt.job_id, attempt.attempt, attempt.claim, KEY)


def unclaimed(job_id: JobId, attempt: int = 1, lessee: str = KEY) -> RemoteName:
    """An attempt as a caller names it that does not send the claim."""
    return RemoteName(job_id, attempt, None, lessee)


def leased(store: Store, count: int = 1, lease: timedelta = MINUTE) -> list[Claimed]:
    """Attempts with leases of their own."""
    store.insert_jobs(jobs(count))
    claimed = claim(store, count, claimer(store))
    assert set(store.remote.grant_leases(CLAIMER, [grant(one, lease=lease) for one in claimed])) == {
        one.job_id for one in claimed
    }
    return claimed


def standing(store: Store, attempt: Claimed) -> RemoteAttempt:
    found = store.remote.remote_attempt(named(attempt))
    assert found is not None
    return found


class TestGranting:
    def test_a_granted_lease_is_the_attempts_own(self, store: Store, clock: VirtualClock) -> None:
        (one,) = leased(store, lease=2 * MINUTE)
        found = standing(store, one)
        assert (found.job_id, found.attempt, found.worker) == (one.job_id, 1, f"bash-1/{one.job_id}")
        assert (found.task, found.queue, found.policy) == ("t", "default", one.policy)
        assert (found.claimed_at, found.lease_until) == (clock.now(), clock.now() + 2 * MINUTE)
        assert not found.cancel_requested
        assert store.open_attempts(CLAIMER) == []

    def test_what_another_worker_holds_is_not_granted(self, store: Store) -> None:
        claimer(store)
        elsewhere = running(store)
        assert store.remote.grant_leases(CLAIMER, [grant(elsewhere)]) == {}
        assert store.remote.remote_attempt(named(elsewhere)) is None
        assert store.finish_attempts([succeeded(elsewhere)]) == {elsewhere.job_id}

    def test_what_was_reclaimed_before_the_grant_is_not_granted(self, store: Store, clock: VirtualClock) -> None:
        insert_one(store)
        first = claim_one(store, claimer(store))
        clock.advance(HOUR)
        assert reap(store) == {first.job_id}
        claim_one(store, claimer(store, WorkerId("server/2")))
        assert store.remote.grant_leases(CLAIMER, [grant(first)]) == {}
        assert store.remote.grant_leases(WorkerId("server/2"), [grant(first)]) == {}, (
            "that is another attempt of the job"
        )

    def test_an_attempt_of_a_server_that_died_before_the_grant_is_reclaimed(
        self, store: Store, clock: VirtualClock
    ) -> None:
        job_id = insert_one(store)
        claim_one(store, claimer(store))
        clock.advance(MINUTE + MICROSECOND)
        assert reap(store) == {job_id}

    def test_a_grant_and_a_reaper_do_not_both_have_an_attempt(
        self, postgres: Store, clock: VirtualClock, every_meeting: EveryMeeting
    ) -> None:
        def make() -> tuple[Callable[[Store], object], Callable[[Store], object], Callable[[object, object], None]]:
            insert_one(postgres)
            one = claim_one(postgres, claimer(postgres))
            clock.advance(MINUTE + MICROSECOND)

            def check(granted: object, reclaimed: object) -> None:
                assert (granted == {}) is (reclaimed == {one.job_id})
                assert (postgres.remote.remote_attempt(named(one)) is None) is (granted == {})

            return (
                lambda store: store.remote.grant_leases(CLAIMER, [grant(one)]),
                lambda store: store.reclaim_attempts([abandoned(one)]),
                check,
            )

        every_meeting(make)

    def test_a_grant_and_a_cancellation_both_count(self, postgres: Store, every_meeting: EveryMeeting) -> None:
        def make() -> tuple[Callable[[Store], object], Callable[[Store], object], Callable[[object, object], None]]:
            insert_one(postgres)
            one = claim_one(postgres, claimer(postgres))

            def check(granted: object, cancelled: object) -> None:
                assert list(granted) == cancelled == [one.job_id]  # type: ignore[call-overload]
                assert standing(postgres, one).cancel_requested

            return (
                lambda store: store.remote.grant_leases(CLAIMER, [grant(one)]),
                lambda store: store.cancel_jobs([one.job_id]),
                check,
            )

        every_meeting(make)


class TestLeasesApart:
    def test_a_lease_that_runs_out_takes_one_attempt_with_it(self, store: Store, clock: VirtualClock) -> None:
        silent, other = leased(store, 2)
        clock.advance(MINUTE)
        assert store.remote.renew_attempt(named(other), MINUTE) is not None
        clock.advance(SECOND)
        assert reap(store) == {silent.job_id}
        assert store.remote.remote_attempt(named(silent)) is None
        assert store.finish_attempts([succeeded(silent)]) == set()
        assert store.finish_attempts([succeeded(other)]) == {other.job_id}
        (first,) = store.reads.attempts(silent.job_id)
        assert (first.state, first.worker) == (AttemptState.LOST, f"bash-1/{silent.job_id}")

    def test_a_renewal_counts_from_now(self, store: Store, clock: VirtualClock) -> None:
        (one,) = leased(store)
        clock.advance(30 * SECOND)
        renewed = store.remote.renew_attempt(named(one), HOUR)
        assert renewed is not None
        assert renewed.lease_until == clock.now() + HOUR
        assert standing(store, one) == renewed

    def test_one_that_came_back_before_the_reaper_goes_on(self, store: Store, clock: VirtualClock) -> None:
        (one,) = leased(store)
        clock.advance(DAY)
        found = store.expired_attempts(10)
        assert store.remote.renew_attempt(named(one), MINUTE) is not None
        assert store.reclaim_attempts([abandoned(attempt) for attempt in found]) == set()
        assert store.finish_attempts([succeeded(one)]) == {one.job_id}

    def test_a_late_end_that_was_not_reclaimed_is_kept(self, store: Store, clock: VirtualClock) -> None:
        (one,) = leased(store)
        clock.advance(DAY)
        assert store.finish_attempts([succeeded(one)]) == {one.job_id}

    def test_a_request_to_stop_is_told_with_the_renewal(self, store: Store) -> None:
        (one,) = leased(store)
        assert store.cancel_jobs([one.job_id]) == [one.job_id]
        renewed = store.remote.renew_attempt(named(one), MINUTE)
        assert renewed is not None
        assert renewed.cancel_requested

    @pytest.mark.parametrize("attempt", [0, 2])
    def test_another_attempt_has_no_owner(self, store: Store, attempt: int) -> None:
        (one,) = leased(store)
        before = standing(store, one)
        assert store.remote.renew_attempt(unclaimed(one.job_id, attempt), HOUR) is None
        assert store.remote.remote_attempt(unclaimed(one.job_id, attempt)) is None
        assert store.remote.append_log(unclaimed(one.job_id, attempt), "x", None, 100) is None
        assert standing(store, one) == before

    def test_another_claim_is_refused(self, store: Store) -> None:
        (one,) = leased(store)
        before = standing(store, one)
        other = RemoteName(one.job_id, 1, ClaimId(one.claim ^ 1), KEY)
        assert store.remote.renew_attempt(other, HOUR) is None
        assert store.remote.remote_attempt(other) is None
        assert store.remote.append_log(other, "x", None, 100) is None
        assert standing(store, one) == before

    def test_without_its_claim_only_the_lessee_finds_an_attempt(self, store: Store) -> None:
        (one,) = leased(store)
        assert store.remote.remote_attempt(unclaimed(one.job_id)) == standing(store, one)
        assert store.remote.append_log(unclaimed(one.job_id), "x", None, 100) == 0
        assert store.remote.renew_attempt(unclaimed(one.job_id), HOUR) is not None
        stranger = unclaimed(one.job_id, lessee="key:other")
        assert store.remote.renew_attempt(stranger, HOUR) is None
        assert store.remote.remote_attempt(stranger) is None
        assert store.remote.append_log(stranger, "x", None, 100) is None
        by_claim = RemoteName(one.job_id, 1, one.claim, "key:other")
        assert store.remote.remote_attempt(by_claim) == standing(store, one)

    def test_the_attempt_of_a_worker_is_out_of_reach(self, store: Store) -> None:
        elsewhere = running(store)
        (view,) = store.reads.workers()
        assert store.remote.renew_attempt(named(elsewhere), HOUR) is None
        assert store.remote.append_log(named(elsewhere), "x", None, 100) is None
        assert store.reads.workers() == [view]

    @pytest.mark.parametrize("job_id", ["", "x", "019a8f3e-1c2d-7abc-8def-0123456789ab"])
    def test_a_job_that_is_not_there_has_no_attempts(self, store: Store, job_id: str) -> None:
        assert store.remote.renew_attempt(unclaimed(JobId(job_id)), HOUR) is None
        assert store.remote.remote_attempt(unclaimed(JobId(job_id))) is None
        assert store.remote.append_log(unclaimed(JobId(job_id)), "x", None, 100) is None


class TestSeen:
    def test_an_attempt_is_seen_as_a_worker_while_it_runs(self, store: Store) -> None:
        (one,) = leased(store)
        (view,) = store.reads.workers()
        assert (view.host, view.state, view.running, view.slots) == ("bash-1", "remote", 1, 1)
        assert (view.queues, view.tasks) == (("default",), ("t",))
        store.finish_attempts([succeeded(one)])
        assert store.reads.workers() == []

    def test_a_server_is_no_worker(self, store: Store) -> None:
        claimer(store)
        assert store.reads.workers() == []

    def test_the_lease_of_an_attempt_that_ended_can_be_forgotten(self, store: Store, clock: VirtualClock) -> None:
        one, other = leased(store, 2)
        store.finish_attempts([succeeded(one)])
        store.remote.end_leases([WorkerId(f"bash-1/{one.job_id}")])
        clock.advance(HOUR)
        assert reap(store) == {other.job_id}

    def test_a_worker_is_never_forgotten_so(self, store: Store) -> None:
        store.register_worker(a_worker("w"), [], MINUTE)
        store.remote.end_leases([WorkerId("w")])
        assert [view.id for view in store.reads.workers()] == ["w"]

    def test_what_a_server_that_died_has_left_is_pruned(self, store: Store, clock: VirtualClock) -> None:
        ended, going = leased(store, 2)
        store.finish_attempts([succeeded(ended)])
        clock.advance(MINUTE + SECOND)
        store.prune(Retention(), 10)
        again = [grant(ended)]  # its id is free: nothing of it is left
        store.insert_jobs(jobs(1))
        claimer(store, WorkerId("server/2"))
        (next_one,) = claim(store, 1, WorkerId("server/2"))
        worker = again[0].worker
        granted = LeaseGrant(next_one.job_id, next_one.claim, worker, "bash-1", KEY, ("default",), ("t",), MINUTE)
        assert set(store.remote.grant_leases(WorkerId("server/2"), [granted])) == {next_one.job_id}
        assert reap(store) == {going.job_id}, "one that still runs is remembered until it is reclaimed"


class TestLogs:
    def test_chunks_follow_each_other(self, store: Store) -> None:
        (one,) = leased(store)
        assert [store.remote.append_log(named(one), text, None, 100) for text in ("a\n", "b\n")] == [0, 1]
        assert [(chunk.seq, chunk.text) for chunk in store.reads.logs(one.job_id)] == [(0, "a\n"), (1, "b\n")]

    def test_a_chunk_that_is_sent_twice_is_there_once(self, store: Store) -> None:
        (one,) = leased(store)
        assert [store.remote.append_log(named(one), text, 7, 100) for text in ("a\n", "b\n")] == [7, 7]
        assert [chunk.text for chunk in store.reads.logs(one.job_id)] == ["a\n"]

    def test_what_is_too_much_is_cut_off_and_says_so(self, store: Store) -> None:
        (one,) = leased(store)
        for _ in range(4):
            assert store.remote.append_log(named(one), "123456", None, 10) is not None
        text = "".join(chunk.text for chunk in store.reads.logs(one.job_id))
        assert text == "1234561234\n... more than 10 characters: the rest is not kept\n"

    def test_two_that_write_at_once_are_both_kept(self, postgres: Store, every_meeting: EveryMeeting) -> None:
        def make() -> tuple[Callable[[Store], object], Callable[[Store], object], Callable[[object, object], None]]:
            (one,) = leased(postgres)

            def check(first: object, second: object) -> None:
                assert {first, second} == {0, 1}
                assert {chunk.text for chunk in postgres.reads.logs(one.job_id)} == {"a", "b"}

            return (
                lambda store: store.remote.append_log(named(one), "a", None, 100),
                lambda store: store.remote.append_log(named(one), "b", None, 100),
                check,
            )

        every_meeting(make)


class TestDueWork:
    def test_tasks_are_told_by_queue_and_only_when_they_are_due(self, store: Store, clock: VirtualClock) -> None:
        store.insert_jobs([a_job("a"), a_job("b", priority=8), a_job("c", queue="mail"), a_job("d", queue="other")])
        store.insert_jobs([a_job("later", delay=MINUTE)])
        found = store.remote.due_work(["default", "mail", "empty"])
        assert found.tasks == {"default": {"a", "b"}, "mail": {"c"}}
        clock.advance(MINUTE)
        assert store.remote.due_work(["default"]).tasks == {"default": {"a", "b", "later"}}

    def test_it_knows_when_the_next_job_is_due(self, store: Store) -> None:
        assert store.remote.due_work(["default"]).next_s is None
        store.insert_jobs([a_job(delay=MINUTE), a_job(delay=HOUR)])
        assert store.remote.due_work(["default"]).next_s == pytest.approx(60)

    def test_many_that_are_due_later_hide_nothing(self, store: Store) -> None:
        store.insert_jobs([a_job("later", priority=2, delay=HOUR) for _ in range(1500)])
        insert_one(store, task="now")
        assert store.remote.due_work(["default"]).tasks == {"default": {"now"}}

    def test_jobs_with_limits_and_tenants_are_seen(self, store: Store) -> None:
        store.limits.declare_limits({"one": Concurrency(capacity=1)})
        uses = (LimitUse("one", "", 1),)
        store.insert_jobs(
            [a_job("limited", job_limits=JobLimits(uses=uses)), a_job("theirs", job_limits=JobLimits(tenant="x"))]
        )
        assert store.remote.due_work(["default"]).tasks == {"default": {"limited", "theirs"}}

    def test_what_a_limit_holds_is_seen_when_it_opens(self, store: Store) -> None:
        store.limits.declare_limits({"one": Concurrency(capacity=1)})
        store.insert_jobs([a_job("limited", job_limits=JobLimits(uses=(LimitUse("one", "", 1),))) for _ in range(2)])
        (first,) = claim(store, 2, claimer(store), tasks=["limited"])
        assert store.remote.due_work(["default"]).tasks == {}
        store.finish_attempts([succeeded(first)])
        assert store.remote.due_work(["default"]).tasks == {"default": {"limited"}}

    def test_runs_are_seen_as_such(self, store: Store) -> None:
        store.insert_jobs([a_job("etl", version=1)])
        assert store.remote.due_work(["default"]).tasks == {"default": {RUN}}

    def test_a_gate_that_pauses_does_not_make_it_fail(self, store: Store) -> None:
        store.limits.put_gate(Gate(kind="pause", task="t"))
        insert_one(store)
        assert claim(store, 1, claimer(store)) == []
        assert store.remote.due_work(["default"]).tasks == {}


def test_one_that_is_given_back_is_not_charged(store: Store) -> None:
    (one,) = leased(store)
    assert store.finish_attempts([ending(one, Released())]) == {one.job_id}
    again = claim_one(store)
    assert (again.job_id, again.attempt, again.failures) == (one.job_id, 2, 0)
