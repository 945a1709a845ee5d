"""The jobs that wait for a slot and the duration of jobs, which decide the autoscaling of workers."""

from __future__ import annotations

from datetime import timedelta

from tests.store.builders import HOUR, SECOND, a_job, claim, ended, insert_one, jobs, succeeded
from tickwork.core.limits.job_limits import JobLimits
from tickwork.core.workers.autoscale import WaitingKind
from tickwork.store.base import Store
from tickwork.store.reads.verbs import Backlog
from tickwork.testing import VirtualClock


def waiting(store: Store, queues: tuple[str, ...] = ("default",), most: int = 1000) -> dict[str, int]:
    return {one.needs: one.count for one in store.reads.backlog(queues, ["t"], most)}


def test_it_counts_what_is_due_and_says_since_when(store: Store, clock: VirtualClock) -> None:
    first = store.now()
    store.insert_jobs([*jobs(2, priority=9), *jobs(3, delay=HOUR)])
    clock.advance(SECOND)
    store.insert_jobs(jobs(4, priority=0))
    assert store.reads.backlog(["default"], ["t"], 100) == [Backlog("", 6, first)]
    clock.advance(2 * HOUR)
    assert waiting(store) == {"": 9}


def test_other_queues_other_tasks_and_what_runs_do_not_count(store: Store) -> None:
    store.insert_jobs([*jobs(2, queue="mail"), *jobs(3, task="other"), *jobs(5), *jobs(1, queue="mailbox")])
    claim(store, 4)
    assert waiting(store) == {"": 1}
    assert waiting(store, ("mail",)) == {"": 2}
    assert waiting(store, ("default", "mail")) == {"": 3}
    assert store.reads.backlog([], ["t"], 100) == []


def test_it_looks_at_a_bounded_number(store: Store) -> None:
    store.insert_jobs(jobs(50))
    assert waiting(store, most=10) == {"": 10}


def test_it_tells_apart_what_jobs_need_whosever_they_are(store: Store, clock: VirtualClock) -> None:
    first = insert_one(store, job_limits=JobLimits(tenant="a", needs="gpu"))
    assert first
    store.insert_jobs(
        [*jobs(2, job_limits=JobLimits(tenant="b", needs="gpu")), *jobs(3, job_limits=JobLimits(tenant="b")), *jobs(1)]
    )
    store.insert_jobs(jobs(4, job_limits=JobLimits(tenant="c"), delay=HOUR))
    assert waiting(store) == {"gpu": 3, "": 4}


def test_durations_are_averages_by_queue(store: Store, clock: VirtualClock) -> None:
    assert store.reads.durations() == {}
    for seconds in (1, 3):
        store.insert_jobs(jobs(1))
        (quick,) = claim(store)
        clock.advance(timedelta(seconds=seconds))
        store.finish_attempts([succeeded(quick)])
    store.insert_jobs(jobs(1, queue="slow"))
    (slow,) = claim(store, queues=["slow"])
    clock.advance(timedelta(minutes=10) / 20)
    store.finish_attempts([succeeded(slow)])
    cancelled = insert_one(store, queue="never")
    store.cancel_jobs([cancelled])
    assert store.reads.durations() == {"default": timedelta(seconds=2), "slow": timedelta(seconds=30)}


def test_a_job_that_ended_without_having_started_says_nothing(store: Store) -> None:
    store.cancel_jobs([insert_one(store)])
    assert store.reads.durations() == {}
    ended(store)
    assert store.reads.durations() == {"default": timedelta(0)}


def test_it_tells_which_kinds_of_jobs_wait(store: Store) -> None:
    needy = [a_job("t", job_limits=JobLimits(needs="gpu")) for _ in range(2)]
    store.insert_jobs([*jobs(3), *jobs(1, priority=0), *jobs(2, task="u"), *needy, *jobs(4, queue="defaults")])
    store.insert_jobs(jobs(5, delay=HOUR))
    found = sorted(store.reads.waiting_kinds("default", 100))
    assert found == [WaitingKind("t", "", 4), WaitingKind("t", "gpu", 2), WaitingKind("u", "", 2)]
    assert sum(one.jobs for one in store.reads.waiting_kinds("default", 3)) <= 6
    assert store.reads.waiting_kinds("nobody's", 100) == []
