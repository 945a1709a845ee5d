"""Read a node of a document into a msgspec Struct, and report all unknown, missing and invalid fields.

The JSON Schema for editors is generated from the same Structs, so the two always agree. Invalid fields are left out of
the Struct.
"""

from __future__ import annotations

from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from tickwork.declare.node import Node
from tickwork.declare.problems import Problems, meant

Made = TypeVar("Made", bound=msgspec.Struct)

_WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", list: "a list"}


class _AcceptedType(NamedTuple):
    """A type that a value may have: its name for error messages, its Python types, and the type of its contents."""

    words: str
    types: tuple[type, ...]
    values: tuple[str, ...] = ()
    struct: type[msgspec.Struct] | None = None
    inner: Any = None

    def fits(self, value: Any) -> bool:
        return not self.types or (type(value) in self.types and (not self.values or value in self.values))


def read_struct(place: Node, kind: type[Made], problems: Problems) -> Made:
    """Read the fields of a node into a Struct, with UNSET for missing and invalid ones, and report all errors.

    Raises UnusableNode if the node is not a mapping.
    """
    if not isinstance(place.value, dict):
        raise place.misfit("must have fields")
    types = _types_of(kind)
    given: dict[str, Any] = {}
    for name in place.value:
        if name not in types:
            known = meant(name, types) or f"; there are {', '.join(types)}"
            problems.add(place[name], f"there is no such field here{known}.")
        elif place.has(name):
            with problems.gathered():
                given[name] = _read(place[name], types[name], problems)
    for name in _required(kind):
        if name not in given:
            given[name] = UNSET
            if not place.has(name):
                problems.add(place[name], "it is missing.")
    return kind(**given)


def _read(place: Node, kind: Any, problems: Problems) -> Any:
    """Read a value as the first type of a union that fits. Raises UnusableNode if none does."""
    shapes = _shapes(kind)
    for shape in shapes:
        if shape.fits(place.value):
            break
    else:
        raise place.misfit(f"must be {' or '.join(shape.words for shape in shapes)}")
    if shape.struct is not None:
        return read_struct(place, shape.struct, problems)
    if shape.inner is None:
        return place.value
    read: dict[Any, Any] = {}
    parts = enumerate(place.items()) if isinstance(place.value, list) else ((key, place[key]) for key in place.value)
    for key, part in parts:
        with problems.gathered():
            read[key] = _read(part, shape.inner, problems)
    return list(read.values()) if isinstance(place.value, list) else read


@cache
def _types_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


@cache
def _required(kind: type[msgspec.Struct]) -> list[str]:
    return [field.name for field in msgspec.structs.fields(kind) if field.required]


@cache
def _shapes(kind: Any) -> tuple[_AcceptedType, ...]:
    """Return the types that a type hint accepts, one for each member of a union."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return tuple(shape for one in arguments if one is not UnsetType for shape in _shapes(one))
    if origin is Annotated:
        example = "".join(f" such as {one}" for one in (arguments[1].examples or ())[:1])
        return tuple(shape._replace(words=shape.words + example) for shape in _shapes(arguments[0]))
    if origin is Literal:
        return (_AcceptedType(f"one of {', '.join(arguments)}", (str,), values=arguments),)
    if origin in (list, dict):
        inner = None if arguments[-1] is Any else arguments[-1]
        return (_AcceptedType(_WORDS.get(origin, "fields"), (origin,), inner=inner),)
    if kind is Any:
        return (_AcceptedType("anything", ()),)
    if issubclass(kind, msgspec.Struct):
        return (_AcceptedType("fields", (dict,), struct=kind),)
    return (_AcceptedType(_WORDS[kind], (int, float) if kind is float else (kind,)),)
