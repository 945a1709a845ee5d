"""insert_jobs: all or none, once for each id, and due when it was asked to be."""

from datetime import timedelta

import msgspec
import pytest

from tests.store.builders import (
    DAY,
    HOUR,
    MICROSECOND,
    MINUTE,
    SECOND,
    a_job,
    abandoned,
    again,
    an_id,
    asking,
    claim,
    claim_one,
    ended,
    failed,
    insert_one,
    jobs,
    running,
    state_of,
    succeeded,
)
from tickwork.core.job import JobFilter, JobState, NewJob, Policy
from tickwork.core.retry import RetryPolicy
from tickwork.errors import LeaseLost
from tickwork.store.base import Store
from tickwork.store.rows.jobs import decode_policy, encode_policy
from tickwork.testing import VirtualClock

EVERYTHING = Policy(
    retry=RetryPolicy(retries=7, base=timedelta(milliseconds=250), factor=1.5, cap=2 * HOUR, jitter=0.1),
    timeout=5 * MINUTE,
    expires=3 * DAY,
    key_for=90 * SECOND,
    retry_on=("OSError",),
    give_up_on=("ValueError", "KeyError"),
    on_lost="fail",
)


def test_a_job_comes_back_as_it_was_asked_for(store: Store, clock: VirtualClock) -> None:
    job = a_job(
        "send_email",
        args='[["ада", "\\"q\\"", "\\u0000 \U0001f600"], {}]'.encode(),
        queue="mail",
        priority=2,
        policy=EVERYTHING,
        key="ada's key",
        collection="newsletter",
        labels=("eu", "with space", 'with "quotes", and more'),
        parent=an_id(),
        trace="00-abc-def-01",
    )
    assert store.insert_jobs([job]) == [job.id]
    view = store.reads.get_jobs([job.id])[job.id]

    assert (view.id, view.task, view.args, view.queue, view.priority) == (job.id, job.task, job.args, "mail", 2)
    assert view.policy == EVERYTHING
    assert (view.key, view.collection, view.labels) == (job.key, job.collection, job.labels)
    assert (view.parent, view.trace) == (job.parent, job.trace)
    assert view.state is JobState.QUEUED
    assert view.created_at == view.run_at == clock.now()
    assert view.expires_at == clock.now() + 3 * DAY
    assert (view.attempt, view.failures, view.crashes, view.alone) == (0, 0, 0, False)
    assert (view.worker, view.started_at, view.ended_at, view.result, view.error) == (None, None, None, None, None)


def test_ids_come_back_in_the_order_of_the_jobs(store: Store) -> None:
    batch = jobs(50)
    batch.reverse()
    assert store.insert_jobs(batch) == [job.id for job in batch]


def test_no_jobs_are_no_trouble(store: Store) -> None:
    assert store.insert_jobs([]) == []


def test_one_bad_job_keeps_the_whole_batch_out(store: Store) -> None:
    batch = [a_job(), a_job(key="k"), a_job(priority=10)]
    with pytest.raises(Exception, match="priority"):
        store.insert_jobs(batch)
    assert store.reads.get_jobs([job.id for job in batch]) == {}
    assert store.reads.list_jobs(JobFilter(), 10) == []
    assert store.reads.find_key("k") is None


def test_an_insert_that_is_repeated_changes_nothing(store: Store, clock: VirtualClock) -> None:
    batch = [*jobs(3), a_job(key="k"), a_job(key="r", if_exists="replace", delay=HOUR)]
    ids = store.insert_jobs(batch)
    before = store.reads.get_jobs(ids)
    clock.advance(MINUTE)
    assert store.insert_jobs(batch) == ids
    assert store.reads.get_jobs(ids) == before
    assert len(claim(store)) == 4


@pytest.mark.parametrize("key", [None, "k"])
def test_an_insert_of_one_job_that_is_repeated_while_it_waits_changes_nothing(store: Store, key: str | None) -> None:
    job = a_job(key=key)
    assert store.insert_jobs([job]) == store.insert_jobs([job]) == [job.id]
    assert len(claim(store)) == 1


@pytest.mark.parametrize("key", [None, "k"])
def test_a_late_repeat_of_an_insert_does_not_bring_an_ended_job_back(store: Store, key: str | None) -> None:
    job = a_job(key=key)
    store.insert_jobs([job])
    store.finish_attempts([succeeded(claim_one(store))])

    assert store.insert_jobs([job]) == [job.id]
    assert state_of(store, job.id) is JobState.SUCCEEDED
    assert claim(store) == []
    if key:  # and its key is as free as it was
        assert insert_one(store, key=key) != job.id


def test_a_late_repeat_leaves_the_job_alone_that_has_its_key_now(store: Store) -> None:
    old = a_job(key="k", args=b"[1]", if_exists="replace")
    store.insert_jobs([old])
    store.finish_attempts([failed(claim_one(store))])
    new = insert_one(store, key="k", args=b"[2]")

    assert store.insert_jobs([old]) == [old.id]
    assert store.reads.get_jobs([new])[new].args == b"[2]"
    assert store.reads.find_key("k") == new


def test_the_same_id_twice_in_a_batch_is_one_job(store: Store) -> None:
    job = a_job()
    assert store.insert_jobs([job, job]) == [job.id, job.id]
    assert len(claim(store)) == 1


def test_a_delay_counts_from_the_stores_now(store: Store, clock: VirtualClock) -> None:
    job_id = insert_one(store, delay=HOUR)
    assert store.reads.get_jobs([job_id])[job_id].run_at == clock.now() + HOUR


def test_an_instant_to_the_microsecond_is_kept(store: Store, clock: VirtualClock) -> None:
    at = clock.now() + HOUR + MICROSECOND
    job_id = insert_one(store, at=at)
    assert store.reads.get_jobs([job_id])[job_id].run_at == at


def test_a_time_in_the_past_means_now(store: Store, clock: VirtualClock) -> None:
    job_id = insert_one(store, at=clock.now() - DAY)
    assert store.reads.get_jobs([job_id])[job_id].run_at == clock.now()
    assert claim_one(store).job_id == job_id


@pytest.mark.parametrize(
    ("changes", "after"),
    [
        ({"policy": Policy(expires=MINUTE)}, MINUTE),
        ({"policy": Policy(expires=MINUTE), "delay": HOUR}, HOUR + MINUTE),
        ({"policy": Policy()}, None),
    ],
)
def test_a_deadline_counts_from_the_moment_a_job_is_due(
    store: Store, clock: VirtualClock, changes: dict[str, object], after: timedelta | None
) -> None:
    job_id = insert_one(store, **changes)
    expires_at = store.reads.get_jobs([job_id])[job_id].expires_at
    assert expires_at == (None if after is None else clock.now() + after)


def test_an_absolute_deadline_goes_before_a_relative_one(store: Store, clock: VirtualClock) -> None:
    job_id = insert_one(store, expires_at=clock.now() + HOUR, policy=Policy(expires=MINUTE))
    assert store.reads.get_jobs([job_id])[job_id].expires_at == clock.now() + HOUR


class TestByAnAttempt:
    """Jobs that a handler enqueues carry the attempt that asks."""

    def test_the_current_attempt_may_enqueue(self, store: Store) -> None:
        parent = running(store)
        child = a_job()
        assert store.insert_jobs([child], None, asking(parent)) == [child.id]

    @pytest.mark.parametrize("key", [None, "k"])
    def test_a_superseded_one_may_not(self, store: Store, key: str | None) -> None:
        parent = running(store)
        store.finish_attempts([again(parent)])
        claim_one(store)
        children: list[NewJob] = [a_job(), a_job(key=key)]
        with pytest.raises(LeaseLost, match=parent.job_id):
            store.insert_jobs(children, None, asking(parent))
        assert store.reads.get_jobs([child.id for child in children]) == {}

    def test_one_whose_lease_ran_out_may_until_it_is_reclaimed(self, store: Store, clock: VirtualClock) -> None:
        parent = running(store)
        clock.advance(HOUR)
        insert_one(store, a_job("other"))
        store.insert_jobs([a_job("other")], None, asking(parent))
        store.reclaim_attempts([abandoned(parent)])
        with pytest.raises(LeaseLost):
            store.insert_jobs([a_job("other")], None, asking(parent))


def test_a_large_batch_is_stored_in_full(store: Store) -> None:
    batch = [msgspec.structs.replace(job, args=b"[%d]" % n) for n, job in enumerate(jobs(2000))]
    ids = store.insert_jobs(batch)
    assert ended(store, queue="other")  # something else goes on beside it
    claimed = claim(store, 2000)
    assert [job.job_id for job in claimed] == ids
    assert [job.args for job in claimed] == [job.args for job in batch]


def test_equal_policies_are_stored_as_one_text() -> None:
    """Defaults are left out by value: two equal objects are stored alike."""
    made = Policy(retry=RetryPolicy(retries=3), on_lost="".join(["re", "try"]), produce=())
    assert encode_policy(made) == encode_policy(Policy()) == "{}"
    assert decode_policy(encode_policy(made)) == made
