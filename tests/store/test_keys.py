"""Keys: one live job for each, for a while after its end if asked for, and replaced where that is wanted."""

from datetime import timedelta

import pytest

from tests.store.builders import (
    HOUR,
    MINUTE,
    NOTHING,
    SECOND,
    a_job,
    again,
    claim,
    claim_one,
    ended,
    failed,
    insert_one,
    reap,
    running,
    state_of,
    succeeded,
)
from tickwork.core.job import JobFilter, JobState, Policy
from tickwork.core.retention import Retention
from tickwork.errors import KeyTaken
from tickwork.store.base import Store
from tickwork.testing import VirtualClock

FOR_AN_HOUR = Policy(key_for=HOUR)


def test_a_live_job_stands_for_every_other_of_its_key(store: Store) -> None:
    first = insert_one(store, key="k")
    assert insert_one(store, key="k") == first
    claimed = claim_one(store)
    assert insert_one(store, key="k") == first, "also while it runs"
    store.finish_attempts([again(claimed, HOUR)])
    assert insert_one(store, key="k") == first, "also while it waits for a retry"
    assert [view.id for view in store.reads.list_jobs(JobFilter(), 10)] == [first]


@pytest.mark.parametrize("finish", [succeeded, failed])
def test_a_key_is_free_once_its_job_ended(store: Store, finish: object) -> None:
    first = ended(store, finish, key="k")
    second = insert_one(store, key="k")
    assert second != first
    assert state_of(store, second) is JobState.QUEUED


def test_a_cancelled_job_frees_its_key(store: Store) -> None:
    first = insert_one(store, key="k")
    store.cancel_jobs([first])
    assert insert_one(store, key="k") != first


def test_an_expired_job_frees_its_key(store: Store, clock: VirtualClock) -> None:
    first = insert_one(store, key="k", policy=Policy(expires=SECOND))
    clock.advance(MINUTE)
    assert store.expire_jobs(10) == 1
    assert insert_one(store, key="k") != first


def test_a_key_survives_the_death_of_its_worker(store: Store, clock: VirtualClock) -> None:
    first = running(store, key="k").job_id
    clock.advance(HOUR)
    assert reap(store) == {first}
    assert insert_one(store, key="k") == first


def test_key_for_keeps_a_key_taken_for_a_while_after_the_end(store: Store, clock: VirtualClock) -> None:
    first = ended(store, key="k", policy=FOR_AN_HOUR)
    clock.advance(HOUR - SECOND)
    assert insert_one(store, key="k") == first
    assert claim(store) == []
    clock.advance(SECOND)
    second = insert_one(store, key="k")
    assert second != first
    assert store.reads.find_key("k") == second


@pytest.mark.parametrize(
    "key_for", [timedelta(milliseconds=1500), timedelta(days=40), timedelta(days=1, microseconds=1)]
)
def test_key_for_is_exact(store: Store, clock: VirtualClock, key_for: timedelta) -> None:
    first = insert_one(store, key="k", policy=Policy(key_for=key_for))
    store.cancel_jobs([first])
    clock.advance(key_for - timedelta(microseconds=1))
    assert insert_one(store, key="k") == first
    clock.advance(timedelta(microseconds=1))
    assert insert_one(store, key="k") != first


def test_the_same_key_twice_in_a_batch_is_one_job(store: Store) -> None:
    batch = [a_job(), a_job(key="k", args=b"[1]"), a_job(), a_job(key="k", args=b"[2]"), a_job(key="other")]
    ids = store.insert_jobs(batch)
    assert ids == [batch[0].id, batch[1].id, batch[2].id, batch[1].id, batch[4].id]
    assert store.reads.get_jobs(ids)[batch[1].id].args == b"[1]"
    assert len(claim(store)) == 4


class TestReplace:
    def test_a_waiting_job_is_changed(self, store: Store, clock: VirtualClock) -> None:
        first = insert_one(store, key="k", args=b"[1]", delay=HOUR)
        clock.advance(MINUTE)
        new = a_job(
            key="k",
            args=b"[2]",
            queue="q",
            priority=1,
            delay=2 * HOUR,
            policy=FOR_AN_HOUR,
            labels=("l",),
            collection="c",
            trace="t",
            if_exists="replace",
        )
        assert store.insert_jobs([new]) == [first]
        view = store.reads.get_jobs([first])[first]
        assert (view.task, view.args, view.queue, view.priority, view.policy) == ("t", b"[2]", "q", 1, FOR_AN_HOUR)
        assert (view.labels, view.collection, view.trace, view.key) == (("l",), "c", "t", "k")
        assert view.run_at == clock.now() + 2 * HOUR
        assert new.id not in store.reads.get_jobs([new.id])

    def test_a_debounced_job_runs_once_with_the_last_arguments(self, store: Store, clock: VirtualClock) -> None:
        for n in range(5):
            insert_one(store, key="k", args=b"[%d]" % n, delay=10 * SECOND, if_exists="replace")
            clock.advance(5 * SECOND)
        assert claim(store) == []
        clock.advance(5 * SECOND)
        assert [job.args for job in claim(store)] == [b"[4]"]

    def test_a_running_job_goes_on_as_it_is(self, store: Store) -> None:
        claimed = running(store, key="k", args=b"[1]")
        assert insert_one(store, key="k", args=b"[2]", if_exists="replace") == claimed.job_id
        assert store.reads.get_jobs([claimed.job_id])[claimed.job_id].args == b"[1]"
        assert store.finish_attempts([succeeded(claimed)]) == {claimed.job_id}

    def test_a_job_that_ended_but_keeps_its_key_is_not_changed(self, store: Store) -> None:
        first = ended(store, key="k", args=b"[1]", policy=FOR_AN_HOUR)
        assert insert_one(store, key="k", args=b"[2]", if_exists="replace") == first
        assert store.reads.get_jobs([first])[first].args == b"[1]"
        assert state_of(store, first) is JobState.SUCCEEDED

    def test_a_job_that_waits_for_a_retry_keeps_its_counts(self, store: Store) -> None:
        claimed = running(store, key="k")
        store.finish_attempts([again(claimed, HOUR)])
        insert_one(store, key="k", args=b"[2]", if_exists="replace")
        retried = claim_one(store)
        assert (retried.args, retried.attempt, retried.failures) == (b"[2]", 2, 1)

    def test_the_last_one_in_a_batch_wins(self, store: Store) -> None:
        batch = [a_job(key="k", args=b"[%d]" % n, if_exists="replace" if n in {1, 2} else "return") for n in range(4)]
        assert store.insert_jobs(batch) == [batch[0].id] * 4
        assert claim_one(store).args == b"[2]"

    def test_without_a_holder_it_is_an_insert(self, store: Store) -> None:
        job = a_job(key="k", if_exists="replace")
        assert store.insert_jobs([job]) == [job.id]
        assert claim_one(store).job_id == job.id


class TestKeyTaken:
    def test_a_job_of_another_task_is_not_given_as_ones_own(self, store: Store) -> None:
        holder = insert_one(store, key="k", delay=HOUR)
        with pytest.raises(KeyTaken, match=f"job {holder} of 't' \\(queued\\)") as taken:
            store.insert_jobs([a_job(), a_job("other", key="k"), a_job(key="free")])
        error = taken.value
        assert (error.key, error.job_id, error.task, error.state) == ("k", holder, "t", "queued")
        assert "'other:k'" in str(error), "what to do"
        assert [view.id for view in store.reads.list_jobs(JobFilter(), 10)] == [holder], "all or none"
        assert insert_one(store, task="other", key="free"), "a key that was taken for a refused batch is free again"

    @pytest.mark.parametrize("if_exists", ["return", "replace", "error"])
    def test_another_task_is_refused_whatever_if_exists_says(self, store: Store, if_exists: str) -> None:
        claimed = running(store, key="k", args=b"[1]")
        with pytest.raises(KeyTaken, match="running"):
            insert_one(store, task="other", key="k", if_exists=if_exists)
        assert store.reads.get_jobs([claimed.job_id])[claimed.job_id].args == b"[1]"

    def test_one_that_ended_and_keeps_its_key_is_named_with_the_reason(self, store: Store) -> None:
        ended(store, key="k", policy=FOR_AN_HOUR)
        with pytest.raises(KeyTaken, match="succeeded, and keeps the key for its key_for"):
            insert_one(store, task="other", key="k")

    def test_if_exists_error_refuses_a_second_job_of_the_task(self, store: Store) -> None:
        job = a_job(key="k", if_exists="error")
        assert store.insert_jobs([job]) == [job.id]
        assert store.insert_jobs([job]) == [job.id], "the same insert again is no second job"
        with pytest.raises(KeyTaken, match='if_exists is "error"'):
            insert_one(store, key="k", if_exists="error")
        assert [view.id for view in store.reads.list_jobs(JobFilter(), 10)] == [job.id]

    @pytest.mark.parametrize("second", [{"task": "other"}, {"if_exists": "error"}])
    def test_within_one_batch(self, store: Store, second: dict[str, str]) -> None:
        with pytest.raises(KeyTaken, match="of the same batch"):
            store.insert_jobs([a_job(key="k"), a_job(**{"key": "k", **second})])
        assert store.reads.list_jobs(JobFilter(), 10) == []

    def test_a_caller_who_goes_on_with_his_transaction_leaves_no_key_behind(self, store: Store) -> None:
        insert_one(store, key="k", delay=HOUR)
        with store.connection() as tx:
            with pytest.raises(KeyTaken):
                store.insert_jobs([a_job(key="free"), a_job("other", key="k")], tx=tx)
            kept = store.insert_jobs([a_job()], tx=tx)
        assert [job.job_id for job in claim(store)] == kept
        assert store.reads.find_key("free") is None
        assert insert_one(store, key="free")


class TestFindKey:
    def test_the_holder_is_found(self, store: Store) -> None:
        ended(store, key="k")
        holder = insert_one(store, key="k")
        assert store.reads.find_key("k") == holder

    def test_without_one_the_newest_is(self, store: Store) -> None:
        ended(store, key="k")
        newest = ended(store, key="k")
        assert store.reads.find_key("k") == newest

    def test_an_unknown_key_finds_nothing(self, store: Store) -> None:
        assert store.reads.find_key("no such key") is None


def test_a_job_is_kept_as_long_as_its_key(store: Store, clock: VirtualClock) -> None:
    first = ended(store, key="k", policy=Policy(key_for=2 * HOUR))
    clock.advance(HOUR)
    assert store.prune(Retention(ended=NOTHING), 10).count == 0
    assert insert_one(store, key="k") == first
    assert first in store.reads.get_jobs([first])
    clock.advance(HOUR)
    assert store.prune(Retention(ended=NOTHING), 10).count == 1
    assert store.reads.find_key("k") is None
