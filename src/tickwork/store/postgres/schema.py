"""Check and upgrade the version of Tickwork's tables in a PostgreSQL database.

Upgrades go forward only, all in one transaction and one at a time. A schema that holds other tables is not touched.
"""

from __future__ import annotations

from dataclasses import replace

from tickwork.errors import StoreNotOurs
from tickwork.store.base import SchemaStatus
from tickwork.store.migrate import Migration, migrations, pending, script
from tickwork.store.postgres.connection.connector import UPGRADE_S
from tickwork.store.postgres.connection.error_mapping import not_migrated
from tickwork.store.postgres.connection.libpq_connection import PgConnection
from tickwork.store.postgres.sql_statements import checked_schema, in_schema


class Schema:
    """The tables of one schema of a database."""

    def __init__(self, name: str, where: str) -> None:
        self.name = name
        self._where = f"{where} (schema {name})"
        self._known = migrations("tickwork.store.postgres")

    def check(self, connection: PgConnection) -> None:
        """Raise SchemaMismatch unless the tables are of exactly this version."""
        missing = pending(self._known, self._applied(connection), self._where)
        if missing:
            raise not_migrated(self._where, f"migration {missing[0].number} ({missing[0].name}) was not applied")

    def status(self, connection: PgConnection) -> SchemaStatus:
        applied = self._applied(connection)
        missing = pending(self._known, applied, self._where)
        known = [replace(migration, sql=in_schema(migration.sql, self.name)) for migration in self._known]
        numbers = {migration.number for migration in missing}
        return SchemaStatus(
            applied=tuple(migration for migration in known if migration.number not in numbers),
            pending=tuple(migration for migration in known if migration.number in numbers),
        )

    def upgrade(self, connection: PgConnection) -> list[Migration]:
        """Apply the missing migrations and return them. Concurrent upgrades wait, and then find nothing to do."""
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
        connection.execute(in_schema(migration.sql, self.name).encode())
        row = (migration.number, migration.name, migration.checksum)
        connection.execute(in_schema(_APPLY, self.name).encode(), row)

    def _applied(self, connection: PgConnection) -> dict[int, str]:
        if not self._ask(connection, _IS_OURS):
            return {}
        return dict(connection.execute(in_schema(_APPLIED, self.name).encode()).fetchall())

    def _ask(self, connection: PgConnection, question: str) -> bool:
        return connection.execute(question.encode(), (self.name,)).fetchone() is not None


def schema_script(name: str) -> str:
    """Return the tables of a schema as SQL, to be applied by hand."""
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
