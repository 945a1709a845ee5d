"""Several verbs in one transaction: all of them count, or none."""

import threading

import pytest

from tests.store.builders import a_job, claim, insert_one, jobs, register, running, state_of, succeeded
from tests.store.claim.limits_helpers import limited
from tests.store.conftest import OpensStore
from tests.store.runs.dag_builders import a_graph, a_step, begin_run, take
from tickwork.core.job import JobFilter, JobState
from tickwork.core.limits.limits import concurrency
from tickwork.errors import KeyTaken
from tickwork.store.admin.audit import AuditFilter, AuditRow
from tickwork.store.base import Store

ROW = AuditRow("user:ada", "create_job", "job:1", None, b"{}")


def rows(store: Store) -> list[str]:
    return [one.change.target for one in store.audit.list_changes(AuditFilter(), 100)]


def test_what_verbs_do_together_is_seen_after_the_commit(store: Store, open_store: OpensStore) -> None:
    other = open_store()

    def work() -> str:
        job_id = insert_one(store)
        store.audit.record_changes([ROW])
        assert state_of(store, job_id) is JobState.QUEUED  # they see what the others did
        seen: list[object] = []
        thread = threading.Thread(target=lambda: seen.append(other.reads.get_jobs([job_id])))
        thread.start()
        thread.join(10)
        assert seen == [{}]
        return job_id

    job_id = store.in_one_transaction(work)
    assert state_of(other, job_id) is JobState.QUEUED  # type: ignore[arg-type]
    assert rows(other) == ["job:1"]
    assert [one.job_id for one in claim(other)] == [job_id]


@pytest.mark.parametrize("error", [LookupError, KeyboardInterrupt])
def test_when_it_raises_nothing_was_changed(store: Store, error: type[BaseException]) -> None:
    kept = insert_one(store)

    def work() -> None:
        insert_one(store)
        store.cancel_jobs([kept])
        store.audit.record_changes([ROW])
        raise error

    with pytest.raises(error):
        store.in_one_transaction(work)
    assert [view.id for view in store.reads.list_jobs(JobFilter(), 10)] == [kept]
    assert state_of(store, kept) is JobState.QUEUED
    assert rows(store) == []
    insert_one(store)  # and the next verb has a transaction of its own again


def test_a_verb_that_is_refused_undoes_all_of_it(store: Store) -> None:
    insert_one(store, key="k")

    def work() -> None:
        store.audit.record_changes([ROW])
        store.insert_jobs([a_job("other", key="k")])

    with pytest.raises(KeyTaken):
        store.in_one_transaction(work)
    assert rows(store) == []


def test_an_id_that_is_there_already_is_no_error(store: Store) -> None:
    job = a_job()
    store.insert_jobs([job])

    def work() -> None:
        store.insert_jobs([job, *jobs(2)])
        store.audit.record_changes([ROW])

    store.in_one_transaction(work)
    assert len(store.reads.list_jobs(JobFilter(), 10)) == 3
    assert rows(store) == ["job:1"]


def test_it_may_be_called_inside_of_itself(store: Store) -> None:
    def work() -> None:
        store.in_one_transaction(lambda: store.audit.record_changes([ROW]))
        raise LookupError

    with pytest.raises(LookupError):
        store.in_one_transaction(work)
    assert rows(store) == []


def test_a_run_is_cancelled_with_its_row(store: Store) -> None:
    run = begin_run(store, a_graph(a_step("a"), a_step("b", "a")))
    worker = register(store)
    first = take(store, worker)["a"]

    def work() -> list[str]:
        done = store.cancel_jobs([run])
        store.audit.record_changes([ROW])
        return list(done)

    assert store.in_one_transaction(work) == [run]
    store.finish_attempts([succeeded(first)])
    assert state_of(store, run) is JobState.CANCELLED
    assert rows(store) == ["job:1"]


def test_a_limit_is_open_to_the_next_job_when_its_holder_was_cancelled(store: Store) -> None:
    store.limits.declare_limits({"one": concurrency(1, name="one")})
    first, second = (insert_one(store, limited(limit="one")) for _ in range(2))
    worker = register(store)
    (held,) = claim(store, worker=worker)
    assert held.job_id == first
    assert claim(store, worker=worker) == []
    waiting = insert_one(store, limited(limit="one"))
    store.in_one_transaction(lambda: store.cancel_jobs([second]))
    store.finish_attempts([succeeded(held)])
    assert [one.job_id for one in claim(store, worker=worker)] == [waiting]


def test_two_threads_have_transactions_of_their_own(store: Store) -> None:
    begun, done = threading.Event(), threading.Event()

    def waits() -> None:
        def work() -> None:
            store.now()
            begun.set()
            assert done.wait(10)
            raise LookupError

        with pytest.raises(LookupError):
            store.in_one_transaction(work)

    thread = threading.Thread(target=waits)
    thread.start()
    assert begun.wait(10)
    store.audit.record_changes([ROW])
    done.set()
    thread.join(10)
    assert rows(store) == ["job:1"]


def test_a_running_job_is_asked_to_stop_with_a_row(store: Store) -> None:
    claimed = running(store)
    store.in_one_transaction(lambda: (store.cancel_jobs([claimed.job_id]), store.audit.record_changes([ROW])))
    assert store.reads.get_jobs([claimed.job_id])[claimed.job_id].cancel_requested
