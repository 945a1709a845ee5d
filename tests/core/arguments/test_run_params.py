"""Parameters of runs that are started by name: what fits a schema, and what is told of what does not."""

from typing import Any

import pytest

from tickwork.core.arguments.encode_by_schema import completed, fits, told
from tickwork.errors import InvalidArguments

ROOT = {
    "properties": {
        "day": {"type": "string"},
        "factor": {"type": "integer", "default": 10},
        "mode": {"enum": ["a", "b"], "default": "a"},
        "left": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        "rows": {"type": "array", "items": {"type": "integer"}, "default": []},
        "who": {"$ref": "#/$defs/Who", "default": {"name": "ada"}},
        "any": {"description": "anything", "default": 1},
    },
    "required": ["day"],
    "$defs": {"Who": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
}


def test_defaults_are_filled_in_for_what_is_not_given() -> None:
    found = completed("etl", ROOT, {"day": "x", "factor": 3})
    assert found == {
        "day": "x",
        "factor": 3,
        "mode": "a",
        "left": None,
        "rows": [],
        "who": {"name": "ada"},
        "any": 1,
    }
    assert completed("none", {}, {}) == {}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "dag 'etl' needs 'day'"),
        ({"day": 1}, "parameter 'day' of dag 'etl' is of type string, not 1"),
        ({"day": "x", "factr": 1}, r"no parameter 'factr' \(did you mean 'factor'\?\)"),
        ({"day": "x", "factor": True}, "is of type integer, not True"),
        ({"day": "x", "mode": "c"}, "is of type 'a' or 'b', not 'c'"),
        ({"day": "x", "left": "y"}, "is of type integer or null, not 'y'"),
        ({"day": "x", "rows": [1, "2"]}, "is of type array of integer"),
        ({"day": "x", "who": {}}, "is of type object"),
    ],
)
def test_what_does_not_fit_is_told(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArguments, match=said):
        completed("etl", ROOT, given)


@pytest.mark.parametrize(
    ("value", "schema"),
    [(1, {"type": "number"}), (1.5, {"type": ["number", "null"]}), (None, {"type": ["number", "null"]}), ("x", {})],
)
def test_what_fits(value: Any, schema: dict[str, Any]) -> None:
    assert fits(value, schema, ROOT)


def test_a_schema_without_a_type_takes_anything() -> None:
    assert told({}, ROOT) == "anything"
    assert fits({"x": 1}, {}, ROOT)
