"""Runs of dags: a run is a job, and so is each of its steps; what ends one releases what waits for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from tests.store.builders import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    a_definition,
    a_job,
    a_worker,
    again,
    claim,
    failed,
    insert_one,
    reap,
    register,
    state_of,
    succeeded,
    with_retries,
)
from tests.store.claim.limits_helpers import gate
from tests.store.runs.dag_builders import (
    TASKS,
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
from tickwork.core.dag.graph import (
    ApprovalStep,
    Condition,
    Graph,
    Item,
    JsonTemplate,
    Param,
    Placeholder,
    Result,
    RunValue,
    Step,
    Template,
    Text,
)
from tickwork.core.ids import JobId
from tickwork.core.job import Claimed, JobFilter, JobState, MapIndex
from tickwork.core.limits.job_limits import JobLimits, LimitUse
from tickwork.core.limits.limits import concurrency, read_limits
from tickwork.core.limits.task_limits import TaskLimits, encode_task_limits
from tickwork.core.occurrence import Occurrence, encode_occurrence
from tickwork.core.recurrence.interval import every
from tickwork.core.retention import Retention
from tickwork.core.schedule.spec import new_spec
from tickwork.errors import InvalidInput
from tickwork.store.base import Store
from tickwork.testing import VirtualClock

CHAIN = a_graph(a_step("a"), a_step("b", "a"))
ASK = ApprovalStep("?", timeout=SECOND, default="approve")
TWO_ANSWERS = a_graph(
    a_step("ask", approval=ASK), a_step("ask too", approval=ASK), a_step("a", "ask"), a_step("b", "ask too")
)
ONE = JobLimits(uses=(LimitUse("one", "", 1),))


def given(value: Any, name: str = "x") -> JsonTemplate:
    return JsonTemplate(Raw(f'{{"{name}":null}}'.encode()), (Placeholder((name,), value),))


def result_of(name: str) -> JsonTemplate:
    return JsonTemplate(Raw(b"null"), (Placeholder((), Result(name)),))


def end(store: Store, *claimed: Claimed, result: bytes = b"1") -> None:
    endings = [succeeded(one, result) for one in claimed]
    assert store.finish_attempts(endings) == {one.job_id for one in claimed}


def args_of(claimed: Claimed) -> Any:
    return json.loads(claimed.args)


# -- what is released, and with what


def test_steps_of_one_task_can_be_released_at_once(store: Store) -> None:
    graph = a_graph(a_step("a"), a_step("b"), a_step("c", "a", "b"))
    run = begin_run(store, graph)
    assert jobs_of(store, run) == {"a": "queued", "b": "queued"}
    assert drain(store) == ["a", "b", "c"]
    assert state_of(store, run) is JobState.SUCCEEDED


def test_what_is_released_at_one_instant_by_two_has_ids_of_its_own(store: Store) -> None:
    run = begin_run(store, TWO_ANSWERS)
    assert store.dags.answer(run, "ask", True, "ada")
    assert store.dags.answer(run, "ask too", True, "ada")
    assert jobs_of(store, run) == {"a": "queued", "b": "queued"}


def test_time_limits_of_two_approvals_pass_at_once(store: Store, clock: VirtualClock) -> None:
    run = begin_run(store, TWO_ANSWERS)
    clock.advance(MINUTE)
    assert store.dags.answer_overdue(10) == 2
    assert jobs_of(store, run) == {"a": "queued", "b": "queued"}


def test_a_text_has_parameters_elements_and_results_in_it(store: Store) -> None:
    text = Text((Param("day"), "/", Item("x"), "/", Result("a")))
    mapped = a_mapped_step("m", "a", over=[1, 2])
    graph = a_graph(a_step("a"), Step(name="m", parents=("a",), job=mapped.job, map=mapped.map, args=given(text)))
    begin_run(store, graph, b'{"day":"monday"}')
    end(store, take(store)["a"], result=b'{"n":1}')
    held = take(store)
    assert {name: args_of(one) for name, one in held.items()} == {
        "m[0]": {"x": 'monday/1/{"n":1}'},
        "m[1]": {"x": 'monday/2/{"n":1}'},
    }


def test_the_list_of_a_mapped_step_has_none_in_the_place_of_what_failed(store: Store) -> None:
    graph = a_graph(a_mapped_step("m", over=[1, 2, 3]), a_step("b", "m", run_if="all_done", args=given(Result("m"))))
    begin_run(store, graph)
    held = take(store)
    end(store, held["m[2]"], held["m[0]"], result=b'"x"')
    store.finish_attempts([failed(held["m[1]"])])
    assert args_of(take(store)["b"]) == {"x": ["x", None, "x"]}


def test_a_mapped_step_that_never_came_to_its_instances_gives_none(store: Store) -> None:
    """As any other that did not succeed; an empty one gives an empty list, also to those whom it releases at once."""
    told = a_step("b", "m", run_if="all_done", args=given(Result("m")))
    begin_run(store, a_graph(a_mapped_step("m", over=Param("p")), told), b'{"p":"no list"}')
    assert args_of(take(store)["b"]) == {"x": None}
    when = (Condition(Result("m"), "==", []),)
    begin_run(store, a_graph(a_mapped_step("m", over=Param("p")), a_step("b", "m", when=when)), b'{"p":[]}')
    assert list(take(store)) == ["b"]


@pytest.mark.parametrize("op", ["true", "false", "!=", "not in", "succeeded"])
def test_no_condition_holds_of_a_step_that_failed(store: Store, op: Any) -> None:
    step = a_step("b", "a", run_if="all_done", when=(Condition(Result("a"), op, [5]),))
    run = begin_run(store, a_graph(a_step("a"), step))
    store.finish_attempts([failed(take(store)["a"])])
    assert steps_of(store, run) == {"a": "failed", "b": "skipped"}


def test_a_step_has_priority_collection_labels_and_tenant_of_its_run(store: Store) -> None:
    about: dict[str, Any] = {"priority": 3, "collection": "c", "labels": ("l",), "job_limits": JobLimits(tenant="acme")}
    run = begin_run(store, CHAIN, **about)
    (job,) = store.reads.list_jobs(JobFilter(parent=run), 10)
    assert (job.priority, job.collection, job.labels) == (3, "c", ("l",))
    assert job.job_limits is not None
    assert job.job_limits.tenant == "acme"


# -- ends that do not count


def test_what_a_superseded_attempt_brings_moves_nothing(store: Store, clock: VirtualClock) -> None:
    run = begin_run(store, CHAIN)
    late = take(store, register(store, lease=SECOND))["a"]
    clock.advance(MINUTE)
    assert reap(store) == {late.job_id}
    current = take(store)["a"]
    assert store.finish_attempts([succeeded(late)]) == set()
    assert steps_of(store, run) == {"a": "open", "b": "waiting"}
    end(store, current)
    assert store.finish_attempts([succeeded(late), succeeded(current)]) == set()
    recount(store, run, CHAIN)


def test_an_attempt_that_is_repeated_ends_nothing(store: Store) -> None:
    run = begin_run(store, CHAIN)
    store.finish_attempts([again(take(store)["a"])])
    assert steps_of(store, run) == {"a": "open", "b": "waiting"}
    end(store, take(store)["a"])
    assert steps_of(store, run)["b"] == "open"


def test_a_step_that_ends_in_a_transaction_releases_what_follows_with_it(store: Store) -> None:
    run = begin_run(store, CHAIN)
    one = take(store)["a"]
    with pytest.raises(ZeroDivisionError):
        _end_and_fail(store, one)
    assert steps_of(store, run) == {"a": "open", "b": "waiting"}
    with store.connection() as tx:
        assert store.finish_attempts([succeeded(one)], tx=tx) == {one.job_id}
    assert drain(store) == ["b"]
    assert state_of(store, run) is JobState.SUCCEEDED


def _end_and_fail(store: Store, one: Claimed) -> None:
    with store.connection() as tx:
        store.finish_attempts([succeeded(one)], tx=tx)
        raise ZeroDivisionError


@pytest.mark.parametrize("is_late_first", [True, False])
def test_a_superseded_attempt_beside_the_current_one_counts_for_nothing(
    store: Store, clock: VirtualClock, is_late_first: bool
) -> None:
    """As a worker may bring them that was lost, and then claimed the same job again."""
    graph = a_graph(a_mapped_step("m", over=[1, 2]), a_step("b", "m"))
    run = begin_run(store, graph)
    late = take(store, register(store, lease=SECOND), 1)["m[0]"]
    clock.advance(MINUTE)
    reap(store)
    current = take(store)["m[0]"]
    brought = [failed(late), succeeded(current, b"2")]
    assert store.finish_attempts(brought if is_late_first else brought[::-1]) == {late.job_id}
    recount(store, run, graph)
    assert jobs_of(store, run) == {"m[0]": "succeeded", "m[1]": "running"}


# -- cancel


def test_what_is_always_to_run_runs_in_a_cancelled_run(store: Store) -> None:
    graph = a_graph(
        a_step("a"),
        a_step("ask", approval=ApprovalStep("?")),
        a_step("clean", "a", run_if="always"),
        a_step("clean too", "ask", run_if="always"),
        a_step("c", "clean"),
    )
    run = begin_run(store, graph)
    assert store.cancel_jobs([run]) == [run]
    assert steps_of(store, run) == {
        "a": "cancelled",
        "ask": "cancelled",
        "clean": "open",
        "clean too": "open",
        "c": "waiting",
    }
    assert drain(store) == ["clean", "clean too"]
    assert steps_of(store, run)["c"] == "cancelled"
    assert state_of(store, run) is JobState.CANCELLED


def test_an_approval_that_a_cancel_opens_waits_for_its_answer(store: Store) -> None:
    keep = a_step("keep", "a", run_if="always", approval=ApprovalStep("Keep what there is?"))
    run = begin_run(store, a_graph(a_step("a"), keep))
    store.cancel_jobs([run])
    assert steps_of(store, run) == {"a": "cancelled", "keep": "open"}
    assert store.dags.answer(run, "keep", True, "ada")
    assert state_of(store, run) is JobState.CANCELLED


# -- reruns


def test_a_rerun_of_a_step_that_still_may_not_run_ends(store: Store) -> None:
    run = begin_run(store, CHAIN)
    store.finish_attempts([failed(take(store)["a"])])
    assert store.dags.rerun(run, ["b"])
    assert take(store) == {}
    assert steps_of(store, run) == {"a": "failed", "b": "skipped"}
    assert state_of(store, run) is JobState.FAILED


@pytest.mark.parametrize("name", ["nope", "a[x]", "nope[1]", ""])
def test_a_rerun_of_a_step_that_is_not_there_stops_no_worker(store: Store, name: str) -> None:
    run = begin_run(store, CHAIN)
    drain(store)
    assert store.dags.rerun(run, [name])
    assert drain(store) == []
    assert state_of(store, run) is JobState.SUCCEEDED


def test_a_rerun_sees_a_list_that_became_empty(store: Store) -> None:
    """Not what an earlier generation has left behind."""
    last = a_mapped_step("last", "m", over=Result("m"))
    told = a_step("told", "m", "last", args=given(Result("m")))
    graph = a_graph(a_mapped_step("m", over=Param("xs")), last, told, result=result_of("last"))
    run = begin_run(store, graph, b'{"xs":[1,2]}')
    assert drain(store) == ["m[0]", "m[1]", "last[0]", "last[1]", "told"]
    assert store.dags.rerun(run, ["m"], b'{"xs":[]}')
    assert take(store) == {}
    assert args_of(take(store)["told"]) == {"x": []}
    assert jobs_of(store, run)["last[0]"] == "succeeded"


def test_a_rerun_runs_those_instances_that_failed_and_those_that_are_new(store: Store) -> None:
    graph = a_graph(a_mapped_step("m", over=Param("xs")), result=result_of("m"))
    run = begin_run(store, graph, b'{"xs":[1,2,3]}')
    held = take(store)
    end(store, held["m[0]"], held["m[2]"])
    store.finish_attempts([failed(held["m[1]"])])
    assert store.dags.rerun(run, None, b'{"xs":[1,2,3,4]}')
    assert drain(store) == ["m[1]", "m[3]"]
    assert json.loads(store.reads.get_jobs([run])[run].result or b"") == [1, None, 1, None]


def test_an_instance_of_an_earlier_generation_is_not_kept(store: Store) -> None:
    """The source fails in the second: what the first has made of another list does not count in the third."""
    graph = a_graph(a_step("source"), a_mapped_step("m", "source", over=Result("source")))
    run = begin_run(store, graph)
    end(store, take(store)["source"], result=b"[1,2,3]")
    held = take(store)
    end(store, held["m[0]"], held["m[2]"])
    store.finish_attempts([failed(held["m[1]"])])
    store.dags.rerun(run, ["source"])
    assert take(store) == {}
    end(store, take(store)["source"], result=b'"no list"')
    assert steps_of(store, run)["m"] == "failed"
    store.dags.rerun(run, ["source"])
    assert take(store) == {}
    end(store, take(store)["source"], result=b"[7,8,9]")
    assert sorted(take(store)) == ["m[0]", "m[1]", "m[2]"]


def test_a_longer_list_of_an_earlier_generation_spoils_nothing(store: Store) -> None:
    graph = a_graph(a_mapped_step("m", over=Param("xs")))
    run = begin_run(store, graph, b'{"xs":[1,2,3]}')
    held = take(store)
    store.finish_attempts([failed(one) for one in held.values()])
    store.dags.rerun(run, ["m"], b'{"xs":[1,2]}')
    assert drain(store) == ["m[0]", "m[1]"]
    store.dags.rerun(run, ["m[0]"])
    assert drain(store) == ["m[0]"]
    assert state_of(store, run) is JobState.SUCCEEDED


def test_a_run_that_never_began_can_be_run_again(store: Store, clock: VirtualClock) -> None:
    run = enqueue_run(store, CHAIN, expires_at=clock.now() + MINUTE)
    clock.advance(HOUR)
    assert store.expire_jobs(10) == 1
    assert store.dags.rerun(run)
    assert drain(store) == ["a", "b"]
    assert state_of(store, run) is JobState.SUCCEEDED


def test_only_an_ended_run_can_be_run_again(store: Store) -> None:
    plain = insert_one(store)
    end(store, *claim(store))
    run = begin_run(store, CHAIN)
    one = take(store)["a"]
    assert not store.dags.rerun(run)
    end(store, one)
    assert not store.dags.rerun(one.job_id)
    assert not store.dags.rerun(plain)
    drain(store)
    assert not store.dags.rerun(one.job_id)


def test_a_run_that_may_fail_again_starts_again_with_what_failed(store: Store, clock: VirtualClock) -> None:
    graph = a_graph(a_step("a"), a_step("b", "a"), result=result_of("b"))
    run = begin_run(store, graph, policy=with_retries(1))
    end(store, take(store)["a"])
    store.finish_attempts([failed(take(store)["b"])])
    assert state_of(store, run) is JobState.QUEUED
    clock.advance(HOUR)
    assert drain(store) == ["b"]
    assert state_of(store, run) is JobState.SUCCEEDED
    assert [one.number for one in store.reads.attempts(run)] == [1, 2]


# -- retries of steps


def test_a_step_is_not_retried_while_its_run_lives(store: Store) -> None:
    graph = a_graph(a_step("a"), a_step("b"))
    run = begin_run(store, graph)
    held = take(store)
    store.finish_attempts([failed(held["a"])])
    assert store.retry_jobs([held["a"].job_id]) == []
    assert jobs_of(store, run) == {"a": "failed", "b": "running"}
    end(store, held["b"])
    assert store.retry_jobs([held["a"].job_id]) == [held["a"].job_id]
    assert drain(store) == ["a"]
    assert state_of(store, run) is JobState.SUCCEEDED


def test_a_step_that_waits_to_be_tried_again_can_be_hurried(store: Store) -> None:
    begin_run(store, CHAIN)
    one = take(store)["a"]
    store.finish_attempts([again(one, HOUR)])
    assert take(store) == {}
    assert store.retry_jobs([one.job_id]) == [one.job_id]
    assert list(take(store)) == ["a"]


# -- runs are jobs


def test_a_run_is_not_begun_before_its_time(store: Store, clock: VirtualClock) -> None:
    run = enqueue_run(store, CHAIN, delay=MINUTE)
    assert drain(store) == []
    assert state_of(store, run) is JobState.QUEUED
    clock.advance(MINUTE)
    assert drain(store) == ["a", "b"]


def test_a_key_is_held_until_the_run_ends(store: Store) -> None:
    run = begin_run(store, CHAIN, key="k")
    assert enqueue_run(store, CHAIN, key="k") == run
    end(store, take(store)["a"])
    assert enqueue_run(store, CHAIN, key="k") == run
    drain(store)
    assert enqueue_run(store, CHAIN, key="k") != run


def test_a_limit_holds_the_next_run_until_the_first_one_has_ended(store: Store) -> None:
    store.limits.declare_limits({"one": concurrency(1)})
    first = begin_run(store, CHAIN, job_limits=ONE)
    second = enqueue_run(store, CHAIN, job_limits=ONE)
    held = take(store)
    assert list(held) == ["a"]
    end(store, held["a"])
    store.limits.open_limit_keys()
    one = take(store)
    assert list(one) == ["b"]
    assert take(store) == {}
    assert state_of(store, second) is JobState.QUEUED
    end(store, one["b"])
    assert state_of(store, first) is JobState.SUCCEEDED
    assert drain(store) == ["a", "b"]
    assert state_of(store, second) is JobState.SUCCEEDED
    assert [view.live for view in store.limits.list_limits()] == [0]


def test_a_gate_on_the_name_of_a_dag_holds_its_runs(store: Store) -> None:
    begun = begin_run(store, CHAIN)
    gate(store, "pause", task="dag")
    waiting = enqueue_run(store, CHAIN)
    assert drain(store) == ["a", "b"]
    assert state_of(store, begun) is JobState.SUCCEEDED
    assert state_of(store, waiting) is JobState.QUEUED
    store.limits.lift_gates({"task": "dag"})
    assert drain(store) == ["a", "b"]
    assert state_of(store, waiting) is JobState.SUCCEEDED


def test_a_run_that_a_gate_drops_never_begins(store: Store) -> None:
    gate(store, "drop", task="dag")
    run = enqueue_run(store, CHAIN)
    assert drain(store) == []
    assert state_of(store, run) is JobState.DROPPED
    assert store.dags.run_steps(run) == []


def test_a_limit_on_a_step_is_shared_by_runs(store: Store) -> None:
    store.limits.declare_limits({"task:t#1": concurrency(1, key="x")})
    job_limits = encode_task_limits(TaskLimits(limits=read_limits("task:t", [concurrency(1, key="x")])))
    template = Template(task="t", policy=with_retries(0), task_limits=job_limits)
    graph = a_graph(a_step("a", job=template, args=given(Param("p"))))
    runs = [enqueue_run(store, graph, args) for args in (b'{"p":"k"}', b'{"p":"k"}', b'{"p":"other"}')]
    assert claim(store, tasks=TASKS) == []
    first = claim(store, tasks=TASKS)
    assert len(first) == 2
    end(store, *first)
    end(store, *claim(store, tasks=TASKS))
    assert {state_of(store, run) for run in runs} == {JobState.SUCCEEDED}


@pytest.mark.parametrize("result", [b"[1]", b'{"n":2}'])
def test_a_limit_that_cannot_read_an_argument_fails_the_step_and_stops_no_worker(store: Store, result: bytes) -> None:
    job_limits = encode_task_limits(TaskLimits(limits=read_limits("task:t", [concurrency(1, key="x")])))
    template = Template(task="t", policy=with_retries(0), task_limits=job_limits)
    path = ("n", "m") if result == b'{"n":2}' else ()
    graph = a_graph(a_step("a"), a_step("b", "a", job=template, args=given(Result("a", path))), a_step("c", "b"))
    run = begin_run(store, graph)
    end(store, take(store)["a"], result=result)
    assert steps_of(store, run) == {"a": "succeeded", "b": "failed", "c": "skipped"}
    (reason,) = [one.standing.reason for one in store.dags.run_steps(run, ["b"])]
    assert reason
    assert reason in (store.reads.get_jobs([run])[run].error or "")


# -- assets, approvals


@pytest.mark.parametrize("on", [(("x",), ("y",)), (("y",), ("x", "y")), (("x",), ("x", "y"))])
def test_several_assets_can_start_a_dag_at_one_instant(store: Store, on: tuple[tuple[str, ...], ...]) -> None:
    store.dags.put_dag(Graph(name="after", steps=(a_step("z"),), on=on))
    begin_run(store, a_graph(a_step("a", produce=("x", "y"))))
    end(store, take(store)["a"])
    assert len(store.reads.list_jobs(JobFilter(task="after"), 10)) == 2


@pytest.mark.parametrize("given_text", [b'{"p":7}', b'{"p":null}', b'{"p":["a"]}', b'{"p":"Go?"}'])
def test_what_is_to_be_approved_need_not_be_a_text(store: Store, given_text: bytes) -> None:
    run = begin_run(
        store, a_graph(a_step("ask", approval=ApprovalStep("?"), args=given(Param("p"), "text"))), given_text
    )
    assert steps_of(store, run) == {"ask": "open"}
    assert store.dags.answer(run, "ask", True, "ada")


# -- retention, versions


def test_steps_are_kept_as_long_as_their_run(store: Store, clock: VirtualClock) -> None:
    run = begin_run(store, CHAIN)
    end(store, take(store)["a"])
    clock.advance(100 * DAY)
    assert store.prune(Retention(), 100).count == 0
    assert jobs_of(store, run) == {"a": "succeeded", "b": "queued"}
    drain(store)
    clock.advance(100 * DAY)
    while store.prune(Retention(), 100).count:
        pass
    assert store.reads.get_jobs([run]) == {}
    assert store.reads.list_jobs(JobFilter(parent=run), 10) == []
    assert store.dags.run_steps(run) == []


def test_a_definition_that_was_in_force_before_is_a_new_version(store: Store) -> None:
    other = a_graph(a_step("a"))
    assert [
        store.dags.put_dag(CHAIN),
        store.dags.put_dag(CHAIN),
        store.dags.put_dag(other),
        store.dags.put_dag(CHAIN),
    ] == [1, 1, 2, 3]
    assert [view.version for view in store.dags.list_dags("dag")] == [3, 2, 1]


def test_a_run_keeps_its_version(store: Store) -> None:
    run = begin_run(store, CHAIN)
    store.dags.put_dag(a_graph(a_step("other")))
    drain(store)
    store.dags.rerun(run, ["a"])
    assert drain(store) == ["a", "b"]


def test_a_run_without_work_ends_at_once(store: Store) -> None:
    run = enqueue_run(store, Graph(name="dag", result=JsonTemplate(Raw(b'{"n":1}'))))
    assert take(store) == {}
    view = store.reads.get_jobs([run])[run]
    assert (view.state, view.result) == (JobState.SUCCEEDED, b'{"n":1}')


def test_a_dag_that_was_deleted_is_started_no_more_and_comes_back_as_it_was(store: Store) -> None:
    store.dags.put_dag(CHAIN)
    assert store.dags.delete_dag(CHAIN.name)
    assert not store.dags.delete_dag(CHAIN.name)
    assert (store.dags.list_dags(), store.reads.task_definition(CHAIN.name)) == ([], None)
    assert [view.version for view in store.dags.list_dags(CHAIN.name)] == [1], "runs keep what they run"
    assert store.dags.put_dag(CHAIN) == 1
    assert [view.name for view in store.dags.list_dags()] == [CHAIN.name]


def test_a_dag_that_a_schedule_starts_is_not_deleted(store: Store) -> None:
    store.dags.put_dag(CHAIN)
    store.schedules.put_schedules([new_spec("nightly", CHAIN.name, every("1h"))])
    with pytest.raises(InvalidInput, match="'nightly'"):
        store.dags.delete_dag(CHAIN.name)
    store.schedules.delete_schedules(["nightly"])
    assert store.dags.delete_dag(CHAIN.name)


def test_definitions_are_listed_by_name(store: Store) -> None:
    store.dags.put_dag(CHAIN)
    store.register_worker(a_worker("w"), [a_definition("a"), a_definition("z")], MINUTE)
    assert [one.name for one in store.reads.task_definitions(10)] == sorted(["a", CHAIN.name, "z"])
    assert [one.name for one in store.reads.task_definitions(1, "a")] == [CHAIN.name]


# -- steps that may fail


def test_a_run_succeeds_although_a_step_failed_that_may_fail(store: Store) -> None:
    run = begin_run(store, a_graph(a_step("a", may_fail=True), a_step("b")))
    found = take(store)
    store.finish_attempts([failed(found["a"]), succeeded(found["b"])])
    assert steps_of(store, run) == {"a": "failed", "b": "succeeded"}
    assert state_of(store, run) is JobState.SUCCEEDED


@pytest.mark.parametrize(
    ("rule", "state"),
    [
        ("all_succeeded", "skipped"),
        ("none_failed", "skipped"),
        ("any_succeeded", "skipped"),
        ("any_failed", "succeeded"),
        ("all_done", "succeeded"),
        ("always", "succeeded"),
    ],
)
def test_what_follows_a_step_that_may_fail_sees_its_failure(store: Store, rule: Any, state: str) -> None:
    run = begin_run(store, a_graph(a_step("a", may_fail=True), a_step("b", "a", run_if=rule), a_step("c", "b")))
    store.finish_attempts([failed(take(store)["a"])])
    drain(store)
    assert steps_of(store, run) == {"a": "failed", "b": state, "c": state}
    assert state_of(store, run) is JobState.SUCCEEDED


def test_another_failure_fails_the_run_and_is_the_one_that_it_names(store: Store) -> None:
    may = [a_step(f"a{number}", may_fail=True) for number in range(4)]
    run = begin_run(store, a_graph(*may, a_step("z")))
    store.finish_attempts([failed(one, f"error of {name}") for name, one in take(store).items()])
    view = store.reads.get_jobs([run])[run]
    assert view.state is JobState.FAILED
    assert view.error is not None
    assert "1 step failed" in view.error
    assert "z: error of z" in view.error
    assert "a0" not in view.error


def test_a_mapped_step_may_fail_as_a_whole(store: Store) -> None:
    run = begin_run(store, a_graph(a_mapped_step("m", over=[1, 2], may_fail=True), a_step("b", "m", run_if="all_done")))
    found = take(store)
    store.finish_attempts([failed(found["m[0]"]), succeeded(found["m[1]"])])
    drain(store)
    assert steps_of(store, run) == {"m": "failed", "b": "succeeded"}
    assert state_of(store, run) is JobState.SUCCEEDED


def test_a_rerun_starts_what_failed_although_it_may(store: Store) -> None:
    run = begin_run(store, a_graph(a_step("a", may_fail=True), a_step("b", "a"), a_step("c")))
    found = take(store)
    store.finish_attempts([failed(found["a"]), succeeded(found["c"])])
    assert state_of(store, run) is JobState.SUCCEEDED
    assert store.dags.rerun(run)
    assert drain(store) == ["a", "b"]
    assert steps_of(store, run) == {"a": "succeeded", "b": "succeeded", "c": "succeeded"}
    assert state_of(store, run) is JobState.SUCCEEDED


def test_a_failure_that_is_allowed_stays_allowed_in_a_rerun_of_others(store: Store) -> None:
    run = begin_run(store, a_graph(a_step("a", may_fail=True), a_step("c")))
    store.finish_attempts([failed(one) for one in take(store).values()])
    assert state_of(store, run) is JobState.FAILED
    assert store.dags.rerun(run, ["c"])
    assert drain(store) == ["c"]
    assert steps_of(store, run) == {"a": "failed", "c": "succeeded"}
    assert state_of(store, run) is JobState.SUCCEEDED


def test_a_cancelled_run_is_cancelled_whatever_may_fail(store: Store) -> None:
    run = begin_run(store, a_graph(a_step("a", may_fail=True)))
    store.cancel_jobs([run])
    assert state_of(store, run) is JobState.CANCELLED


def test_instances_of_a_mapped_step_know_their_places(store: Store) -> None:
    begin_run(store, a_graph(a_mapped_step("m", over=[7, 8]), a_step("b")))
    found = take(store)
    (plain,) = store.insert_jobs([a_job()])
    places = store.dags.map_places([*(one.job_id for one in found.values()), plain, JobId("nobody's")])
    assert places == {found["m[0]"].job_id: MapIndex(0, 2), found["m[1]"].job_id: MapIndex(1, 2)}
    assert store.dags.map_places([]) == {}


class TestOccurrences:
    """The jobs of steps have the occurrence of their run."""

    @pytest.mark.parametrize("job_limits", [None, ONE], ids=["plain", "limited"])
    def test_a_step_has_the_tick_of_its_run(
        self, store: Store, clock: VirtualClock, job_limits: JobLimits | None
    ) -> None:
        store.limits.declare_limits({"one": concurrency(1)})
        due = clock.now() - DAY
        occurrence = encode_occurrence(Occurrence("nightly", due, True, (due - DAY, due)))
        begin_run(store, CHAIN, occurrence=occurrence)
        if job_limits is not None:
            insert_one(store, job_limits=job_limits)
        (first,) = [one for one in take(store).values() if one.step]
        assert first.occurrence == occurrence
        store.finish_attempts([succeeded(first)])
        (second,) = [one for one in take(store).values() if one.step]
        assert (second.step, second.occurrence) == ("b", occurrence)

    def test_its_values_go_into_arguments_when_a_step_is_released(self, store: Store, clock: VirtualClock) -> None:
        due = clock.now() - DAY
        wanted = {
            "at": RunValue(("scheduled_for",)),
            "text": Text(("from ", RunValue(("interval", "from")), " to ", RunValue(("interval", "to")))),
            "late": RunValue(("is_catchup",)),
            "by": RunValue(("schedule",)),
        }
        args = JsonTemplate(
            Raw(json.dumps(dict.fromkeys(wanted)).encode()), tuple(Placeholder((k,), v) for k, v in wanted.items())
        )
        graph = a_graph(a_step("a", args=args))
        begin_run(store, graph, occurrence=encode_occurrence(Occurrence("nightly", due, True, (due - DAY, due))))
        (claimed,) = take(store).values()
        assert json.loads(claimed.args) == {
            "at": "2025-12-31T00:00:00Z",
            "text": "from 2025-12-30T00:00:00Z to 2025-12-31T00:00:00Z",
            "late": True,
            "by": "nightly",
        }
        store.finish_attempts([succeeded(claimed)])
        begin_run(store, graph)
        (by_hand,) = take(store).values()
        told = json.loads(by_hand.args)
        assert (told["text"], told["late"], told["by"]) == ("from null to null", False, None)
        assert told["at"] == "2026-01-01T00:00:00Z"
