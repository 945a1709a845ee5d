"""Values inside of values, for the model of runs: parts of them, comparisons, texts."""

from __future__ import annotations

import json
from typing import Any

from tickwork.core.dag.graph import Expression, Last, Result, Text


class NoSuchPart(Exception):
    """A path leads to nothing."""


def results_in(value: Expression) -> bool:
    parts = value.parts if isinstance(value, Text) else [value]
    return any(isinstance(one, Result | Last) for one in parts)


def part(value: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        if value is None:
            return None
        fits = isinstance(value, dict if isinstance(key, str) else list)
        if not fits or (key not in value if isinstance(key, str) else not -len(value) <= key < len(value)):
            raise NoSuchPart
        value = value[key]
    return value


def put(value: Any, where: tuple[str | int, ...], what: Any) -> Any:
    if not where:
        return what
    value[where[0]] = put(value[where[0]], where[1:], what)
    return value


def shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def compare(how: str, value: Any, other: Any) -> bool:
    """As Python does; what cannot be compared is not less, and not contained."""
    ways: dict[str, Any] = {
        "succeeded": lambda: True,
        "true": lambda: value,
        "false": lambda: not value,
        "==": lambda: value == other,
        "!=": lambda: value != other,
        "<": lambda: value < other,
        "<=": lambda: value <= other,
        ">": lambda: value > other,
        ">=": lambda: value >= other,
        "in": lambda: value in other,
        "not in": lambda: value not in other,
    }
    try:
        return bool(ways[how]())
    except TypeError:
        return how == "not in"
