"""Two sessions at once, in every order of their statements, on a real server: what the promises rest on."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.store.builders import (
    HOUR,
    MINUTE,
    SECOND,
    a_job,
    abandoned,
    again,
    claim,
    ended,
    failed,
    insert_one,
    jobs,
    reap,
    register,
    running,
    state_of,
    succeeded,
)
from tests.store.interleaving import Actor, HeldStore, orders, run_round, table, wipe
from tickwork.core.ids import JobId
from tickwork.core.job import JobFilter, JobState, Policy
from tickwork.core.retention import Retention
from tickwork.errors import LeaseLost
from tickwork.store.postgres import PostgresStore
from tickwork.testing import VirtualClock

Make = Callable[[], tuple[Sequence[Actor], Callable[[], None]]]


@pytest.fixture
def every_order(postgres: PostgresStore, clock: VirtualClock) -> Callable[[Make], None]:
    """Run what `make` makes in each order, on an empty store; it gives the actors, and a check for the end."""

    def open_held() -> HeldStore:
        return HeldStore(postgres.url, schema=postgres.schema.name, clock=clock)

    def run(make: Make) -> None:
        for order in orders(make()[0]):
            wipe(postgres)
            actors, check = make()
            run_round(open_held, actors, order)
            told = [actor.answers for actor in actors]
            try:
                assert all(isinstance(answer, LeaseLost) or not isinstance(answer, Exception) for (answer,) in told)
                check()
            except AssertionError as error:
                raise AssertionError(f"in the order {order}, where the answers were {told}") from error

    return run


def one_place(store: PostgresStore, job_id: JobId) -> None:
    """A job stands in exactly one of queue, running and finished."""
    with store.connection() as tx:
        places = [
            tx.execute(f"SELECT count(*) FROM {table(store, name)} WHERE job_id = %s", (job_id,)).fetchone()[0]
            for name in ("queue", "running", "finished")
        ]
    assert sum(places) == 1, places


def test_claim_and_claim(postgres: PostgresStore, every_order: Callable[[Make], None]) -> None:
    def make() -> tuple[Sequence[Actor], Callable[[], None]]:
        store = postgres
        ids = store.insert_jobs(jobs(3))
        workers = [register(store), register(store)]
        actors = [Actor([lambda held, w=w: claim(held, 2, w)]) for w in workers]

        def check() -> None:
            taken = [job.job_id for actor in actors for job in actor.answers[0]]
            assert len(taken) == len(set(taken)) <= 3
            for job_id in ids:
                one_place(store, job_id)
            assert len(taken) + len(claim(store)) == 3

        return actors, check

    every_order(make)


def test_claim_and_a_claim_that_is_rolled_back(postgres: PostgresStore, every_order: Callable[[Make], None]) -> None:
    def make() -> tuple[Sequence[Actor], Callable[[], None]]:
        (job_id,) = postgres.insert_jobs(jobs(1))
        first, second = register(postgres), register(postgres)
        actors = [
            Actor([lambda held: claim(held, 1, first)], commits=False),
            Actor([lambda held: claim(held, 1, second)]),
        ]

        def check() -> None:
            one_place(postgres, job_id)
            got = actors[1].answers[0] or claim(postgres)
            assert [(job.job_id, job.attempt) for job in got] == [(job_id, 1)]

        return actors, check

    every_order(make)


def test_claim_and_reclaim(postgres: PostgresStore, clock: VirtualClock, every_order: Callable[[Make], None]) -> None:
    """A claim by a lease that just runs out: it is refused, or what it took is reclaimed next time."""

    def make() -> tuple[Sequence[Actor], Callable[[], None]]:
        worker = register(postgres, lease=MINUTE)
        held_job = running(postgres, worker)
        waiting = insert_one(postgres)
        ending = [abandoned(held_job)]
        late = VirtualClock(clock.now() + HOUR)

        def reclaim(held: HeldStore) -> set[JobId]:
            # One of two sessions needs another clock.
            held._clock = late
            return held.reclaim_attempts(ending)

        actors = [Actor([lambda held: claim(held, 1, worker)]), Actor([reclaim])]

        def check() -> None:
            claimed, reclaimed = actors[0].answers[0], actors[1].answers[0]
            if isinstance(claimed, LeaseLost):
                assert reclaimed == {held_job.job_id}
            postgres_late = PostgresStore(postgres.url, schema=postgres.schema.name, clock=late)
            assert held_job.job_id in reclaimed | reap(postgres_late)
            assert postgres_late.open_attempts(worker) == []
            for job_id in (held_job.job_id, waiting):
                one_place(postgres, job_id)
                assert state_of(postgres, job_id) is JobState.QUEUED
            postgres_late.close()

        return actors, check

    every_order(make)


@pytest.mark.parametrize("finish", [succeeded, again])
def test_finish_and_reclaim(
    postgres: PostgresStore, clock: VirtualClock, every_order: Callable[[Make], None], finish: Any
) -> None:
    def make() -> tuple[Sequence[Actor], Callable[[], None]]:
        claimed = running(postgres, key="k")
        clock.advance(HOUR)
        actors = [
            Actor([lambda held: held.finish_attempts([finish(claimed)])]),
            Actor([lambda held: held.reclaim_attempts([abandoned(claimed)])]),
        ]

        def check() -> None:
            finished, reclaimed = (bool(actor.answers[0]) for actor in actors)
            assert finished != reclaimed, "exactly one of them closes the attempt"
            wanted = "lost" if reclaimed else "succeeded" if finish is succeeded else "failed"
            assert [tried.state for tried in postgres.reads.attempts(claimed.job_id)] == [wanted]
            one_place(postgres, claimed.job_id)

        return actors, check

    every_order(make)


def test_a_finish_that_is_rolled_back_and_reclaim(
    postgres: PostgresStore, clock: VirtualClock, every_order: Callable[[Make], None]
) -> None:
    def make() -> tuple[Sequence[Actor], Callable[[], None]]:
        claimed = running(postgres)
        clock.advance(HOUR)
        actors = [
            Actor([lambda held: held.finish_attempts([succeeded(claimed)])], commits=False),
            Actor([lambda held: held.reclaim_attempts([abandoned(claimed)])]),
        ]

        def check() -> None:
            assert claimed.job_id in actors[1].answers[0] | reap(postgres)
            assert state_of(postgres, claimed.job_id) is JobState.QUEUED

        return actors, check

    every_order(make)


def test_renew_and_reclaim(postgres: PostgresStore, clock: VirtualClock, every_order: Callable[[Make], None]) -> None:
    def make() -> tuple[Sequence[Actor], Callable[[], None]]:
        worker = register(postgres, lease=MINUTE)
        claimed = running(postgres, worker)
        clock.advance(HOUR)
        actors = [
            Actor([lambda held: held.renew_lease(worker, MINUTE)]),
            Actor([lambda held: held.reclaim_attempts([abandoned(claimed)])]),
        ]

        def check() -> None:
            renewed, reclaimed = actors[0].answers[0], actors[1].answers[0]
            assert renewed == (reclaimed == set()), "a worker that lost an attempt is told so, and no other"
            assert bool(postgres.open_attempts(worker)) == renewed

        return actors, check

    every_order(make)


def test_reclaim_and_reclaim(postgres: PostgresStore, clock: VirtualClock, every_order: Callable[[Make], None]) -> None:
    def make() -> tuple[Sequence[Actor], Callable[[], None]]:
        worker = register(postgres)
        claimed = [running(postgres, worker) for _ in range(2)]
        clock.advance(HOUR)
        actors = [
            Actor([lambda held: held.reclaim_attempts([abandoned(one) for one in claimed])]),
            Actor([lambda held: held.reclaim_attempts([abandoned(one) for one in reversed(claimed)])]),
        ]

        def check() -> None:
            one, two = (actor.answers[0] for actor in actors)
            assert not one & two
            assert one | two == {job.job_id for job in claimed}

        return actors, check

    every_order(make)


@pytest.mark.parametrize("finish", [succeeded, failed, again])
def test_cancel_and_finish(postgres: PostgresStore, every_order: Callable[[Make], None], finish: Any) -> None:
    """A caller to whom the job is reported as cancelled finds it cancelled, and each caller gets an answer about it."""

    def make() -> tuple[Sequence[Actor], Callable[[], None]]:
        claimed = running(postgres, key="k", policy=Policy(key_for=SECOND))
        actors = [
            Actor([lambda held: held.cancel_jobs([claimed.job_id])]),
            Actor([lambda held: held.finish_attempts([finish(claimed)])]),
        ]

        def check() -> None:
            one_place(postgres, claimed.job_id)
            state = state_of(postgres, claimed.job_id)
            assert actors[1].answers == [{claimed.job_id}]
            if actors[0].answers == [[claimed.job_id]]:
                assert state is JobState.CANCELLED
            else:
                assert state in {JobState.SUCCEEDED, JobState.FAILED}

        return actors, check

    every_order(make)


def test_cancel_and_claim(postgres: PostgresStore, every_order: Callable[[Make], None]) -> None:
    def make() -> tuple[Sequence[Actor], Callable[[], None]]:
        job_id = insert_one(postgres, key="k")
        worker = register(postgres)
        actors = [Actor([lambda held: held.cancel_jobs([job_id])]), Actor([lambda held: claim(held, 1, worker)])]

        def check() -> None:
            assert actors[0].answers == [[job_id]], "it is live all the time, so it is cancelled"
            one_place(postgres, job_id)
            view = postgres.reads.get_jobs([job_id])[job_id]
            if actors[1].answers[0]:
                assert (view.state, view.cancel_requested) == (JobState.RUNNING, True)
                postgres.finish_attempts([again(one) for one in actors[1].answers[0]])
            assert state_of(postgres, job_id) is JobState.CANCELLED
            assert postgres.reads.find_key("k") == job_id

        return actors, check

    every_order(make)


@pytest.mark.parametrize("first_commits", [True, False])
@pytest.mark.parametrize("if_exists", ["return", "replace"])
def test_one_key_enqueued_twice(
    postgres: PostgresStore, every_order: Callable[[Make], None], first_commits: bool, if_exists: str
) -> None:
    def make() -> tuple[Sequence[Actor], Callable[[], None]]:
        key = "k"
        batches = [[a_job(), a_job(key=key, args=args, if_exists=if_exists)] for args in (b"[1]", b"[2]")]
        actors = [
            Actor([lambda held: held.insert_jobs(batches[0])], commits=first_commits),
            Actor([lambda held: held.insert_jobs(batches[1])]),
        ]

        def check() -> None:
            (view,) = postgres.reads.list_jobs(JobFilter(key=key), 10)
            one, two = (actor.answers[0][1] for actor in actors)
            assert two == view.id == postgres.reads.find_key(key)
            if first_commits:
                assert one == view.id, "both callers were given the one that is there"
                later = b"[2]" if view.id == batches[0][1].id else b"[1]"
                earlier = b"[1]" if later == b"[2]" else b"[2]"
                assert view.args == (later if if_exists == "replace" else earlier), (
                    "the one who came second replaced, or changed nothing"
                )
            else:
                assert view.args == b"[2]"

        return actors, check

    every_order(make)


def test_the_same_insert_twice(postgres: PostgresStore, every_order: Callable[[Make], None]) -> None:
    def make() -> tuple[Sequence[Actor], Callable[[], None]]:
        batch = [a_job(), a_job(key="k"), a_job()]
        actors = [Actor([lambda held: held.insert_jobs(batch)]) for _ in range(2)]

        def check() -> None:
            assert [actor.answers[0] for actor in actors] == [[job.id for job in batch]] * 2
            for job in batch:
                one_place(postgres, job.id)

        return actors, check

    every_order(make)


def test_enqueue_and_the_end_of_the_job_that_holds_the_key(
    postgres: PostgresStore, every_order: Callable[[Make], None]
) -> None:
    def make() -> tuple[Sequence[Actor], Callable[[], None]]:
        key = "k"
        claimed = running(postgres, key=key)
        new = a_job(key=key)
        actors = [
            Actor([lambda held: held.finish_attempts([succeeded(claimed)])]),
            Actor([lambda held: held.insert_jobs([new])]),
        ]

        def check() -> None:
            (stands,) = actors[1].answers[0]
            assert state_of(postgres, claimed.job_id) is JobState.SUCCEEDED
            live = [view for view in postgres.reads.list_jobs(JobFilter(key=key), 10) if not view.state.ended]
            assert [view.id for view in live] == ([new.id] if stands == new.id else [])
            (after,) = postgres.insert_jobs([a_job(key=key)])
            assert after == new.id or stands == claimed.job_id, "the key is held by the new job, or free"

        return actors, check

    every_order(make)


def test_replace_and_claim(postgres: PostgresStore, every_order: Callable[[Make], None]) -> None:
    """A worker runs what the job says: the old arguments if it came first, the new ones if it came second."""

    def make() -> tuple[Sequence[Actor], Callable[[], None]]:
        key = "k"
        job_id = insert_one(postgres, key=key, args=b"[1]")
        worker = register(postgres)
        actors = [
            Actor([lambda held: held.insert_jobs([a_job(key=key, args=b"[2]", if_exists="replace")])]),
            Actor([lambda held: claim(held, 1, worker)]),
        ]

        def check() -> None:
            one_place(postgres, job_id)
            taken = actors[1].answers[0] or claim(postgres, 1, worker)
            assert [job.args for job in taken] == [postgres.reads.get_jobs([job_id])[job_id].args]
            assert postgres.finish_attempts([succeeded(job) for job in taken]) == {job_id}

        return actors, check

    every_order(make)


def test_retry_and_retry(postgres: PostgresStore, every_order: Callable[[Make], None]) -> None:
    def make() -> tuple[Sequence[Actor], Callable[[], None]]:
        dead = [ended(postgres, failed) for _ in range(2)]
        actors = [
            Actor([lambda held: held.retry_jobs(dead)]),
            Actor([lambda held: held.retry_jobs(dead[::-1])]),
        ]

        def check() -> None:
            assert sorted(actors[0].answers[0] + actors[1].answers[0]) == sorted(dead)
            for job_id in dead:
                one_place(postgres, job_id)

        return actors, check

    every_order(make)


def test_retry_and_enqueue_with_one_key(postgres: PostgresStore, every_order: Callable[[Make], None]) -> None:
    def make() -> tuple[Sequence[Actor], Callable[[], None]]:
        key = "k"
        dead = ended(postgres, failed, key=key)
        new = a_job(key=key)
        actors = [Actor([lambda held: held.retry_jobs([dead])]), Actor([lambda held: held.insert_jobs([new])])]

        def check() -> None:
            live = [view.id for view in postgres.reads.list_jobs(JobFilter(key=key), 10) if not view.state.ended]
            assert live == actors[1].answers[0]
            assert actors[0].answers[0] == ([dead] if live == [dead] else [])

        return actors, check

    every_order(make)


def test_save_and_reclaim(postgres: PostgresStore, clock: VirtualClock, every_order: Callable[[Make], None]) -> None:
    """A write of an attempt is visible before the attempt is reclaimed, or does not happen."""

    def make() -> tuple[Sequence[Actor], Callable[[], None]]:
        claimed = running(postgres)
        clock.advance(HOUR)

        def reclaim(held: HeldStore) -> tuple[bool, bytes | None]:
            return bool(held.reclaim_attempts([abandoned(claimed)])), postgres.saved_state(claimed.job_id)

        actors = [Actor([lambda held: held.save_state(claimed.job_id, claimed.claim, b"1")]), Actor([reclaim])]

        def check() -> None:
            saved, (reclaimed, seen) = actors[0].answers[0], actors[1].answers[0]
            assert saved or reclaimed
            if reclaimed:
                assert saved == (seen == b"1")
            else:
                assert reap(postgres) == {claimed.job_id}

        return actors, check

    every_order(make)


def test_prune_and_retry(postgres: PostgresStore, clock: VirtualClock, every_order: Callable[[Make], None]) -> None:
    def make() -> tuple[Sequence[Actor], Callable[[], None]]:
        dead = ended(postgres, failed)
        clock.advance(2 * HOUR)
        actors = [
            Actor([lambda held: held.prune(Retention(HOUR, HOUR), 10)]),
            Actor([lambda held: held.retry_jobs([dead])]),
        ]

        def check() -> None:
            pruned, retried = actors[0].answers[0].count, actors[1].answers[0]
            assert (pruned, retried) in [(1, []), (0, [dead])]
            assert (dead in postgres.reads.get_jobs([dead])) == bool(retried)
            if retried:
                one_place(postgres, dead)

        return actors, check

    every_order(make)


def test_expire_and_claim(postgres: PostgresStore, clock: VirtualClock, every_order: Callable[[Make], None]) -> None:
    def make() -> tuple[Sequence[Actor], Callable[[], None]]:
        job_id = insert_one(postgres, key="k", policy=Policy(expires=MINUTE))
        worker = register(postgres)
        late = VirtualClock(clock.now() + HOUR)

        def expire(held: HeldStore) -> int:
            held._clock = late
            return held.expire_jobs(10)

        actors = [Actor([expire]), Actor([lambda held: claim(held, 1, worker)])]

        def check() -> None:
            one_place(postgres, job_id)
            assert actors[0].answers[0] + len(actors[1].answers[0]) == 1

        return actors, check

    every_order(make)
