"""Steps come together in groups, dags inside of dags and teardowns; some wait for people or the world."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.dag_builder.writing import (
    Made,
    app,
    arguments,
    is_there,
    load,
    look,
    nested_dags,
    refusal,
    steps,
    tell,
    transform,
)
from tickwork import InvalidDag, Tickwork, approve, group, loop, teardown
from tickwork.core.dag.graph import ApprovalStep, Condition, Map, Param, Result, Text
from tickwork.errors import InvalidArguments, InvalidOption


def test_a_group_is_shown_and_ordered_together(made: Made) -> None:
    def etl() -> None:
        first = tell("first")
        with group("loading") as loading:
            one = look()
            look(one)
            with group("deep"):
                tell("deep")
        first >> loading >> tell("last")

    found = steps(made(etl))
    assert [(name, step.group) for name, step in found.items()] == [
        ("tell", ""),
        ("look", "loading"),
        ("look_2", "loading"),
        ("tell_2", "loading.deep"),
        ("tell_3", ""),
    ]
    assert (found["look"].parents, found["look_2"].parents) == (("tell",), ("look",))
    assert (found["tell_3"].parents, found["tell_3"].run_if) == (("look", "look_2", "tell_2"), "none_failed")


def test_a_group_is_no_value(made: Made) -> None:
    def etl(as_text: bool) -> Any:
        with group("g") as g:
            tell("x")
        return look(f"{g}" if as_text else g)

    assert "<the group 'g'> is no value" in refusal(made(lambda: etl(False)))
    assert "<the group 'g'> cannot be a part of a text" in refusal(made(lambda: etl(True)))


def test_a_dag_inside_of_another_adds_its_steps_in_a_group_of_its_name(made: Made) -> None:
    sums, _ = nested_dags()

    def etl(day: str) -> Any:
        total = sums(day, factor=5)
        again = sums.options(name="again")(f"{day}!")
        third = sums("today").after(again)
        tell("x").after(third)
        return [total, again]

    dag = made(etl)
    found = steps(dag)
    names = [f"{call}.{task}" for call in ("sums", "again", "sums_2") for task in ("extract", "transform", "load")]
    assert list(found) == [*names, "tell"]
    assert [step.group for step in found.values()] == [*["sums"] * 3, *["again"] * 3, *["sums_2"] * 3, ""]
    assert found["sums.transform"].map == Map({"part": Result("sums.extract")})
    assert arguments(found["sums.transform"])[0]["factor"] == 5
    assert arguments(found["again.transform"])[0]["factor"] == 3
    assert arguments(found["again.extract"])[1] == {("day",): Text((Param("day"), "!"))}
    assert found["sums_2.extract"].parents == ("again.extract", "again.transform", "again.load")
    assert found["sums_2.load"].parents == ("sums_2.transform",)
    assert (found["tell"].parents, found["tell"].run_if) == (tuple(names[6:]), "none_failed")
    assert [hole.value for hole in dag.graph.result.holes] == [Result("sums.load"), Result("again.load")]


def test_what_a_nested_dag_returns_is_taken_apart(made: Made) -> None:
    _, several = nested_dags()

    def etl(day: str) -> Any:
        found = several(day)
        transform(found["sum"])
        tell(found.day)
        (one,) = found["list"]
        look(one)
        look(found)
        return found

    dag = made(etl)
    found = steps(dag)
    assert arguments(found["transform"])[1] == {("part",): Result("several.sums.load")}
    assert arguments(found["tell"])[1] == {("text",): Param("day")}
    assert arguments(found["look"])[1] == {("what",): Result("several.look")}
    assert set(arguments(found["look_2"])[1]) == {("what", "sum"), ("what", "day"), ("what", "list", 0)}
    assert found["several.sums.load"].group == "several.sums"
    assert len(dag.graph.result.holes) == 3


@pytest.mark.parametrize(
    ("use", "said", "kind"),
    [
        (lambda dag: dag(), "dag 'sums' needs 'day'. It takes 'day', 'factor'", InvalidArguments),
        (lambda dag: dag(5), "argument 'day' of dag 'sums': expected str, was given int 5", InvalidArguments),
        (lambda dag: dag(load([1])), "argument 'day' of 'sums' takes str, and is given int", InvalidDag),
        (
            lambda dag: dag.options(priority="high")("x"),
            "is no run of its own here, so only name= can be said of it",
            InvalidDag,
        ),
        (lambda dag: dag.options(run_if="always")("x"), "is no run of its own here", InvalidDag),
        (lambda dag: dag.map(["x"]), "dag 'sums' cannot be mapped yet", InvalidDag),
        (lambda dag: dag.until(every="1s"), "dag 'sums' is no sensor", InvalidDag),
        (lambda dag: 1 if nested_dags()[1]("x") else 2, "cannot decide anything here", InvalidDag),
    ],
)
def test_a_nested_dag_that_cannot_be_is_refused(
    made: Made, use: Callable[[Any], Any], said: str, kind: type[Exception]
) -> None:
    assert said in refusal(made(lambda: use(nested_dags()[0])), kind)


def test_a_dag_that_contains_itself_is_refused(made: Made) -> None:
    inner = Tickwork()

    @inner.dag
    def one(n: int) -> None:
        two(n)

    @inner.dag
    def two(n: int) -> None:
        one(n)

    with pytest.raises(InvalidDag, match="a dag that contains itself has no end: one -> two -> one"):
        one.validate()


def test_a_dag_is_run_and_not_called() -> None:
    sums, _ = nested_dags()
    with pytest.raises(InvalidDag, match=r"dag 'sums' is not called but run: sums\.enqueue\(\.\.\.\)"):
        sums("2026-11-15")


def test_a_teardown_runs_after_all_of_its_block_if_the_setup_succeeded(made: Made) -> None:
    def etl() -> None:
        cluster = look("create")
        with teardown(tell(f"delete {cluster}")) as delete:
            tell.options(name="train")("x")
            one = tell.options(name="uses")(cluster)
            tell.options(name="behind")(one)
        tell.options(name="report")("x").after(delete)

    found = steps(made(etl))
    assert found["train"].parents == ("look",)
    assert found["uses"].parents == ("look",)
    assert found["behind"].parents == ("uses",)
    assert found["tell"].parents == ("look", "train", "uses", "behind")
    assert (found["tell"].run_if, found["tell"].when) == ("always", (Condition(Result("look"), "succeeded"),))
    assert found["report"].parents == ("tell",)


def test_a_teardown_is_one_step(made: Made) -> None:
    def etl(day: str) -> None:
        with teardown(day):
            tell("x")

    def after_a_loop() -> None:
        with teardown(tell(loop(look, 1, until=lambda x: x))):
            tell("x")

    def of_a_dag() -> None:
        with teardown(nested_dags()[0]("x")):
            tell("x")

    assert "teardown(...) takes one step, not <the parameter 'day'>" in refusal(made(etl))
    assert "teardown(...) takes one step" in refusal(made(of_a_dag))
    assert "step 'tell' tears down after a loop or a group" in refusal(made(after_a_loop))


def test_an_approval_is_a_step_without_a_job(made: Made) -> None:
    def etl(day: str) -> None:
        asked = approve(f"Delete {day}?", who=["ada", "bob"], timeout="2h", default="approve")
        again = approve("Sure?", who="ada", name="sure", run_if="all_done").after(asked)
        again >> tell("x")

    found = steps(made(etl))
    first, second = found["approve"], found["sure"]
    assert first.job is None
    assert first.approval == ApprovalStep(
        "Delete <the parameter 'day'>?", ("ada", "bob"), timedelta(hours=2), default="approve"
    )
    assert arguments(first) == ({"text": None}, {("text",): Text(("Delete ", Param("day"), "?"))})
    assert second.approval == ApprovalStep("Sure?", ("ada",))
    assert (second.run_if, arguments(second)) == ("all_done", ({}, {}))
    assert found["tell"].parents == ("sure",)


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda: approve(""), "an approval asks a text of 1 to 4,000 characters"),
        (lambda: approve("x", default="yes"), "default of an approval must be 'approve' or 'reject', not 'yes'"),  # type: ignore[arg-type]
        (lambda: approve("x", timeout="soon"), "timeout"),
        (lambda: approve("x", who=[""]), "who must be a printable text"),
    ],
)
def test_an_approval_that_cannot_be_is_refused(made: Made, use: Callable[[], Any], said: str) -> None:
    assert said in refusal(made(use), InvalidOption)


def test_a_sensor_runs_again_until_its_result_is_true(made: Made) -> None:
    def etl(path: str) -> None:
        is_there.until(every="30s", timeout="1h")(path) >> tell("there")
        is_there.until(every=timedelta(seconds=1)).options(queue="sensors").map([path + "" if False else "a"])

    found = steps(made(etl))
    first, second = found["is_there"].job, found["is_there_2"].job
    assert first is not None
    assert second is not None
    assert (first.policy.again_every, first.policy.expires) == (timedelta(seconds=30), timedelta(hours=1))
    assert (second.policy.again_every, second.policy.expires, second.queue) == (timedelta(seconds=1), None, "sensors")
    assert is_there.defaults.policy().again_every is None


def test_a_sensor_that_cannot_be_is_refused() -> None:
    @app.task(name="writes", transactional=True)
    def writes(connection: Any) -> bool:
        return True

    with pytest.raises(InvalidOption, match="every is '1ms'; it must be at least 100ms"):
        is_there.until(every="1ms")
    with pytest.raises(InvalidOption, match="task 'writes' is transactional"):
        writes.until(every="1s")
