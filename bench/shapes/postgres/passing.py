"""Pass a batch of rows to one statement: as a JSON document, or as arrays, encoded by psycopg or by this module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of named and typed columns, which a statement reads as a table called `given`."""

    name: str
    columns: tuple[tuple[str, str], ...]

    def source(self, passing: str) -> str:
        """Return the rows as a SQL source for FROM."""
        if passing == "json":
            typed = ", ".join(f"{column} {kind}" for column, kind in self.columns)
            return f"json_to_recordset(%({self.name})s::json) AS given ({typed})"
        arrays = ", ".join(f"%({self.name}_{column})s::{kind}[]" for column, kind in self.columns)
        return f"unnest({arrays}) AS given ({', '.join(column for column, _ in self.columns)})"

    def values(self, passing: str, rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """Return the parameters that contain the rows."""
        names = [column for column, _ in self.columns]
        if passing == "json":
            return {self.name: _encode([dict(zip(names, row, strict=True)) for row in rows]).decode()}
        columns = zip(*rows, strict=True) if rows else ([] for _ in names)
        written = list if passing == "unnest" else literal
        return {f"{self.name}_{name}": written(column) for name, column in zip(names, columns, strict=True)}


def literal(items: Sequence[Any]) -> str:
    """Return an array literal of PostgreSQL."""
    return "{" + ",".join(_quoted(item) if isinstance(item, str) else str(item) for item in items) + "}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", r"\\").replace('"', r"\"") + '"'
