"""tx=: jobs commit with the caller's own data, or not at all, in a transaction of any library that we say we take."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as sqlalchemy_asyncio

from tests.postgres_server import Postgres
from tests.store.builders import (
    HOUR,
    a_job,
    again,
    asking,
    claim,
    claim_one,
    insert_one,
    jobs,
    log,
    running,
    state_of,
    succeeded,
)
from tests.store.conftest import OpensStore
from tickwork.core.job import JobState, NewJob
from tickwork.errors import InvalidInput, LeaseLost, MixedDrivers, StoreError, TickworkError
from tickwork.store.base import Store
from tickwork.store.postgres import PostgresStore
from tickwork.store.postgres.caller_tx.app_connection import LentConnection
from tickwork.store.postgres.caller_tx.same_database import DatabaseIdentity
from tickwork.store.postgres.connection.libpq_connection import PgConnection
from tickwork.store.sqlite import SqliteStore

Work = Callable[[Any], object]


class RolledBack(Exception):
    """Raised in a transaction to have it rolled back."""


def roll_back(store: Store, work: Work) -> None:
    """Do work in a transaction of the app's, and leave it by an error."""

    def fail() -> None:
        with store.connection() as tx:
            work(tx)
            raise RolledBack

    with pytest.raises(RolledBack):
        fail()


class TestAppConnection:
    def test_it_commits_at_the_end_of_the_block(self, store: Store) -> None:
        with store.connection() as tx:
            tx.execute("CREATE TABLE notes (text TEXT)")
            tx.execute("INSERT INTO notes VALUES ('kept')")
            ids = store.insert_jobs([a_job(), a_job(key="k")], tx=tx)
        with store.connection() as tx:
            assert tx.execute("SELECT text FROM notes").fetchall() == [("kept",)]
            tx.execute("DROP TABLE notes")
        assert {job.job_id for job in claim(store)} == set(ids)

    def test_it_rolls_back_on_an_error_which_stays_what_it_was(self, store: Store) -> None:
        job, keyed = a_job(), a_job(key="k")

        def work(tx: Any) -> None:
            tx.execute("CREATE TABLE notes (text TEXT)")
            store.insert_jobs([job, keyed], tx=tx)

        roll_back(store, work)
        assert store.reads.get_jobs([job.id, keyed.id]) == {}
        assert store.reads.find_key("k") is None
        with store.connection() as tx:
            tx.execute("CREATE TABLE notes (text TEXT)")
            tx.execute("DROP TABLE notes")

    def test_the_callers_own_mistakes_come_back_as_the_driver_says_them(self, store: Store, kind: str) -> None:
        wanted = {"sqlite": apsw.Error, "sqlite-stdlib": sqlite3.Error}.get(kind, psycopg.Error)
        with pytest.raises(wanted), store.connection() as tx:
            tx.execute("SELECT * FROM no_such_table")
        assert claim(store) == [], "and the store goes on"

    def test_what_it_wrote_is_unseen_until_it_commits(self, store: Store) -> None:
        with store.connection() as tx:
            (job_id,) = store.insert_jobs([a_job()], tx=tx)
            assert store.reads.get_jobs([job_id]) == {}
        assert job_id in store.reads.get_jobs([job_id])

    def test_a_handlers_writes_commit_with_its_jobs_end(self, store: Store) -> None:
        claimed = running(store)
        with store.connection() as tx:
            assert store.finish_attempts([succeeded(claimed, b"1")], [log(claimed, "text")], tx=tx) == {claimed.job_id}
        assert state_of(store, claimed.job_id) is JobState.SUCCEEDED
        assert len(store.reads.logs(claimed.job_id)) == 1

    def test_and_are_rolled_back_with_it(self, store: Store) -> None:
        claimed = running(store)
        roll_back(store, lambda tx: store.finish_attempts([succeeded(claimed)], tx=tx))
        assert state_of(store, claimed.job_id) is JobState.RUNNING

    def test_a_superseded_attempt_cannot_finish_or_enqueue_in_one(self, store: Store) -> None:
        stale = running(store)
        store.finish_attempts([again(stale)])
        claim_one(store)
        with store.connection() as tx:
            assert store.finish_attempts([succeeded(stale)], tx=tx) == set()
        with pytest.raises(LeaseLost), store.connection() as tx:
            store.insert_jobs([a_job()], tx, asking(stale))
        assert claim(store) == []

    def test_a_batch_that_is_refused_leaves_the_transaction_as_it_was(self, store: Store, kind: str) -> None:
        """In SQLite an error does not end a transaction, so that half a batch could be committed."""
        good = a_job()
        try:
            with store.connection() as tx:
                store.insert_jobs([good], tx=tx)
                with pytest.raises((TickworkError, psycopg.Error)):
                    store.insert_jobs([a_job(), a_job(priority=99)], tx=tx)
        except StoreError:
            assert kind.startswith("postgres")
        expected = [good.id] if kind.startswith("sqlite") else []
        assert [job.job_id for job in claim(store)] == expected

    def test_many_can_be_open_one_after_the_other_in_threads_and_after_errors(self, store: Store) -> None:
        for n in range(30):
            roll_back(store, lambda tx: store.insert_jobs([a_job()], tx=tx))
            with store.connection() as tx:
                store.insert_jobs([a_job(args=b"[%d]" % n)], tx=tx)
        assert len(claim(store)) == 30


# -- transactions of other libraries, each as a function that runs `work` in one and then commits or rolls back


def with_psycopg(url: str, work: Work, commit: bool) -> None:
    with psycopg.connect(url) as tx:
        tx.execute("SELECT 1")
        work(tx)
        tx.commit() if commit else tx.rollback()


def with_psycopg_and_dict_rows(url: str, work: Work, commit: bool) -> None:
    with psycopg.connect(url, row_factory=dict_row) as tx:
        work(tx)  # the first statement begins the transaction
        tx.commit() if commit else tx.rollback()


def with_psycopg_autocommit(url: str, work: Work, commit: bool) -> None:
    with psycopg.connect(url, autocommit=True) as tx, tx.transaction(force_rollback=not commit):
        work(tx)


def with_sqlalchemy_connection(url: str, work: Work, commit: bool) -> None:
    engine = sqlalchemy.create_engine(url)
    with engine.connect() as tx:
        work(tx)
        tx.commit() if commit else tx.rollback()
    engine.dispose()


def with_sqlalchemy_session(url: str, work: Work, commit: bool) -> None:
    engine = sqlalchemy.create_engine(url)
    with orm.Session(engine) as tx:
        work(tx)
        tx.commit() if commit else tx.rollback()
    engine.dispose()


def with_sqlalchemy_scoped_session(url: str, work: Work, commit: bool) -> None:
    engine = sqlalchemy.create_engine(url)
    tx = orm.scoped_session(orm.sessionmaker(engine))
    work(tx)
    tx.commit() if commit else tx.rollback()
    tx.remove()
    engine.dispose()


def with_sqlite3(url: str, work: Work, commit: bool) -> None:
    tx = sqlite3.connect(url)
    work(tx)
    tx.commit() if commit else tx.rollback()
    tx.close()


def with_sqlite3_rows(url: str, work: Work, commit: bool) -> None:
    tx = sqlite3.connect(url)
    tx.row_factory = lambda cursor, row: dict(zip([column[0] for column in cursor.description], row, strict=True))
    tx.execute("BEGIN")
    work(tx)
    tx.commit() if commit else tx.rollback()
    tx.close()


def with_sqlite3_by_hand(url: str, work: Work, commit: bool) -> None:
    tx = sqlite3.connect(url, isolation_level=None)
    tx.execute("BEGIN")
    work(tx)
    tx.execute("COMMIT" if commit else "ROLLBACK")
    tx.close()


def with_apsw(url: str, work: Work, commit: bool) -> None:
    tx = apsw.Connection(url)
    tx.execute("BEGIN")
    work(tx)
    tx.execute("COMMIT" if commit else "ROLLBACK")
    tx.close()


ON_POSTGRES = [
    with_psycopg,
    with_psycopg_and_dict_rows,
    with_psycopg_autocommit,
    with_sqlalchemy_connection,
    with_sqlalchemy_session,
    with_sqlalchemy_scoped_session,
]
ON_SQLITE = [with_sqlite3, with_sqlite3_rows, with_sqlite3_by_hand, with_apsw]
ON_SQLITE_THROUGH_SQLALCHEMY = [with_sqlalchemy_connection, with_sqlalchemy_session, with_sqlalchemy_scoped_session]


def check_commit_and_rollback(store: Store, run: Callable[[Work, bool], None]) -> None:
    """Whatever the library: a rollback leaves nothing, a commit everything, with keys, replacement and fences."""
    waiting = insert_one(store, key="held", args=b"[0]", delay=HOUR)
    batch = [a_job(), a_job(key="new"), a_job(key="held", args=b"[1]", if_exists="replace")]

    def work(tx: Any) -> None:
        assert store.insert_jobs(batch, tx=tx) == [batch[0].id, batch[1].id, waiting]

    run(work, False)
    assert set(store.reads.get_jobs([job.id for job in batch])) == set()
    assert store.reads.find_key("new") is None
    assert store.reads.get_jobs([waiting])[waiting].args == b"[0]"
    run(work, True)
    assert [job.job_id for job in claim(store)] == [waiting, batch[0].id, batch[1].id]
    assert store.reads.get_jobs([waiting])[waiting].args == b"[1]"


def sqlalchemy_url(url: str, dialect: str) -> str:
    return url.replace("postgresql://", f"{dialect}://")


@pytest.mark.parametrize("library", ON_POSTGRES, ids=lambda library: library.__name__)
def test_jobs_commit_with_a_postgres_transaction(postgres: PostgresStore, library: Callable[..., None]) -> None:
    dialect = "postgresql+psycopg" if "sqlalchemy" in library.__name__ else "postgresql"
    url = sqlalchemy_url(postgres.url, dialect)
    check_commit_and_rollback(postgres, lambda work, commit: library(url, work, commit))


@pytest.mark.parametrize("library", [*ON_SQLITE, *ON_SQLITE_THROUGH_SQLALCHEMY], ids=lambda library: library.__name__)
def test_jobs_commit_with_a_sqlite_transaction(tmp_path: Path, clock: Any, library: Callable[..., None]) -> None:
    path = str(tmp_path / "jobs.db")
    store = SqliteStore(path, driver="apsw" if library is with_apsw else "sqlite3", clock=clock)
    url = f"sqlite:///{path}" if library in ON_SQLITE_THROUGH_SQLALCHEMY else path
    check_commit_and_rollback(store, lambda work, commit: library(url, work, commit))
    store.close()


async def with_async_psycopg(url: str, work: Callable[[Any], Awaitable[object]], commit: bool) -> None:
    async with await psycopg.AsyncConnection.connect(url) as tx:
        await work(tx)
        await (tx.commit() if commit else tx.rollback())


async def with_async_psycopg_autocommit(url: str, work: Callable[[Any], Awaitable[object]], commit: bool) -> None:
    async with (
        await psycopg.AsyncConnection.connect(url, autocommit=True) as tx,
        tx.transaction(force_rollback=not commit),
    ):
        await work(tx)


async def with_async_sqlalchemy_connection(url: str, work: Callable[[Any], Awaitable[object]], commit: bool) -> None:
    engine = sqlalchemy_asyncio.create_async_engine(sqlalchemy_url(url, "postgresql+psycopg"))
    async with engine.connect() as tx:
        await work(tx)
        await (tx.commit() if commit else tx.rollback())
    await engine.dispose()


async def with_async_sqlalchemy_session(url: str, work: Callable[[Any], Awaitable[object]], commit: bool) -> None:
    engine = sqlalchemy_asyncio.create_async_engine(sqlalchemy_url(url, "postgresql+psycopg"))
    async with sqlalchemy_asyncio.AsyncSession(engine) as tx:
        await work(tx)
        await (tx.commit() if commit else tx.rollback())
    await engine.dispose()


ASYNC = [
    with_async_psycopg,
    with_async_psycopg_autocommit,
    with_async_sqlalchemy_connection,
    with_async_sqlalchemy_session,
]


@pytest.mark.parametrize("library", ASYNC, ids=lambda library: library.__name__)
def test_jobs_commit_with_an_asynchronous_transaction(postgres: PostgresStore, library: Callable[..., Any]) -> None:
    batch = [a_job(), a_job(key="k")]

    async def work(tx: Any) -> None:
        assert await postgres.insert_jobs_async(batch, tx) == [job.id for job in batch]

    asyncio.run(library(postgres.url, work, False))
    assert postgres.reads.get_jobs([job.id for job in batch]) == {}
    asyncio.run(library(postgres.url, work, True))
    assert [job.job_id for job in claim(postgres)] == [job.id for job in batch]


@pytest.mark.parametrize("commit_first", [True, False])
def test_without_a_transaction_an_autocommit_connection_stores_all_or_none(
    postgres: PostgresStore, commit_first: bool
) -> None:
    with psycopg.connect(postgres.url, autocommit=True) as tx:
        if commit_first:
            ids = postgres.insert_jobs([a_job(), a_job(key="k")], tx=tx)
            assert set(postgres.reads.get_jobs(ids)) == set(ids)
        else:
            with pytest.raises(psycopg.Error):
                postgres.insert_jobs([a_job(key="k"), a_job(priority=99)], tx=tx)
            assert postgres.reads.find_key("k") is None


class TestRefused:
    """A connection that cannot share a transaction with the store is refused, and nothing is stored."""

    @pytest.mark.parametrize("tx", [object(), "tx", 7])
    def test_something_else(self, store: Store, tx: object) -> None:
        with pytest.raises(InvalidInput, match="tx="):
            store.insert_jobs([a_job()], tx=tx)
        assert claim(store) == []

    def test_an_asynchronous_transaction_in_synchronous_code(self, postgres: PostgresStore) -> None:
        async def refused(tx: Any) -> None:
            with pytest.raises(InvalidInput, match="enqueue_async"):
                postgres.insert_jobs([a_job()], tx=tx)

        for library in (with_async_psycopg, with_async_sqlalchemy_connection, with_async_sqlalchemy_session):
            asyncio.run(library(postgres.url, refused, True))

    def test_a_synchronous_transaction_in_asynchronous_code(self, postgres: PostgresStore) -> None:
        def refused(tx: Any) -> None:
            with pytest.raises(InvalidInput, match="synchronous code"):
                asyncio.run(postgres.insert_jobs_async([a_job()], tx))

        with_psycopg(postgres.url, refused, True)
        with_sqlalchemy_session(sqlalchemy_url(postgres.url, "postgresql+psycopg"), refused, True)

    def test_sqlite_for_postgres_and_postgres_for_sqlite(self, postgres: PostgresStore, tmp_path: Path) -> None:
        sqlite = SqliteStore(str(tmp_path / "jobs.db"))

        def refused_by(store: Store) -> Work:
            def refused(tx: Any) -> None:
                with pytest.raises(InvalidInput, match="tx="):
                    store.insert_jobs([a_job()], tx=tx)

            return refused

        with_sqlalchemy_connection("sqlite://", refused_by(postgres), True)
        with_sqlite3(":memory:", refused_by(postgres), True)
        with_psycopg(postgres.url, refused_by(sqlite), True)
        with_sqlalchemy_session(sqlalchemy_url(postgres.url, "postgresql+psycopg"), refused_by(sqlite), True)
        asyncio.run(
            with_async_sqlalchemy_session(postgres.url, lambda tx: _async(refused_by(sqlite), tx), True),
        )
        sqlite.close()

    @pytest.mark.parametrize(("driver", "library"), [("apsw", with_sqlite3), ("sqlite3", with_apsw)])
    def test_two_sqlite_libraries_on_one_file(self, tmp_path: Path, driver: str, library: Callable[..., None]) -> None:
        path = str(tmp_path / "jobs.db")
        store = SqliteStore(path, driver=driver)

        def refused(tx: Any) -> None:
            with pytest.raises(MixedDrivers, match="driver="):
                store.insert_jobs([a_job()], tx=tx)

        library(str(tmp_path / "another.db"), refused, True)  # which it is does not matter
        assert claim(store) == []
        store.close()

    @pytest.mark.parametrize("library", [with_sqlite3, with_sqlalchemy_session])
    def test_a_connection_to_another_file(self, tmp_path: Path, library: Callable[..., None]) -> None:
        store = SqliteStore(str(tmp_path / "jobs.db"), driver="sqlite3")
        other = SqliteStore(str(tmp_path / "other.db"), driver="sqlite3")

        def refused(tx: Any) -> None:
            with pytest.raises(InvalidInput, match=r"other\.db"):
                store.insert_jobs([a_job()], tx=tx)

        path = str(tmp_path / "other.db")
        library(f"sqlite:///{path}" if library is with_sqlalchemy_session else path, refused, True)
        assert claim(other) == claim(store) == []
        store.close()
        other.close()

    def test_a_handle_whose_block_has_ended(self, store: Store) -> None:
        with store.connection() as ended:
            pass
        with store.connection() as tx:  # on PostgreSQL by the same pooled connection
            with pytest.raises(InvalidInput, match="block"):
                store.insert_jobs([a_job()], tx=ended)
            with pytest.raises((InvalidInput, psycopg.OperationalError)):
                ended.execute("SELECT 1")
            tx.execute("SELECT 1")
        assert claim(store) == []

    def test_a_handle_whose_block_has_ended_on_a_store_in_memory(self) -> None:
        self.test_a_handle_whose_block_has_ended(SqliteStore(":memory:"))

    @pytest.mark.parametrize("library", ["psycopg", "sqlalchemy"])
    def test_a_connection_that_is_closed(self, postgres: PostgresStore, library: str) -> None:
        if library == "psycopg":
            with psycopg.connect(postgres.url) as tx:
                pass
        else:
            engine = sqlalchemy.create_engine(sqlalchemy_url(postgres.url, "postgresql+psycopg"))
            with engine.begin() as tx:
                pass
        with pytest.raises(InvalidInput, match="is closed"):
            postgres.insert_jobs([a_job()], tx=tx)

    def test_an_asynchronous_connection_that_is_closed(self, postgres: PostgresStore) -> None:
        async def refused() -> None:
            async with await psycopg.AsyncConnection.connect(postgres.url) as tx:
                pass
            with pytest.raises(InvalidInput, match="is closed"):
                await postgres.insert_jobs_async([a_job()], tx)

        asyncio.run(refused())

    @pytest.mark.parametrize("driver", ["apsw", "sqlite3"])
    def test_a_closed_connection_of_sqlite(self, tmp_path: Path, driver: str) -> None:
        path = str(tmp_path / "jobs.db")
        store = SqliteStore(path, driver=driver)
        tx = apsw.Connection(path) if driver == "apsw" else sqlite3.connect(path)
        tx.close()
        with pytest.raises(InvalidInput, match="closed"):
            store.insert_jobs([a_job()], tx=tx)
        store.close()

    @pytest.mark.parametrize("library", ON_POSTGRES, ids=lambda library: library.__name__)
    def test_a_connection_to_another_database(self, postgres: PostgresStore, library: Callable[..., None]) -> None:
        def refused(tx: Any) -> None:
            for _ in range(2):
                with pytest.raises(InvalidInput, match="the database 'postgres', and the jobs of this app are in"):
                    postgres.insert_jobs([a_job()], tx=tx)

        dialect = "postgresql+psycopg" if "sqlalchemy" in library.__name__ else "postgresql"
        library(sqlalchemy_url(another_database(postgres.url), dialect), refused, True)
        assert claim(postgres) == []

    def test_a_connection_to_another_database_with_tables_of_ours(
        self, postgres: PostgresStore, postgres_server: Postgres
    ) -> None:
        other = PostgresStore(postgres_server.create_database("with_tables_of_ours"), upgrade=True)
        other.now()

        def refused(tx: Any) -> None:
            with pytest.raises(InvalidInput, match="the database 'with_tables_of_ours'"):
                postgres.insert_jobs([a_job()], tx=tx)

        with_psycopg(other.url, refused, True)
        assert (claim(postgres), claim(other)) == ([], [])
        other.close()
        postgres_server.drop_database("with_tables_of_ours")

    @pytest.mark.parametrize("library", ASYNC, ids=lambda library: library.__name__)
    def test_an_asynchronous_connection_to_another_database(
        self, postgres: PostgresStore, library: Callable[..., Any]
    ) -> None:
        async def refused(tx: Any) -> None:
            with pytest.raises(InvalidInput, match="the database 'postgres'"):
                await postgres.insert_jobs_async([a_job()], tx)

        asyncio.run(library(another_database(postgres.url), refused, True))
        assert claim(postgres) == []

    def test_the_handle_of_an_app_on_another_database(self, postgres: PostgresStore, tmp_path: Path) -> None:
        other = PostgresStore(another_database(postgres.url), schema="public")
        with psycopg.connect(other.url, autocommit=True) as connection:
            pooled = LentConnection(PgConnection(connection.pgconn), other.server)
            with pytest.raises(InvalidInput, match="the database 'postgres'"):
                postgres.insert_jobs([a_job()], tx=pooled)
            pooled.end()
        one, two = (SqliteStore(str(tmp_path / f"{name}.db")) for name in ("one", "two"))
        with one.connection() as tx, pytest.raises(InvalidInput, match=r"one\.db, not to .*two\.db"):
            two.insert_jobs([a_job()], tx=tx)

    def test_a_server_that_was_restarted_is_the_same_database(self, postgres: PostgresStore) -> None:
        with psycopg.connect(postgres.url) as tx:
            postgres.insert_jobs([a_job()], tx=tx)
            # A restart of the server gives it another identity.
            postgres.changes.same_database._own = DatabaseIdentity("before the restart", "1", "x")
            assert postgres.insert_jobs([a_job()], tx=tx)


def test_a_connection_is_asked_once_where_it_leads(postgres: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with psycopg.connect(postgres.url) as tx:
        postgres.insert_jobs([a_job()], tx=tx)
        monkeypatch.setattr("tickwork.store.postgres.caller_tx.same_database.WHICH", "asked again")
        postgres.insert_jobs([a_job()], tx=tx)
    with postgres.connection() as own:
        postgres.insert_jobs([a_job()], tx=own)


def test_statements_that_psycopg_prepares_outlive_a_block(postgres: PostgresStore) -> None:
    for n in range(3):
        with postgres.connection() as tx:
            for _ in range(8):
                assert tx.execute(f"SELECT %s::int + {n}", (1,), prepare=True).fetchone() == (n + 1,)


def another_database(url: str) -> str:
    """A database of the same server that has no tables of ours."""
    address, _, name = url.rpartition("/")
    return f"{address}/postgres{name[name.index('?') :] if '?' in name else ''}"


async def _async(work: Work, tx: Any) -> None:
    work(tx)


def test_a_store_in_memory_has_transactions_too() -> None:
    store = SqliteStore(":memory:")
    with store.connection() as tx:
        (job_id,) = store.insert_jobs([a_job()], tx=tx)
    roll_back(store, lambda tx: store.insert_jobs([a_job()], tx=tx))
    assert [job.job_id for job in claim(store)] == [job_id]
    store.close()


def test_rolled_back_enqueues_leave_nothing(store: Store) -> None:
    batch: list[NewJob] = jobs(20)
    for job in batch:
        roll_back(store, lambda tx, job=job: store.insert_jobs([job], tx=tx))
    assert store.reads.get_jobs([job.id for job in batch]) == {}
    assert store.reads.queues() == []


def test_two_stores_see_one_another(open_store: OpensStore) -> None:
    first, second = open_store(), open_store()
    with first.connection() as tx:
        (job_id,) = first.insert_jobs([a_job()], tx=tx)
        assert second.reads.get_jobs([job_id]) == {}
    assert claim_one(second).job_id == job_id
