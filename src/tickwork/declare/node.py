"""A node of a YAML or JSON document: its value, path and line, and typed access that raises errors for users."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tickwork.core.yaml_loader import Path, YamlDocument
from tickwork.errors import InvalidInput

_MISSING: Any = object()
_PLAIN_KEY = re.compile(r"[A-Za-z_][\w-]*")


class UnusableNode(InvalidInput):
    """A field of a document is missing or invalid."""

    def __init__(self, field: Node, text: str) -> None:
        super().__init__(text)
        self.field = field


@dataclass(slots=True, eq=False)  # not frozen: a file of ten thousand steps makes a hundred thousand of them
class Node:
    """A value in a document. A missing field is a node, too; `text`, `number` and `flag` then return their default."""

    document: YamlDocument
    path: Path
    value: Any = _MISSING

    @property
    def name(self) -> str:
        """Return the path as text, such as spec.jobTemplate.spec."""
        parts = (
            f"[{one}]" if isinstance(one, int) or not _PLAIN_KEY.fullmatch(one) else f".{one}" for one in self.path
        )
        return "".join(parts).removeprefix(".")

    @property
    def line(self) -> int:
        """Return the line where the node begins; for a missing node, the line of its innermost existing parent."""
        path = self.path
        while path not in self.document.lines:
            path = path[:-1]
        return self.document.lines[path]

    @property
    def is_there(self) -> bool:
        return self.value is not _MISSING and self.value is not None

    def __getitem__(self, key: str) -> Node:
        if self.is_there and not isinstance(self.value, dict):
            raise self.misfit("must have fields")
        found = self.value.get(key, _MISSING) if self.is_there else _MISSING
        return Node(self.document, (*self.path, key), found)

    def has(self, key: str) -> bool:
        """Return whether the node has a field with a value. Faster than `self[key].is_there`."""
        return isinstance(self.value, dict) and self.value.get(key) is not None

    def names(self) -> list[str]:
        return list(self.value) if isinstance(self.value, dict) else []

    def items(self) -> Iterator[Node]:
        """Yield the items of a list; none if the node is missing. Raises UnusableNode if it is not a list."""
        if self.is_there and not isinstance(self.value, list):
            raise self.misfit("must be a list")
        for at, item in enumerate(self.value if self.is_there else []):
            yield Node(self.document, (*self.path, at), item)

    def text(self, default: str | None = None) -> str:
        return str(self._of(str, "a text", default))

    def number(self, default: int | None = None) -> int:
        found = self._of(int, "a whole number, 0 or more", default)
        if isinstance(found, bool) or found < 0:
            raise self.misfit("must be a whole number, 0 or more")
        return int(found)

    def flag(self, default: bool) -> bool:
        return bool(self._of(bool, "true or false", default))

    def _of(self, kind: type, what: str, default: Any) -> Any:
        """Return the value or the default. Raises UnusableNode for another type, or if missing without a default."""
        if not self.is_there:
            if default is None:
                raise UnusableNode(self, f"it is missing; it must be {what}.")
            return default
        if not isinstance(self.value, kind):
            raise self.misfit(f"must be {what}")
        return self.value

    def misfit(self, rule: str) -> UnusableNode:
        """Return the error that the value does not follow a rule, such as "must be a list"."""
        shown = repr(self.value)
        return UnusableNode(self, f"it {rule}, not {shown if len(shown) <= 60 else f'{shown[:57]}...'}.")
