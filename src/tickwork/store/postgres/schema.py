"""The schema of a store: its name in the SQL statements, and the version of its tables.

The files in sql/ name the schema `tickwork`, which is replaced as plain text. A line `-- include NAME` stands for the
text of another section. Comments are removed: psycopg caches its translation of a statement only while that is shorter
than 4 KB.

Upgrades go forward only, all in one transaction and one at a time. A schema that holds other tables is not touched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

from tickwork.errors import InvalidInput, StoreNotOurs
from tickwork.store.base import SchemaStatus
from tickwork.store.migrate import Migration, migrations, pending, script
from tickwork.store.postgres.connection.connector import UPGRADE_S
from tickwork.store.postgres.connection.error_mapping import not_migrated
from tickwork.store.postgres.connection.libpq_connection import PgConnection
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
    """Return the SQL with the schema `tickwork` replaced by another schema."""
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


class Schema:
    """The tables of one schema of a database."""

    def __init__(self, name: str, where: str) -> None:
        self.name = checked_schema(name)
        self._where = f"{where} (schema {name})"
        self._known = migrations("tickwork.store.postgres")

    def check(self, connection: PgConnection) -> None:
        """Raise SchemaMismatch unless the tables are of exactly this version."""
        missing = pending(self._known, self._applied(connection), self._where)
        if missing:
            raise not_migrated(self._where, f"migration {missing[0].number} ({missing[0].name}) was not applied")

    def status(self, connection: PgConnection) -> SchemaStatus:
        """Return which migrations are applied and which are missing, with their SQL for this schema."""
        applied = self._applied(connection)
        missing = pending(self._known, applied, self._where)
        known = [replace(migration, sql=in_schema(migration.sql, self.name)) for migration in self._known]
        numbers = {migration.number for migration in missing}
        return SchemaStatus(
            applied=tuple(migration for migration in known if migration.number not in numbers),
            pending=tuple(migration for migration in known if migration.number in numbers),
        )

    def upgrade(self, connection: PgConnection) -> list[Migration]:
        """Apply the missing migrations and return them. Concurrent upgrades wait, and then find none missing."""
        if not pending(self._known, self._applied(connection), self._where):
            return []
        with connection.within(UPGRADE_S), connection.transaction():
            connection.execute("SET LOCAL lock_timeout = '5s'; SET LOCAL statement_timeout = 0")
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"tickwork {self.name}",))
            self._prepare(connection)
            missing = pending(self._known, self._applied(connection), self._where)
            for migration in missing:
                self._apply(connection, migration)
        return missing

    def _prepare(self, connection: PgConnection) -> None:
        """Create the schema if it is missing.

        CREATE SCHEMA IF NOT EXISTS would need a privilege that many roles lack.
        """
        if not self._ask(connection, _HAS_SCHEMA):
            connection.execute(f'CREATE SCHEMA "{self.name}"'.encode())
        elif not self._ask(connection, _IS_OURS) and self._ask(connection, _HAS_TABLES):
            raise StoreNotOurs(
                f"{self._where} holds tables of another program. Nothing was touched. Choose another schema: "
                f"Tickwork(url, schema='jobs')."
            )
        connection.execute(in_schema(_MIGRATIONS, self.name).encode())

    def _apply(self, connection: PgConnection, migration: Migration) -> None:
        """Apply a migration and record it."""
        connection.execute(in_schema(migration.sql, self.name).encode())
        row = (migration.number, migration.name, migration.checksum)
        connection.execute(in_schema(_APPLY, self.name).encode(), row)

    def _applied(self, connection: PgConnection) -> dict[int, str]:
        """Return the checksums of the applied migrations by number; none if the schema has no Tickwork tables."""
        if not self._ask(connection, _IS_OURS):
            return {}
        return dict(connection.execute(in_schema(_APPLIED, self.name).encode()).fetchall())

    def _ask(self, connection: PgConnection, question: str) -> bool:
        """Return whether a query about this schema finds a row."""
        return connection.execute(question.encode(), (self.name,)).fetchone() is not None


def schema_script(name: str) -> str:
    """Return one SQL transaction that creates the tables of a schema, to be applied by hand."""
    prepare = f'CREATE SCHEMA IF NOT EXISTS "{checked_schema(name)}";\n\n{_MIGRATIONS}'
    return in_schema(script(prepare, migrations("tickwork.store.postgres"), "tickwork.migrations"), name)


# Query the catalogue, not to_regclass(): that answers from a cache, which may not know a table just created by another
# process.
_HAS_SCHEMA = "SELECT 1 FROM pg_namespace WHERE nspname = %s"
_HAS_TABLES = "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s"
_IS_OURS = f"{_HAS_TABLES} AND c.relname = 'migrations'"

_MIGRATIONS = """CREATE TABLE IF NOT EXISTS tickwork.migrations (
    number integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
)"""
_APPLIED = "SELECT number, checksum FROM tickwork.migrations"
_APPLY = "INSERT INTO tickwork.migrations (number, name, checksum) VALUES (%s, %s, %s)"
