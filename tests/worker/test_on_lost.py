"""Jobs with on_lost="fail": once their handler has begun, they do not begin again, whatever took the attempt away."""

from __future__ import annotations

import pytest

from tests.store.builders import a_job, jobs, state_of
from tests.worker.quiet import Nobody, QuietPools, a_worker
from tickwork.core.ids import JobId
from tickwork.core.job import JobState, Policy
from tickwork.store.sqlite import SqliteStore
from tickwork.testing import VirtualClock
from tickwork.worker.ipc.protocol import ChildDied, FromExecutor, Returned, Started, Stuck

ONCE = Policy(on_lost="fail")


class OneChild(QuietPools):
    """All that it runs is in one child, which says what the test makes it say."""

    def say(self, message: FromExecutor | ChildDied) -> None:
        self._news.append((Nobody(), message))

    def begin(self, job_id: str) -> None:
        assert self.given[job_id].tells_start
        self.say(Started(job_id, self.given[job_id].claim, 0.0))

    def kill_holder(self, job_id: str) -> list[str]:
        beside = [one for one in self.given if one != job_id]
        self.given.clear()
        return beside


class Scene:
    """A worker that holds two jobs that may begin only once, and one that may run again. One of the two began."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tests.worker.quiet.QuietPools", OneChild)
        self.clock = VirtualClock()
        self.store = SqliteStore(":memory:", clock=self.clock)
        worker, pools = a_worker(self.store, self.clock, slots=4)
        assert isinstance(pools, OneChild)
        self.worker, self.pools = worker, pools
        self.begun, self.waits = self.store.insert_jobs([a_job(policy=ONCE), a_job(policy=ONCE)])
        (self.other,) = self.store.insert_jobs(jobs(1))
        self.tick()
        self.pools.begin(self.begun)

    def tick(self) -> None:
        self.worker.called = True
        self.worker.tick(self.clock.monotonic())

    def states(self) -> list[str]:
        """Return the end of the first attempt of each job: begun, waiting, and repeatable."""
        return [self.store.reads.attempts(job)[0].state for job in (self.begun, self.waits, self.other)]

    def is_over(self) -> bool:
        return state_of(self.store, self.begun) is JobState.FAILED


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def test_a_neighbour_that_is_stuck_ends_it(scene: Scene) -> None:
    claim = scene.pools.given[scene.other].claim
    scene.pools.say(Stuck(scene.other, claim, "timed_out", "too long", 0.0))
    scene.tick()
    assert scene.is_over()
    assert scene.states() == ["lost", "released", "timed_out"]


def test_what_the_child_said_last_counts(scene: Scene) -> None:
    """That the second one began is heard only after the child was killed."""
    claim = scene.pools.given[scene.other].claim
    scene.pools.say(Stuck(scene.other, claim, "timed_out", "too long", 0.0))
    scene.pools.begin(scene.waits)
    scene.tick()
    assert state_of(scene.store, scene.waits) is JobState.FAILED


def test_the_end_of_a_drain_ends_it(scene: Scene) -> None:
    scene.worker.release()
    assert scene.is_over()
    assert scene.states() == ["lost", "released", "released"]


def test_a_stop_before_the_lease_ends_ends_it(scene: Scene) -> None:
    scene.pools.end([scene.begun, scene.waits, scene.other], "released")
    scene.tick()
    assert scene.is_over()
    assert scene.states() == ["lost", "released", "released"]


def test_a_child_that_was_killed_for_the_lease_ends_it(scene: Scene) -> None:
    scene.pools.say(Returned([scene.begun, scene.waits, scene.other]))
    scene.tick()
    assert scene.is_over()
    assert scene.states() == ["lost", "released", "released"]


def test_a_crash_beside_others_ends_it_and_not_what_had_not_begun(scene: Scene) -> None:
    scene.pools.say(ChildDied([scene.begun, scene.waits, scene.other], "it was killed", alone=False))
    scene.tick()
    assert scene.is_over()
    assert scene.states() == ["lost", "released", "lost"]


def test_an_operator_may_run_it_again(scene: Scene) -> None:
    scene.worker.release()
    assert scene.store.retry_jobs([scene.begun]) == [scene.begun]


def test_a_job_whose_stored_end_was_lost_does_not_begin_again(scene: Scene) -> None:
    scene.tick()
    with scene.store.connection() as tx:
        (row,) = tx.execute("SELECT * FROM tickwork_running WHERE job_id = ?", (scene.begun,)).fetchall()
    scene.pools.end([scene.begun])
    scene.tick()
    assert state_of(scene.store, scene.begun) is JobState.SUCCEEDED
    with scene.store.connection() as tx:
        tx.execute("DELETE FROM tickwork_finished WHERE job_id = ?", (scene.begun,))
        tx.execute(f"INSERT INTO tickwork_running VALUES ({', '.join('?' * len(row))})", row)
    # The interval of this check is much longer than the test.
    scene.worker._claimer._recovery.own_at = 0.0
    scene.tick()
    assert scene.is_over()


def test_jobs_that_may_run_again_do_not_tell_of_their_start(scene: Scene) -> None:
    assert not scene.pools.given[scene.other].tells_start
    assert [JobId(one) for one in scene.pools.given] == [scene.begun, scene.waits, scene.other]
