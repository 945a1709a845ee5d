"""Schema migrations: numbered SQL files that are applied in order and never undone, and which of them are pending.

A store records each applied migration with a checksum, so a file that was edited after its release is noticed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files

from tickwork.errors import SchemaMismatch


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema, from version `number - 1` to `number`."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """Return a short hash of the SQL."""
        return hashlib.sha256(self.sql.encode()).hexdigest()[:16]


def migrations(package: str) -> list[Migration]:
    """Return every migration of a store, in order."""
    found = []
    for file in files(package).joinpath("migrations").iterdir():
        if file.name.endswith(".sql"):
            number, _, name = file.name.removesuffix(".sql").partition("_")
            found.append(Migration(int(number), name, file.read_text()))
    return sorted(found, key=lambda migration: migration.number)


def pending(known: list[Migration], applied: Mapping[int, str], where: str) -> list[Migration]:
    """Return the migrations that are not applied yet.

    Raise SchemaMismatch if the store is newer than this version, or has applied another text of a migration.
    """
    newest = known[-1].number
    if applied and max(applied) > newest:
        raise SchemaMismatch(
            f"{where} has schema version {max(applied)}, and this version of Tickwork knows versions up to {newest}. "
            f"Nothing was touched. Upgrade Tickwork on this machine to the version that the others run."
        )
    for migration in known:
        if applied.get(migration.number, migration.checksum) != migration.checksum:
            raise SchemaMismatch(
                f"{where} applied another text of migration {migration.number} ({migration.name}) than this version of "
                f"Tickwork ships. Nothing was touched. Was it made by a development version?"
            )
    return [migration for migration in known if migration.number not in applied]


def script(prepare: str, steps: Iterable[Migration], table: str) -> str:
    """Return one SQL transaction that creates the whole schema, to be applied by hand.

    `prepare` creates the `table` in which each migration is recorded.
    """
    parts = ["BEGIN;", f"{prepare};"]
    for step in steps:
        row = f"({step.number}, '{step.name}', '{step.checksum}')"
        parts += [step.sql.strip(), f"INSERT INTO {table} (number, name, checksum) VALUES {row};"]  # noqa: S608 - all of it is ours
    return "\n\n".join([*parts, "COMMIT;"])
