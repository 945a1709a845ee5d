"""The wanted number of children and workers: bounded, monotone, and constant under a constant load."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.job import RUN, QueueView, WorkerView
from tickwork.core.placement import NOTHING, Offer, read_offer
from tickwork.core.workers.autoscale import (
    AutoscaleRange,
    PoolLoad,
    PoolSize,
    WaitingKind,
    queue_load,
    read_processes,
    resize,
    wanted_children,
    wanted_slots,
    wanted_workers,
)
from tickwork.errors import InvalidOption

SECOND = 1_000_000
NOW = 1_800_000_000 * SECOND
RULE = AutoscaleRange()
SLOTS = 5

loads = st.builds(
    PoolLoad, st.integers(0, 10_000), st.integers(0, 100), st.integers(0, 3600 * SECOND), st.integers(0, 60 * SECOND)
)


def test_ranges_are_read_as_people_write_them() -> None:
    assert read_processes("1..8") == RULE == AutoscaleRange(low=1, high=8)
    assert read_processes("4") == read_processes(4) == AutoscaleRange(low=4, high=4)
    for wrong in ("", "1-8", "1..", "x", "-1"):
        with pytest.raises(InvalidOption, match=r"is not a number or a range; say 4, or 1\.\.8"):
            read_processes(wrong)
    for wrong in ("0", "8..1", "0..4", "1..257"):
        with pytest.raises(InvalidOption, match="processes must be a whole number from 1"):
            read_processes(wrong)


@pytest.mark.parametrize(
    ("load", "slots"),
    [
        (PoolLoad(waiting=0, busy=0, duration_us=SECOND), 0),
        (PoolLoad(waiting=0, busy=3, duration_us=SECOND), 3),
        (PoolLoad(waiting=100, busy=3, duration_us=10_000), 4),  # a second of work
        (PoolLoad(waiting=100, busy=3, duration_us=100_000), 13),
        (PoolLoad(waiting=100, busy=3, duration_us=3600 * SECOND), 103),  # never more slots than jobs
        (PoolLoad(waiting=1, busy=0, duration_us=0), 1),
    ],
)
def test_what_waits_wants_slots_so_that_all_begin_in_time(load: PoolLoad, slots: int) -> None:
    assert wanted_slots(load, timedelta(seconds=1)) == slots


def test_a_job_that_has_waited_too_long_wants_one_more_child() -> None:
    load = PoolLoad(waiting=1, busy=5, duration_us=1, waited_us=2 * SECOND)
    assert wanted_children(RULE, load, SLOTS, 3) == 4
    assert wanted_children(RULE, load, SLOTS, 8) == 8
    assert wanted_children(RULE, load._replace(waited_us=0), SLOTS, 3) == 2


@given(loads, loads, st.integers(1, 20), st.integers(1, 8))
def test_more_work_never_wants_less(one: PoolLoad, more: PoolLoad, slots: int, count: int) -> None:
    larger = PoolLoad(*map(max, zip(one, more, strict=True)))
    small, large = (wanted_children(RULE, load, slots, count) for load in (one, larger))
    assert 1 <= small <= large <= 8
    assert wanted_workers(one, slots) <= wanted_workers(larger, slots)
    assert wanted_workers(one, slots) * slots < one.busy + one.waiting + slots
    assert (wanted_workers(one, slots) == 0) == (one.busy + one.waiting == 0)


@given(st.lists(st.tuples(loads, st.integers(0, 90 * SECOND)), max_size=30), st.integers(1, 8))
def test_it_grows_at_once_and_shrinks_only_after_calm(steps: list[tuple[PoolLoad, int]], count: int) -> None:
    size, now_us = PoolSize(count, NOW), NOW
    needed_at_us = NOW
    for load, wait_us in steps:
        now_us += wait_us
        wanted = wanted_children(RULE, load, SLOTS, size.count)
        after = resize(RULE, size, load, SLOTS, now_us)
        assert 1 <= after.count <= 8
        assert after.count >= wanted
        if after.count < size.count:
            assert now_us - needed_at_us >= 60 * SECOND
        if wanted >= size.count or after.count != size.count:
            needed_at_us = now_us
        size = after


class Worker:
    """A worker with children, to which jobs come at random with one mean rate, each taking half a second."""

    def __init__(self, per_second: float, seed: int) -> None:
        self.rng = Random(seed)
        self.per_second = per_second
        self.size = PoolSize(1, 0)
        self.waiting: list[int] = []
        self.ends: list[int] = []
        self.counts: list[int] = []

    def run(self, seconds: int) -> None:
        for tick in range(seconds * 10):
            now_us = tick * SECOND // 10
            self.ends = [us for us in self.ends if us > now_us]
            self.waiting += [now_us] * self._arrivals()
            while self.waiting and len(self.ends) < self.size.count * SLOTS:
                self.waiting.pop(0)
                self.ends.append(now_us + SECOND // 2)
            waited_us = now_us - self.waiting[0] if self.waiting else 0
            load = PoolLoad(len(self.waiting), len(self.ends), SECOND // 2, waited_us)
            self.size = resize(RULE, self.size, load, SLOTS, now_us)
            self.counts.append(self.size.count)

    def _arrivals(self) -> int:
        whole, part = divmod(self.per_second / 10, 1)
        return int(whole) + (self.rng.random() < part)

    def changes(self, since_s: int) -> int:
        counts = self.counts[since_s * 10 :]
        return sum(one != other for one, other in pairwise(counts))


@pytest.mark.parametrize("per_second", [1, 9.5, 10, 10.5, 20, 33, 47, 60, 79])
def test_a_constant_load_changes_nothing(per_second: float) -> None:
    worker = Worker(per_second, seed=11)
    worker.run(900)
    assert worker.changes(since_s=180) <= 1
    assert worker.counts[-1] >= per_second / 2 / SLOTS
    assert worker.counts[-1] <= -(-per_second * 0.5 * 1.25 // SLOTS) + 1
    assert len(worker.waiting) < 10


def test_it_does_not_shrink_to_where_it_would_be_full() -> None:
    full, roomy = PoolLoad(waiting=0, busy=22, duration_us=SECOND), PoolLoad(waiting=0, busy=20, duration_us=SECOND)
    for load, count in ((full, 6), (roomy, 5)):
        size = PoolSize(6, NOW)
        for second in range(0, 600, 5):
            size = resize(RULE, size, load, SLOTS, NOW + second * SECOND)
        assert size.count == count


def test_it_shrinks_to_the_most_that_was_wanted_while_it_was_calm() -> None:
    size = PoolSize(8, NOW)
    for second in range(61):
        busy = 20 if second == 30 else 0
        size = resize(RULE, size, PoolLoad(0, busy, SECOND), SLOTS, NOW + second * SECOND)
    assert size.count == 5


def test_a_load_that_ends_lets_the_worker_shrink_to_its_fewest() -> None:
    worker = Worker(70, seed=3)
    worker.run(60)
    assert worker.size.count >= 7
    size = worker.size
    for second in range(60, 200):
        size = resize(RULE, size, PoolLoad(0, 0, SECOND), SLOTS, second * SECOND)
    assert size.count == 1


# -- whole queues


def a_queue(due: int, running: int = 0) -> QueueView:
    return QueueView("q", due, 0, running, 0, None, ())


def a_worker(*tasks: str, offer: Offer = NOTHING, slots: int = 10, queues: tuple[str, ...] = ("q",)) -> WorkerView:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return WorkerView("w", "host", 1, "1", queues, tasks, slots, "running", now, now, 0, offer=offer)


GPU = read_offer(["gpu"])
BIG = read_offer(resources="mem=8GB")


@pytest.mark.parametrize(
    ("kind", "worker", "is_placed"),
    [
        (WaitingKind("t", "", 5), a_worker("t"), True),
        (WaitingKind("t", "", 5), a_worker("u"), False),
        (WaitingKind("t", "gpu", 5), a_worker("t"), False),
        (WaitingKind("t", "gpu", 5), a_worker("t", offer=GPU), True),
        (WaitingKind("t", "mem=16000000000", 5), a_worker("t", offer=BIG), False),
        (WaitingKind("t", "mem=4000000000", 5), a_worker("t", offer=BIG), True),
        (WaitingKind("t", "", 5), a_worker("t", queues=("other",)), False),
        (WaitingKind(RUN, "", 5), a_worker(), True),
    ],
)
def test_jobs_that_no_worker_can_run_are_counted(kind: WaitingKind, worker: WorkerView, is_placed: bool) -> None:
    load = queue_load(a_queue(5), [worker], timedelta(seconds=1), waiting=[kind])
    assert load.unplaced == (0 if is_placed else 5)
    assert (load.wanted > load.workers) is not is_placed


def test_what_no_worker_can_run_wants_workers_besides_those_that_serve_the_queue() -> None:
    waiting = [WaitingKind("t", "", 30), WaitingKind("t", "gpu", 20)]
    minute, three = timedelta(minutes=1), [a_worker("t")] * 3
    load = queue_load(a_queue(50, running=10), three, minute, waiting=waiting)
    assert (load.unplaced, load.workers) == (20, 3)
    assert load.wanted == 4 + 2  # 10 run and 30 could; the 20 others need two workers of ten slots
    placed = queue_load(a_queue(30, running=10), three, minute, waiting=waiting[:1])
    assert placed.wanted == 4


def test_no_more_are_unplaced_than_are_due() -> None:
    assert queue_load(a_queue(3), [], None, waiting=[WaitingKind("t", "", 5)]).unplaced == 3


def test_a_queue_that_no_worker_serves_wants_as_many_workers_as_before() -> None:
    load = queue_load(a_queue(50), [], timedelta(minutes=1), waiting=[WaitingKind("t", "", 50)])
    assert (load.workers, load.wanted, load.unplaced) == (0, 5, 50)
