"""Beside ten times as many leases over REST, workers and dags, no read does more than ten times the work.

A join by nested loops over the leases would do a hundred times the work. What is counted is rows or steps, never time.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import NamedTuple

import msgspec
import pytest

from tests.store.builders import MINUTE, a_worker, claim, jobs
from tests.store.effort import PostgresEffort, SqliteEffort, effort_on
from tests.store.runs.dag_builders import a_graph, a_step, enqueue_run, take
from tickwork.core.ids import JobId, WorkerId
from tickwork.core.job import JobFilter, JobState
from tickwork.core.retention import Retention
from tickwork.core.stats.rollups import minute_of
from tickwork.store.base import Store, WorkerRegistration
from tickwork.store.postgres import PostgresStore
from tickwork.store.remote_leases import REMOTE_OTHERS, REMOTE_SHOWN, LeaseGrant, RemoteName
from tickwork.store.sqlite import SqliteStore
from tickwork.testing import VirtualClock

pytestmark = pytest.mark.xdist_group("plans")  # the stores are filled once

SMALL, LARGE = 60, 600  # leases; a tenth as many workers and dags
SLACK = 200  # rows or steps, however large the store is
FOR_EVER = timedelta(days=1000)
CLAIMER = WorkerId("server/1")
KEY, QUEUES = "key", ("default",)


class Crowd(NamedTuple):
    """A store with many leases over REST, of which a third is past."""

    store: Store
    lease: WorkerId
    job: JobId
    run: JobId


def grants_of(store: Store, count: int, lease: timedelta, names: int) -> list[LeaseGrant]:
    """Grant leases for `count` new jobs, held by workers of `names` names."""
    store.insert_jobs(jobs(count))
    claimed = claim(store, count, CLAIMER)
    grants = [
        LeaseGrant(one.job_id, one.claim, WorkerId(f"lease-{one.job_id}"), f"r{n % names}", KEY, QUEUES, ("t",), lease)
        for n, one in enumerate(claimed)
    ]
    assert len(store.remote.grant_leases(CLAIMER, grants)) == count
    return grants


def a_claimer(store: Store) -> None:
    store.register_worker(WorkerRegistration(CLAIMER, "host", 1, "1.0", (), (), 0), [], FOR_EVER)


def fill(store: Store, clock: VirtualClock, size: int) -> Crowd:
    a_claimer(store)
    for number in range(size // 10):
        store.register_worker(a_worker(f"w{number}"), [], FOR_EVER)
        store.dags.put_dag(msgspec.structs.replace(a_graph(a_step("a")), name=f"dag-{number}"))
    run = enqueue_run(store, a_graph(a_step("a")))
    assert take(store, WorkerId("w0")) == {}
    past = grants_of(store, size // 3, MINUTE, 10)
    live = grants_of(store, size - len(past), FOR_EVER, 10)
    clock.advance(2 * MINUTE)
    return Crowd(store, live[0].worker, live[0].job_id, run)


READS: dict[str, Callable[[Crowd], object]] = {
    "workers": lambda on: on.store.reads.workers(),
    "worker": lambda on: on.store.reads.worker(on.lease),
    "held jobs": lambda on: on.store.reads.held_jobs(on.lease, 100),
    "queues": lambda on: on.store.reads.queues(),
    "waiting kinds": lambda on: on.store.reads.waiting_kinds("default", 1000),
    "health": lambda on: on.store.health(),
    "expired attempts": lambda on: on.store.expired_attempts(1000),
    "prune": lambda on: on.store.prune(Retention(), 10),
    "topics": lambda on: on.store.reads.topics(),
    "happenings": lambda on: on.store.reads.happenings(on.store.now() - MINUTE, 1000),
    "starting": lambda on: on.store.stats.starting(20_000),
    "rollups": lambda on: on.store.stats.rollups(1, "", "", minute_of(on.store.now()) - 60),
    "counts": lambda on: on.store.stats.counts(None),
    "count jobs": lambda on: on.store.reads.count_jobs(JobFilter(), 10_000),
    "count jobs of a task": lambda on: on.store.reads.count_jobs(JobFilter(task="t"), 10_000),
    "find running": lambda on: on.store.reads.find_jobs(JobFilter(state=JobState.RUNNING), 50),
    "find those of a worker": lambda on: on.store.reads.find_jobs(JobFilter(worker="r1", state=JobState.RUNNING), 50),
    "search": lambda on: on.store.reads.search_jobs("t", 20),
    "running jobs": lambda on: on.store.notifications.running_jobs(100),
    "due work": lambda on: on.store.remote.due_work(["default"]),
    "remote attempt": lambda on: on.store.remote.remote_attempt(RemoteName(on.job, 1, None, KEY)),
    "waiting approvals": lambda on: on.store.dags.waiting_approvals(20),
    "newest dags": lambda on: on.store.reads.newest_dags(50, ""),
    "dags": lambda on: on.store.dags.list_dags(),
    "steps of a run": lambda on: (on.store.dags.run_steps(on.run), on.store.dags.step_times(on.run)),
}


class Both(NamedTuple):
    """The same kind of store, small and large, and what counts its work."""

    effort: SqliteEffort | PostgresEffort
    small: Crowd
    large: Crowd


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with ExitStack() as stack:
        effort = stack.enter_context(effort_on(request.param))
        filled = []
        for size in (SMALL, LARGE):
            clock = VirtualClock()
            if request.param == "sqlite":
                store: Store = SqliteStore(str(tmp_path_factory.mktemp("crowd") / "jobs.db"), clock=clock)
            else:
                url = request.getfixturevalue("postgres_database")
                store = PostgresStore(url, schema=f"crowd_{size}", clock=clock, upgrade=True)
            stack.callback(store.close)
            filled.append(fill(store, clock, size))
        yield Both(effort, *filled)


@pytest.mark.parametrize("read", READS)
def test_a_read_does_at_most_ten_times_the_work_beside_ten_times_as_many(both: Both, read: str) -> None:
    verb = READS[read]
    small, large = (both.effort.of(lambda on=on: verb(on)) for on in (both.small, both.large))  # type: ignore[misc]
    assert large <= small * LARGE / SMALL * 1.2 + SLACK, (read, small, large)


def test_leases_of_one_name_are_one_worker(store: Store) -> None:
    a_claimer(store)
    grants = grants_of(store, 5, MINUTE, 2)
    found = {view.host: view for view in store.reads.workers()}
    assert {name: (view.state, view.slots, view.running) for name, view in found.items()} == {
        "r0": ("remote", 3, 3),
        "r1": ("remote", 2, 2),
    }
    assert {view.worker for view in store.reads.held_jobs(WorkerId(found["r0"].id), 10)} == {
        grant.worker for grant in grants if grant.name == "r0"
    }


def test_one_lease_is_found_by_its_id(store: Store) -> None:
    a_claimer(store)
    *_, last = grants_of(store, 3, MINUTE, 1)
    one = store.reads.worker(last.worker)
    assert one is not None
    assert (one.id, one.host, one.state, one.running) == (last.worker, "r0", "remote", 1)
    assert store.reads.worker(WorkerId("nobody")) is None


def test_a_lease_that_is_past_is_told_apart_from_the_others_of_its_name(store: Store, clock: VirtualClock) -> None:
    a_claimer(store)
    grants_of(store, 1, MINUTE, 1)
    grants_of(store, 2, FOR_EVER, 1)
    clock.advance(2 * MINUTE)
    assert {(view.host, view.state): view.running for view in store.reads.workers()} == {
        ("r0", "lost"): 1,
        ("r0", "remote"): 2,
    }


def test_beyond_a_number_of_names_workers_over_rest_are_counted_together(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_claimer(store)
    grants_of(store, 9, MINUTE, 5)
    module = type(store.reads).__module__
    monkeypatch.setattr(f"{module}.REMOTE_SHOWN", 3)
    assert REMOTE_SHOWN > 3
    found = sorted((view.host, view.running) for view in store.reads.workers())
    assert found == [(REMOTE_OTHERS, 3), ("r0", 2), ("r1", 2), ("r2", 2)]
