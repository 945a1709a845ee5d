"""The watch of the lease: it stops what runs before the lease ends, and calls no store."""

from collections.abc import Callable
from datetime import timedelta

from tests.waiting import eventually
from tests.worker.process.pool_helpers import Pool, assignment
from tickwork.core.ids import WorkerId
from tickwork.worker.ipc.protocol import AttemptsEnded, ChildDied, Returned
from tickwork.worker.lease import Lease, LeaseWatch

LENGTH_S = 30.0
SLEEPS = '{"seconds": 1000}'


class Pools:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def stop_running(self) -> None:
        self.told.append("stop")

    def kill_running(self) -> None:
        self.told.append("kill")


def watched(*, registered: bool = True) -> tuple[Lease, Pools, LeaseWatch]:
    lease, pools = Lease(timedelta(seconds=LENGTH_S)), Pools()
    if registered:
        lease.begin(WorkerId("w"), 0.0)
    return lease, pools, LeaseWatch(lease, pools)


def run(watch: LeaseWatch, begin: float, until: float) -> float:
    """Tick as often as it asks to; return the last time."""
    now = begin
    while now < until:
        wait = watch.tick(now)
        assert wait > 0, "it does not spin"
        now += wait
    return now


def test_handlers_are_stopped_and_then_killed_before_the_lease_ends() -> None:
    _, pools, watch = watched()
    now = run(watch, 0.0, LENGTH_S * 0.89)
    assert pools.told == []
    now = run(watch, now, LENGTH_S * 0.94)
    assert set(pools.told) == {"stop"}
    run(watch, now, LENGTH_S * 0.99)
    assert pools.told[-1] == "kill"


def test_a_lease_that_is_renewed_is_left_alone() -> None:
    lease, pools, watch = watched()
    now = 0.0
    for _ in range(10):
        now = run(watch, now, now + LENGTH_S / 3)
        lease.renewed(WorkerId("w"), now, True)
    assert pools.told == []


def test_a_lease_that_is_lost_ends_at_once_what_still_runs() -> None:
    lease, pools, watch = watched()
    lease.renewed(WorkerId("w"), 1.0, False)
    watch.tick(1.0)
    assert pools.told == ["stop", "kill"]


def test_after_a_pause_handlers_may_stop_by_themselves_first() -> None:
    _, pools, watch = watched()
    watch.tick(LENGTH_S * 3)
    assert pools.told == ["stop"]
    run(watch, LENGTH_S * 3, LENGTH_S * 3.1)
    assert pools.told[-1] == "kill"


def test_a_renewal_after_all_saves_what_has_not_stopped_yet() -> None:
    lease, pools, watch = watched()
    run(watch, 0.0, LENGTH_S * 0.92)
    lease.renewed(WorkerId("w"), LENGTH_S * 0.92, True)
    run(watch, LENGTH_S * 0.92, LENGTH_S)
    assert "kill" not in pools.told


def test_without_a_lease_there_is_nothing_to_stop() -> None:
    _, pools, watch = watched(registered=False)
    run(watch, 0.0, LENGTH_S)
    assert pools.told == []


def test_what_children_run_is_stopped_and_given_back(pool: Callable[..., Pool]) -> None:
    some = pool(processes=1, slots=2)
    some.children.submit([assignment(n, task="chats", args=SLEEPS) for n in range(2)])
    some.children.stop_running()
    assert {end.kind for end in some.ended(2).values()} == {"released"}


def test_a_child_that_is_killed_gives_back_what_it_ran_and_nothing_is_charged(pool: Callable[..., Pool]) -> None:
    some = pool(processes=1, slots=2)
    (before,) = some.all
    some.children.submit([assignment(n, args=SLEEPS) for n in range(2)])
    some.children.kill_running()
    (given_back,) = some.hears(Returned)
    assert sorted(given_back.job_ids) == ["job0", "job1"]
    assert not [one for one in some.heard if isinstance(one, ChildDied | AttemptsEnded)]
    eventually(lambda: some.listen() and some.all not in ([], [before]), what="another child takes its place")
