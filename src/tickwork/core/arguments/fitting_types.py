"""The JSON types that a type hint allows, roughly: enough to detect results that never fit a parameter.

The types are compared before anything runs, so a doubtful case counts as a fit; the worker checks every value against
its hint anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from tickwork.core.arguments.type_hints import Hint, describe

_KINDS = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}

_NUMBERS = frozenset({"integer", "number"})


class JsonTypes(NamedTuple):
    """The JSON types of a hint, and the types of its elements if it is a list. None means any type."""

    text: str
    kinds: frozenset[str] | None = None
    items: JsonTypes | None = None

    @classmethod
    def of(cls, hint: Hint) -> JsonTypes:
        """Return the JSON types of a hint."""
        schema = msgspec.json.schema(hint.wire, schema_hook=describe)
        return _shape(hint.text, schema, schema.get("$defs", {}))

    def as_list(self) -> JsonTypes:
        """Return the types of a list of these values."""
        return JsonTypes(f"list[{self.text}]", frozenset({"array"}), self)

    def fits(self, wanted: JsonTypes) -> bool:
        """Return whether a value of these types can also be a value of `wanted`."""
        if self.kinds is None or wanted.kinds is None:
            return True
        both = self.kinds & wanted.kinds
        if not both:  # an int is accepted as a float, and a float may be a whole number
            return bool(self.kinds & _NUMBERS and wanted.kinds & _NUMBERS)
        if both == {"array"} and self.items is not None and wanted.items is not None:
            return self.items.fits(wanted.items)
        return True


ANYTHING = JsonTypes("Any")


def _shape(text: str, schema: Mapping[str, Any], shared: Mapping[str, Any]) -> JsonTypes:
    """Return the types of a JSON schema. `shared` has the definitions that its references name."""
    members = list(_members(schema, shared))
    kinds: set[str] = set()
    for member in members:
        found = _kinds(member)
        if found is None:
            return JsonTypes(text)
        kinds |= found
    inside = [member["items"] for member in members if isinstance(member.get("items"), dict)]
    items = _shape(_element(text), inside[0], shared) if len(inside) == 1 else None
    return JsonTypes(text, frozenset(kinds), items)


def _members(schema: Mapping[str, Any], shared: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the schema itself, or the members of its union, with references resolved."""
    reference = schema.get("$ref")
    if reference is not None:
        schema = shared[reference.rpartition("/")[2]]
    for member in schema.get("anyOf", ()):
        yield from _members(member, shared)
    if "anyOf" not in schema:
        yield schema


def _kinds(schema: Mapping[str, Any]) -> set[str] | None:
    """Return the JSON types of a schema without unions; None means any type."""
    if "type" in schema:
        return {schema["type"]}
    values = schema["enum"] if "enum" in schema else [schema["const"]] if "const" in schema else None
    if values is None or not all(type(value) in _KINDS for value in values):
        return None
    return {_KINDS[type(value)] for value in values}


def _element(text: str) -> str:
    inside = text.partition("[")[2].removesuffix("]").removesuffix(", ...")
    return inside or "Any"
