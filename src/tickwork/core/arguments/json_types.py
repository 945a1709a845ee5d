"""What JSON the values of a hint can be, roughly: enough to say that what one task gives is never what another takes.

It is compared before anything runs, so doubt counts as a fit; the worker checks every value by its hint anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from tickwork.core.arguments.type_hints import Hint, describe

_KINDS = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}

_NUMBERS = frozenset({"integer", "number"})


class JsonTypes(NamedTuple):
    """The JSON types of a hint, and the shape of its elements if it is a list. None: they can be anything."""

    text: str
    kinds: frozenset[str] | None = None
    items: JsonTypes | None = None

    @classmethod
    def of(cls, hint: Hint) -> JsonTypes:
        """What a hint comes to."""
        schema = msgspec.json.schema(hint.wire, schema_hook=describe)
        return _shape(hint.text, schema, schema.get("$defs", {}))

    def as_list(self) -> JsonTypes:
        """The shape of a list of these."""
        return JsonTypes(f"list[{self.text}]", frozenset({"array"}), self)

    def fits(self, wanted: JsonTypes) -> bool:
        """Whether some value of this shape could be one of the other."""
        if self.kinds is None or wanted.kinds is None:
            return True
        both = self.kinds & wanted.kinds
        if not both:  # a whole number is a float, too, and a float may be a whole number
            return bool(self.kinds & _NUMBERS and wanted.kinds & _NUMBERS)
        if both == {"array"} and self.items is not None and wanted.items is not None:
            return self.items.fits(wanted.items)
        return True


ANYTHING = JsonTypes("Any")


def _shape(text: str, schema: Mapping[str, Any], shared: Mapping[str, Any]) -> JsonTypes:
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
    """A schema, or those that it is any of."""
    reference = schema.get("$ref")
    if reference is not None:
        schema = shared[reference.rpartition("/")[2]]
    for member in schema.get("anyOf", ()):
        yield from _members(member, shared)
    if "anyOf" not in schema:
        yield schema


def _kinds(schema: Mapping[str, Any]) -> set[str] | None:
    if "type" in schema:
        return {schema["type"]}
    values = schema["enum"] if "enum" in schema else [schema["const"]] if "const" in schema else None
    if values is None or not all(type(value) in _KINDS for value in values):
        return None
    return {_KINDS[type(value)] for value in values}


def _element(text: str) -> str:
    inside = text.partition("[")[2].removesuffix("]").removesuffix(", ...")
    return inside or "Any"
