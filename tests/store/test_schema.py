"""The tables: made on request, never touched if they are too new, too old, or belong to another program."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.store.builders import a_job, claim, insert_one
from tests.store.conftest import OpensStore
from tests.store.hammer import at_once
from tickwork.errors import InvalidInput, SchemaMismatch, StoreNotOurs
from tickwork.store import migrate
from tickwork.store.base import Store
from tickwork.store.postgres import PostgresStore
from tickwork.store.sqlite import SqliteStore

EXPECTED = [(one.number, one.name) for one in migrate.migrations("tickwork.store.sqlite")]
NUMBERS = [number for number, _ in EXPECTED]

OpensPostgres = Callable[..., PostgresStore]


@pytest.fixture
def schema(own_schema: str) -> str:
    return own_schema


def test_a_store_knows_which_migrations_it_has(store: Store) -> None:
    insert_one(store)
    status = store.schema_status()
    assert [(migration.number, migration.name) for migration in status.applied] == EXPECTED
    assert EXPECTED[0] == (1, "baseline")
    assert status.pending == ()
    assert "CREATE TABLE" in status.applied[0].sql


def test_an_upgrade_of_a_current_store_does_nothing(store: Store) -> None:
    insert_one(store)
    assert store.upgrade() == store.upgrade() == []
    assert len(claim(store)) == 1


def test_a_store_opened_twice_at_once_is_made_once(open_store: OpensStore) -> None:
    first, second = open_store(), open_store()
    insert_one(first)
    assert len(claim(second)) == 1


def newer(store: Store) -> None:
    """Make a store look as if a later version had upgraded it."""
    table = "tickwork_migrations" if isinstance(store, SqliteStore) else f'"{_schema(store)}".migrations'
    with store.connection() as tx:
        tx.execute(f"INSERT INTO {table} (number, name, checksum) VALUES (99, 'future', 'x')")
    store.close()


def _schema(store: Store) -> str:
    assert isinstance(store, PostgresStore)
    return store.schema.name


def test_a_store_that_is_too_new_is_left_alone(open_store: OpensStore) -> None:
    store = open_store()
    insert_one(store)
    newer(store)
    with pytest.raises(SchemaMismatch, match=r"version 99.*Nothing was touched"):
        insert_one(open_store())


def test_a_migration_that_was_changed_after_its_release_is_noticed(
    open_store: OpensStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert_one(open_store())
    monkeypatch.setattr(migrate.Migration, "checksum", property(lambda migration: "another"))
    with pytest.raises(SchemaMismatch, match="another text of migration 1"):
        insert_one(open_store())


class TestPostgres:
    def test_nothing_is_opened_before_it_is_needed(self) -> None:
        PostgresStore("postgresql://nobody@127.0.0.1:1/nowhere").close()

    def test_without_tables_it_says_how_to_make_them_and_makes_none(
        self, open_postgres: OpensPostgres, postgres_database: str, schema: str
    ) -> None:
        store = open_postgres(upgrade=False)
        for attempt in (
            lambda: insert_one(store),
            store.now,
            lambda: claim(store),
            lambda: store.connection().__enter__(),
        ):
            with pytest.raises(SchemaMismatch, match="tickwork db upgrade"):
                attempt()
        with psycopg.connect(postgres_database) as connection:
            assert connection.execute("SELECT to_regnamespace(%s)", (schema,)).fetchone() == (None,)
        store.close()

    def test_a_transaction_of_the_callers_own_does_not_find_out_too_late(
        self, open_postgres: OpensPostgres, postgres_database: str
    ) -> None:
        store = open_postgres(upgrade=False)
        with psycopg.connect(postgres_database) as tx:
            with pytest.raises(SchemaMismatch):
                store.insert_jobs([a_job()], tx=tx)
            assert tx.execute("SELECT 1").fetchall() == [(1,)], "the transaction is as good as before"
        store.close()

    def test_status_and_sql_can_be_seen_before_the_upgrade(self, open_postgres: OpensPostgres, schema: str) -> None:
        store = open_postgres(upgrade=False)
        status = store.schema_status()
        assert (status.applied, [migration.number for migration in status.pending]) == ((), NUMBERS)
        assert f'CREATE TABLE "{schema}".jobs' in status.pending[0].sql
        assert [migration.number for migration in store.upgrade()] == NUMBERS
        assert store.schema_status().pending == ()
        assert len(claim(store)) == 0
        store.close()

    def test_the_sql_that_is_shown_is_the_sql_that_is_run(self, open_postgres: OpensPostgres, schema: str) -> None:
        store = open_postgres(upgrade=False)
        shown = "\n".join(migration.sql for migration in store.schema_status().pending)
        with psycopg.connect(store.url) as connection:
            connection.execute(f'CREATE SCHEMA "{schema}_by_hand"'.encode())
            connection.execute(shown.replace(f'"{schema}"', f'"{schema}_by_hand"').encode())
        store.upgrade()
        assert _tables(store.url, schema) == _tables(store.url, f"{schema}_by_hand")
        store.close()

    def test_of_many_who_upgrade_at_once_one_does_it(self, open_postgres: OpensPostgres) -> None:
        stores = [open_postgres(upgrade=False) for _ in range(6)]
        done = at_once(*[store.upgrade for store in stores])
        assert sorted(len(applied) for applied in done) == [0] * 5 + [len(NUMBERS)]
        for store in stores:
            insert_one(store)
            store.close()

    def test_a_failed_upgrade_leaves_nothing(
        self, open_postgres: OpensPostgres, schema: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = open_postgres(upgrade=False)
        broken = migrate.Migration(98, "broken", "CREATE TABLE tickwork.extra (id integer); SELECT no_such_function()")
        # A broken migration exists only in this test.
        monkeypatch.setattr(store.schema, "_known", [*store.schema._known, broken])
        with pytest.raises(Exception, match="no_such_function"):
            store.upgrade()
        assert _tables(store.url, schema) == {}
        store.close()

    def test_the_tables_of_another_program_are_left_alone(self, open_postgres: OpensPostgres, schema: str) -> None:
        store = open_postgres()
        with psycopg.connect(store.url) as connection:
            connection.execute(f'CREATE SCHEMA "{schema}"'.encode())
            connection.execute(f'CREATE TABLE "{schema}".jobs (id integer)'.encode())
        with pytest.raises(StoreNotOurs, match="Nothing was touched"):
            store.upgrade()
        assert list(_tables(store.url, schema)) == ["jobs"]
        store.close()

    def test_an_empty_schema_that_another_role_made_is_used(self, open_postgres: OpensPostgres, schema: str) -> None:
        with psycopg.connect(open_postgres().url) as connection:
            connection.execute(f'CREATE SCHEMA "{schema}"'.encode())
        store = open_postgres()
        insert_one(store)
        store.close()

    def test_stores_in_two_schemas_are_strangers(self, open_postgres: OpensPostgres, schema: str) -> None:
        one, two = open_postgres(), open_postgres(schema=f"{schema}_Other")
        insert_one(one)
        assert claim(two) == []
        assert len(claim(one)) == 1
        one.close()
        two.close()

    @pytest.mark.parametrize("name", ["", "a b", 'a"b', "1a", "pg_mine", "a;b", "a.b", "x" * 64, "information_schema"])
    def test_a_schema_that_would_need_care_is_refused(self, name: str) -> None:
        with pytest.raises(InvalidInput, match="schema"):
            PostgresStore("postgresql://localhost/x", schema=name)


def _tables(url: str, schema: str) -> dict[str, list[str]]:
    """The tables of a schema with their columns, except for what records the migrations."""
    sql = """SELECT table_name, column_name || ' ' || data_type || ' ' || is_nullable FROM information_schema.columns
             WHERE table_schema = %s AND table_name <> 'migrations' ORDER BY table_name, ordinal_position"""
    found: dict[str, list[str]] = {}
    with psycopg.connect(url) as connection:
        for table, column in connection.execute(sql, (schema,)).fetchall():
            found.setdefault(table, []).append(column)
    return found


class TestSqlite:
    def test_the_file_of_another_program_is_left_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "theirs.db"
        _make_theirs(path)
        before = path.read_bytes()
        with pytest.raises(StoreNotOurs, match=r"notes.*Nothing was touched"):
            SqliteStore(str(path))
        assert path.read_bytes() == before
        assert [other.name for other in tmp_path.iterdir()] == ["theirs.db"]

    def test_unless_it_is_shared_on_purpose(self, tmp_path: Path) -> None:
        path = tmp_path / "shared.db"
        _make_theirs(path)
        SqliteStore(str(path), adopt=True).close()
        store = SqliteStore(str(path))
        insert_one(store)
        with store.connection() as tx:
            assert tx.execute("SELECT text FROM notes").fetchall() == [("theirs",)]
        store.close()

    @pytest.mark.parametrize("driver", ["apsw", "sqlite3"])
    @pytest.mark.parametrize("content", [b"hello, world\n" * 1000, b"%PDF-1.7" + bytes(5000)])
    def test_a_file_that_is_no_database_is_left_alone(self, tmp_path: Path, driver: str, content: bytes) -> None:
        path = tmp_path / "notes.txt"
        path.write_bytes(content)
        with pytest.raises(StoreNotOurs, match="not a SQLite database"):
            SqliteStore(str(path), driver=driver)
        assert path.read_bytes() == content

    def test_an_empty_file_becomes_a_store(self, tmp_path: Path) -> None:
        path = tmp_path / "empty.db"
        path.touch()
        store = SqliteStore(str(path))
        insert_one(store)
        store.close()

    def test_a_file_that_is_too_new_is_not_changed_by_a_byte(self, tmp_path: Path) -> None:
        path = tmp_path / "jobs.db"
        newer(SqliteStore(str(path)))
        before = path.read_bytes()
        with pytest.raises(SchemaMismatch):
            SqliteStore(str(path))
        assert path.read_bytes() == before


def _make_theirs(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE notes (text TEXT)")
        connection.execute("INSERT INTO notes VALUES ('theirs')")
    connection.close()
