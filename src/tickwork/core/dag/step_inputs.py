"""Fill the placeholders in a step's arguments.

Parameters and elements are filled in when the step is released, results when its job is claimed. Values stay JSON as it
was stored: they are extracted and inserted without decoding them deeper than a path leads, so a value does not change
on its way from one step to the next. A result in a blob stays there: a reference to it, or to a part of it, is
inserted. Only a value that a text, a condition or a map must read is loaded here.
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
from tickwork.core.occurrence import Occurrence, decode_occurrence
from tickwork.errors import BlobError

MOST_INSTANCES = 100_000
OF_RUN = "$run"  # the key of the run's own values among the values of its parameters
Values = Mapping[str, Raw]  # JSON values by name: of parameters, of elements, of results by step

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
    """Raise an exception instead of loading a blob. For values that contain no references."""
    raise BlobError(f"blob {reference.key} cannot be read here.")


class StepResults(NamedTuple):
    """The results of steps: their values, the steps that succeeded, and a function that loads blobs.

    A mapped step that failed has a value, too: a list with null in the place of each instance that did not succeed.
    """

    values: Values
    succeeded: AbstractSet[str]
    load: Load = no_blobs


NO_RESULTS = StepResults({}, frozenset())


def run_values(occurrence: str | None, due_at: datetime) -> Raw:
    """Return the run's own values as JSON. Without a schedule: the instant at which it was due, and no interval."""
    known = Occurrence("", due_at) if occurrence is None else decode_occurrence(occurrence)
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
    """Return the steps whose results the placeholders need."""
    return {step for hole in holes for step in steps_in(hole.value)}


def fill(json: Raw | bytes, holes: Iterable[Placeholder], value_of: Callable[[Expression], Raw]) -> bytes:
    """Return JSON with its placeholders filled. Raises Unfillable."""
    filled = Raw(json)
    for hole in holes:
        filled = _put(filled, hole.where, value_of(hole.value))
    return bytes(filled)


def partly_filled(hole: Placeholder, params: Values, items: Values, load: Load) -> Placeholder:
    """Return a placeholder that needs results, with all other values of its text filled in. Raises Unfillable."""
    if not isinstance(hole.value, Text):
        return hole
    known = (Param, RunValue, Item)
    parts = [
        _shown(value_of(part, params, items, NO_RESULTS), load) if isinstance(part, known) else part
        for part in hole.value.parts
    ]
    return Placeholder(hole.where, Text(tuple(parts)))


def value_of(expression: Expression, params: Values, items: Values, results: StepResults) -> Raw:
    """Return the value of an expression. Raises Unfillable."""
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
    """Return a template with all placeholders filled. It may not refer to elements of a map."""
    return fill(template.json, template.holes, lambda one: value_of(one, params, {}, results))


def holds(condition: Condition, params: Values, results: StepResults) -> bool:
    """Return whether a condition holds.

    No condition holds on a step that did not succeed. A value that cannot be compared with the other is not less
    than, equal to or contained in it. Raises Unreadable if a blob cannot be read, because the answer is not known
    then.
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
    """Return for each instance its element of each mapped parameter.

    Raises Unfillable for a value that is not a list, for lists of different lengths without `product`, and for too many
    instances.
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
    """Return the elements of a mapped parameter; null has none. Raises Unfillable for a value that is not a list."""
    value = Raw(_encode(over)) if isinstance(over, list) else value_of(over, params, {}, results)
    with _telling_what_is_lost():
        value = opened(value, results.load)  # the elements may be references, and stay references
    if is_null(value):
        return []
    try:
        return _ARRAY.decode(value)
    except msgspec.ValidationError:
        raise Unfillable(f"{name!r} is mapped over {brief(value)}, which is not a list") from None


def read(value: Raw, load: Load) -> Raw:
    """Return a value with all its references replaced by what they refer to. Raises Unfillable."""
    with _telling_what_is_lost():
        return Raw(whole(bytes(value), load))


@contextmanager
def _telling_what_is_lost() -> Iterator[None]:
    """Convert a BlobError of the block into Unreadable."""
    try:
        yield
    except BlobError as error:
        raise Unreadable(str(error).removesuffix(".")) from None


def _put(json: Raw, where: Path, value: Raw) -> Raw:
    """Return JSON with a value inserted at a path."""
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
    """Return a value for insertion into a text: a string unchanged, any other value as JSON."""
    found = read(value, load)
    decoded = _decode(found)
    return decoded if isinstance(decoded, str) else bytes(found).decode()
