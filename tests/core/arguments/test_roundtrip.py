"""Calls with plain arguments are written as all others are, only quicker."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tickwork.core.arguments.roundtrip import FastEncoder
from tickwork.core.arguments.signature import Signature
from tickwork.errors import InvalidArguments, InvalidPayload


def call(number: int, text: str, flag: bool = False) -> None: ...


values = st.one_of(
    st.integers(),
    st.text(alphabet=st.characters(blacklist_categories=())),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=True),
    st.sampled_from(
        [2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, "\0", "a\0b", "\ud800", '{"$blob": 1}', "\\u0000"]
    ),
)


def outcome(signature: Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    try:
        return signature.encode(args, kwargs, "call")
    except (InvalidArguments, InvalidPayload) as error:
        return str(error)


@given(st.lists(values, min_size=0, max_size=4).map(tuple))
@example((1, '{"$blob": {}}', True))
@example((1, "x" * 300_000, True))
@example((True, "x", 1))
def test_the_quick_road_writes_and_refuses_what_the_long_one_does(args: tuple[Any, ...]) -> None:
    quick, long = Signature.of(call), Signature.of(call)
    # The slow way is the reference.
    long._plainly = None
    assert outcome(quick, args, {}) == outcome(long, args, {})


@pytest.mark.parametrize("args", [(2**63, "a"), (1, "\0"), (1, "\ud800"), (1.0, "a"), (1,), (1, "a", "b")])
def test_what_has_to_be_looked_at_is_left_to_the_long_road(args: tuple[Any, ...]) -> None:
    assert FastEncoder({"number": int, "text": str}).written(args) is None


def test_parameters_may_have_names_that_a_struct_cannot() -> None:
    plain = FastEncoder({"__class__": int, "from": str})
    assert plain.written((1, "a")) == b'{"__class__":1,"from":"a"}'
