"""YAML is read into plain values with their lines, and what could do harm is refused."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.text.yaml_loader import read_yaml, write_yaml
from tickwork.errors import InvalidInput

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\t"), max_size=30)
    | st.sampled_from(["on", "no", "yes", "~", "null", "1e3", "12:30", "2026-01-01", "007", "0x1f", "<<", "=", "- a"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet="ab :#'", max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)


def value_of(text: str) -> Any:
    (document,) = read_yaml(text, file="f.yaml")
    return document.value


def test_words_and_numbers_are_those_of_yaml_1_2() -> None:
    assert value_of("[on, yes, no, 12:30, 2026-01-01, 0x10, 0o7, .inf, <<]") == [
        *("on", "yes", "no", "12:30", "2026-01-01", "0x10", "0o7", ".inf", "<<"),
    ]
    assert value_of("[true, False, ~, null, 5, -3, 007, 2.5, 1e3, .5, '5', \"true\", !!str 5, ! 5]") == [
        *(True, False, None, None, 5, -3, 7, 2.5, 1000.0, 0.5, "5", "true", "5", "5"),
    ]
    assert value_of("on: x\n1: y\n") == {"on": "x", "1": "y"}


def test_each_value_knows_its_line_and_a_field_that_of_its_key() -> None:
    (first, second, third) = read_yaml("a:\n  b: [1,\n    2]\n---\n---\n- x\n- y: z\n", file="f.yaml")
    assert first.lines == {(): 1, ("a",): 1, ("a", "b"): 2, ("a", "b", 0): 2, ("a", "b", 1): 3}
    assert second.value is None
    assert third.lines == {(): 6, (0,): 6, (1,): 7, (1, "y"): 7}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: 1\nb: 2\na: 3", "f.yaml:3: the key 'a' is given twice."),
        ("a: &x [1]\nb: *x", "f.yaml:2: aliases (*name) are not read here; write the value out."),
        ("&a [*a]", "f.yaml:1: aliases (*name) are not read here; write the value out."),
        ("? [1]\n: 2", "f.yaml:1: a key must be a text."),
        ("\n!!python/object/apply:os.system [x]", "f.yaml:2: the tag tag:yaml.org,2002:python/object/apply:os.system"),
        ("a: !!int 5", "f.yaml:1: the tag tag:yaml.org,2002:int is not read here."),
        ("a: !mine {b: 1}", "f.yaml:1: the tag !mine is not read here."),
        ("a: [1,\n", "f.yaml:2: this is not YAML: "),
        ("a: b: c", "f.yaml:1: this is not YAML: mapping values are not allowed in this context."),
        ("a: \x07", "f.yaml: this is not YAML: "),
        ("[" * 100_000, "f.yaml:1: values are nested more than 64 levels deep."),
        ("{a: " * 100, "f.yaml:1: values are nested more than 64 levels deep."),
    ],
)
@pytest.mark.timeout(10)
def test_refusals_name_the_line(text: str, error: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_yaml(text, file="f.yaml")
    assert str(refused.value).startswith(error)


@given(VALUES)
def test_what_is_written_is_read_as_the_same(value: Any) -> None:
    assert value_of(write_yaml(value)) == value


@given(st.text(max_size=60) | st.text(alphabet="ab:-[]{}?&*!|>'\"#%@ \n", max_size=60))
def test_no_text_makes_it_fail(text: str) -> None:
    with suppress(InvalidInput):
        read_yaml(text, file="f.yaml")
