"""Find values that no store can hold, and their place inside a larger value.

The rules are the strictest of both stores and of JSON: finite numbers, integers within 64 bits, no NUL characters, no
lone surrogates, aware datetimes, at most 64 levels. The search starts only after encoding has failed, so valid values
cost nothing.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, time
from decimal import Decimal
from functools import lru_cache
from typing import Any

from tickwork.errors import InvalidInput, InvalidPayload

DEPTH_LIMIT = 64
INT_MIN, INT_MAX = -(2**63), 2**63 - 1


class Flaw(Exception):
    """Why a value cannot be stored, and which part of it.

    Raised as InvalidPayload once the owner of the value is known.
    """

    def __init__(self, reason: str, path: str = "$") -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path

    def about(self, what: str, note: str = "") -> InvalidPayload:
        path = self.path if len(self.path) <= 80 else f"{self.path[:80]}…"
        where = "" if path == "$" else f"at {path}, "
        return InvalidPayload(f"{what} cannot be stored: {where}{self.reason}.{note}")


class UnstorablePart(ValueError):
    """Raised for the part of a value that cannot be stored.

    Its path is found later, by `explain`, so that valid values cost nothing.
    """

    def __init__(self, reason: str, culprit: object) -> None:
        super().__init__(reason)
        self.culprit = culprit


def explain(error: Exception, root: Any) -> Flaw:
    """Return the Flaw in `root` for the exception `error` that packing or encoding raised."""
    if isinstance(error, UnstorablePart):
        places = (path for path, _, node in _walk(root) if node is error.culprit)
        return Flaw(str(error), next(places, "$"))
    return find_flaw(root) or Flaw(str(error))


def find_flaw(root: Any) -> Flaw | None:
    """Return the first value inside `root` that no store may hold, with its path; None if there is none."""
    for path, depth, node in _walk(root):
        if depth > DEPTH_LIMIT:
            deep = f"values are nested more than {DEPTH_LIMIT} levels deep; flatten them, or store them elsewhere"
            return Flaw(deep, path)
        if reason := flaw_of(node):
            return Flaw(reason, path)
    return None


def flaw_of(value: Any) -> str | None:
    """Return why a value itself, apart from its parts, cannot be stored, and what to do; None if it can be stored."""
    match value:
        case int() if not INT_MIN <= value <= INT_MAX:
            return "an integer does not fit into 64 bits; pass it as a string"
        case float() if not math.isfinite(value):
            return "NaN and Infinity are not JSON; pass None or a string"
        case Decimal() if not value.is_finite():
            return "NaN and Infinity are not JSON; pass None or a string"
        case datetime() if value.utcoffset() is None:
            return f"the datetime {value} has no zone; give it one, such as tzinfo=timezone.utc"
        case time() if value.tzinfo and value.utcoffset() is None:
            return f"the time {value} is in a zone whose offset depends on the day; pass a datetime, or drop the zone"
        case str():
            return _flaw_of_text(value)
    return None


def check_text(what: str, text: str | None) -> None:
    """Raise InvalidInput, which names `what`, for a text that not every store can hold."""
    reason = None if text is None else _flaw_of_text(text)
    if reason is not None:
        raise InvalidInput(f"{what}: {reason}. Nothing was stored.")


def _flaw_of_text(text: str) -> str | None:
    if "\0" in text:
        return f"the text {brief(text)} holds a NUL character, which PostgreSQL cannot store; remove it"
    try:
        text.encode()
    except UnicodeEncodeError:
        return f"the text {brief(text)} holds a lone surrogate, which is not Unicode text; pass bytes, or clean it"
    return None


def sound(value: Any) -> Any:
    """Return a value if it can be stored, apart from its parts. Raises UnstorablePart."""
    if reason := flaw_of(value):
        raise UnstorablePart(reason, value)
    return value


def brief(value: Any) -> str:
    """Return a short printable form of `value` for an error message."""
    try:
        text = ascii(value)
    except Exception:  # a user's repr can fail, and so can an int of thousands of digits
        return "…"
    return text if len(text) <= 60 else text[:60] + "…"


def _walk(root: Any) -> Iterator[tuple[str, int, Any]]:
    """Yield each value inside `root` with its path and depth.

    Not recursive, because it searches for excessive depth.
    """
    waiting: list[tuple[str, int, Any]] = [("$", 0, root)]
    while waiting:
        path, depth, node = waiting.pop()
        children = _children(node)
        yield path, depth + (children is not None), node
        if depth > DEPTH_LIMIT or children is None:
            continue
        inside = [(path + suffix(key), key, child) for key, child in children]
        yield from ((place, depth, key) for place, key, _ in inside if isinstance(node, dict))
        waiting.extend((place, depth + 1, child) for place, _, child in reversed(inside))


def _children(node: Any) -> Iterable[tuple[Any, Any]] | None:
    """Return the parts of a container by index, key or name, or None for a value without parts."""
    match node:
        case dict():
            return node.items()
        case list() | tuple() | set() | frozenset():
            return enumerate(node)
    names = field_names(type(node))
    return ((name, getattr(node, name)) for name in names) if names else None


def suffix(key: Any) -> str:
    """Return one step of a path as text: `.name`, `[3]` or `["a key"]`."""
    if isinstance(key, str):
        return f".{key}" if key.isidentifier() else f"[{json.dumps(key)}]"
    return f"[{brief(key)}]"


def _read_field_names(kind: type) -> tuple[str, ...]:
    """Return the field names of a dataclass, msgspec Struct, pydantic model or attrs class; else an empty tuple."""
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    if hasattr(kind, "__attrs_attrs__"):
        return tuple(attribute.name for attribute in kind.__attrs_attrs__)
    return tuple(getattr(kind, "__struct_fields__", None) or getattr(kind, "model_fields", None) or ())


field_names: Callable[[type], tuple[str, ...]] = lru_cache(maxsize=1024)(_read_field_names)
