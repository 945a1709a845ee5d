"""A dag is traced once into the graph that was written, and knows its parameters."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dag_builder.writing import Made, arguments, extract, look, refusal, steps, tell
from tickwork import Tickwork, concurrency, if_
from tickwork.core.dag.graph import Graph, Param, Result
from tickwork.errors import InvalidArguments, InvalidOption


def test_a_function_is_traced_once_at_first_use() -> None:
    calls: list[str] = []
    other = Tickwork()

    @other.dag
    def etl(day: str) -> None:
        """Fetches what there is.

        And more.
        """
        calls.append("traced")
        extract(day)

    assert calls == []
    assert etl.graph is etl.options(priority="high").graph
    etl.validate()
    assert calls == ["traced"]
    assert (etl.graph.description, etl.name, other.dags) == ("Fetches what there is.", "etl", {"etl": etl})
    assert etl.trace() == etl.graph
    assert calls == ["traced", "traced"]


def test_limits_of_queues_reach_steps_that_were_traced_before() -> None:
    other = Tickwork()

    @other.task(queue="mail")
    def send(to: str) -> None: ...

    @other.dag
    def letters() -> None:
        send("ada")

    before = letters.graph
    other.queue("mail", limits=[concurrency(2)])
    assert before.steps[0].job != letters.graph.steps[0].job
    assert "mail" in letters.task_limits.queues


def test_parameters_are_checked_and_defaults_filled_in_as_a_run_is_made(made: Made) -> None:
    def etl(day: date, factor: int = 3, *, note: str | None = None) -> None:
        look(day, more=[factor, note])

    dag = made(etl)
    assert json.loads(dag.encode((date(2026, 1, 2),), {})) == {"day": "2026-01-02", "factor": 3, "note": None}
    assert json.loads(dag.options(priority="low").encode((), {"day": date(2026, 1, 2), "factor": 4}))["factor"] == 4
    with pytest.raises(InvalidArguments, match="dag 'etl' needs 'day'"):
        dag.encode((), {})
    with pytest.raises(InvalidArguments, match="argument 'factor' of dag 'etl': expected int, was given str 'x'"):
        dag.encode((date(2026, 1, 2), "x"), {})
    params = dag.graph.params
    assert (params["type"], params["required"]) == ("object", ["day"])
    assert {name: one.get("default", "none") for name, one in params["properties"].items()} == {
        "day": "none",
        "factor": 3,
        "note": None,
    }


def test_parameters_by_position_only_are_references_too(made: Made) -> None:
    def etl(day: str, /) -> None:
        extract(day)

    assert arguments(steps(made(etl))["extract"])[1] == {("day",): Param("day")}


def test_a_dag_has_options_and_assets(made: Made) -> None:
    def etl(account: str = "all") -> None:
        tell.options(produce=["sent", "told"])(account)

    dag = made(
        etl,
        priority="low",
        description="mine",
        on=["a", ("b", "c")],
        produce="d",
        limits=[concurrency(1, key="account")],
    )
    assert (dag.defaults.priority, dag.defaults.retries, dag.graph.description) == (8, 0, "mine")
    assert (dag.graph.on, dag.graph.produce) == ((("a",), ("b", "c")), ("d",))
    assert dag.graph.steps[0].produce == ("sent", "told")
    assert len(dag.task_limits.limits) == 1
    assert made(etl, on="a", retries=2).on == (("a",),)


def test_a_task_says_what_it_produces(made: Made) -> None:
    other = Tickwork()

    @other.task(produce="table")
    def fill() -> None: ...

    (step,) = made(lambda: [fill()]).graph.steps
    assert step.produce == ("table",)


def test_the_result_of_a_dag_may_be_known_already(made: Made) -> None:
    def etl() -> dict[str, date]:
        tell("x")
        return {"day": date(2026, 1, 2)}

    assert bytes(made(etl).graph.result.json) == b'{"day":"2026-01-02"}'
    assert bytes(made(lambda: (tell("x"), None)[1]).graph.result.json) == b"null"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"on": 5}, "on is an asset"),
        ({"on": [""]}, "on must be a printable text"),
        ({"run_if": "always"}, "there is no option 'run_if'"),
        ({"queues": "x"}, "there is no option 'queues'; did you mean 'queue'?"),
    ],
)
def test_a_decorator_that_cannot_be_is_refused(made: Made, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidOption, match=said.replace("?", r"\?")):
        made(lambda: tell("x"), **options)


def test_a_function_that_cannot_be_traced_is_refused_at_first_use_and_not_before(made: Made) -> None:
    async def waits() -> None: ...

    def gives() -> Any:
        yield 1

    def starred(*days: str) -> None: ...

    assert "is an async function or a generator" in refusal(made(waits))
    assert "is an async function or a generator" in refusal(made(gives))
    assert "dag 'etl' takes *days. Its parameters must have names" in refusal(made(starred))
    with pytest.raises(InvalidOption, match="'tell' is a task or a dag already"):
        made(tell)
    assert refusal(made(lambda: None)) == "dag 'etl' cannot run: it has no steps."


def test_a_name_is_that_of_one_task_or_dag() -> None:
    other = Tickwork()
    other.task(name="work")(lambda: None)
    with pytest.raises(InvalidOption, match="two tasks or dags are named 'work'"):
        other.dag(name="work")(lambda: None)
    other.dag(name="job_limits")(lambda: None)
    with pytest.raises(InvalidOption, match="two tasks or dags are named 'job_limits'"):
        other.task(name="job_limits")(lambda: None)
    with pytest.raises(InvalidOption, match="two tasks or dags are named 'job_limits'"):
        other.dag(name="job_limits")(lambda: None)


@dataclass(frozen=True)
class Call:
    """A call that a random program makes: what it uses, whom it waits for, and what holds where it stands."""

    uses: tuple[int, ...]
    parts: tuple[int, ...]
    texts: tuple[int, ...]
    after: tuple[int, ...]
    arrows: tuple[int, ...]
    over: int | None
    condition: int | None


@st.composite
def programs(draw: st.DrawFn) -> list[Call]:
    calls: list[Call] = []
    for n in range(draw(st.integers(1, 15))):
        before = st.lists(st.integers(0, n - 1), max_size=3).map(tuple) if n else st.just(())
        maybe = st.none() | st.integers(0, n - 1) if n else st.none()
        calls.append(Call(*(draw(before) for _ in range(5)), draw(maybe), draw(maybe)))
    return calls


def run(program: list[Call]) -> None:
    made: list[Any] = []
    for call in program:
        given = {
            "whole": [made[n] for n in call.uses],
            "parts": {f"k{n}": made[n][0] for n in call.parts},
            "text": "".join(f"<{made[n]}>" for n in call.texts),
        }
        with if_(True if call.condition is None else made[call.condition][0] == 1):
            step = look(given) if call.over is None else look.map(made[call.over], more=given)
        step.after(*(made[n] for n in call.after))
        [made[n] for n in call.arrows] >> step
        made.append(step)


@settings(max_examples=200, deadline=None)
@given(programs())
def test_the_parents_of_a_step_are_those_that_were_written(program: list[Call]) -> None:
    graph: Graph = Tickwork().dag(name="any")(lambda: run(program)).graph
    assert len(graph.steps) == len(program)
    name = [step.name for step in graph.steps]
    for step, call in zip(graph.steps, program, strict=True):
        over, condition = ([] if n is None else [n] for n in (call.over, call.condition))
        written = {*call.uses, *call.parts, *call.texts, *call.after, *call.arrows, *over, *condition}
        assert set(step.parents) == {name[n] for n in written}
        assert len(step.parents) == len(written)
        wanted = [Result(name[n]) for n in call.uses]
        assert [hole.value for hole in step.args.holes if hole.where[1:2] == ("whole",)] == wanted
        assert len(step.when) == len(condition)
        assert (step.map is not None) == (call.over is not None)
