"""Round-trip check: compare a value with what its stored form decodes to, before it is queued.

The fast path is for positional ints, strings and bools that match their hints exactly. JSON returns such values
unchanged, so the encoded bytes need not be decoded again. All that a store may refuse in them can be checked without
walking through containers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from tickwork.core.arguments.unstorable import INT_MAX, INT_MIN, field_names, flaw_of, suffix


class Difference(NamedTuple):
    """The place where a value and its decoded form differ."""

    given: Any
    back: Any
    path: str = ""


def difference(given: Any, back: Any) -> Difference | None:
    """Return the first place where `back` differs from `given` or cannot be stored; None if there is none.

    Equal values of the same type are the same. A hint may accept more: an int for a float, a tuple for a list, a
    frozenset for a set, a subclass of a plain type for that type. A dataclass or model must have exactly the type of
    its hint, because a subclass would lose its fields.
    """
    kind = type(back)
    if kind in _LEAVES:
        same = (type(given) is kind or _is_kin(given, back)) and _is_equal(given, back)
        return None if same and not (kind in _WATCHED and flaw_of(given)) else Difference(given, back)
    if not _is_kin(given, back):
        return Difference(given, back)
    # Members of a set and keys of a dict cannot be paired for comparison. Comparing each with itself finds values that
    # cannot be stored.
    if isinstance(back, set | frozenset | dict) and any(type(it) is not str and difference(it, it) for it in given):
        return Difference(given, back)
    return _difference_inside(given, back)


def _difference_inside(given: Any, back: Any) -> Difference | None:
    """Return the first difference between the parts of two containers."""
    pairs = _pairs(given, back)
    if pairs is None:
        return None if given == back else Difference(given, back)
    for key, ours, theirs in pairs:
        if found := difference(ours, theirs):
            return found._replace(path=suffix(key) + found.path)
    return None


def _pairs(given: Any, back: Any) -> Iterable[tuple[Any, Any, Any]] | None:
    """Return the parts of two containers in pairs, or None if the containers can only be compared as a whole."""
    if isinstance(back, dict):
        return None if given.keys() != back.keys() else ((key, given[key], item) for key, item in back.items())
    if isinstance(back, list | tuple):
        return None if len(given) != len(back) else zip(range(len(back)), given, back, strict=True)
    names = field_names(type(back))
    return ((name, getattr(given, name), getattr(back, name)) for name in names) if names else None


def _is_equal(given: Any, back: Any) -> bool:
    if type(back) is datetime and given.tzinfo and back.tzinfo:
        return not (given - back)  # datetimes in two zones are never == within a repeated hour (PEP 495)
    return bool(given == back)


def _is_kin(given: Any, back: Any) -> bool:
    kind = type(back)
    if field_names(kind):
        return type(given) is kind
    return isinstance(given, (kind, _TAKEN_FOR.get(kind, kind)))


_LEAVES = frozenset({str, int, float, bool, type(None), bytes, datetime, date, time, timedelta, UUID, Decimal})
_WATCHED = frozenset({int, datetime, time, Decimal})  # invalid floats and texts fail before they are decoded
_TAKEN_FOR: dict[type, type] = {float: int, list: tuple, set: frozenset}


PLAIN = (int, str, bool)


class FastEncoder:
    """Encodes calls of a function whose positional parameters all have types in PLAIN."""

    def __init__(self, kinds: Mapping[str, type]) -> None:
        names = {f"p{index}": name for index, name in enumerate(kinds)}  # a field of a Struct cannot have every name
        self._kinds = tuple(kinds.values())
        self._struct = msgspec.defstruct("Plain", [(field, Any) for field in names], rename=names, gc=False)
        self._encode = msgspec.json.Encoder().encode

    def written(self, args: tuple[Any, ...]) -> bytes | None:
        """Return the arguments as JSON, or None if they need the full check."""
        if tuple(map(type, args)) != self._kinds:
            return None
        for value in args:
            kind = type(value)
            if (kind is int and not INT_MIN <= value <= INT_MAX) or (kind is str and "\0" in value):
                return None
        try:
            return self._encode(self._struct(*args))
        except UnicodeEncodeError:  # a lone surrogate
            return None
