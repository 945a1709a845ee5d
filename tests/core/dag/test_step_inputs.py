"""Values of placeholders, conditions on them, and the elements of a mapped step."""

from __future__ import annotations

import json
from typing import Any, get_args

import msgspec
import pytest
from msgspec import Raw

from tickwork.core.blob_ref import Unfillable
from tickwork.core.dag.graph import (
    Comparison,
    Condition,
    Expression,
    Item,
    JsonTemplate,
    Last,
    Map,
    Param,
    Placeholder,
    Result,
    Text,
)
from tickwork.core.dag.step_inputs import (
    MOST_INSTANCES,
    NO_RESULTS,
    StepResults,
    decode_holes,
    elements,
    encode_holes,
    fill,
    filled,
    holds,
    no_blobs,
    partly_filled,
    value_of,
    wanted_by,
)


def values(**given: Any) -> dict[str, Raw]:
    return {name: Raw(msgspec.json.encode(value)) for name, value in given.items()}


def results(**given: Any) -> StepResults:
    """Of steps that succeeded."""
    return StepResults(values(**given), given.keys())


def come_to(expression: Expression, params: Any = None, items: Any = None, of: StepResults = NO_RESULTS) -> Any:
    return json.loads(bytes(value_of(expression, values(**params or {}), values(**items or {}), of)))


# -- paths


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ((), {"rows": [1, {"n": 2}], "none": None}),
        (("rows",), [1, {"n": 2}]),
        (("rows", 0), 1),
        (("rows", -1, "n"), 2),
        (("none",), None),
        (("none", "anything", 3), None),
    ],
)
def test_a_path_leads_into_a_value_and_none_has_parts_that_are_none(path: Any, found: Any) -> None:
    value = {"rows": [1, {"n": 2}], "none": None}
    assert come_to(Param("p", path), params={"p": value}) == found
    assert come_to(Item("i", path), items={"i": value}) == found
    assert come_to(Result("s", path), of=results(s=value)) == found
    assert come_to(Last(("s",), path), of=results(s=value)) == found


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        (Param("p", ("key",)), "parameter 'p' has no 'key': it is [1,2]"),
        (Param("p", (2,)), "parameter 'p' has no 2: it is [1,2]"),
        (Result("s", ("a", "b")), "the result of step 's'['a'] has no 'b': it is 1"),
        (Result("s", ("a", 0)), "the result of step 's'['a'] has no 0: it is 1"),
        (Result("s", (0,)), "the result of step 's' has no 0: it is {\"a\":1}"),
        (Item("i", ("k",)), "the element for 'i' has no 'k': it is \"text\""),
        (Last(("r", "s"), ("k",)), "the result of step 's' has no 'k': it is {\"a\":1}"),
    ],
)
def test_a_path_that_leads_to_nothing_says_what_is_there(expression: Expression, said: str) -> None:
    with pytest.raises(Unfillable) as error:
        come_to(expression, {"p": [1, 2]}, {"i": "text"}, results(s={"a": 1}))
    assert str(error.value) == said


def test_what_is_there_is_shown_in_brief() -> None:
    with pytest.raises(Unfillable) as error:
        come_to(Param("p", ("key",)), {"p": ["x" * 500]})
    assert str(error.value) == f"parameter 'p' has no 'key': it is [\"{'x' * 75}..."


def test_what_there_is_not_is_none() -> None:
    assert come_to(Param("p")) is None
    assert come_to(Result("s", ("a", 0))) is None
    assert come_to(Last(("a", "b"), ("k",))) is None


def test_a_value_passes_through_as_it_was_written() -> None:
    text = b'{"big":123456789012345678901234567890,"e":1e400,"u":"\\u00e9","a":1,"a":2}'
    given = StepResults({"s": Raw(text)}, {"s"})
    assert bytes(value_of(Result("s"), {}, {}, given)) == text
    assert bytes(value_of(Result("s", ("big",)), {}, {}, given)) == b"123456789012345678901234567890"


# -- the last of several


def test_the_last_is_that_of_the_last_step_that_succeeded_whatever_it_gave() -> None:
    rounds = Last(("a", "b", "c"))
    assert come_to(rounds, of=results(a=1, b=2)) == 2
    assert come_to(rounds, of=results(a=1, c=None)) is None
    assert come_to(rounds, of=StepResults(values(a=[1], b=[1, None]), {"a"})) == [1]


# -- texts


@pytest.mark.parametrize(
    ("value", "shown"),
    [("a", "a"), ("é", "é"), (1, "1"), (None, "null"), (True, "true"), ([1, "a"], '[1,"a"]'), ({"k": 1}, '{"k":1}')],
)
def test_in_a_text_a_text_stands_as_it_is_and_the_rest_as_json(value: Any, shown: str) -> None:
    assert come_to(Text(("on ", Param("p"), "!")), {"p": value}) == f"on {shown}!"


def test_a_text_takes_parameters_and_elements_at_once_and_results_later() -> None:
    whole = Text((Param("day"), ": ", Item("part", ("n",)), " of ", Result("s"), ", ", Last(("s",))))
    hole = partly_filled(Placeholder(("x",), whole), values(day="monday"), values(part={"n": 3}), no_blobs)
    assert wanted_by([hole]) == {"s"}
    (stored,) = decode_holes(encode_holes([hole]))
    assert come_to(stored.value, of=results(s=[7])) == "monday: 3 of [7], [7]"


def test_a_text_whose_element_has_no_such_part_is_refused_at_once() -> None:
    with pytest.raises(Unfillable, match="the element for 'part' has no 'n'"):
        partly_filled(Placeholder(("x",), Text((Item("part", ("n",)), Result("s")))), {}, values(part=1), no_blobs)


# -- holes


def test_holes_are_filled_wherever_they_are() -> None:
    template = JsonTemplate(
        Raw(b'{"a":null,"b":[0,null,{"c":null}],"d":1}'),
        (
            Placeholder(("a",), Param("p")),
            Placeholder(("b", 1), Result("s")),
            Placeholder(("b", 2, "c"), Text(("<", Param("p"), ">"))),
        ),
    )
    made = json.loads(filled(template, values(p={"x": 1}), results(s=[2])))
    assert made == {"a": {"x": 1}, "b": [0, [2], {"c": '<{"x":1}>'}], "d": 1}


def test_the_whole_can_be_a_hole() -> None:
    assert filled(JsonTemplate(Raw(b"null"), (Placeholder((), Result("s")),)), {}, results(s=[1])) == b"[1]"


def test_json_without_holes_stays_as_it_is() -> None:
    assert fill(Raw(b'{ "a" : 1 }'), (), lambda one: Raw(b"")) == b'{ "a" : 1 }'


# -- conditions


def says(op: Comparison, value: Any, other: Any = None) -> bool:
    return holds(Condition(Result("s"), op, other), {}, results(s=value))


@pytest.mark.parametrize(
    ("op", "value", "other", "expected"),
    [
        ("true", [0], None, True),
        ("true", [], None, False),
        ("true", None, None, False),
        ("false", 0, None, True),
        ("false", "0", None, False),
        ("==", [1, {"k": 2}], [1, {"k": 2}], True),
        ("==", 1, "1", False),
        ("==", None, None, True),
        ("!=", 1, "1", True),
        ("!=", 1, 1.0, False),
        ("<", 1, 2, True),
        ("<", 2, 2, False),
        ("<=", 2, 2, True),
        (">", "b", "a", True),
        (">=", 1, 2, False),
        ("in", "a", ["a", "b"], True),
        ("in", "a", "cab", True),
        ("in", "a", {"a": 1}, True),
        ("in", "z", ["a"], False),
        ("not in", "z", ["a"], True),
        ("not in", "a", ["a"], False),
        ("succeeded", None, None, True),
    ],
)
def test_values_are_compared_as_python_does(op: Comparison, value: Any, other: Any, expected: bool) -> None:
    assert says(op, value, other) is expected


@pytest.mark.parametrize(
    ("value", "other"), [(None, 1), (1, "a"), ([1], {"k": 1}), ({"k": 1}, {"k": 1}), ("a", None), ([1], 3)]
)
def test_what_cannot_be_compared_is_neither_less_nor_more(value: Any, other: Any) -> None:
    assert not any(says(op, value, other) for op in ("<", "<=", ">", ">="))


@pytest.mark.parametrize(("value", "other"), [(1, "a"), ("a", None), ("a", 5), ([1], {"k": 1})])
def test_what_cannot_be_contained_is_not(value: Any, other: Any) -> None:
    assert not says("in", value, other)
    assert says("not in", value, other)


def test_a_part_that_is_not_there_is_none() -> None:
    missing = Condition(Result("s", ("no", "such")), "==", None)
    assert holds(missing, {}, results(s={"a": 1}))
    assert not holds(Condition(Param("p", (3,))), values(p=[1]), NO_RESULTS)


@pytest.mark.parametrize("op", get_args(Comparison))
@pytest.mark.parametrize("expression", [Result("s"), Result("s", ("k",)), Last(("r", "s"))])
def test_nothing_holds_of_a_step_that_did_not_succeed(op: Comparison, expression: Expression) -> None:
    """Not even of a mapped one, which has a list."""
    failed = StepResults(values(s=[1, None]), set())
    assert not any(holds(Condition(expression, op, other), {}, failed) for other in (None, 1, [], [1, None]))


@pytest.mark.parametrize("op", get_args(Comparison))
def test_every_comparison_can_hold_and_can_not(op: Comparison) -> None:
    tried = [says(op, value, other) for value in (0, 1, 2, "a") for other in (1, ["a", 1], 0)]
    assert any(tried)
    assert op == "succeeded" or not all(tried)


def test_a_condition_on_a_parameter_needs_no_step() -> None:
    assert holds(Condition(Param("p"), ">", 1), values(p=2), NO_RESULTS)
    assert holds(Condition(Param("p"), "succeeded"), values(), NO_RESULTS)


# -- maps


def rows(map: Map, **params: Any) -> list[Any]:
    found = elements(map, values(**params), results(s=[1, 2], none=None))
    return [{name: json.loads(bytes(value)) for name, value in row.items()} for row in found]


def test_an_instance_for_each_element() -> None:
    assert rows(Map({"x": Result("s")})) == [{"x": 1}, {"x": 2}]
    assert rows(Map({"x": Param("p", ("k",))}), p={"k": ["a", None]}) == [{"x": "a"}, {"x": None}]
    assert rows(Map({"x": [[], {}]})) == [{"x": []}, {"x": {}}]


@pytest.mark.parametrize("over", [[], Result("none"), Result("unknown"), Param("unknown"), Last(("none", "unknown"))])
def test_what_is_empty_or_none_has_no_instances(over: Any) -> None:
    assert rows(Map({"x": over})) == []
    assert rows(Map({"x": over, "y": [1, 2]}, product=True)) == []


def test_several_go_side_by_side_or_each_with_each() -> None:
    lists: dict[str, Any] = {"x": Result("s"), "y": ["a", "b"]}
    assert rows(Map(lists)) == [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}]
    assert [(row["x"], row["y"]) for row in rows(Map(lists, product=True))] == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]


def test_side_by_side_they_must_be_of_one_length() -> None:
    with pytest.raises(Unfillable) as error:
        rows(Map({"x": Result("s"), "y": [1], "z": Param("p")}), p=[1, 2])
    assert str(error.value) == (
        "lists that are mapped side by side must be of one length, and 'x' has 2, 'y' has 1, 'z' has 2 elements"
    )


@pytest.mark.parametrize(("given", "shown"), [("abc", '"abc"'), ({"k": [1]}, '{"k":[1]}'), (3, "3"), (True, "true")])
def test_what_is_no_list_is_named(given: Any, shown: str) -> None:
    with pytest.raises(Unfillable) as error:
        rows(Map({"x": Param("p")}), p=given)
    assert str(error.value) == f"'x' is mapped over {shown}, which is not a list"


@pytest.mark.parametrize("product", [True, False])
def test_too_many_are_refused_before_they_are_made(product: bool) -> None:
    count = 10**4 if product else MOST_INSTANCES + 1
    lists: dict[str, Any] = {name: Param("p") for name in "abcdefgh"} if product else {"x": Param("p")}
    with pytest.raises(Unfillable, match=f"elements, and {MOST_INSTANCES:,} are the most"):
        rows(Map(lists, product=product), p=[0] * count)
