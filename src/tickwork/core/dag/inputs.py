"""What goes into the holes of a step's arguments: parameters and elements when it is released, results when it is
claimed.

Values stay JSON as it was stored, and are cut out and put in without being read further than a path leads, so that
nothing is changed on its way from one step to the next. A result that is in a blob stays there: a reference to it, or
to a part of it, is put in. Only what a text, a condition or a map has to look at is loaded here.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import product as all_pairs
from typing import Any

import msgspec
from msgspec import Raw

from tickwork.core.blob import (
    NULL,
    BlobRef,
    Load,
    Path,
    Unfillable,
    Unreadable,
    brief,
    is_null,
    opened,
    part_of,
    whole,
)
from tickwork.core.dag.graph import (
    Condition,
    Expression,
    Filled,
    Hole,
    Item,
    Last,
    Map,
    Param,
    Result,
    Text,
    steps_in,
)
from tickwork.errors import BlobError

Values = Mapping[str, Raw]  # JSON by name: of parameters, of elements, of results by step

_decode = msgspec.json.decode
_encode = msgspec.json.encode
_HOLES = msgspec.json.Decoder(tuple[Hole, ...])
_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_ARRAY = msgspec.json.Decoder(list[Raw])


def no_blobs(reference: BlobRef) -> bytes:
    """Stands for `load` where nobody has blobs."""
    raise BlobError(f"blob {reference.key} cannot be read here: no place for blobs is set.")


def encode_holes(holes: Iterable[Hole]) -> bytes:
    return _encode(tuple(holes))


def decode_holes(data: bytes | str) -> tuple[Hole, ...]:
    return _HOLES.decode(data)


def wanted_by(holes: Iterable[Hole]) -> set[str]:
    """The steps whose results are to be put in."""
    return {step for hole in holes for step in steps_in(hole.value)}


def fill(json: Raw | bytes, holes: Iterable[Hole], value_of: Callable[[Expression], Raw]) -> bytes:
    """JSON with its holes filled. Raises Unfillable."""
    filled = Raw(json)
    for hole in holes:
        filled = _put(filled, hole.where, value_of(hole.value))
    return bytes(filled)


def value_of(expression: Expression, params: Values, items: Values, results: Values, load: Load = no_blobs) -> Raw:
    """What an expression comes to. Raises Unfillable."""
    match expression:
        case Param(name, path):
            return part_of(params.get(name, NULL), path, f"parameter {name!r}")
        case Item(name, path):
            return part_of(items[name], path, f"the element for {name!r}")
        case Result(step, path):
            return part_of(results.get(step, NULL), path, f"the result of step {step!r}")
        case Last(steps, path):
            found = (results[step] for step in reversed(steps) if not is_null(results.get(step, NULL)))
            return part_of(next(found, NULL), path, f"the result of {steps[0]!r}")
        case Text(parts):
            known = (params, items, results)
            texts = [one if isinstance(one, str) else _shown(read(value_of(one, *known), load)) for one in parts]
            return Raw(_encode("".join(texts)))


def filled(template: Filled, params: Values, results: Values, load: Load = no_blobs) -> bytes:
    """A template with all of its holes filled, outside of any map."""
    return fill(template.json, template.holes, lambda one: value_of(one, params, {}, results, load))


def holds(condition: Condition, params: Values, results: Values, load: Load = no_blobs) -> bool:
    """Whether a condition on a value holds. What cannot be compared is not less, equal, or contained.

    Raises Unreadable where the value is in a blob that cannot be read.
    """
    try:
        value = _decode(read(value_of(condition.value, params, {}, results, load), load))
    except Unreadable:
        raise
    except Unfillable:
        value = None
    try:
        return bool(_COMPARISONS[condition.is_](value, condition.other))
    except TypeError:
        return condition.is_ == "not in"


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "true": lambda value, _: value,
    "false": lambda value, _: not value,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda value, other: value in other,
    "not in": lambda value, other: value not in other,
}


def elements(map: Map, params: Values, results: Values, load: Load = no_blobs) -> list[dict[str, Raw]]:
    """For each instance its element of each mapped parameter. Raises Unfillable for what is no list, and for lists that
    are to go side by side and differ in length.
    """
    lists = {name: _elements_of(name, over, params, results, load) for name, over in map.over.items()}
    if map.product:
        return [dict(zip(lists, row, strict=True)) for row in all_pairs(*lists.values())]
    lengths = {name: len(values) for name, values in lists.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name!r} has {length:,}" for name, length in lengths.items())
        raise Unfillable(f"lists that are mapped side by side must be of one length, and {told} elements")
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


def _elements_of(name: str, over: Expression | list[Any], params: Values, results: Values, load: Load) -> list[Raw]:
    if isinstance(over, list):
        return [Raw(_encode(one)) for one in over]
    with _telling_what_is_lost():
        value = opened(value_of(over, params, {}, results, load), load)
    if is_null(value):
        return []
    try:
        return _ARRAY.decode(value)
    except msgspec.ValidationError:
        raise Unfillable(f"{name!r} is mapped over {brief(value)}, which is not a list") from None


def read(value: Raw, load: Load) -> Raw:
    """A value without any references in it. Raises Unfillable."""
    with _telling_what_is_lost():
        return Raw(whole(bytes(value), load))


@contextmanager
def _telling_what_is_lost() -> Iterator[None]:
    try:
        yield
    except BlobError as error:
        raise Unreadable(str(error).removesuffix(".")) from None


def _put(json: Raw, where: Path, value: Raw) -> Raw:
    if not where:
        return value
    key, *rest = where
    if isinstance(key, str):
        fields = _OBJECT.decode(json)
        fields[key] = _put(fields.get(key, NULL), tuple(rest), value)
        return Raw(_encode(fields))
    items = _ARRAY.decode(json)
    items[key] = _put(items[key], tuple(rest), value)
    return Raw(_encode(items))


def _shown(value: Raw) -> str:
    """A value inside a text: a text as it is, anything else as JSON."""
    decoded = _decode(value)
    return decoded if isinstance(decoded, str) else bytes(value).decode()
