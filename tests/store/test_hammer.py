"""Many threads, and many processes, on one store: nothing is lost, nothing is done twice."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.store.builders import a_job, claim, ended, failed, insert_one, running
from tests.store.conftest import OpensStore
from tests.store.hammer import at_once, hammer
from tickwork.core.job import JobFilter, JobState
from tickwork.store.base import Store
from tickwork.store.postgres import PostgresStore

TOP = Path(__file__).parents[2]


def test_eight_threads_lose_nothing_and_do_nothing_twice(open_store: OpensStore, kind: str) -> None:
    store = open_store(clock=None)
    witness = hammer(store, "default", threads=8, jobs_each=60 if kind == "postgres-pooled" else 120)
    witness.check()
    assert store.reads.list_jobs(JobFilter(state=JobState.QUEUED), 10) == []
    assert store.reads.list_jobs(JobFilter(state=JobState.RUNNING), 10) == []


@pytest.mark.parametrize("kind", ["sqlite", "sqlite-stdlib", "postgres"], indirect=True)
def test_four_processes_share_a_store(open_store: OpensStore, kind: str, tmp_path: Path, schema: str) -> None:
    store = open_store(clock=None)
    insert_one(store, queue="first")
    url = store.url if isinstance(store, PostgresStore) else str(tmp_path / "jobs.db")
    how = {"sqlite": "apsw", "sqlite-stdlib": "sqlite3", "postgres": schema}[kind]
    program = "import sys; from tests.store import hammer; hammer.main(*sys.argv[1:])"
    crowd = [
        subprocess.Popen([sys.executable, "-c", program, url, how, f"p{n}", "100"], cwd=TOP, stdout=subprocess.PIPE)
        for n in range(4)
    ]
    assert [process.communicate(timeout=50)[0] for process in crowd] == [b"100 done\n"] * 4
    assert len(store.reads.list_jobs(JobFilter(state=JobState.SUCCEEDED), 1000)) == 400


@pytest.mark.parametrize("key", ["a", "b", "c", "d"])
def test_a_key_that_many_ask_for_at_once_gives_one_job(store: Store, key: str) -> None:
    store.now()
    answers = at_once(*[lambda: store.insert_jobs([a_job(), a_job(key=key), a_job()])[1]] * 8)
    assert len(set(answers)) == 1
    assert len(store.reads.list_jobs(JobFilter(key=key), 10)) == 1


def test_keys_that_are_taken_in_opposite_orders_do_not_lock_each_other_out(store: Store) -> None:
    keys = [str(n) for n in range(200)]
    forth, back = [a_job(key=key) for key in keys], [a_job(key=key) for key in reversed(keys)]
    there, and_back = at_once(lambda: store.insert_jobs(forth), lambda: store.insert_jobs(back))
    assert there == and_back[::-1]


def test_an_insert_that_runs_twice_at_once_is_one_insert(store: Store) -> None:
    batch = [a_job(), a_job(key="k"), a_job()]
    assert at_once(*[lambda: store.insert_jobs(batch)] * 6) == [[job.id for job in batch]] * 6
    assert len(claim(store)) == 3


def test_a_job_that_many_cancel_retry_and_discard_at_once_ends_up_in_one_place(store: Store) -> None:
    ids = [ended(store, failed) for _ in range(10)] + [running(store).job_id for _ in range(5)]
    at_once(
        lambda: store.cancel_jobs(ids),
        lambda: store.retry_jobs(ids[::-1]),
        lambda: store.discard_jobs(ids),
        lambda: store.retry_jobs(ids),
        lambda: store.cancel_jobs(ids[::-1]),
    )
    states = Counter(view.state for view in store.reads.get_jobs(ids).values())
    assert states[JobState.RUNNING] == 5
    assert sum(states.values()) == 15
    assert sum(queue.due for queue in store.reads.queues()) == states[JobState.QUEUED]
