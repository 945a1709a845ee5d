"""All problems of a graph are reported by name before anything runs."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.dag.graph import (
    ApprovalStep,
    Condition,
    Expression,
    Graph,
    Item,
    JsonTemplate,
    Last,
    Map,
    Param,
    Placeholder,
    Result,
    Step,
    Template,
    Text,
    decode_graph,
    encode_graph,
)
from tickwork.core.dag.validate import INSTANCE_LIMIT, PROBLEM_LIMIT, STEP_LIMIT, check, checked
from tickwork.errors import InvalidDag, TickworkError

WORK = Template(task="work")


def a_step(name: str, *parents: str, **fields: Any) -> Step:
    return Step(name=name, parents=parents, job=WORK, **fields)


def a_graph(*steps: Step, **fields: Any) -> Graph:
    return Graph(name="etl", steps=steps, **fields)


def given_to(value: Expression, argument: str = "x") -> JsonTemplate:
    return JsonTemplate(msgspec.Raw(b'{"x":null}'), (Placeholder((argument,), value),))


def test_a_graph_that_can_run_has_no_problems() -> None:
    graph = a_graph(
        a_step("extract", args=given_to(Param("day"))),
        a_step("transform", "extract", args=given_to(Item("x")), map=Map({"x": Result("extract")}, max_parallel=3)),
        a_step("load", "transform", args=given_to(Text(("to ", Result("transform", (0, "key")))))),
        a_step("tell", "load", run_if="any_failed", when=(Condition(Result("load"), "succeeded"),)),
        Step(name="ask", approval=ApprovalStep("Go on?", timeout=timedelta(hours=2))),
        params={"properties": {"day": {"type": "string"}}},
        result=JsonTemplate(msgspec.Raw(b"null"), (Placeholder((), Last(("load", "tell"))),)),
    )
    assert check(graph) == []
    assert checked(graph) is graph
    assert decode_graph(encode_graph(graph)) == graph


def test_a_cycle_is_spelt_out_in_the_order_in_which_it_would_run() -> None:
    graph = a_graph(a_step("a"), a_step("b", "a", "d"), a_step("c", "b"), a_step("d", "c"), a_step("e", "d"))
    assert check(graph) == ["a cycle: b -> c -> d -> b"]


def test_a_step_that_waits_for_itself_is_a_cycle() -> None:
    assert check(a_graph(a_step("a", "a"))) == ["a cycle: a -> a"]


def test_each_of_several_cycles_is_spelt_out() -> None:
    graph = a_graph(a_step("a", "b"), a_step("b", "a"), a_step("c", "b", "d"), a_step("d", "c"))
    assert check(graph)[0] == "a cycle: a -> b -> a"
    apart = a_graph(a_step("a", "b"), a_step("b", "a"), a_step("c", "d"), a_step("d", "c"))
    assert check(apart) == ["a cycle: a -> b -> a", "a cycle: c -> d -> c"]


def test_a_chain_of_ten_thousand_steps_is_as_good_as_a_short_one() -> None:
    chain = [a_step("s0"), *(a_step(f"s{n}", f"s{n - 1}") for n in range(1, 10_000))]
    assert check(a_graph(*chain)) == []
    closed = a_graph(a_step("s0", "s9999"), *chain[1:])
    (problem,) = check(closed)
    assert problem.startswith("a cycle: s0 -> s1 -> s2 ->")
    assert problem.endswith("-> s9999 -> s0")


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        (a_step("b", "fetsh"), "step 'b' waits for 'fetsh', and there is no such step (did you mean 'fetch'?)"),
        (a_step("b", "zzz"), "step 'b' waits for 'zzz', and there is no such step"),
        (a_step("b", "fetch", "fetch"), "step 'b' waits for 'fetch' more than once"),
        (a_step("fetch"), "two steps are named 'fetch'"),
        (a_step("b[0]"), "step 'b[0]': a name is a printable text of 1 to 200 characters without brackets"),
        (Step(name="b"), "step 'b' is either a task or an approval"),
        (Step(name="b", job=WORK, approval=ApprovalStep("?")), "step 'b' is either a task or an approval"),
        (
            a_step("b", run_if="any_failed"),
            "step 'b' has run_if='any_failed' and waits for no other step, so it would never run",
        ),
        (
            a_step("b", run_if="any_succeeded"),
            "step 'b' has run_if='any_succeeded' and waits for no other step, so it would never run",
        ),
        (a_step("b", map=Map({})), "step 'b' maps over nothing"),
        (
            a_step("b", map=Map({"x": [1]}, max_parallel=0)),
            "step 'b': max_parallel is 0, which lets nothing run; 1 is the least",
        ),
        (
            a_step("b", map=Map({"x": [1], "y": [1, 2]})),
            "step 'b' maps over lists side by side, which must be as long as each other: 'x' has 1, 'y' has 2",
        ),
        (
            a_step("b", map=Map({"x": [1] * 1000, "y": [1] * 1000}, product=True)),
            f"step 'b' would have 1,000,000 instances; {INSTANCE_LIMIT:,} is the most",
        ),
        (
            Step(name="b", approval=ApprovalStep("?"), map=Map({"x": [1]})),
            "step 'b' is an approval, which cannot be mapped",
        ),
        (
            a_step("b", args=JsonTemplate(msgspec.Raw(b'{"x":"' + b"." * 300_000 + b'"}'))),
            "the arguments of step 'b' are 300,008 bytes; the cap is 262,144",
        ),
    ],
)
def test_a_step_that_cannot_be_is_named(step: Step, problem: str) -> None:
    assert check(a_graph(a_step("fetch"), step)) == [problem]


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        (
            a_step("b", args=given_to(Result("fetch"))),
            "argument 'x' of step 'b' is the result of 'fetch', for which it does not wait",
        ),
        (
            a_step("b", "fetch", args=given_to(Last(("fetch", "parts")))),
            "argument 'x' of step 'b' is the result of 'parts', for which it does not wait",
        ),
        (
            a_step("b", args=given_to(Text(("on ", Result("fetch"))))),
            "argument 'x' of step 'b' is the result of 'fetch', for which it does not wait",
        ),
        (
            a_step("b", args=given_to(Result("fetsh"))),
            "argument 'x' of step 'b' is the result of 'fetsh', and there is no such step (did you mean 'fetch'?)",
        ),
        (
            a_step("b", when=(Condition(Result("fetch")),)),
            "a condition of step 'b' is the result of 'fetch', for which it does not wait",
        ),
        (
            a_step("b", map=Map({"x": Result("fetch")})),
            "what step 'b' maps 'x' over is the result of 'fetch', for which it does not wait",
        ),
        (
            a_step("b", args=given_to(Item("y")), map=Map({"x": [1]})),
            "argument 'x' of step 'b' is an element of 'y', which is not mapped",
        ),
        (
            a_step("b", when=(Condition(Item("x")),), map=Map({"x": [1]})),
            "a condition of step 'b' is an element of 'x', which is not mapped",
        ),
        (
            a_step("b", args=given_to(Param("dya"))),
            "argument 'x' of step 'b' is the parameter 'dya', and there is no such one (did you mean 'day'?)",
        ),
        (
            a_step("b", "parts", args=given_to(Result("parts", ("key",)))),
            "argument 'x' of step 'b' is 'key' of the results of 'parts', which is mapped: they are a list. Pass it "
            "whole, or one of it by its number",
        ),
    ],
)
def test_a_value_that_no_run_could_have_is_named(step: Step, problem: str) -> None:
    parts = a_step("parts", args=given_to(Item("x")), map=Map({"x": [1]}))
    graph = a_graph(a_step("fetch"), parts, step, params={"properties": {"day": {}}})
    assert check(graph) == [problem]


def test_the_result_of_a_dag_names_steps_that_there_are() -> None:
    graph = a_graph(a_step("load"), result=JsonTemplate(msgspec.Raw(b"null"), (Placeholder((), Result("laod")),)))
    assert check(graph) == ["its result is the result of 'laod', and there is no such step (did you mean 'load'?)"]


def test_a_dag_without_steps_is_refused() -> None:
    assert check(a_graph()) == ["it has no steps"]


def test_a_dag_with_too_many_steps_is_refused() -> None:
    (problem,) = check(a_graph(*(a_step(f"s{n}") for n in range(STEP_LIMIT + 1))))
    assert problem.startswith(f"it has {STEP_LIMIT + 1:,} steps")


def test_all_problems_are_raised_at_once_up_to_a_bound() -> None:
    with pytest.raises(InvalidDag) as refused:
        checked(a_graph(a_step("a", "b"), a_step("b", "a"), a_step("c", "zzz")))
    assert str(refused.value) == (
        "dag 'etl' cannot run:\n- step 'c' waits for 'zzz', and there is no such step\n- a cycle: a -> b -> a"
    )
    assert isinstance(refused.value, ValueError)
    assert isinstance(refused.value, TickworkError)
    assert len(check(a_graph(*(a_step(f"s{n}", "zzz") for n in range(100))))) == PROBLEM_LIMIT


@st.composite
def orders(draw: st.DrawFn) -> list[tuple[int, ...]]:
    """For each of some steps, whom it waits for."""
    size = draw(st.integers(1, 12))
    return [tuple(draw(st.sets(st.integers(0, size - 1), max_size=3))) for _ in range(size)]


def has_cycle(parents: list[tuple[int, ...]]) -> bool:
    reached = [set(of) for of in parents]
    for _ in parents:
        reached = [of.union(*(reached[one] for one in of)) for of in reached]
    return any(step in of for step, of in enumerate(reached))


@given(orders())
def test_a_cycle_is_found_where_there_is_one_and_every_arrow_of_it_was_drawn(parents: list[tuple[int, ...]]) -> None:
    graph = a_graph(*(a_step(f"s{step}", *(f"s{one}" for one in of)) for step, of in enumerate(parents)))
    problems = check(graph)
    assert bool(problems) == has_cycle(parents)
    for problem in problems:
        cycle = problem.removeprefix("a cycle: ").split(" -> ")
        assert cycle[0] == cycle[-1]
        assert len(set(cycle)) == len(cycle) - 1
        assert all(before in graph.by_name[after].parents for before, after in pairwise(cycle))
