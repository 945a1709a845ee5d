"""A debounced call that meets a claim or an end at every point: its arguments are the last that run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.store.builders import HOUR, again, register, succeeded
from tests.store.debounce_task import WAIT, Task, number
from tests.store.stepping import Verb
from tickwork.core.job import Claimed
from tickwork.core.limits.debounce import debounce
from tickwork.store.postgres import PostgresStore
from tickwork.testing import VirtualClock

pytestmark = pytest.mark.process  # every meeting of two, step by step, takes its time

Meetings = Callable[..., None]


def the_last_call_runs_last(task: Task, clock: VirtualClock, claimed: list[Claimed]) -> list[int]:
    """Run what there is to its end; the numbers in the order in which they ran."""
    ran: list[int] = []
    for _ in range(4):
        assert len(claimed) <= 1, "one at a time"
        for one in claimed:
            ran.append(number(one))
            task.store.finish_attempts([succeeded(one)])
        clock.advance(2 * HOUR)
        claimed = task.claim(register(task.store))
    assert task.lives() == 0
    assert ran[-1] == 2, ran
    assert len(ran) <= 2, ran
    return ran


def test_a_call_and_a_claim(postgres: PostgresStore, every_meeting: Meetings, clock: VirtualClock) -> None:
    def make() -> tuple[Verb, Verb, Callable[[Any, Any], None]]:
        task = Task(postgres, debounce(WAIT, key="account"))
        task.call(1)
        clock.advance(WAIT)
        call = task.job(2)
        return (
            lambda store: store.insert_jobs([call]),
            lambda store: task_claim(store, task),
            lambda _, claimed: the_last_call_runs_last(task, clock, claimed),
        )

    every_meeting(make)


def task_claim(store: PostgresStore, task: Task) -> list[Claimed]:
    return store.claim_jobs(task.worker, ["default"], ["t"], 100).jobs


def test_a_call_and_a_claim_that_puts_its_job_aside(
    postgres: PostgresStore, every_meeting: Meetings, clock: VirtualClock
) -> None:
    """The first one runs; the second one waits for it, and has the arguments 1 until the call replaces them."""

    def make() -> tuple[Verb, Verb, Callable[[Any, Any], None]]:
        task = Task(postgres, debounce(WAIT, key="account"))
        task.call(0)
        clock.advance(WAIT)
        first = task.start()
        (second,) = task.call(1)
        clock.advance(WAIT)
        call = task.job(2)

        def check(ids: Any, claimed: list[Claimed]) -> None:
            assert claimed == []
            assert ids == [second]
            postgres.finish_attempts([succeeded(first)])
            assert the_last_call_runs_last(task, clock, []) == [2]

        return lambda store: store.insert_jobs([call]), lambda store: task_claim(store, task), check

    every_meeting(make)


@pytest.mark.parametrize("end", [succeeded, lambda one: again(one, HOUR)])
def test_a_call_and_the_end_of_the_running_job(
    postgres: PostgresStore, every_meeting: Meetings, clock: VirtualClock, end: Any
) -> None:
    def make() -> tuple[Verb, Verb, Callable[[Any, Any], None]]:
        task = Task(postgres, debounce(WAIT, key="account"))
        task.call(1)
        clock.advance(WAIT)
        one = task.start()
        call = task.job(2)

        def check(_: Any, closed: set[str]) -> None:
            assert closed == {one.job_id}
            the_last_call_runs_last(task, clock, [])

        return lambda store: store.insert_jobs([call]), lambda store: store.finish_attempts([end(one)]), check

    every_meeting(make)
