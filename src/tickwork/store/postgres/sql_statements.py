"""Load the PostgreSQL statements of sql/, with the schema's name inserted and shared parts included.

A line `-- include NAME` stands for the text of another section. Comments are removed: psycopg caches its translation of
a statement only while that is shorter than 4 KB.
"""

from __future__ import annotations

import re
from functools import cache

from tickwork.errors import InvalidInput
from tickwork.store.sql_files import load_statements

_INCLUDE = re.compile(r"^[ \t]*-- include (\w+)[ \t]*$", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*--.*$", re.MULTILINE)
_SCHEMA = re.compile(r"\btickwork\.(?=[a-z])")
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
    return _SCHEMA.sub(f'"{schema}".', sql)


@cache
def statements(schema: str) -> dict[str, str]:
    """Return every statement of the store by name, ready to run on a schema."""
    raw = load_statements("tickwork.store.postgres")

    def whole(text: str) -> str:
        return _INCLUDE.sub(lambda found: whole(raw[found[1]]), text)

    return {name: _compact(in_schema(whole(text), schema)) for name, text in raw.items()}


def _compact(sql: str) -> str:
    return " ".join(_COMMENT.sub("", sql).split())
