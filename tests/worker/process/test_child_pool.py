"""The pool of child processes, without a worker around it: who runs what, who died, and what was said before."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.waiting import eventually
from tests.worker.process.pool_helpers import Pool, assignment
from tickwork.errors import WorkerError
from tickwork.worker.ipc.protocol import ChildDied, Hello, Returned, Wrote


def test_attempts_go_to_the_least_busy_child(pool: Callable[..., Pool]) -> None:
    children = pool(processes=2, slots=4)
    children.children.submit([assignment(n, args='{"seconds": 0.1}') for n in range(4)])
    pids = [end.result for end in children.ended(4).values()]
    assert len(set(pids)) == 2
    assert sorted(pids.count(pid) for pid in set(pids)) == [2, 2]


def test_jobs_that_stick_run_in_the_same_child_while_it_has_a_free_slot(pool: Callable[..., Pool]) -> None:
    children = pool(processes=3, slots=6)
    for n in range(8):
        children.children.submit([assignment(n, spot=5)])
        children.ended(n + 1)
    home = {end.result for end in children.ended(8).values()}
    assert len(home) == 1
    children.children.submit([assignment(n, spot=spot) for n, spot in enumerate(range(20), start=8)])
    assert len({end.result for end in children.ended(28).values()}) == 3, "other spots have other homes"
    children.children.submit([assignment(n, args='{"seconds": 0.2}', spot=5) for n in range(28, 34)])
    pids = [children.ended(34)[f"job{n}"].result for n in range(28, 34)]
    assert [pids.count(pid) for pid in home] == [2], "its two slots are full, and others have free ones"
    children.children.submit([assignment(n, args='{"seconds": 0.1}', spot=5) for n in range(34, 64)])
    pids = [children.ended(64)[f"job{n}"].result for n in range(34, 64)]
    assert [8 <= pids.count(pid) <= 14 for pid in set(pids)] == [True] * 3, "what is given ahead is shared out"


def test_a_child_that_takes_the_place_of_another_takes_what_stuck_to_it(pool: Callable[..., Pool]) -> None:
    children = pool(processes=4, slots=8)

    def places(first: int) -> list[int]:
        """The processes of 12 spots, one after the other, so that there are always free slots."""
        for n in range(first, first + 12):
            children.children.submit([assignment(n, spot=n - first)])
            children.ended(n + 1)
        return [int(children.ended(first + 12)[f"job{n}"].result) for n in range(first, first + 12)]

    before = places(0)
    os.kill(before[0], signal.SIGKILL)
    children.hears(ChildDied)
    eventually(lambda: children.listen() and len([one for one in children.all if one.hello]) == 4, 10)
    after = places(12)
    assert {was for was, now in zip(before, after, strict=True) if was != now} == {before[0]}, "nobody else's moved"
    assert len({now for was, now in zip(before, after, strict=True) if was != now}) == 1


def test_what_a_child_said_before_it_was_killed_is_heard(pool: Callable[..., Pool]) -> None:
    one = pool(slots=3)
    (child,) = one.all
    one.children.submit([assignment(1), assignment(2, "writes"), assignment(3, args='{"seconds": 1000}')])
    # Nothing is read until both have surely ended: their last words wait in the socket.
    until = time.monotonic() + 0.5
    eventually(lambda: time.monotonic() > until)
    assert one.children.kill_holder("job3") == [], "the others had ended"
    assert set(one.ended(2)) == {"job1", "job2"}
    assert sum(len(said.text) for said in one.heard if isinstance(said, Wrote)) == 100_001
    assert child.process.returncode == -signal.SIGKILL
    one.children.submit([assignment(4)])
    assert "job4" in one.ended(3), "another child took its place"


def test_the_jobs_beside_a_killed_one_are_named(pool: Callable[..., Pool]) -> None:
    one = pool(slots=3)
    one.children.submit([assignment(n, args='{"seconds": 1000}') for n in range(3)])
    assert sorted(one.children.kill_holder("job1")) == ["job0", "job2"]
    assert one.children.kill_holder("job1") == []


def test_a_child_that_died_names_what_it_held(pool: Callable[..., Pool]) -> None:
    one = pool(slots=2)
    one.children.submit([assignment(1, args='{"seconds": 1000}')])
    os.kill(one.all[0].process.pid, signal.SIGKILL)
    (died,) = one.hears(ChildDied)
    assert (died.job_ids, died.alone) == (["job1"], True)
    assert "was killed by SIGKILL" in died.error
    one.hears(Hello)
    one.children.submit([assignment(n, args='{"seconds": 1000}') for n in (2, 3)])
    os.kill(one.all[0].process.pid, signal.SIGKILL)
    died = one.hears(ChildDied, 2)[1]
    assert (sorted(died.job_ids), died.alone) == (["job2", "job3"], False)


def test_what_a_child_was_given_before_it_loaded_waits_for_the_next_one(pool: Callable[..., Pool]) -> None:
    one = pool()
    os.kill(one.all[0].process.pid, signal.SIGKILL)
    one.hears(ChildDied)
    (loading,) = one.all
    assert loading.hello is None
    one.children.submit([assignment(1)])
    os.kill(loading.process.pid, signal.SIGKILL)
    assert one.hears(ChildDied, 2)[1].job_ids == [], "it had begun nothing, so nothing crashed"
    assert "job1" in one.ended(1)


@pytest.mark.parametrize("how", ["interrupted", "the lease ended"])
def test_what_was_stopped_while_its_child_loaded_is_given_back_and_not_kept_for_the_next_one(
    pool: Callable[..., Pool], how: str
) -> None:
    """Seed 36: it began in the next child, seconds after the lease had ended."""
    one = pool()
    os.kill(one.all[0].process.pid, signal.SIGKILL)
    one.hears(ChildDied)
    (loading,) = one.all
    one.children.submit([assignment(1)])
    pid = loading.process.pid  # it is there, and can be killed
    if how == "interrupted":
        one.children.interrupt("job1", 1, "stop")
        os.kill(pid, signal.SIGKILL)
    else:
        one.children.kill_running()
    assert one.hears(Returned)[0].job_ids == ["job1"]
    # That no answer is kept has no public sign.
    assert not one.children._homeless


def test_with_no_child_at_all_attempts_wait(pool: Callable[..., Pool]) -> None:
    one = pool()
    for _ in range(2):
        os.kill(one.all[0].process.pid, signal.SIGKILL)
        eventually(lambda: one.all[0].process.poll() is not None)
        one.children.poll()
    assert one.all == []
    one.children.submit([assignment(1), assignment(2)])
    one.children.interrupt("job2", 1, "cancel")
    assert [said for _, said in one.children.poll()] == [Returned(["job2"])]
    assert "job1" in one.ended(1)


def test_code_that_does_not_load_any_more_is_an_error_of_the_worker(
    pool: Callable[..., Pool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwork.worker.process.child_starter.RESPAWN_S", 0.01)
    one = pool()
    (tmp_path / "shop.py").write_text("1 // 0")
    os.kill(one.all[0].process.pid, signal.SIGKILL)
    with pytest.raises(WorkerError, match="could not be loaded again, 5 times in a row"):
        eventually(lambda: one.listen() and False, 20)


def test_what_waits_for_a_process_of_its_own_is_given_back_when_it_is_stopped(pool: Callable[..., Pool]) -> None:
    one = pool(solo_limit=1)
    one.children.submit([assignment(n, args='{"seconds": 0.3}') for n in range(3)], alone=True)
    assert one.children.solo_room() == 0
    one.children.interrupt("job2", 1, "cancel")
    assert [said for _, said in one.children.poll() if isinstance(said, Returned)] == [Returned(["job2"])]
    assert set(one.ended(2)) == {"job0", "job1"}


def test_a_child_gives_back_what_stands_behind_slow_work_however_much_that_has_to_say(
    pool: Callable[..., Pool],
) -> None:
    one = pool(slots=1)
    one.children.submit([assignment(0, "chats", '{"seconds": 1000}'), assignment(1), assignment(2)])
    (returned,) = one.hears(Returned)
    assert returned.job_ids == ["job1", "job2"]
    assert one.children.stalled()
    assert list(one.all[0].held) == ["job0"]


def test_abandoned_children_are_not_heard_any_more(pool: Callable[..., Pool]) -> None:
    one = pool(processes=2)
    one.children.submit([assignment(1), assignment(2, args='{"seconds": 1000}')])
    until = time.monotonic() + 0.3
    eventually(lambda: time.monotonic() > until)
    one.children.abandon()
    one.children.submit([assignment(3)])
    assert list(one.ended(1)) == ["job3"]
    assert not [said for said in one.heard if isinstance(said, ChildDied)]


def test_large_frames_pass_in_both_directions(pool: Callable[..., Pool]) -> None:
    one = pool(slots=4)
    padding = " " * 250_000
    one.children.submit([assignment(n, args=f'{{"seconds": 0{padding}}}') for n in range(40)])
    assert len(one.ended(40)) == 40


def test_children_that_are_too_many_leave_when_their_work_has_ended(pool: Callable[..., Pool]) -> None:
    some = pool(processes=1, slots=1)
    some.children.resize(3)
    some.hears(Hello, 2)
    assert some.children.loaded() == 3
    some.children.submit([assignment(n, args='{"seconds": 0.7}') for n in range(3)])
    some.children.resize(1)
    assert some.children.loaded() == 1
    assert len(some.all) == 3, "all of them have work"
    assert {end.kind for end in some.ended(3).values()} == {"succeeded"}
    eventually(lambda: some.listen() and len(some.all) == 1)
    assert not some.all[0].retiring


def test_one_that_is_killed_while_it_retires_has_no_successor(pool: Callable[..., Pool]) -> None:
    some = pool(processes=2, slots=1)
    some.children.submit([assignment(n, args='{"seconds": 60}') for n in range(2)])
    some.children.resize(1)
    (leaving,) = [child for child in some.all if child.retiring]
    some.children.kill_holder(next(iter(leaving.held)))
    some.listen()
    assert len(some.all) == 1
