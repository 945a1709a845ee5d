"""Debounce and throttle: no call is lost because the job of an earlier one has started. On both stores."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest

from tests.store.builders import (
    HOUR,
    MINUTE,
    SECOND,
    again,
    failed,
    reap,
    register,
    state_of,
    succeeded,
)
from tests.store.debounce_task import WAIT, Task, number
from tickwork.core.job import JobState
from tickwork.core.limits.debounce import debounce, throttle
from tickwork.store.base import Store
from tickwork.testing import VirtualClock


@pytest.fixture
def task(store: Store) -> Task:
    return Task(store, debounce(WAIT, key="account"))


def test_a_call_while_the_job_runs_is_one_more_job_with_the_last_arguments(task: Task, clock: VirtualClock) -> None:
    (first,) = task.call(1)
    clock.advance(WAIT)
    one = task.start()
    second, third, fourth = task.call(2, 3, 4)
    assert first != second == third == fourth
    assert number(one) == 1
    task.store.finish_attempts([succeeded(one)])
    assert task.claim() == [], "5 s after the last call"
    clock.advance(WAIT)
    two = task.start()
    assert (two.job_id, number(two)) == (second, 4)
    task.store.finish_attempts([succeeded(two)])
    assert task.lives() == 0


def test_it_starts_when_the_running_one_has_ended(task: Task, clock: VirtualClock) -> None:
    task.call(1)
    clock.advance(WAIT)
    one = task.start()
    (second,) = task.call(2)
    clock.advance(MINUTE)
    assert task.claim() == [], "the wait is over, and the first one runs"
    hold = task.store.limits.hold(second)
    assert hold is not None
    assert hold.holders == (one.job_id,)
    task.call(3)
    clock.advance(WAIT)
    task.store.finish_attempts([failed(one)])
    assert number(task.start()) == 3


def test_it_starts_after_the_retry_of_the_running_one(task: Task, clock: VirtualClock) -> None:
    task.call(1)
    clock.advance(WAIT)
    one = task.start()
    task.call(2)
    task.store.finish_attempts([again(one, HOUR)])
    clock.advance(MINUTE)
    assert task.claim() == []
    task.call(3)
    clock.advance(HOUR)
    retried = task.start()
    assert (retried.job_id, number(retried)) == (one.job_id, 1)
    task.store.finish_attempts([succeeded(retried)])
    assert number(task.start()) == 3


def test_it_is_not_lost_when_the_worker_of_the_running_one_dies(task: Task, clock: VirtualClock) -> None:
    task.call(1)
    clock.advance(WAIT)
    dead = register(task.store, lease=MINUTE)
    one = task.start(dead)
    task.call(2)
    clock.advance(2 * MINUTE)
    assert reap(task.store) == {one.job_id}
    numbers = []
    for _ in range(2):
        started = task.start()
        numbers.append(number(started))
        task.store.finish_attempts([succeeded(started)])
    assert numbers == [1, 2]


def test_a_call_while_it_waits_for_a_retry_gives_the_retry_its_arguments(task: Task, clock: VirtualClock) -> None:
    (first,) = task.call(1)
    clock.advance(WAIT)
    task.store.finish_attempts([again(task.start(), HOUR)])
    assert task.call(2) == [first]
    clock.advance(WAIT)
    one = task.start()
    assert (one.job_id, number(one), one.failures) == (first, 2, 1)


def test_calls_in_a_batch_and_a_repeated_one_are_one_job(task: Task, clock: VirtualClock) -> None:
    task.call(1)
    clock.advance(WAIT)
    one = task.start()
    batch = [task.job(n) for n in (2, 3)]
    ids = task.store.insert_jobs(batch)
    assert ids == [batch[0].id] * 2
    assert task.store.insert_jobs(batch[:1]) == ids[:1], "its reply was lost"
    assert task.store.reads.find_key(str(batch[0].key)) == batch[0].id
    task.store.finish_attempts([succeeded(one)])
    clock.advance(WAIT)
    assert number(task.start()) == 3


def test_a_call_in_a_transaction_counts_when_it_commits(task: Task, clock: VirtualClock) -> None:
    task.call(1)
    clock.advance(WAIT)
    one = task.start()

    with suppress(ZeroDivisionError), task.store.connection() as tx:
        task.call(2, tx=tx)
        _ = 1 / 0
    assert task.lives() == 1
    with task.store.connection() as tx:
        task.call(3, tx=tx)
    task.store.finish_attempts([succeeded(one)])
    clock.advance(WAIT)
    assert number(task.start()) == 3


def test_the_end_of_the_running_one_leaves_the_key_to_the_next(task: Task, clock: VirtualClock) -> None:
    task.call(1)
    clock.advance(WAIT)
    one = task.start()
    (second,) = task.call(2)
    task.store.finish_attempts([succeeded(one)])
    assert task.call(3) == [second]
    assert task.lives() == 1


def test_a_cancelled_successor_frees_the_key(task: Task, clock: VirtualClock) -> None:
    task.call(1)
    clock.advance(WAIT)
    one = task.start()
    (second,) = task.call(2)
    task.store.cancel_jobs([second])
    (third,) = task.call(3)
    assert third not in (one.job_id, second)
    assert state_of(task.store, second) is JobState.CANCELLED
    task.store.finish_attempts([succeeded(one)])
    clock.advance(WAIT)
    assert number(task.start()) == 3


# -- throttle


def test_a_throttle_drops_calls_until_its_time_is_over(store: Store, clock: VirtualClock) -> None:
    task = Task(store, throttle(MINUTE, key="account"))
    (first,) = task.call(1)
    one = task.start()
    assert task.call(2) == [first]
    task.store.finish_attempts([succeeded(one)])
    assert task.call(3) == [first]
    clock.advance(MINUTE + SECOND)
    (second,) = task.call(4)
    assert second != first
    assert number(task.start()) == 4


def test_a_trailing_throttle_starts_once_in_its_time_and_runs_the_last_call(store: Store, clock: VirtualClock) -> None:
    task = Task(store, throttle(MINUTE, key="account", trailing=True))
    task.call(1)
    one = task.start()
    second, *others = task.call(2, 3)
    assert others == [second]
    task.store.finish_attempts([succeeded(one)])
    assert task.claim() == []
    assert task.call(4) == [second]
    clock.advance(MINUTE - SECOND)
    assert task.claim() == []
    clock.advance(timedelta(seconds=1.1))
    two = task.start()
    assert (two.job_id, number(two)) == (second, 4)
    task.call(5)
    clock.advance(2 * MINUTE)
    assert task.claim() == [], "one at a time"
    task.store.finish_attempts([succeeded(two)])
    assert number(task.start()) == 5
