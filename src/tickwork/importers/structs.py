"""Reading a place of a document into a Struct, whose fields say what there may be.

The same Structs give the JSON Schema for editors, so the two cannot drift apart. Every misfit is noted, not the first
alone, and what does not fit is left out of the Struct.
"""

from __future__ import annotations

from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from tickwork.importers.field import Field
from tickwork.importers.problems import Problems, meant

Made = TypeVar("Made", bound=msgspec.Struct)

_WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def read_struct(place: Field, kind: type[Made], problems: Problems) -> Made:
    """Read the fields of a place; what is missing or does not fit is UNSET. Raises Misfit where it has no fields."""
    types = _types_of(kind)
    given: dict[str, Any] = {}
    for name in _fields_of(place).names():
        part = place[name]
        if name not in types:
            problems.add(part, f"there is no such field here{meant(name, types) or _there_are(types)}.")
        elif part.is_there:
            with problems.gathered():
                given[name] = _read(part, types[name], problems)
    for field in msgspec.structs.fields(kind):
        if field.required and field.name not in given:
            given[field.name] = UNSET
            if not place[field.name].is_there:
                problems.add(place[field.name], "it is missing.")
    return kind(**given)


def _fields_of(place: Field) -> Field:
    if not isinstance(place.value, dict):
        raise place.misfit("must have fields")
    return place


def _read(place: Field, kind: Any, problems: Problems) -> Any:
    """Read a value as the first of the types in a union that it has the shape of."""
    for one in _members(kind):
        bare = get_args(one)[0] if get_origin(one) is Annotated else one
        if _has_shape(place.value, bare):
            return _shaped(place, bare, problems)
    raise place.misfit(f"must be {' or '.join(_in_words(one) for one in _members(kind))}")


def _shaped(place: Field, kind: Any, problems: Problems) -> Any:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return read_struct(place, kind, problems)
    items: dict[Any, Any] = {}
    if get_origin(kind) is dict:
        parts = [(name, place[name]) for name in place.names()]
    elif get_origin(kind) is list:
        parts = list(enumerate(place.items()))  # type: ignore[arg-type]
    else:
        return place.value
    for key, part in parts:
        with problems.gathered():
            items[key] = _read(part, get_args(kind)[-1], problems)
    return items if get_origin(kind) is dict else list(items.values())


def _has_shape(value: Any, kind: Any) -> bool:
    if kind is Any:
        return True
    origin = get_origin(kind)
    if origin is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if origin is not None:
        return isinstance(value, origin)
    if issubclass(kind, msgspec.Struct):
        return isinstance(value, dict)
    return type(value) is kind or (kind is float and type(value) is int)


def _in_words(kind: Any) -> str:
    origin = get_origin(kind)
    if origin is Annotated:
        given, meta = get_args(kind)
        return f"{_in_words(given)} such as {meta.examples[0]}" if meta.examples else _in_words(given)
    if origin is Literal:
        return f"one of {', '.join(get_args(kind))}"
    if origin is list:
        return "a list"
    return _WORDS.get(kind, "fields")


@cache
def _types_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


@cache
def _members(kind: Any) -> tuple[Any, ...]:
    """The types of a union, each with what is said of it."""
    if get_origin(kind) is Annotated and get_origin(get_args(kind)[0]) in (Union, UnionType):
        return _members(get_args(kind)[0])
    if get_origin(kind) not in (Union, UnionType):
        return (kind,)
    return tuple(member for one in get_args(kind) if one is not UnsetType for member in _members(one))


def _there_are(types: dict[str, Any]) -> str:
    return f"; there are {', '.join(types)}"
