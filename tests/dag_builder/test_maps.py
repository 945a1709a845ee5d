"""A map is a step with a job for each element."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from tests.dag_builder.writing import Made, arguments, collect, load, look, refusal, steps, tell, transform
from tickwork import InvalidDag, Tickwork, each
from tickwork.core.dag.graph import Item, Map, Param, Result, Text
from tickwork.errors import InvalidArguments


def test_a_map_goes_over_what_is_given_by_position_and_what_is_wrapped_in_each(made: Made) -> None:
    def etl(xs: list[int], ys: list[int]) -> None:
        transform.map(xs, ys, note="n")
        transform.map(xs, factor=each(ys))
        transform.map(part=each(xs), factor=3)
        transform.options(max_parallel=3).product(xs, [1, 2])
        transform.map(range(3), note=f"{xs}")

    one, two, three, four, five = steps(made(etl)).values()
    assert one.map == two.map == Map({"part": Param("xs"), "factor": Param("ys")})
    assert arguments(one) == (
        {"part": None, "factor": None, "note": "n"},
        {("part",): Item("part"), ("factor",): Item("factor")},
    )
    assert (three.map, arguments(three)[0]) == (Map({"part": Param("xs")}), {"part": None, "factor": 3})
    assert four.map == Map({"part": Param("xs"), "factor": [1, 2]}, product=True, max_parallel=3)
    assert five.map == Map({"part": [0, 1, 2]})
    assert arguments(five)[1] == {("note",): Text((Param("xs"),)), ("part",): Item("part")}


def test_elements_that_are_known_are_written_as_the_hint_says(made: Made) -> None:
    other = Tickwork()

    @other.task
    def book(day: date, note: Any = None) -> None: ...

    def etl() -> None:
        book.map([date(2026, 1, 2)], [date(2026, 1, 3)])

    mapped = steps(made(etl))["book"].map
    assert mapped == Map({"day": ["2026-01-02"], "note": [{"$date": "2026-01-03"}]})


@pytest.mark.parametrize(
    ("use", "said", "kind"),
    [
        (lambda ref: transform.map(), "transform.map(...) is given nothing to map over", InvalidDag),
        (lambda ref: transform.map(part=ref), "transform.map(...) is given nothing to map over", InvalidDag),
        (lambda ref: transform.map("abc"), "goes over a reference or a list, not 'abc'", InvalidDag),
        (lambda ref: transform.map({1: 2}), "goes over a reference or a list, not {1: 2}", InvalidDag),
        (lambda ref: transform.map([1, "x"]), "expected int, was given str 'x'", InvalidArguments),
        (
            lambda ref: transform.map([1, 2], [1]),
            "must be as long as each other: 'part' has 2, 'factor' has 1",
            InvalidDag,
        ),
        (lambda ref: look.map([1, ref]), "call look for each of them, in a for loop of Python", InvalidDag),
        (lambda ref: collect.map([1, 2]), "what is mapped goes to a parameter of its own, not to *args", InvalidDag),
        (lambda ref: transform.options(max_parallel=2)(1), "max_parallel bounds the instances of", InvalidDag),
        (lambda ref: tell(look.map([1])["x"]), "which is mapped: they are a list", InvalidDag),
    ],
)
def test_a_map_that_cannot_be_is_refused(
    made: Made, use: Callable[[Any], Any], said: str, kind: type[Exception]
) -> None:
    def etl(day: Any) -> None:
        use(day)

    message = refusal(made(etl), kind)
    assert said in message


def test_the_result_of_a_map_is_a_list(made: Made) -> None:
    def etl(xs: list[int]) -> list[int]:
        parts = transform.map(xs)
        load(parts)
        transform(parts[0])
        return transform.map(parts)

    found = steps(made(etl))
    assert found["transform_3"].map == Map({"part": Result("transform")})
    assert arguments(found["transform_2"])[1] == {("part",): Result("transform", (0,))}
