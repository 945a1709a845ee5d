"""Connections to PostgreSQL: what is said when they fail, how they come back, and what stands in between."""

import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.postgres_server import Postgres, PostgresServer
from tests.store.builders import MINUTE, a_job, claim, claim_one, insert_one, jobs, register, running, succeeded
from tickwork.errors import (
    InvalidInput,
    SchemaMismatch,
    StoreError,
    StoreFull,
    StoreNotOurs,
    StoreReadOnly,
    StoreUnreachable,
    TickworkError,
)
from tickwork.store.postgres import PostgresStore
from tickwork.store.postgres.connection import connector
from tickwork.store.postgres.connection.error_mapping import translate
from tickwork.store.postgres.connection.session import Session

TOP = Path(__file__).parents[3]
PASSWORD = "s3cret-pa55"
OpensPostgres = Callable[..., PostgresStore]


class TestUnreachable:
    @pytest.mark.parametrize(
        "url",
        [
            f"postgresql://ada:{PASSWORD}@127.0.0.1:1/db",
            f"postgresql://ada:{PASSWORD}@no-such-host.invalid/db",
            f"host=127.0.0.1 port=1 dbname=db user=ada password={PASSWORD}",
        ],
    )
    def test_an_error_says_where_and_why_in_one_line_without_the_password(self, url: str) -> None:
        store = PostgresStore(url)
        with pytest.raises(StoreUnreachable) as raised:
            insert_one(store)
        text = str(raised.value)
        assert "ada@" in text
        assert "/db cannot be reached: " in text
        assert "\n" not in text
        assert PASSWORD not in text
        store.close()

    @pytest.mark.parametrize("url", [f"postgresql://ada:{PASSWORD}/x@h/db", f"postgresql://ada:{PASSWORD}/@h:1/db?x=1"])
    def test_a_password_that_would_be_read_as_a_port_is_refused_without_being_shown(self, url: str) -> None:
        with pytest.raises(InvalidInput, match="%2F for /") as raised:
            PostgresStore(url).now()
        assert PASSWORD not in str(raised.value)

    def test_a_database_that_does_not_exist_is_named(self, postgres_server: Postgres) -> None:
        store = PostgresStore(postgres_server.url("no_such_database"))
        with pytest.raises(StoreUnreachable, match='"no_such_database" does not exist'):
            store.now()

    @pytest.mark.parametrize(
        "url",
        [
            f"postgresql//ada:{PASSWORD}@host/db",
            f"postgresql://ada:{PASSWORD}@host:port/db",
            f"postgresql://ada:{PASSWORD}@host/db?no_such_option=1",
            "nonsense",
        ],
    )
    def test_a_url_that_is_none_is_refused_without_repeating_it(self, url: str) -> None:
        with pytest.raises(TickworkError) as raised:
            PostgresStore(url).now()
        assert isinstance(raised.value, InvalidInput | StoreUnreachable)
        assert PASSWORD not in str(raised.value)

    def test_a_host_that_does_not_answer_is_given_up_in_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(connector._REACHING, "connect_timeout", "2")  # the least that libpq takes
        with socket.create_server(("127.0.0.1", 0)) as silent:
            store = PostgresStore(f"postgresql://postgres@127.0.0.1:{silent.getsockname()[1]}/db")
            with pytest.raises(StoreUnreachable):
                store.now()


class TestLost:
    """A broken connection leaves unknown whether the last request was executed; repeating it is safe."""

    def test_a_connection_that_was_cut_while_idle_is_replaced_unnoticed(self, postgres: PostgresStore) -> None:
        insert_one(postgres)
        cut_others(postgres)
        insert_one(postgres)
        assert len(claim(postgres)) == 2

    def test_one_that_is_cut_in_the_middle_is_said_to_be_unknown(self, postgres: PostgresStore) -> None:
        insert_one(postgres)
        end = "SELECT pg_terminate_backend(pg_backend_pid())"
        with pytest.raises(StoreUnreachable, match=r"not known; repeating it is safe"):
            postgres.transactions.perform(lambda session: session.run_sql(end, {}))
        insert_one(postgres)

    def test_a_transaction_that_is_cut_is_rolled_back_and_said_to_be_unknown(self, postgres: PostgresStore) -> None:
        job = a_job()

        def cut() -> None:
            with postgres.connection() as tx:
                postgres.insert_jobs([job], tx=tx)
                with psycopg.connect(postgres.url) as other:
                    other.execute("SELECT pg_terminate_backend(%s, 5000)", (tx.info.backend_pid,))

        with pytest.raises(StoreUnreachable, match="not known"):
            cut()
        assert postgres.reads.get_jobs([job.id]) == {}

    def test_it_comes_back_after_a_restart_of_the_server(self) -> None:
        with PostgresServer() as server:
            store = PostgresStore(server.url(), upgrade=True)
            store.insert_jobs(jobs(3))
            claimed = claim_one(store)
            server.stop("fast")
            with pytest.raises(StoreUnreachable):
                insert_one(store)
            server.start()
            assert store.finish_attempts([succeeded(claimed)]) == {claimed.job_id}
            assert len(claim(store)) == 2
            store.close()


def cut_others(store: PostgresStore) -> None:
    """End the idle sessions of a store, from outside."""
    with psycopg.connect(store.url) as connection:
        for idle in store.transactions.connections.idle:
            connection.execute("SELECT pg_terminate_backend(%s, 5000)", (idle.info.backend_pid,))


class TestTranslation:
    @pytest.mark.parametrize(
        ("error", "wanted"),
        [
            (psycopg.errors.DiskFull("no space left on device"), StoreFull),
            (psycopg.errors.ReadOnlySqlTransaction("cannot execute INSERT"), StoreReadOnly),
            (psycopg.errors.UndefinedTable('relation "x" does not exist'), SchemaMismatch),
            (psycopg.errors.QueryCanceled("canceling statement due to statement timeout"), StoreUnreachable),
            (psycopg.errors.LockNotAvailable("canceling statement due to lock timeout"), StoreUnreachable),
            (psycopg.errors.AdminShutdown("terminating connection"), StoreUnreachable),
            (psycopg.errors.TooManyConnections("too many clients"), StoreUnreachable),
            (psycopg.errors.InsufficientPrivilege("permission denied for table jobs"), StoreError),
        ],
    )
    def test_what_the_server_says_is_what_callers_catch(self, error: psycopg.Error, wanted: type[StoreError]) -> None:
        raised = translate("postgresql://ada@host/db", error, lost=False)
        assert type(raised) is wanted
        assert "ada@host" in str(raised)

    def test_a_server_that_takes_no_writes_says_so(self, postgres: PostgresStore) -> None:
        insert_one(postgres)
        readonly = PostgresStore(
            f"{postgres.url}?options=-c%20default_transaction_read_only%3Don", schema=postgres.schema.name
        )
        assert len(readonly.reads.queues()) == 1
        with pytest.raises(StoreReadOnly, match="Nothing was written"):
            insert_one(readonly)
        readonly.close()

    def test_a_role_without_rights_is_told_so(self, postgres: PostgresStore) -> None:
        insert_one(postgres)
        role = f"role_of_{postgres.schema.name}"
        with psycopg.connect(postgres.url) as connection:
            connection.execute(f"CREATE ROLE {role} LOGIN".encode())
        url = urlsplit(postgres.url)
        stranger = PostgresStore(
            url._replace(netloc=f"{role}@{url.hostname}:{url.port}").geturl(), schema=postgres.schema.name
        )
        with pytest.raises(StoreError, match="permission denied"):
            stranger.reads.queues()
        stranger.close()

    def test_an_old_server_is_refused(self, postgres: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connector, "OLDEST_VERSION", 990000)
        with pytest.raises(StoreNotOurs, match="version 14 or newer"):
            insert_one(postgres)


class TestAgain:
    """The server may ask for a transaction to be run again; callers do not notice."""

    @pytest.mark.parametrize("code", ["40001", "40P01"])
    def test_a_transaction_is_run_again_as_a_whole(self, postgres: PostgresStore, code: str) -> None:
        insert_one(postgres)
        runs = []

        def work(session: Session) -> str:
            runs.append(session)
            session.run("drain_worker", id="nobody")
            if len(runs) < 3:
                raise psycopg.errors.lookup(code)("again, please")
            return "done"

        assert postgres.transactions.perform(work, single=False) == "done"
        assert len(runs) == 3

    def test_but_not_for_ever(self, postgres: PostgresStore) -> None:
        runs = []

        def work(session: Session) -> None:
            runs.append(session)
            raise psycopg.errors.DeadlockDetected("again, please")

        with pytest.raises(StoreError, match="again, please"):
            postgres.transactions.perform(work, single=False)
        assert 1 < len(runs) < 10


class TestLimits:
    """Nothing of ours waits for as long as a lease."""

    def test_every_connection_has_limits_well_below_a_lease(self, postgres: PostgresStore) -> None:
        with postgres.transactions.pool.lend() as connection:
            shown = {
                name: connection.execute(f"SHOW {name}".encode()).fetchone()
                for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "jit")
            }
        assert shown == {
            "statement_timeout": ("8s",),
            "lock_timeout": ("5s",),
            "idle_in_transaction_session_timeout": ("10s",),
            "jit": ("off",),
        }

    def test_the_callers_own_transactions_are_not_limited(self, postgres: PostgresStore) -> None:
        with postgres.connection() as tx:
            assert tx.execute("SHOW statement_timeout").fetchone() == ("0",)
            assert tx.execute("SHOW enable_seqscan").fetchone() == ("on",)

    def test_a_lock_that_is_not_released_is_given_up(
        self, postgres: PostgresStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(connector._LIMITS, "lock_timeout", "100ms")
        job_id = insert_one(postgres)
        with postgres.connection() as tx:
            tx.execute(f'SELECT * FROM "{postgres.schema.name}".queue FOR UPDATE'.encode())
            impatient = PostgresStore(postgres.url, schema=postgres.schema.name)
            with pytest.raises(StoreUnreachable, match="did not answer in time"):
                impatient.cancel_jobs([job_id])
            assert claim(impatient) == [], "claims do not wait at all"
        assert postgres.cancel_jobs([job_id]) == [job_id]
        impatient.close()

    def test_a_heartbeat_does_not_wait_for_the_pool(
        self, postgres: PostgresStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        postgres.server.wait_s = 0.1
        worker = register(postgres)
        running(postgres, worker)
        stack = [postgres.transactions.pool.lend() for _ in range(8)]
        for lent in stack:
            lent.__enter__()
        with pytest.raises(StoreUnreachable, match="all 8 connections"):
            insert_one(postgres)
        assert postgres.renew_lease(worker, MINUTE)
        assert postgres.expired_attempts(10) == []
        assert postgres.reclaim_attempts([]) == set()
        for lent in stack:
            lent.__exit__(None, None, None)
        insert_one(postgres)

    def test_the_callers_transactions_do_not_use_up_the_connections_of_the_store(self, postgres: PostgresStore) -> None:
        stack = [postgres.connection() for _ in range(15)]
        for opened in stack:
            opened.__enter__()
        insert_one(postgres)
        for opened in stack:
            opened.__exit__(None, None, None)

    def test_no_more_connections_are_opened_than_are_needed(self, postgres: PostgresStore) -> None:
        for _ in range(20):
            insert_one(postgres)
        assert len(postgres.transactions.connections.idle) <= 3, "one for the jobs, and one or two for late calls"


class TestPooler:
    def test_a_pooler_is_noticed_and_nothing_is_prepared(
        self, open_pooled_postgres: OpensPostgres, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO", logger="tickwork.store")
        store = open_pooled_postgres()
        for _ in range(10):
            insert_one(store)
        assert store.server.pooled
        assert caplog.text.count("behind a pooler") == 1
        assert "yes" in store.health().facts["pooler"]
        store.close()

    def test_without_one_there_is_none(self, postgres: PostgresStore) -> None:
        insert_one(postgres)
        assert postgres.server.pooled is False
        assert postgres.health().facts["pooler"] == "none"

    def test_transactions_through_a_pooler_have_their_limits(self, open_pooled_postgres: OpensPostgres) -> None:
        store = open_pooled_postgres()
        rows = store.transactions.perform(lambda session: session.run_sql("SHOW lock_timeout", {}))
        assert rows == [("5s",)]
        store.close()


class TestHealth:
    def test_it_says_how_durable_the_server_is(self, postgres: PostgresStore) -> None:
        health = postgres.health()
        assert "fsync=off" in health.facts["durability"], "the servers of tests forget everything in a power cut"
        assert any("fsync=off" in warning for warning in health.warnings)
        assert postgres.server.where in health.facts["store"]
        assert "this host's" in health.facts["clock"]
        assert "queue" in health.facts["dead rows"]
        assert "jobs" in health.facts["size"]

    def test_it_names_the_oldest_transaction_and_what_to_do(
        self, postgres: PostgresStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tickwork.store.postgres.health._TRANSACTION_TROUBLE", timedelta(0))
        with psycopg.connect(postgres.url, application_name="held") as connection:
            connection.execute("SELECT 1")
            health = postgres.health()
            pid = connection.info.backend_pid
        assert f"session {pid} of postgres (held, idle in transaction)" in health.facts["oldest transaction"]
        assert any(f"pg_terminate_backend({pid})" in warning for warning in health.warnings)


def test_a_process_that_ends_at_once_has_called_for_its_last_job(postgres: PostgresStore) -> None:
    """The first of two calls is sent at once, the second at the latest when the process ends."""
    program = f"""
from tests.store.builders import insert_one
from tickwork.store.postgres import PostgresStore
store = PostgresStore({postgres.url!r}, schema={postgres.schema.name!r})
insert_one(store)
insert_one(store)
"""
    with psycopg.connect(postgres.url, autocommit=True) as listening:
        listening.execute(f'LISTEN "{postgres.transactions.channel}"'.encode())
        subprocess.run([sys.executable, "-c", program], cwd=TOP, check=True, timeout=30)
        assert len(list(listening.notifies(timeout=5, stop_after=2))) == 2
