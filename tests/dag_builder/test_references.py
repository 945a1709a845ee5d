"""Operations that need a value are refused for a reference, with advice; so are values that no task could take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

import pytest

from tests.dag_builder.writing import Made, extract, load, look, refusal, tell, transform
from tickwork import each, if_
from tickwork.errors import InvalidArguments, InvalidPayload


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: [extract()], "task 'extract' needs 'day'"),
        (lambda: extract("a", "b"), "task 'extract' was given 2 arguments by position"),
        (lambda: extract(dya="a"), "task 'extract' has no parameter 'dya' (did you mean 'day'?)"),
        (lambda: transform("x"), "argument 'part' of task 'transform': expected int, was given str 'x'"),
        (lambda: transform(look(), "x"), "argument 'factor' of task 'transform': expected int, was given str 'x'"),
    ],
)
def test_arguments_that_are_known_are_checked_as_for_a_job(made: Made, call: Callable[[], Any], said: str) -> None:
    assert said in refusal(made(call), InvalidArguments)


def test_a_payload_that_no_store_may_hold_is_refused_where_it_is_written(made: Made) -> None:
    assert "NaN" in refusal(made(lambda: look(float("nan"))), InvalidPayload)
    assert "the cap is" in refusal(made(lambda: look("x" * 300_000)), InvalidPayload)


def test_types_that_can_never_fit_are_refused(made: Made) -> None:
    def wrong_argument() -> None:
        load(tell("x"))  # type: ignore[arg-type]

    def wrong_parameter(day: int) -> None:
        extract(day)  # type: ignore[arg-type]

    def wrong_map(day: str) -> None:
        transform.map(tell(day))

    def wrong_elements() -> None:
        tell.map(extract("today"))

    def wrong_result() -> int:
        return extract("today")  # type: ignore[return-value]

    def text_for_a_number(day: str) -> None:
        transform(f"{day}")  # type: ignore[arg-type]

    assert refusal(made(wrong_argument)) == (
        "dag 'etl': argument 'parts' of 'load' takes list[int], and is given str: the result of step 'tell'."
    )
    assert "argument 'day' of 'extract' takes str, and is given int: the parameter 'day'" in refusal(
        made(wrong_parameter)
    )
    assert "transform.map(...) goes over a list, and the result of step 'tell' is str" in refusal(made(wrong_map))
    assert "argument 'text' of 'tell' takes str, and is given int: the result of step" in refusal(made(wrong_elements))
    assert refusal(made(wrong_result)) == "the result of dag 'etl' is int by its hint, and list[int] in fact."
    assert "takes int, and is given str: a text with references" in refusal(made(text_for_a_number))


@dataclass
class Point:
    x: Any


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda ref: look(Point(ref)), "a reference stands inside of a Point"),
        (lambda ref: look({f"{ref}"}), "a reference stands inside of a set"),
        (lambda ref: look({f"{ref}": 1}), "a key of a dict is a reference"),
        (lambda ref: look({1: ref}), "a dict with the key 1 cannot hold a reference"),
        (lambda ref: look({"$x": ref}), "a dict with the key '$x' cannot hold a reference"),
        (lambda ref: look({ref: 1}), "cannot be a key or an element of a set"),
        (lambda ref: look(ref > 1), "is no value that a task could be given"),
        (lambda ref: look(each([1])), "each(...) is for look.map(...), and this is a plain call"),
        (lambda ref: look([each([1])]), "what is mapped goes to a parameter of its own"),
        (lambda ref: 1 if ref else 2, "cannot decide an if, and, or, not here: write `with if_(ref):`"),
        (lambda ref: ref and 1, "write `with if_(ref):`"),
        (lambda ref: 1 if ref == 1 else 2, "cannot decide an if, and, or, not, in here: write `with if_(ref > 10):`"),
        (lambda ref: ref in [1, 2], "cannot decide an if, and, or, not, in here"),
        (lambda ref: 1 < ref < 3, "one inside of the other for `and`"),
        (lambda ref: (ref > 1) & (ref < 3), "one inside of the other for `and`"),
        (list, "cannot be gone through here: write task.map(ref)"),
        (len, "has no length here: count it in a task"),
        (lambda ref: 1 in ref, "cannot be searched here"),
        (lambda ref: ref + 1, "cannot be reckoned with here: do it in a task"),
        (lambda ref: "x" + ref, "cannot be reckoned with here"),
        (int, "cannot be reckoned with here"),
        (lambda ref: -ref, "cannot be reckoned with here"),
        (lambda ref: ref.split("/"), "cannot be called: what you name is a part of it, not a method"),
        (lambda ref: ref[1:2], "is neither. Take it apart in a task"),
        (lambda ref: ref[ref], "is neither. Take it apart in a task"),
        (lambda ref: ref[f"{ref}"], "is a reference itself. Look it up in a task"),
        (lambda ref: f"{ref:>10}", "cannot be written as '>10' here. Leave the format out"),
        (lambda ref: f"{ref > 1}", "cannot be a part of a text: use it in if_"),
        (lambda ref: ref == ref["x"], "compares a reference with a known value. Compare two of them in a task"),
        (lambda ref: ref == {1, 2}, "a result is JSON. Write it as it is there: [1, 2]"),
        (lambda ref: ref < inf, "a result is JSON"),
        (lambda ref: ref == object(), "a condition compares with"),
        (lambda ref: ref >> ref["x"], "has no place in an order of its own"),
    ],
)
def test_what_only_a_value_can_do_is_refused_with_what_to_write(
    made: Made, use: Callable[[Any], Any], said: str
) -> None:
    def etl(day: str) -> None:
        use(day)

    message = refusal(made(etl))
    assert message.startswith("dag 'etl': ")
    assert said in message


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda step, day: step >> tell, ">> takes steps, and 'tell' is a step only when it is called: tell(...)"),
        (lambda step, day: step.after(5), "after(...) takes steps and lists of them, not 5"),
        (lambda step, day: day >> step, "<the parameter 'day'> is there from the start"),
        (lambda step, day: step.after(day), "<the parameter 'day'> is there from the start"),
        (lambda step, day: step >> day, "<the parameter 'day'> is no step, so nothing can come before it"),
        (lambda step, day: step >> step["x"], "<x of the result of step 'look'> is no step"),
    ],
)
def test_an_order_is_between_steps(made: Made, use: Callable[[Any, Any], Any], said: str) -> None:
    def etl(day: str) -> None:
        use(look(), day)

    assert said in refusal(made(etl))


def test_references_stay_in_the_function_that_made_them(made: Made) -> None:
    leaked: list[Any] = []

    def first(day: str) -> None:
        leaked.extend([look(day), f"{day}", day == "x"])

    made(first).validate()
    assert "<the result of step 'look'> belongs to another dag" in refusal(made(lambda: look(leaked[0])))
    assert "<the result of step 'look'> belongs to another dag" in refusal(made(lambda: tell("x").after(leaked[0])))
    assert "another dag" in refusal(made(lambda: look(leaked[1])))
    assert "another dag" in refusal(made(lambda: if_(leaked[2])))


def test_an_error_of_the_function_says_where_it_comes_from(made: Made) -> None:
    def etl() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError) as raised:
        made(etl).validate()
    assert raised.value.__notes__ == ["while the function of dag 'etl' was traced"]
