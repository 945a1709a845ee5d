"""A job that took its workers down runs alone: its worker finishes what it holds, and claims nothing beside it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.store.builders import a_job, claim, jobs, reap, state_of
from tests.worker.quiet import QuietPools, a_worker
from tickwork.core.ids import JobId
from tickwork.core.job import JobState
from tickwork.core.why import explain
from tickwork.store.sqlite import SqliteStore
from tickwork.testing import VirtualClock
from tickwork.worker.worker import Worker

MINUTE = timedelta(minutes=1)


class Scene:
    """A worker with four slots, and jobs that were lost three times."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = SqliteStore(":memory:", clock=self.clock)
        self.worker, self.pools = self.start()

    def start(self) -> tuple[Worker, QuietPools]:
        return a_worker(self.store, self.clock, slots=4)

    def suspects(self, count: int = 1, **changes: Any) -> list[JobId]:
        """Jobs that must run alone: the workers of three attempts of each were lost."""
        ids = self.store.insert_jobs([a_job(priority=0, **changes) for _ in range(count)])
        for _ in range(3):
            assert {one.job_id for one in claim(self.store, count)} == set(ids)
            self.clock.advance(2 * MINUTE)
            assert reap(self.store) == set(ids)
        return ids

    def tick(self) -> None:
        self.worker.called = True
        self.worker.tick(self.clock.monotonic())

    def given(self) -> set[str]:
        return set(self.pools.given)

    def begun(self, job_id: JobId) -> bool:
        with self.store.connection() as tx:
            ((begun,),) = tx.execute("SELECT begun FROM tickwork_running WHERE job_id = ?", (job_id,)).fetchall()
        return bool(begun)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_it_does_not_start_when_the_lease_ends_while_its_start_is_stored(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 57311475: the worker was paused after the store had answered, and started the job after its lease."""
    (suspect,) = scene.suspects()
    begin_alone = scene.store.begin_alone

    def slow(*given: Any) -> bool:
        done = begin_alone(*given)
        # The lease of a worker is not public.
        scene.clock.advance(2 * scene.worker._lease.duration)
        return done

    monkeypatch.setattr(scene.store, "begin_alone", slow)
    scene.tick()
    assert scene.given() == set()
    monkeypatch.undo()
    scene.tick()
    assert [one.state for one in scene.store.reads.attempts(suspect)][-1] == "released", "it is not blamed"


def test_it_waits_until_nothing_else_is_held_and_nothing_is_claimed_beside_it(scene: Scene) -> None:
    (suspect,) = scene.suspects()
    neighbours = set(scene.store.insert_jobs(jobs(2)))
    scene.tick()
    assert scene.given() == neighbours, "it was claimed with them, and waits for their ends"
    assert not scene.begun(suspect), "a loss of the worker now would not be its fault"
    later = scene.store.insert_jobs(jobs(1))
    first, second = sorted(neighbours)
    scene.pools.end([first])
    scene.tick()
    assert scene.given() == {second}
    scene.pools.end([second])
    scene.tick()
    assert scene.given() == {suspect}
    assert scene.begun(suspect)
    assert state_of(scene.store, JobId(second)) is JobState.SUCCEEDED, "their ends are stored before it begins"
    scene.tick()
    assert scene.given() == {suspect}
    scene.pools.end([suspect])
    scene.tick()
    assert scene.given() == set(later)
    assert scene.store.reads.get_jobs([suspect])[suspect].losses == 0


def test_two_of_them_run_one_after_the_other(scene: Scene) -> None:
    suspects = scene.suspects(2)
    scene.tick()
    (first,) = scene.given()
    (second,) = set(suspects) - {first}
    assert (scene.begun(JobId(first)), scene.begun(JobId(second))) == (True, False)
    scene.pools.end([first])
    scene.tick()
    assert scene.given() == {second}


def test_one_that_is_cancelled_while_it_waits_never_begins(scene: Scene) -> None:
    (suspect,) = scene.suspects()
    (neighbour,) = scene.store.insert_jobs(jobs(1))
    scene.tick()
    scene.store.cancel_jobs([suspect])
    scene.clock.advance(timedelta(seconds=2))
    scene.tick()
    assert state_of(scene.store, suspect) is JobState.CANCELLED
    assert scene.given() == {neighbour}


def test_a_release_gives_it_back_uncharged(scene: Scene) -> None:
    (suspect,) = scene.suspects()
    scene.tick()
    scene.worker.release()
    view = scene.store.reads.get_jobs([suspect])[suspect]
    assert (view.state, view.losses) == (JobState.QUEUED, 3)


def test_one_that_was_reclaimed_meanwhile_does_not_begin(scene: Scene) -> None:
    (suspect,) = scene.suspects()
    (neighbour,) = scene.store.insert_jobs(jobs(1))
    scene.tick()
    with scene.store.connection() as tx:
        tx.execute("UPDATE tickwork_running SET claim = 1 WHERE job_id = ?", (suspect,))
    scene.pools.end([neighbour])
    scene.tick()
    assert scene.given() == set()


def test_why_tells_of_it(scene: Scene) -> None:
    (suspect,) = scene.suspects()
    view = scene.store.reads.get_jobs([suspect])[suspect]
    assert explain(view, [], scene.store.now()).endswith(
        "the workers of its last 3 attempts died, so it runs alone in its worker"
    )
