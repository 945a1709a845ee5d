"""What goes into the holes of a step's arguments: parameters and elements when it is released, results when it is
claimed.

Values stay JSON as it was stored, and are cut out and put in without being read further than a path leads, so that
nothing is changed on its way from one step to the next. A result that is in a blob stays there: a reference to it, or
to a part of it, is put in. Only what a text, a condition or a map has to look at is loaded here.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from datetime import datetime
from itertools import product as all_pairs
from math import prod
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from tickwork.core.blob_ref import (
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
    Comparison,
    Condition,
    Expression,
    Item,
    JsonTemplate,
    Last,
    Map,
    Param,
    Placeholder,
    Result,
    RunValue,
    Text,
    steps_in,
)
from tickwork.core.occurrence import Occurrence, decode_tick
from tickwork.errors import BlobError

MOST_INSTANCES = 100_000
OF_RUN = "$run"  # what a run knows of itself, among the values of its parameters
Values = Mapping[str, Raw]  # JSON by name: of parameters, of elements, of results by step

_COMPARISONS: dict[Comparison, Callable[[Any, Any], Any]] = {
    "succeeded": lambda value, other: True,
    "true": lambda value, other: value,
    "false": lambda value, other: not value,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda value, other: value in other,
    "not in": lambda value, other: value not in other,
}
_decode = msgspec.json.decode
_encode = msgspec.json.encode
_HOLES = msgspec.json.Decoder(tuple[Placeholder, ...])
_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_ARRAY = msgspec.json.Decoder(list[Raw])


def no_blobs(reference: BlobRef) -> bytes:
    """Stands where nothing is in blobs."""
    raise BlobError(f"blob {reference.key} cannot be read here.")


class StepResults(NamedTuple):
    """What steps came to: their values, where they have one, who succeeded, and a way to load what is in blobs.

    A mapped step that failed has one, too: a list with null in the place of each instance that did not succeed.
    """

    values: Values
    succeeded: AbstractSet[str]
    load: Load = no_blobs


NO_RESULTS = StepResults({}, frozenset())


def run_values(tick: str | None, due_at: datetime) -> Raw:
    """What a run knows of itself, as JSON. Without a schedule it is the instant at which it was due, and no period."""
    known = Occurrence("", due_at) if tick is None else decode_tick(tick)
    start, end = known.interval or (None, None)
    return Raw(
        _encode(
            {
                "scheduled_for": known.scheduled_for,
                "schedule": known.schedule or None,
                "is_catchup": known.is_catchup,
                "interval": {"from": start, "to": end},
            }
        )
    )


def encode_holes(holes: Iterable[Placeholder]) -> bytes:
    return _encode(tuple(holes))


def decode_holes(data: bytes | str) -> tuple[Placeholder, ...]:
    return _HOLES.decode(data)


def wanted_by(holes: Iterable[Placeholder]) -> set[str]:
    """The steps whose results are to be put in."""
    return {step for hole in holes for step in steps_in(hole.value)}


def fill(json: Raw | bytes, holes: Iterable[Placeholder], value_of: Callable[[Expression], Raw]) -> bytes:
    """JSON with its holes filled. Raises Unfillable."""
    filled = Raw(json)
    for hole in holes:
        filled = _put(filled, hole.where, value_of(hole.value))
    return bytes(filled)


def partly_filled(hole: Placeholder, params: Values, items: Values, load: Load) -> Placeholder:
    """A hole that results go into, with all else that its text has in it. Raises Unfillable."""
    if not isinstance(hole.value, Text):
        return hole
    known = (Param, RunValue, Item)
    parts = [
        _shown(value_of(part, params, items, NO_RESULTS), load) if isinstance(part, known) else part
        for part in hole.value.parts
    ]
    return Placeholder(hole.where, Text(tuple(parts)))


def value_of(expression: Expression, params: Values, items: Values, results: StepResults) -> Raw:
    """What an expression comes to. Raises Unfillable."""
    match expression:
        case Param(name, path):
            return part_of(params.get(name, NULL), path, f"parameter {name!r}")
        case RunValue(path):
            return part_of(params.get(OF_RUN, NULL), path, "the run")
        case Item(name, path):
            return part_of(items[name], path, f"the element for {name!r}")
        case Result(step, path):
            return part_of(results.values.get(step, NULL), path, f"the result of step {step!r}")
        case Last(steps, path):
            last = next((step for step in reversed(steps) if step in results.succeeded), None)
            return NULL if last is None else part_of(results.values[last], path, f"the result of step {last!r}")
        case Text(parts):
            values = (one if isinstance(one, str) else value_of(one, params, items, results) for one in parts)
            return Raw(_encode("".join(one if isinstance(one, str) else _shown(one, results.load) for one in values)))


def filled(template: JsonTemplate, params: Values, results: StepResults) -> bytes:
    """A template with all of its holes filled, outside of any map."""
    return fill(template.json, template.holes, lambda one: value_of(one, params, {}, results))


def holds(condition: Condition, params: Values, results: StepResults) -> bool:
    """Whether a condition holds. Nothing does of steps that did not succeed, and what cannot be compared is not less,
    equal, or contained. Raises Unreadable for what is in a blob that cannot be read: nobody knows then.
    """
    steps = () if isinstance(condition.value, Text) else tuple(steps_in(condition.value))
    if steps and results.succeeded.isdisjoint(steps):
        return False
    try:
        value = _decode(read(value_of(condition.value, params, {}, results), results.load))
    except Unreadable:
        raise
    except Unfillable:
        value = None
    try:
        return bool(_COMPARISONS[condition.is_](value, condition.other))
    except TypeError:
        return condition.is_ == "not in"


def elements(map: Map, params: Values, results: StepResults) -> list[dict[str, Raw]]:
    """For each instance its element of each mapped parameter. Raises Unfillable for what is no list, for lists that are
    to go side by side and differ in length, and for too many instances.
    """
    lists = {name: _elements_of(name, over, params, results) for name, over in map.over.items()}
    lengths = {name: len(values) for name, values in lists.items()}
    count = prod(lengths.values()) if map.product else max(lengths.values(), default=0)
    if count > MOST_INSTANCES:
        raise Unfillable(f"it is mapped over {count:,} elements, and {MOST_INSTANCES:,} are the most")
    if map.product:
        return [dict(zip(lists, row, strict=True)) for row in all_pairs(*lists.values())]
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name!r} has {length:,}" for name, length in lengths.items())
        raise Unfillable(f"lists that are mapped side by side must be of one length, and {told} elements")
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


def _elements_of(name: str, over: Expression | list[Any], params: Values, results: StepResults) -> list[Raw]:
    value = Raw(_encode(over)) if isinstance(over, list) else value_of(over, params, {}, results)
    with _telling_what_is_lost():
        value = opened(value, results.load)  # its elements may be references, and stay so
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


def _shown(value: Raw, load: Load) -> str:
    """A value inside a text: a text as it is, anything else as JSON."""
    found = read(value, load)
    decoded = _decode(found)
    return decoded if isinstance(decoded, str) else bytes(found).decode()
