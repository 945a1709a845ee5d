"""Check the parameters of a run against the schema that is stored with its dag.

Only the parts of JSON Schema that signatures and YAML files produce are checked; other parts are left to the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from tickwork.core.arguments.unstorable import brief
from tickwork.errors import InvalidArguments

Schema = Mapping[str, Any]

_TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def completed(dag: str, schema: Schema, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters with defaults for the missing ones.

    Raises InvalidArguments if they do not fit the schema.
    """
    known = schema.get("properties", {})
    for name, value in given.items():
        if name not in known:
            near = get_close_matches(name, known, n=1)
            guess = f" (did you mean {near[0]!r}?)" if near else ""
            takes = ", ".join(map(repr, known)) or "none"
            raise InvalidArguments(f"dag {dag!r} has no parameter {name!r}{guess}. It takes {takes}.")
        if not fits(value, known[name], schema):
            kind = told(known[name], schema)
            raise InvalidArguments(f"parameter {name!r} of dag {dag!r} is of type {kind}, not {brief(value)}.")
    if missing := [name for name in schema.get("required", ()) if name not in given]:
        raise InvalidArguments(f"dag {dag!r} needs {', '.join(map(repr, missing))}. Nothing was stored.")
    return {**defaults_of(schema), **given}


def defaults_of(schema: Schema) -> dict[str, Any]:
    """Return the defaults of the parameters that have one."""
    return {name: one["default"] for name, one in schema.get("properties", {}).items() if "default" in one}


def fits(value: Any, schema: Schema, root: Schema) -> bool:
    """Return whether a JSON value fits a schema. References in the schema are resolved in `root`."""
    schema = _followed(schema, root)
    if "anyOf" in schema:
        return any(fits(value, one, root) for one in schema["anyOf"])
    if "enum" in schema and value not in schema["enum"]:
        return False
    if schema.get("format") == "decimal":  # a decimal may be given as a number, too
        return isinstance(value, str | int | float) and not isinstance(value, bool)
    if "type" in schema and not any(_TYPES[one](value) for one in _types(schema) if one in _TYPES):
        return False
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        return all(fits(one, schema["items"], root) for one in value)
    if isinstance(value, dict):
        known = schema.get("properties", {})
        there = all(name in value for name in schema.get("required", ()))
        return there and all(fits(value[name], one, root) for name, one in known.items() if name in value)
    return True


def told(schema: Schema, root: Schema) -> str:
    """Return the type of a schema in words: "string", "integer or null", "array of integer"."""
    schema = _followed(schema, root)
    if "anyOf" in schema:
        return " or ".join(told(one, root) for one in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(map(repr, schema["enum"]))
    if "type" not in schema:
        return "anything"
    text = " or ".join(_types(schema))
    items = schema.get("items")
    return f"{text} of {told(items, root)}" if isinstance(items, Mapping) and items else text


def _types(schema: Schema) -> list[str]:
    said = schema["type"]
    return [said] if isinstance(said, str) else list(said)


def _followed(schema: Schema, root: Schema) -> Schema:
    reference = schema.get("$ref")
    return schema if reference is None else root.get("$defs", {}).get(reference.rpartition("/")[2], {})
