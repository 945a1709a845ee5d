"""Every job stores who created it, and is found by that."""

from random import Random

import pytest

from tests.store.builders import HOUR, a_definition, a_job, a_worker, insert_one, jobs
from tests.store.runs.dag_builders import a_graph, a_step, enqueue_run, take
from tickwork.core.ids import IdMaker, JobId
from tickwork.core.job import JobFilter
from tickwork.core.limits.job_limits import JobLimits
from tickwork.core.recurrence.interval import every
from tickwork.core.schedule.spec import new_spec
from tickwork.services.scheduler import Scheduler
from tickwork.store.base import Store
from tickwork.testing import VirtualClock


def creator_of(store: Store, job_id: JobId) -> str | None:
    return store.reads.get_jobs([job_id])[job_id].creator


class TestEveryWayToStoreAJobKeepsItsCreator:
    def test_one_job_and_many(self, store: Store) -> None:
        one = insert_one(store, creator="user:ada")
        many = [*jobs(3, creator="key:deploy"), *jobs(2), *jobs(40, creator="hook:github")]
        store.insert_jobs(many)
        assert creator_of(store, one) == "user:ada"
        views = store.reads.get_jobs([job.id for job in many])
        assert [views[job.id].creator for job in many] == [job.creator for job in many]

    def test_a_job_with_a_key_and_one_with_a_flow(self, store: Store) -> None:
        keyed = insert_one(store, key="k", creator="user:ada")
        flowing = insert_one(store, job_limits=JobLimits(tenant="acme"), creator="user:bob")
        assert [creator_of(store, one) for one in (keyed, flowing)] == ["user:ada", "user:bob"]

    def test_a_replacement_is_of_who_replaced_the_job(self, store: Store) -> None:
        first = insert_one(store, key="k", creator="user:ada")
        (found,) = store.insert_jobs([a_job(key="k", if_exists="replace", creator="key:deploy")])
        assert found == first
        assert creator_of(store, first) == "key:deploy"

    def test_a_job_whose_key_was_asked_for_again_keeps_its_creator(self, store: Store) -> None:
        first = insert_one(store, key="k", creator="user:ada")
        assert store.insert_jobs([a_job(key="k", creator="key:deploy")]) == [first]
        assert creator_of(store, first) == "user:ada"

    def test_a_transaction_of_the_caller(self, store: Store) -> None:
        job = a_job(creator="user:ada")
        with store.connection() as tx:
            store.insert_jobs([job], tx)
        assert creator_of(store, job.id) == "user:ada"

    def test_steps_have_the_creator_of_their_run(self, store: Store) -> None:
        run = enqueue_run(store, a_graph(a_step("a"), a_step("b")), creator="user:ada")
        assert take(store) == {}  # the run itself, which begins
        steps = take(store)
        assert creator_of(store, run) == "user:ada"
        assert [creator_of(store, one.job_id) for one in steps.values()] == ["user:ada", "user:ada"]

    def test_a_schedule_is_the_creator_of_what_it_starts(self, store: Store, clock: VirtualClock) -> None:
        store.register_worker(a_worker("w"), [a_definition("t")], HOUR)
        store.schedules.put_schedules([new_spec("nightly", "t", every("1h"))])
        clock.advance(2 * HOUR)
        Scheduler(store, IdMaker(lambda: clock.wall_us() // 1000, Random(1).getrandbits), clock).tick(0.0)
        started = store.reads.list_jobs(JobFilter(creator="schedule:nightly"), 10)
        assert {view.occurrence.schedule for view in started if view.occurrence} == {"nightly"}


@pytest.mark.parametrize("more", [{}, {"task": "t"}, {"queue": "default"}, {"key": "k"}])
def test_jobs_are_found_by_their_creator(store: Store, more: dict[str, str]) -> None:
    mine = insert_one(store, key="k", creator="user:ada")
    insert_one(store, creator="user:bob")
    insert_one(store)
    which = JobFilter(creator="user:ada", **more)  # type: ignore[arg-type]
    assert [view.id for view in store.reads.list_jobs(which, 10)] == [mine]
    assert [view.id for view in store.reads.find_jobs(which, 10).jobs] == [mine]
    assert sum(one.count for one in store.reads.count_jobs(which, 100)) == 1
    assert store.reads.list_jobs(JobFilter(creator="user:carol"), 10) == []
