"""Arguments that are given by name to a task which this program does not import, checked by its stored schema."""

from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal
from uuid import UUID

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tickwork.core.arguments.encode_by_schema import StoredSignature
from tickwork.core.arguments.signature import Signature
from tickwork.core.job import Policy, TaskDefinition
from tickwork.errors import InvalidArguments, InvalidPayload


class Colour(Enum):
    RED = "red"


class Address(msgspec.Struct):
    street: str
    number: int = 1


def work(
    to: str,
    times: int = 1,
    ratio: float = 1.0,
    price: Decimal = Decimal(0),
    when: datetime | None = None,
    who: UUID | None = None,
    colour: Colour = Colour.RED,
    kind: Literal["a", "b"] = "a",
    where: Address | None = None,
    names: tuple[str, ...] = (),
    pair: tuple[int, str] = (1, ""),
    extra: dict[str, int] | None = None,
    blob: bytes = b"",
    flags: set[int] = frozenset(),  # type: ignore[assignment]
    anything: Any = None,
    no_hint=None,  # type: ignore[no-untyped-def]
) -> None: ...


SIGNATURE = Signature.of(work)
SCHEMA = msgspec.json.encode(SIGNATURE.schema())
STORED = StoredSignature(TaskDefinition("work", "default", 5, Policy(), SCHEMA))


@pytest.mark.parametrize(
    "given",
    [
        {"times": 3, "ratio": 2, "price": "1.50", "when": "2026-01-01T00:00:00Z", "colour": "red", "kind": "b"},
        {"price": 1.5, "who": "12345678-1234-5678-1234-567812345678", "where": {"street": "x"}, "names": ["a"]},
        {"pair": [1, "x"], "extra": {"a": 1}, "blob": "QQ==", "flags": [1, 2], "anything": [{"a": None}], "when": None},
        {"no_hint": {"a": [1]}, "when": datetime(2026, 1, 1, tzinfo=UTC), "who": UUID(int=1), "price": Decimal("1.5")},
    ],
)
def test_what_the_worker_takes_is_taken(given: dict[str, Any]) -> None:
    data = STORED.encode((), {"to": "ada", **given}, "work")
    SIGNATURE.decode(data)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "task 'work' needs 'to'"),
        ({"to": 7}, "argument 'to' of task 'work' is of type string, not 7"),
        ({"to": "x", "tims": 1}, r"has no argument 'tims' \(did you mean 'times'\?\)"),
        ({"to": "x", "times": True}, "'times' of task 'work' is of type integer, not True"),
        ({"to": "x", "times": "3"}, "is of type integer, not '3'"),
        ({"to": "x", "when": 7}, "'when' of task 'work' is of type"),
        ({"to": "x", "colour": "blue"}, "'colour' of task 'work' is of type 'red', not 'blue'"),
        ({"to": "x", "where": {"street": 7}}, "'where'"),
        ({"to": "x", "names": ["a", 1]}, "'names' of task 'work' is of type array of string"),
    ],
)
def test_what_the_worker_refuses_is_refused_where_it_is_asked_for(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidArguments, match=told):
        STORED.encode((), given, "work")


def test_a_task_that_no_worker_told_of_takes_any_names() -> None:
    assert StoredSignature(None).encode((), {"x": 1}, "work") == b'{"x":1}'
    assert StoredSignature(TaskDefinition("work", "q", 5, Policy(), b"{}")).encode((), {"x": 1}, "work") == b'{"x":1}'


def test_values_that_are_not_known_yet_are_not_checked() -> None:
    assert STORED.encode((), {"to": None}, "work", {"to"}) == b'{"to":null}'


ID = "12345678-1234-5678-1234-567812345678"
tags = st.sampled_from(["$uuid", "$dict", "$set", "$decimal", "$date", "$x", "a"])
leaves = st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "x", ID, "2026-01-01", "1.5"])
documents = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(tags, inner, max_size=2), max_leaves=8
)


@given(documents)
@example({"$uuid": ID})
@example({"$dict": {"$uuid": ID}})
@example({"$uuid": "no"})
@example([{"$set": [1, {"$uuid": ID}]}])
@example({"$set": [[1]]})
def test_json_without_a_hint_is_stored_as_it_is_shown_or_refused(document: Any) -> None:
    """Arguments that are sent as they were shown are the same arguments, and reach the worker unchanged."""
    try:
        stored = STORED.encode_named({"to": "a", "no_hint": document}, "work")
    except (InvalidPayload, InvalidArguments):
        return
    shown = msgspec.json.decode(stored)
    assert STORED.encode_named(shown, "work") == stored
    _, given_to_worker = SIGNATURE.decode(stored)
    meant = given_to_worker["no_hint"]
    assert msgspec.json.decode(SIGNATURE.encode((), {"to": "a", "no_hint": meant}, "work")) == shown


def test_a_uuid_in_json_is_a_uuid_where_there_is_no_hint_and_a_dict_where_one_says_so() -> None:
    stored = STORED.encode_named({"to": "a", "no_hint": {"$uuid": ID}, "anything": {"$dict": {"$uuid": ID}}}, "work")
    assert msgspec.json.decode(stored)["no_hint"] == {"$uuid": ID}
    _, given_to_worker = SIGNATURE.decode(stored)
    assert given_to_worker["no_hint"] == UUID(ID)
    assert given_to_worker["anything"] == {"$uuid": ID}
    with pytest.raises(InvalidPayload, match=r"argument 'no_hint' of task 'work': there is no tag \"\$foo\""):
        STORED.encode_named({"to": "a", "no_hint": {"$foo": 1}}, "work")
