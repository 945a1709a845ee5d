"""Placeholder extraction: split values into known JSON and references to fill in at run time."""

from __future__ import annotations

from typing import Any

from tickwork.core.arguments.unstorable import DEPTH_LIMIT, brief, field_names
from tickwork.core.blob_ref import Path
from tickwork.core.dag.graph import Placeholder
from tickwork.dag_builder.references import ComparedReference, Reference, TraceOrigin, has_reference, owned
from tickwork.dag_builder.steps import DagRef, GroupRef

_NO_PARTS = frozenset({int, float, bool, type(None)})


class MappedElement:
    """Marks an argument as mapped: each job receives one element of it."""

    __slots__ = ("over",)

    def __init__(self, over: Any) -> None:
        self.over = over


class PlaceholderExtractor:
    """Cuts references out of values and records where they were."""

    __slots__ = ("_origin", "holes")

    def __init__(self, origin: TraceOrigin) -> None:
        self._origin = origin
        self.holes: list[Placeholder] = []

    def cut(self, value: Any, where: Path) -> Any:
        """Return the value with None in place of each reference. Raises InvalidDag where a reference is not allowed."""
        kind = type(value)
        if kind in _NO_PARTS or len(where) > DEPTH_LIMIT + 1:  # values nested deeper are refused when they are encoded
            return value
        if kind is str:
            return self._text(value, where)
        if isinstance(value, Reference):
            self.holes.append(Placeholder(where, owned(self._origin, value)._value))
            return None
        if isinstance(value, DagRef):
            return self.cut(owned(self._origin, value)._whole, where)
        if isinstance(value, MappedElement):
            raise self._origin.refusal("what is mapped goes to a parameter of its own, not to *args or into a value")
        if isinstance(value, GroupRef | ComparedReference):
            raise self._origin.refusal(f"{value!r} is no value that a task could be given")
        if isinstance(value, list | tuple):
            return self._list(value, where)
        if isinstance(value, dict):
            return self._dict(value, where)
        self._refuse_inside(value, where)
        return value

    def _text(self, value: str, where: Path) -> str | None:
        """Return a text; None, and record a placeholder, if it contains references."""
        text = self._origin.read(value)
        if isinstance(text, str):
            return text
        self.holes.append(Placeholder(where, text))
        return None

    def _list(self, value: list[Any] | tuple[Any, ...], where: Path) -> Any:
        before = len(self.holes)
        left = [self.cut(item, (*where, place)) for place, item in enumerate(value)]
        return value if len(self.holes) == before else left

    def _dict(self, value: dict[Any, Any], where: Path) -> Any:
        """Return the dict with its references cut out.

        Raises InvalidDag for a reference as a key, and for keys that JSON or Tickwork's `$` notation cannot hold.
        """
        before = len(self.holes)
        left = {}
        for key, item in value.items():
            if isinstance(key, str) and has_reference(key):
                raise self._origin.refusal("a key of a dict is a reference. Build that dict in a task")
            left[key] = self.cut(item, (*where, key))
        if len(self.holes) == before:
            return value
        for key in value:
            if not isinstance(key, str) or (len(value) == 1 and key.startswith("$")):
                raise self._origin.refusal(f"a dict with the key {brief(key)} cannot hold a reference. Use another key")
        return left

    def _refuse_inside(self, value: Any, where: Path) -> None:
        """Raise InvalidDag for references inside of a set, dataclass or model: it has no JSON before it is complete."""
        if isinstance(value, set | frozenset):
            parts = list(value)
        else:
            parts = [getattr(value, name, None) for name in field_names(type(value))]
        before = len(self.holes)
        for part in parts:
            self.cut(part, (*where, ""))
        if len(self.holes) > before:
            kind = type(value).__name__
            raise self._origin.refusal(
                f"a reference stands inside of a {kind}. It may in lists and dicts: pass one, and make a {kind} there"
            )
