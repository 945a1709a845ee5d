"""Which steps run may depend on what is known when they run: conditions, branches, loops."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from tests.dag_builder.writing import Made, arguments, look, parents, refusal, steps, tell
from tickwork import InvalidDag, Tickwork, branch, group, if_, loop
from tickwork.core.dag.graph import Condition, Last, Param, Placeholder, Result, Text
from tickwork.errors import InvalidOption


def test_steps_inside_of_if_run_only_where_it_holds(made: Made) -> None:
    def etl(mode: str) -> None:
        found = look()
        with if_(found["rows"] > 10) as many:
            tell("many")
            with if_(mode == "loud"):
                tell("loud")
        with many.otherwise:
            tell("few")
        with if_(found):
            tell("something")
        tell("always")

    found = steps(made(etl))
    rows, mode = Result("look", ("rows",)), Param("mode")
    assert found["tell"].when == (Condition(rows, ">", 10),)
    assert found["tell_2"].when == (Condition(rows, ">", 10), Condition(mode, "==", "loud"))
    assert found["tell_3"].when == (Condition(rows, "<=", 10),)
    assert found["tell_4"].when == (Condition(Result("look"), "true"),)
    assert found["tell_5"].when == ()
    assert [step.parents for step in found.values()] == [(), *[("look",)] * 4, ()]


@pytest.mark.parametrize(
    ("compare", "is_", "opposite"),
    [
        (lambda ref: ref == 1, "==", "!="),
        (lambda ref: ref != 1, "!=", "=="),
        (lambda ref: ref < 1, "<", ">="),
        (lambda ref: ref <= 1, "<=", ">"),
        (lambda ref: ref > 1, ">", "<="),
        (lambda ref: ref >= 1, ">=", "<"),
    ],
)
def test_a_comparison_and_its_opposite(made: Made, compare: Callable[[Any], Any], is_: Any, opposite: Any) -> None:
    def etl(n: int) -> None:
        with if_(compare(n)) as yes:
            tell("yes")
        with yes.otherwise:
            tell("no")

    yes, no = steps(made(etl)).values()
    assert (yes.when, no.when) == ((Condition(Param("n"), is_, 1),), (Condition(Param("n"), opposite, 1),))


def test_a_text_with_references_is_a_condition_and_what_is_known_decides_at_once(made: Made) -> None:
    def etl(day: str) -> None:
        with if_(f"{day}"):
            tell("text")
        with if_(True) as known:
            tell("yes")
        with known.otherwise:
            tell("never")

    text, yes, never = steps(made(etl)).values()
    assert text.when == (Condition(Text((Param("day"),))),)
    assert yes.when == ()
    assert never.when == (Condition(Text(())),)


def test_a_block_ends_where_it_raises(made: Made) -> None:
    def etl(n: int) -> None:
        try:
            with if_(n), group("inner"):
                raise KeyError("mine")
        except KeyError:
            tell("x")

    (step,) = steps(made(etl)).values()
    assert (step.when, step.group) == ((), "")


def test_a_branch_runs_the_steps_under_the_value(made: Made) -> None:
    def etl() -> None:
        region = look()
        eu, us, both, other = (tell.options(name=name)("") for name in ("eu", "us", "both", "other"))
        branch(region["code"], {"eu": [eu, both], "us": us, 7: both}, otherwise=other)
        tell.options(run_if="none_failed")("done").after(eu, us, both, other)

    found = steps(made(etl))
    code = Result("look", ("code",))
    assert found["eu"].when == (Condition(code, "==", "eu"),)
    assert found["us"].when == (Condition(code, "==", "us"),)
    assert found["both"].when == (Condition(code, "in", ["eu", 7]),)
    assert found["other"].when == (Condition(code, "not in", ["eu", "us", 7]),)
    assert all(found[name].parents == ("look",) for name in ("eu", "us", "both", "other"))


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda ref: branch("eu", {"eu": tell("x")}), "branch(...) goes by a reference, and 'eu' is known already"),
        (lambda ref: branch(ref, {"eu": tell}), "branch(...) under 'eu' takes steps, and 'tell' is a step only when"),
        (lambda ref: branch(ref, {"eu": ref}), "branch(...) under 'eu': <the parameter 'day'> is no step"),
        (lambda ref: branch(ref, {date(2026, 1, 1): tell("x")}), "a result is JSON"),
    ],
)
def test_a_branch_that_cannot_be_is_refused(made: Made, use: Callable[[Any], Any], said: str) -> None:
    def etl(day: str) -> None:
        use(day)

    assert said in refusal(made(etl))


def test_a_loop_is_written_down_round_by_round(made: Made) -> None:
    def etl() -> Any:
        page = loop(look, {"page": 1}, until=lambda page: page["done"] == True, max=3)  # noqa: E712
        tell(page["text"])
        tell.options(run_if="all_done")("x").after(page)
        tell(f"the {page}")
        return page

    dag = made(etl)
    found = steps(dag)
    assert parents(dag) == {
        "look": [],
        "look_2": ["look"],
        "look_3": ["look_2"],
        "tell": ["look", "look_2", "look_3"],
        "tell_2": ["look", "look_2", "look_3"],
        "tell_3": ["look", "look_2", "look_3"],
    }
    assert found["look"].when == ()
    assert found["look_2"].when == (Condition(Result("look", ("done",)), "!=", True),)
    assert found["look_3"].when == (Condition(Result("look_2", ("done",)), "!=", True),)
    assert arguments(found["look_3"])[1] == {("what",): Result("look_2")}
    last = Last(("look", "look_2", "look_3"))
    assert arguments(found["tell"])[1] == {("text",): Last(last.steps, ("text",))}
    rules = [found[name].run_if for name in ("tell", "tell_2", "tell_3")]
    assert rules == ["none_failed", "all_done", "none_failed"]
    assert [found[name].group for name in ("look", "look_2", "look_3", "tell")] == ["loop", "loop", "loop", ""]
    assert dag.graph.result.holes == (Placeholder((), last),)


def test_a_loop_goes_over_functions_and_dags_and_parts(made: Made) -> None:
    inner = Tickwork()

    @inner.dag
    def page(n: int) -> Any:
        return look(look(n))["next"]

    def etl() -> None:
        loop(page, 1, until=lambda next: next == 0, max=2)
        loop(lambda x: look(x, more=1)["x"], 5, until=lambda x: x, max=2)

    found = steps(made(etl))
    assert list(found) == ["page.look", "page.look_2", "page_2.look", "page_2.look_2", "look", "look_2"]
    going_on = (Condition(Result("page.look_2", ("next",)), "!=", 0),)
    assert found["page_2.look"].when == found["page_2.look_2"].when == going_on
    assert [step.group for step in found.values()] == [*["loop.page"] * 2, *["loop.page_2"] * 2, *["loop_2"] * 2]


@pytest.mark.parametrize(
    ("use", "said", "kind"),
    [
        (
            lambda: loop(look, 1, until=lambda x: True),
            "until of a loop looks at the result of a round; it gave True",
            InvalidDag,
        ),
        (
            lambda: loop(lambda x: 5, 1, until=lambda x: x),
            "a round of a loop returns the result of a step, not 5",
            InvalidDag,
        ),
        (lambda: loop(look, 1, until=lambda x: x, max=0), "max of a loop must be a whole number from 1", InvalidOption),
    ],
)
def test_a_loop_that_cannot_be_is_refused(made: Made, use: Callable[[], Any], said: str, kind: type[Exception]) -> None:
    assert said in refusal(made(use), kind)
