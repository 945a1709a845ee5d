"""Two who move a run at the same moment, on a real server: each step is released once, and the run ends once.

Both go one round trip at a time, and each is stopped at every point while the other goes on. No sessions deadlock:
no transaction has to be run again.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import product
from typing import Any, Protocol

import pytest
from msgspec import Raw

from tests.store.builders import HOUR, MINUTE, SECOND, failed, reap, register, succeeded, with_retries
from tests.store.claim.limits_helpers import gate
from tests.store.interleaving import wipe
from tests.store.runs.dag_builders import (
    a_graph,
    a_mapped_step,
    a_step,
    begin_run,
    drain,
    enqueue_run,
    jobs_of,
    recount,
    steps_of,
    take,
)
from tests.store.stepping import Make, SteppedStore, Stepper, Verb
from tickwork.core.dag.graph import ApprovalStep, Graph, JsonTemplate, Placeholder, Result
from tickwork.core.ids import JobId
from tickwork.core.job import Claimed, Policy
from tickwork.core.retention import Retention
from tickwork.store.postgres import PostgresStore
from tickwork.testing import VirtualClock

pytestmark = pytest.mark.process  # every meeting of two, step by step, takes its time

MOST_STEPS = 10
MANY = 1000  # more steps than any verb has
Made = tuple[Verb, Verb, Callable[[Any, Any], None]]
JOIN = a_graph(a_step("a"), a_step("b"), a_step("c", "a", "b"))
CHAIN = a_graph(a_step("a"), a_step("b", "a"), a_step("clean", "a", "b", run_if="always"))
TWO = a_graph(a_step("a"), a_step("b"), result=JsonTemplate(Raw(b"null"), (Placeholder((), Result("a")),)))
MAPPED = a_graph(a_mapped_step("m", over=[1, 2]), a_step("c", "m", run_if="all_done"))


class Meet(Protocol):
    def __call__(self, make: Make, *, in_one_go: bool = False) -> None: ...


@pytest.fixture
def meet(every_meeting: Callable[..., int]) -> Meet:
    def run(make: Make, *, in_one_go: bool = False) -> None:
        assert every_meeting(make, in_one_go=in_one_go) == 0, "some transactions were run again: they deadlocked"

    return run


def ends(*claimed: Claimed) -> Verb:
    return lambda store: store.finish_attempts([succeeded(one, b"1") for one in claimed])


def fails(*claimed: Claimed) -> Verb:
    return lambda store: store.finish_attempts([failed(one) for one in claimed])


def exchanges(store: PostgresStore, *claimed: Claimed) -> Verb:
    worker = register(store)
    endings = [succeeded(one, b"1") for one in claimed]
    return lambda store: store.exchange(worker, endings, (), queues=["elsewhere"], tasks=["t"], limit=1).finished


def cancels(job_id: JobId) -> Verb:
    return lambda store: store.cancel_jobs([job_id])


def state(store: PostgresStore, run: JobId) -> str:
    return store.reads.get_jobs([run])[run].state.value


# -- two ends


def test_two_parents_that_end_at_once_release_their_child_once(postgres: PostgresStore, meet: Meet) -> None:
    def make() -> Made:
        run = begin_run(postgres, JOIN)
        held = take(postgres)

        def check(one: set[JobId], other: set[JobId]) -> None:
            assert (one, other) == ({held["a"].job_id}, {held["b"].job_id})
            assert jobs_of(postgres, run)["c"] == "queued"
            recount(postgres, run, JOIN)
            assert drain(postgres) == ["c"]
            recount(postgres, run, JOIN)

        return ends(held["a"]), ends(held["b"]), check

    meet(make)


def test_two_parents_that_end_in_exchanges_release_their_child_once(postgres: PostgresStore, meet: Meet) -> None:
    def make() -> Made:
        run = begin_run(postgres, JOIN)
        held = take(postgres)

        def check(one: set[JobId], other: set[JobId]) -> None:
            assert one | other == {held["a"].job_id, held["b"].job_id}
            recount(postgres, run, JOIN)
            assert drain(postgres) == ["c"]
            assert state(postgres, run) == "succeeded"

        return exchanges(postgres, held["a"]), exchanges(postgres, held["b"]), check

    meet(make, in_one_go=True)


def test_two_instances_that_end_at_once_end_their_step_once(postgres: PostgresStore, meet: Meet) -> None:
    def make() -> Made:
        run = begin_run(postgres, MAPPED)
        held = take(postgres)

        def check(one: set[JobId], other: set[JobId]) -> None:
            recount(postgres, run, MAPPED)
            assert steps_of(postgres, run) == {"m": "failed", "c": "open"}
            assert drain(postgres) == ["c"]
            assert state(postgres, run) == "failed"

        return ends(held["m[0]"]), fails(held["m[1]"]), check

    meet(make)


def test_two_last_steps_that_end_at_once_end_the_run_once(postgres: PostgresStore, meet: Meet) -> None:
    def make() -> Made:
        run = begin_run(postgres, TWO)
        held = take(postgres)

        def check(one: set[JobId], other: set[JobId]) -> None:
            view = postgres.reads.get_jobs([run])[run]
            assert (view.state, view.result, view.attempt) == ("succeeded", b"1", 1)
            recount(postgres, run, TWO)

        return ends(held["a"]), ends(held["b"]), check

    meet(make)


def test_steps_of_two_runs_that_end_in_two_batches_wait_in_no_circle(postgres: PostgresStore, meet: Meet) -> None:
    def make() -> Made:
        runs = [enqueue_run(postgres, JOIN), enqueue_run(postgres, JOIN)]
        assert take(postgres) == {}
        held = list(postgres.claim_jobs(register(postgres), ["default"], ["t"], 10).jobs)
        views = postgres.reads.get_jobs([one.job_id for one in held])
        by_step = {(views[one.job_id].run, views[one.job_id].step): one for one in held}
        first = [by_step[runs[0], "a"], by_step[runs[1], "a"]]
        second = [by_step[runs[1], "b"], by_step[runs[0], "b"]]

        def check(one: set[JobId], other: set[JobId]) -> None:
            assert len(one) == len(other) == 2
            for run in runs:
                recount(postgres, run, JOIN)
                assert steps_of(postgres, run)["c"] == "open"

        return ends(*first), ends(*second), check

    meet(make, in_one_go=True)


def test_an_end_and_the_reclaim_of_the_same_attempt_count_once(
    postgres: PostgresStore, clock: VirtualClock, meet: Meet
) -> None:
    def make() -> Made:
        run = begin_run(postgres, MAPPED)
        lost = take(postgres, register(postgres, lease=SECOND), 1)
        ((name, one),) = lost.items()
        take(postgres, register(postgres, lease=HOUR))
        clock.advance(MINUTE)

        def check(finished: set[JobId], reclaimed: set[JobId]) -> None:
            assert len(finished) + len(reclaimed) == 1
            recount(postgres, run, MAPPED)
            assert jobs_of(postgres, run)[name] == ("succeeded" if finished else "queued")
            assert steps_of(postgres, run)["m"] == "open"

        return ends(one), reap, check

    meet(make)


def test_an_attempt_that_fails_for_good_when_it_is_lost_releases_its_child_once(
    postgres: PostgresStore, clock: VirtualClock, meet: Meet
) -> None:
    graph = a_graph(a_step("a", policy=Policy(on_lost="fail")), a_step("b", "a", run_if="all_done"))

    def make() -> Made:
        run = begin_run(postgres, graph)
        lost = take(postgres, register(postgres, lease=SECOND))
        clock.advance(MINUTE)

        def check(finished: set[JobId], reclaimed: set[JobId]) -> None:
            assert len(finished) + len(reclaimed) == 1
            recount(postgres, run, graph)
            assert drain(postgres) == ["b"]

        return ends(lost["a"]), reap, check

    meet(make, in_one_go=True)


# -- an end and another change of the same run


def test_an_end_and_the_cancel_of_its_run(postgres: PostgresStore, meet: Meet) -> None:
    """In both orders: steps that depend on the step do not run, and steps that run on failure run once."""

    def make() -> Made:
        run = begin_run(postgres, CHAIN)
        held = take(postgres)

        def check(finished: set[JobId], cancelled: list[JobId]) -> None:
            assert finished == {held["a"].job_id}
            assert cancelled == [run]
            recount(postgres, run, CHAIN)
            assert drain(postgres) == ["clean"]
            assert steps_of(postgres, run)["b"] == "cancelled"
            assert state(postgres, run) == "cancelled"

        return ends(held["a"]), cancels(run), check

    meet(make)


def test_the_last_end_and_the_cancel_of_its_run(postgres: PostgresStore, meet: Meet) -> None:
    def make() -> Made:
        run = begin_run(postgres, TWO)
        held = take(postgres)
        postgres.finish_attempts([succeeded(held["b"])])

        def check(finished: set[JobId], cancelled: list[JobId]) -> None:
            assert state(postgres, run) == ("cancelled" if cancelled else "succeeded")
            recount(postgres, run, TWO)

        return ends(held["a"]), cancels(run), check

    meet(make)


def test_an_end_and_the_cancel_of_its_job(postgres: PostgresStore, meet: Meet) -> None:
    def make() -> Made:
        run = begin_run(postgres, MAPPED)
        held = take(postgres)
        one = held["m[0]"]

        def check(finished: set[JobId], cancelled: list[JobId]) -> None:
            assert jobs_of(postgres, run)["m[0]"] == ("cancelled" if cancelled else "succeeded")
            recount(postgres, run, MAPPED)
            postgres.finish_attempts([succeeded(held["m[1]"])])
            assert drain(postgres) == ["c"]

        return ends(one), cancels(one.job_id), check

    meet(make, in_one_go=True)


def test_a_claim_and_the_cancel_of_the_run(postgres: PostgresStore, meet: Meet) -> None:
    def make() -> Made:
        run = begin_run(postgres, TWO)
        worker = register(postgres)

        def check(claimed: list[Claimed], cancelled: list[JobId]) -> None:
            recount(postgres, run, TWO)
            postgres.finish_attempts([succeeded(one) for one in claimed])
            assert drain(postgres) == []
            assert state(postgres, run) == "cancelled"
            assert set(jobs_of(postgres, run).values()) == {"cancelled"}

        return lambda store: store.claim_jobs(worker, ["default"], ["t"], 1).jobs, cancels(run), check

    meet(make, in_one_go=True)


def test_the_last_end_and_a_rerun(postgres: PostgresStore, meet: Meet) -> None:
    """A rerun needs an ended run: it comes before the end, and is refused, or after it."""

    def make() -> Made:
        run = begin_run(postgres, TWO)
        held = take(postgres)
        postgres.finish_attempts([failed(held["b"])])

        def check(finished: set[JobId], again: bool) -> None:
            assert state(postgres, run) == ("queued" if again else "failed")
            assert drain(postgres) == (["b"] if again else [])
            recount(postgres, run, TWO)

        return ends(held["a"]), lambda store: store.dags.rerun(run), check

    meet(make, in_one_go=True)


def test_the_last_end_and_a_retry_of_a_step_that_failed(postgres: PostgresStore, meet: Meet) -> None:
    def make() -> Made:
        run = begin_run(postgres, TWO)
        held = take(postgres)
        postgres.finish_attempts([failed(held["b"])])

        def check(finished: set[JobId], retried: list[JobId]) -> None:
            assert state(postgres, run) == ("queued" if retried else "failed")
            assert jobs_of(postgres, run)["b"] == "failed"
            assert drain(postgres) == (["b"] if retried else [])
            recount(postgres, run, TWO)

        return ends(held["a"]), lambda store: store.retry_jobs([held["b"].job_id]), check

    meet(make, in_one_go=True)


# -- services that two run at once


@pytest.mark.parametrize("other", ["expire", "cancel the run", "end"])
def test_a_step_that_expires_is_counted_once(
    postgres: PostgresStore, clock: VirtualClock, meet: Meet, other: str
) -> None:
    policy = Policy(retry=with_retries(0).retry, expires=MINUTE)
    graph = a_graph(a_mapped_step("m", over=[1, 2], policy=policy), a_step("c", "m", run_if="always"))

    def make() -> Made:
        run = begin_run(postgres, graph)
        held = take(postgres, register(postgres, lease=HOUR), 1)
        clock.advance(2 * MINUTE)
        others: dict[str, Verb] = {
            "expire": lambda store: store.expire_jobs(10),
            "cancel the run": cancels(run),
            "end": ends(*held.values()),
        }

        def check(*_: Any) -> None:
            recount(postgres, run, graph)
            postgres.finish_attempts([succeeded(one) for one in held.values()])
            recount(postgres, run, graph)
            assert drain(postgres) == ["c"]
            recount(postgres, run, graph)

        return lambda store: store.expire_jobs(10), others[other], check

    meet(make, in_one_go=True)


def test_two_claims_drop_a_step_once(postgres: PostgresStore, meet: Meet) -> None:
    graph = a_graph(a_mapped_step("m", over=[1, 2], task="gated"), a_step("c", "m", run_if="always"))

    def make() -> Made:
        run = begin_run(postgres, graph)
        (held,) = postgres.claim_jobs(register(postgres), ["default"], ["gated"], 1).jobs
        gate(postgres, "drop", task="gated")
        workers = [register(postgres), register(postgres)]

        def claims(n: int) -> Verb:
            return lambda store: store.claim_jobs(workers[n], ["default"], ["gated"], 10).jobs

        def check(one: list[Claimed], other: list[Claimed]) -> None:
            assert one == other == []
            recount(postgres, run, graph)
            assert sorted(jobs_of(postgres, run).values()) == ["dropped", "running"]
            postgres.finish_attempts([succeeded(held)])
            assert drain(postgres) == ["c"]

        return claims(0), claims(1), check

    meet(make, in_one_go=True)


# -- approvals


def test_two_answers_count_once(postgres: PostgresStore, meet: Meet) -> None:
    graph = a_graph(a_step("ask", approval=ApprovalStep("Go on?")), a_step("b", "ask", run_if="all_done"))

    def make() -> Made:
        run = begin_run(postgres, graph)

        def check(approved: bool, rejected: bool) -> None:
            assert sorted([approved, rejected]) == [False, True]
            assert steps_of(postgres, run)["ask"] == ("succeeded" if approved else "failed")
            recount(postgres, run, graph)
            assert drain(postgres) == ["b"]

        return (
            lambda store: store.dags.answer(run, "ask", True, "ada"),
            lambda store: store.dags.answer(run, "ask", False, "bob"),
            check,
        )

    meet(make)


def test_an_answer_and_its_time_limit_count_once(postgres: PostgresStore, clock: VirtualClock, meet: Meet) -> None:
    ask = a_step("ask", approval=ApprovalStep("Go on?", timeout=timedelta(minutes=1)))
    graph = a_graph(ask, a_step("b", "ask", run_if="all_done"))

    def make() -> Made:
        run = begin_run(postgres, graph)
        clock.advance(2 * MINUTE)

        def check(approved: bool, _: int) -> None:
            assert steps_of(postgres, run)["ask"] == ("succeeded" if approved else "failed")
            recount(postgres, run, graph)
            assert drain(postgres) == ["b"]
            assert postgres.dags.answer_overdue(10) == 0

        return (
            lambda store: store.dags.answer(run, "ask", True, "ada"),
            lambda store: store.dags.answer_overdue(10),
            check,
        )

    meet(make)


# -- the run itself


def test_the_begin_of_a_run_and_its_cancel(postgres: PostgresStore, meet: Meet) -> None:
    def make() -> Made:
        run = enqueue_run(postgres, CHAIN)
        worker = register(postgres)

        def check(_: Any, cancelled: list[JobId]) -> None:
            assert cancelled == [run]
            ran = drain(postgres)
            assert ran in ([], ["clean"])
            assert state(postgres, run) == "cancelled"
            if ran:
                recount(postgres, run, CHAIN)

        return lambda store: store.claim_jobs(worker, ["default"], ["@dag"], 1), cancels(run), check

    meet(make)


@pytest.mark.parametrize("graph", [a_graph(a_step("a"), a_step("b", "a"), a_step("c", "b")), a_graph(a_step("a"))])
def test_a_cancel_that_met_the_begin_of_a_run_misses_no_step(
    postgres: PostgresStore, opens: Callable[[], SteppedStore], graph: Graph
) -> None:
    """It waits for the begin. Then a step ends, wherever the cancel is by now: what that releases is cancelled, too."""
    stores = opens(), opens(), opens()
    for begun, steps in product(range(1, MOST_STEPS), range(MOST_STEPS)):
        wipe(postgres)
        run = enqueue_run(postgres, graph)
        worker = register(postgres)
        begin = Stepper(stores[0], lambda store, worker=worker: store.claim_jobs(worker, ["default"], ["@dag"], 1))
        _step(begin, begun)
        cancel = Stepper(stores[1], cancels(run))
        _step(cancel, MANY)
        begin.finish()
        begin.join()
        cancel.settle()
        _step(cancel, steps)
        end = Stepper(stores[2], _end_what_there_is)
        _step(end, MANY)
        for one in (cancel, end):
            one.finish()
        for one in (begin, cancel, end):
            one.join()
            assert not isinstance(one.answer, Exception), one.answer
        assert drain(postgres) == [], f"after {begun} steps of the begin and {steps} of the cancel"
        assert state(postgres, run) == ("cancelled" if cancel.answer else "succeeded")
    assert [store.repeats for store in stores] == [0, 0, 0]


def _step(stepper: Stepper, count: int) -> None:
    """Let it do `count` round trips, or as many as it can. A wait for a lock may be over by the time it is noticed."""
    for _ in range(count):
        if not stepper.step():
            stepper.settle()
            if stepper.is_done or stepper.waits_for_a_lock():
                break


def _end_what_there_is(store: PostgresStore) -> None:
    claimed = store.claim_jobs(register(store), ["default"], ["t"], 10).jobs
    store.finish_attempts([succeeded(one) for one in claimed])


def test_of_two_reruns_at_once_one_begins(postgres: PostgresStore, meet: Meet) -> None:
    def make() -> Made:
        run = begin_run(postgres, TWO)
        held = take(postgres)
        postgres.finish_attempts([failed(held["a"]), succeeded(held["b"])])

        def check(one: bool, other: bool) -> None:
            assert sorted([one, other]) == [False, True]
            assert drain(postgres) == (["a"] if one else ["b"])
            recount(postgres, run, TWO)
            assert postgres.reads.get_jobs([run])[run].attempt == 2

        return lambda store: store.dags.rerun(run), lambda store: store.dags.rerun(run, ["b"]), check

    meet(make)


def test_the_begin_of_a_rerun_and_its_cancel(postgres: PostgresStore, meet: Meet) -> None:
    def make() -> Made:
        run = begin_run(postgres, CHAIN)
        postgres.finish_attempts([failed(take(postgres)["a"])])
        assert drain(postgres) == ["clean"]
        assert postgres.dags.rerun(run)
        worker = register(postgres)

        def check(_: Any, cancelled: list[JobId]) -> None:
            assert cancelled == [run]
            assert drain(postgres) in ([], ["clean"])
            assert state(postgres, run) == "cancelled"
            recount(postgres, run, CHAIN)

        return lambda store: store.claim_jobs(worker, ["default"], ["@dag"], 1), cancels(run), check

    meet(make, in_one_go=True)


def test_a_rerun_and_its_prune(postgres: PostgresStore, clock: VirtualClock, meet: Meet) -> None:
    """Either there is nothing left to run again, or all of it stays."""

    def make() -> Made:
        run = begin_run(postgres, TWO)
        held = take(postgres)
        postgres.finish_attempts([failed(held["a"]), succeeded(held["b"])])
        clock.advance(HOUR)
        kept = Retention(ended=MINUTE, failed=MINUTE)

        def check(again: bool, pruned: int) -> None:
            assert again == (run in postgres.reads.get_jobs([run]))
            if again:
                assert drain(postgres) == ["a"]
                assert state(postgres, run) == "succeeded"
                recount(postgres, run, TWO)

        return lambda store: store.dags.rerun(run), lambda store: store.prune(kept, 100), check

    meet(make)
