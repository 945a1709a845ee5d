"""Load the PostgreSQL statements of sql/, with the schema's name inserted and shared parts included.

The files name the schema `tickwork`, which is replaced as plain text. A line `-- include NAME` stands for the text of
another section. Comments are removed: psycopg caches its translation of a statement only while that is shorter than
4 KB.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from tickwork.errors import InvalidInput
from tickwork.store.sql_files import load_statements

_INCLUDE = "-- include "
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}")


def checked_schema(schema: str) -> str:
    """Return the schema's name. Raise InvalidInput if it would need quoting, or belongs to PostgreSQL itself."""
    if not _NAME.fullmatch(schema) or schema.lower().startswith("pg_") or schema == "information_schema":
        raise InvalidInput(
            f"schema {schema!r} cannot be used: a name is a letter and then up to 62 letters, digits or underscores, "
            f"and does not begin with pg_."
        )
    return schema


def in_schema(sql: str, schema: str) -> str:
    """Return the SQL with the tables of another schema than `tickwork`."""
    return sql.replace("tickwork.", f'"{schema}".')


@cache
def statements(schema: str) -> dict[str, str]:
    """Return every statement of the store by name, ready to run on a schema."""
    sections = load_statements("tickwork.store.postgres")
    return {name: in_schema(" ".join(_lines(name, sections)), schema) for name in sections}


def _lines(name: str, sections: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a section without comments and indentation, with the included sections in their place."""
    for line in map(str.strip, sections[name].splitlines()):
        if line.startswith(_INCLUDE):
            yield from _lines(line.removeprefix(_INCLUDE), sections)
        elif line and not line.startswith("--"):
            yield " ".join(line.split())
