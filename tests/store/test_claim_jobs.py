"""claim_jobs: what is due, the most urgent first, each with the next attempt number, and only with a live lease."""

from datetime import timedelta

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
    claim,
    claim_one,
    insert_one,
    jobs,
    reap,
    register,
    running,
    succeeded,
)
from tickwork.core.ids import WorkerId
from tickwork.core.job import AttemptState, JobState, Policy
from tickwork.errors import LeaseLost
from tickwork.store.base import Store
from tickwork.store.rows.instants import to_us
from tickwork.testing import VirtualClock


def test_a_claimed_job_is_running_and_carries_what_its_worker_needs(store: Store, clock: VirtualClock) -> None:
    policy = Policy(timeout=MINUTE)
    job = a_job(args=b'[["x"], {}]', queue="q", priority=3, policy=policy)
    store.insert_jobs([job])
    run_at = clock.now()
    clock.advance(SECOND)
    worker = register(store)
    claimed = claim_one(store, worker, queues=["q"])

    assert (claimed.job_id, claimed.attempt, claimed.task) == (job.id, 1, "t")
    assert (claimed.queue, claimed.priority, claimed.args, claimed.policy) == ("q", 3, job.args, policy)
    assert (claimed.run_at_us, claimed.claimed_at_us) == (to_us(run_at), to_us(clock.now()))
    assert (claimed.failures, claimed.crashes, claimed.alone) == (0, 0, False)
    view = store.reads.get_jobs([job.id])[job.id]
    assert (view.state, view.attempt, view.worker) == (JobState.RUNNING, 1, worker)
    assert view.started_at == clock.now()
    (attempt,) = store.reads.attempts(job.id)
    assert (attempt.number, attempt.state, attempt.worker) == (1, AttemptState.RUNNING, worker)
    assert attempt.ended_at is None


def test_no_job_is_claimed_twice(store: Store) -> None:
    store.insert_jobs(jobs(10))
    first, second = claim(store, 6), claim(store, 6)
    assert (len(first), len(second)) == (6, 4)
    assert len({job.job_id for job in first + second}) == 10


def test_the_limit_is_kept(store: Store) -> None:
    store.insert_jobs(jobs(20))
    assert [len(claim(store, limit)) for limit in (1, 7, 0, 100)] == [1, 7, 0, 12]


def test_urgent_jobs_come_first_and_equals_in_their_order(store: Store, clock: VirtualClock) -> None:
    batch = [a_job(priority=priority) for priority in (5, 9, 0, 5, 2, 9, 0)]
    for job in batch:
        store.insert_jobs([job])
        clock.advance(SECOND)
    expected = [batch[i].id for i in (2, 6, 4, 0, 3, 1, 5)]
    assert [job.job_id for job in claim(store)] == expected


def test_within_a_priority_the_time_decides_and_then_the_id(store: Store, clock: VirtualClock) -> None:
    later, sooner = insert_one(store, delay=2 * SECOND), insert_one(store, delay=SECOND)
    same = store.insert_jobs(jobs(5, delay=3 * SECOND))
    clock.advance(MINUTE)
    assert [job.job_id for job in claim(store)] == [sooner, later, *sorted(same)]


def test_the_first_queue_goes_before_the_urgent_jobs_of_the_next(store: Store) -> None:
    second, first = insert_one(store, queue="b", priority=0), insert_one(store, queue="a", priority=9)
    insert_one(store, queue="c")
    assert [job.job_id for job in claim(store, queues=["a", "b"])] == [first, second]


def test_a_queue_that_is_named_twice_counts_once(store: Store) -> None:
    insert_one(store)
    assert len(claim(store, queues=["default", "x", "default"])) == 1


def test_names_are_taken_literally(store: Store) -> None:
    names = ['with "quotes"', "with \\ and {}", "a,b", "", "ж", "null"]
    ids = [insert_one(store, task=name, queue=name) for name in names]
    assert [job.job_id for job in claim(store, queues=names, tasks=names)] == ids


def test_only_tasks_that_the_worker_knows_are_claimed(store: Store) -> None:
    store.insert_jobs(jobs(5, task="unknown", priority=0))
    known = insert_one(store, task="known")
    assert [job.job_id for job in claim(store, 3, tasks=["known", "other"])] == [known]
    assert claim(store, tasks=[]) == []
    assert store.reads.due_tasks(["default"]) == {"unknown"}


def test_a_delayed_job_is_never_claimed_early(store: Store, clock: VirtualClock) -> None:
    job_id = insert_one(store, delay=HOUR)
    clock.advance(HOUR - MICROSECOND)
    assert claim(store) == []
    clock.advance(MICROSECOND)
    assert claim_one(store).job_id == job_id


def test_delayed_jobs_are_not_in_the_way_of_less_urgent_ones(store: Store) -> None:
    store.insert_jobs(jobs(50, priority=0, delay=HOUR))
    due = insert_one(store, priority=9)
    assert claim_one(store).job_id == due


class TestAhead:
    """Jobs that become due within a moment may be leased before their time."""

    WINDOW = timedelta(milliseconds=250)

    def test_one_within_the_window_is_taken(self, store: Store, clock: VirtualClock) -> None:
        soon = insert_one(store, delay=self.WINDOW)
        insert_one(store, delay=self.WINDOW + MICROSECOND)
        (claimed,) = claim(store, ahead=self.WINDOW)
        assert claimed.job_id == soon
        assert claimed.run_at_us == to_us(clock.now() + self.WINDOW)

    def test_due_jobs_of_any_queue_and_priority_go_first(self, store: Store) -> None:
        soon = insert_one(store, queue="a", priority=0, delay=self.WINDOW)
        due = insert_one(store, queue="b", priority=9)
        assert [job.job_id for job in claim(store, 1, queues=["a", "b"], ahead=self.WINDOW)] == [due]
        assert [job.job_id for job in claim(store, 1, queues=["a", "b"], ahead=self.WINDOW)] == [soon]

    def test_the_limit_holds_for_both_together(self, store: Store) -> None:
        due = store.insert_jobs(jobs(3))
        store.insert_jobs(jobs(3, delay=self.WINDOW))
        claimed = claim(store, 5, ahead=self.WINDOW)
        assert [job.job_id for job in claimed[:3]] == due
        assert len(claimed) == 5

    def test_without_a_window_nothing_is_taken_early(self, store: Store) -> None:
        insert_one(store, delay=MICROSECOND)
        assert claim(store, ahead=NOTHING) == []


class TestNextDue:
    """A claim that found too little says how long it is until the next job."""

    def due_s(self, store: Store, limit: int = 10, **how: object) -> float | None:
        ahead = how.pop("ahead", NOTHING)
        assert isinstance(ahead, timedelta)
        return store.claim_jobs(register(store), ["default", "b"], ["t"], limit, ahead=ahead).next_due_s

    def test_nothing_is_known_of_an_empty_store(self, store: Store) -> None:
        assert self.due_s(store) is None

    def test_it_is_the_nearest_of_all_queues_and_priorities(self, store: Store) -> None:
        insert_one(store, delay=HOUR)
        insert_one(store, delay=MINUTE, queue="b", priority=9)
        insert_one(store, delay=SECOND, queue="not asked for")
        assert self.due_s(store) == pytest.approx(60)

    def test_it_is_not_looked_for_when_the_claim_is_full(self, store: Store) -> None:
        insert_one(store)
        insert_one(store, delay=MINUTE)
        assert self.due_s(store, limit=1) is None

    def test_it_comes_with_the_jobs_that_were_claimed(self, store: Store) -> None:
        insert_one(store)
        insert_one(store, delay=MINUTE)
        assert self.due_s(store) == pytest.approx(60)

    def test_jobs_that_are_due_but_not_for_us_do_not_count(self, store: Store) -> None:
        insert_one(store, task="unknown")
        assert self.due_s(store) is None

    def test_what_the_window_took_does_not_count(self, store: Store) -> None:
        insert_one(store, delay=timedelta(milliseconds=100))
        insert_one(store, delay=SECOND)
        assert self.due_s(store, ahead=timedelta(milliseconds=250)) == pytest.approx(1)


class TestLease:
    def test_an_unknown_worker_claims_nothing(self, store: Store) -> None:
        job_id = insert_one(store)
        with pytest.raises(LeaseLost, match="nobody"):
            claim(store, worker=WorkerId("nobody"))
        assert claim_one(store).job_id == job_id

    @pytest.mark.parametrize("past", [NOTHING, SECOND])
    def test_a_worker_whose_lease_ran_out_claims_nothing(
        self, store: Store, clock: VirtualClock, past: timedelta
    ) -> None:
        job_id = insert_one(store)
        worker = register(store, lease=MINUTE)
        clock.advance(MINUTE + past)
        with pytest.raises(LeaseLost, match=worker):
            claim(store, worker=worker)
        assert claim_one(store).job_id == job_id

    def test_it_may_again_once_it_renewed(self, store: Store, clock: VirtualClock) -> None:
        insert_one(store)
        worker = register(store, lease=MINUTE)
        clock.advance(DAY)
        assert store.renew_lease(worker, MINUTE)
        assert claim_one(store, worker)

    def test_a_worker_that_ended_claims_nothing(self, store: Store) -> None:
        insert_one(store)
        worker = register(store)
        store.end_worker(worker)
        with pytest.raises(LeaseLost):
            claim(store, worker=worker)

    def test_a_worker_that_lost_an_attempt_claims_nothing(self, store: Store, clock: VirtualClock) -> None:
        worker = register(store)
        running(store, worker)
        clock.advance(HOUR)
        assert reap(store)
        with pytest.raises(LeaseLost):
            claim(store, worker=worker)


def test_attempt_numbers_rise_by_one_however_attempts_end(store: Store, clock: VirtualClock) -> None:
    job_id = insert_one(store)
    numbers = []
    for n in range(6):
        claimed = claim_one(store)
        numbers.append(claimed.attempt)
        if n % 3 == 0:
            store.finish_attempts([again(claimed)])
        elif n % 3 == 1:
            clock.advance(HOUR)
            reap(store)
        else:
            store.cancel_jobs([job_id])
            store.finish_attempts([succeeded(claimed)])
            store.retry_jobs([job_id])
    assert numbers == [1, 2, 3, 4, 5, 6]
    assert [attempt.number for attempt in store.reads.attempts(job_id)] == numbers


def test_a_job_past_its_deadline_is_not_claimed(store: Store, clock: VirtualClock) -> None:
    insert_one(store, policy=Policy(expires=MINUTE))
    other = insert_one(store)
    clock.advance(MINUTE)
    assert [job.job_id for job in claim(store)] == [other]


def test_the_counts_of_earlier_attempts_come_along(store: Store) -> None:
    store.finish_attempts([again(running(store))])
    second = claim_one(store)
    assert (second.attempt, second.failures) == (2, 1)


def test_due_tasks_names_what_is_due_in_these_queues(store: Store) -> None:
    for task, queue, delay in [("a", "x", NOTHING), ("b", "x", HOUR), ("c", "y", NOTHING), ("d", "z", NOTHING)]:
        insert_one(store, task=task, queue=queue, delay=delay)
    assert store.reads.due_tasks(["x", "y", "nothing"]) == {"a", "c"}
    assert store.reads.due_tasks([]) == set()
