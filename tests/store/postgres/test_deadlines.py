"""A server that does not answer: every wait ends at its deadline, the connection is closed, and repeating is safe."""

import select
import socket
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.silent_proxy import Mode, SilentProxy
from tests.store.builders import MINUTE, a_job, claim, claim_one, insert_one, register, running, state_of, succeeded
from tests.waiting import eventually
from tickwork.core.job import JobState
from tickwork.errors import StoreUnreachable
from tickwork.store.postgres import PostgresStore
from tickwork.store.postgres.caller_tx import app_connection
from tickwork.store.postgres.connection import connector, listener
from tickwork.store.postgres.connection.libpq_connection import PgConnection
from tickwork.testing import VirtualClock

SHORT_S = 0.1
SILENCES: list[Mode] = ["silent", "deaf", "stuck"]


@pytest.fixture
def proxy(postgres: PostgresStore) -> Iterator[SilentProxy]:
    with psycopg.connect(postgres.url) as connection:
        port = connection.info.port
    with SilentProxy(port) as proxy:
        yield proxy


class Distant(PostgresStore):
    """The store of a test, through a proxy. It has little patience while the proxy does not answer."""

    def __init__(self, proxy: SilentProxy, store: PostgresStore, clock: VirtualClock) -> None:
        super().__init__(proxy.url(store.url), schema=store.schema.name, clock=clock)
        self.proxy = proxy
        self.now()

    def silence(self, mode: Mode) -> None:
        self.proxy.mode = mode
        self.server.answer_s = SHORT_S

    def lose_answers(self) -> None:
        """From now on the server executes requests and the responses are lost, also without prepared statements."""
        for connection in self.transactions.connections.idle:
            connection.prepares = False
        self.silence("deaf")

    def heal(self) -> None:
        self.proxy.mode = "open"
        self.server.answer_s = connector.ANSWER_S


@pytest.fixture
def distant(postgres: PostgresStore, proxy: SilentProxy, clock: VirtualClock) -> Iterator[Distant]:
    store = Distant(proxy, postgres, clock)
    yield store
    store.heal()
    store.close()


@pytest.mark.parametrize("mode", SILENCES)
def test_a_verb_gives_up_at_its_deadline_and_works_again_with_a_new_connection(distant: Distant, mode: Mode) -> None:
    distant.silence(mode)
    with pytest.raises(StoreUnreachable, match=r"no answer within 0\.1 s.*not known; repeating it is safe"):
        distant.now()
    assert distant.transactions.connections.idle == [], "the connection is not lent again"
    distant.heal()
    distant.now()


def test_an_insert_whose_answer_was_lost_can_be_repeated(postgres: PostgresStore, distant: Distant) -> None:
    job = a_job()
    distant.lose_answers()
    with pytest.raises(StoreUnreachable, match="not known"):
        distant.insert_jobs([job])
    eventually(lambda: postgres.reads.get_jobs([job.id]), 5, "it was carried out all the same")
    distant.heal()
    assert distant.insert_jobs([job]) == [job.id]
    assert len(claim(postgres, limit=10)) == 1


def test_an_end_whose_answer_was_lost_can_be_repeated(postgres: PostgresStore, distant: Distant) -> None:
    attempt = running(postgres)
    distant.lose_answers()
    with pytest.raises(StoreUnreachable, match="not known"):
        distant.finish_attempts([succeeded(attempt)])
    eventually(lambda: state_of(postgres, attempt.job_id) is JobState.SUCCEEDED, 5)
    distant.heal()
    assert distant.finish_attempts([succeeded(attempt)]) == set(), "it is closed, and closed once"
    assert state_of(postgres, attempt.job_id) is JobState.SUCCEEDED


def test_a_claim_whose_answer_was_lost_is_found_among_the_open_attempts(
    postgres: PostgresStore, distant: Distant
) -> None:
    worker = register(postgres)
    assert claim(distant, 1, worker) == [], "the first claim also looks for old jobs"
    job_id = insert_one(postgres)
    distant.lose_answers()
    with pytest.raises(StoreUnreachable, match="not known"):
        claim(distant, 1, worker)
    eventually(lambda: postgres.open_attempts(worker), 5)
    distant.heal()
    assert [one.job_id for one in distant.open_attempts(worker)] == [job_id]


@pytest.mark.parametrize("mode", SILENCES)
def test_a_callers_commit_has_a_deadline_and_its_statements_have_none(
    distant: Distant, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    distant.server.answer_s = SHORT_S
    with distant.connection() as tx:
        tx.execute("SELECT pg_sleep(0.2)")

    monkeypatch.setattr(app_connection, "USER_END_S", SHORT_S)

    def commit() -> None:
        with distant.connection() as tx:
            tx.execute("SELECT 1")
            distant.silence(mode)

    with pytest.raises(StoreUnreachable, match="not known"):
        commit()


def test_a_rollback_has_a_deadline(distant: Distant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_connection, "USER_END_S", SHORT_S)

    def fail() -> None:
        with distant.connection() as tx:
            tx.execute("SELECT 1")
            distant.silence("silent")
            raise ValueError("the caller's own")

    with pytest.raises((StoreUnreachable, ValueError)):
        fail()
    distant.heal()
    monkeypatch.undo()
    with distant.connection() as tx:
        tx.execute("SELECT 1")


def test_a_connection_that_falls_silent_after_the_greeting_is_given_up(
    distant: Distant, monkeypatch: pytest.MonkeyPatch
) -> None:
    distant.close()
    real = connector.behind_pooler

    def fall_silent(connection: PgConnection) -> bool:
        distant.silence("silent")
        return real(connection)

    monkeypatch.setattr(connector, "behind_pooler", fall_silent)
    monkeypatch.setattr(connector, "CONNECT_S", SHORT_S)
    with pytest.raises(StoreUnreachable, match=r"cannot be reached: no answer within 0\.1 s"):
        distant.now()


def test_a_host_that_accepts_and_says_nothing_is_given_up_without_tls_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connector._REACHING, "connect_timeout", "2")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = PostgresStore(f"postgresql://postgres@127.0.0.1:{silent.getsockname()[1]}/db?sslmode=disable")
        with pytest.raises(StoreUnreachable, match="cannot be reached"):
            store.now()


def test_a_lock_that_outlasts_the_deadline_ends_on_the_server_too(postgres: PostgresStore) -> None:
    """The statement's own timeout is shorter than the deadline, so that nothing is carried out much later."""
    store = PostgresStore(postgres.url, schema=postgres.schema.name)
    store.answer_within(timedelta(seconds=4))
    with store.transactions.pool.lend() as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("3200ms",)
    store.close()


def test_pruning_has_a_deadline_of_its_own(postgres: PostgresStore) -> None:
    perform = postgres.transactions.perform
    shown = perform(lambda one: one.run_sql("SHOW statement_timeout", {}), limit_s=connector.PRUNE_S)
    assert shown == [("48s",)]
    assert perform(lambda one: one.run_sql("SHOW statement_timeout", {})) == [("8s",)]


def test_a_migration_may_take_longer_than_a_transaction(postgres: PostgresStore) -> None:
    with postgres.transactions.pool.lend() as connection:
        connection.answer_within(SHORT_S)
        with connection.within(connector.UPGRADE_S):
            connection.execute("SELECT pg_sleep(0.2)")
        with pytest.raises(psycopg.OperationalError, match="no answer within"):
            connection.execute("SELECT pg_sleep(5)")


def test_a_listener_that_hears_nothing_makes_another_connection(
    distant: Distant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "PROBE_S", 0.05)
    # The timeout of new connections is no parameter of a store.
    distant.server._conninfo = make_conninfo(distant.server._conninfo, connect_timeout=2)
    waiter = distant.waiter()
    assert isinstance(waiter, listener.Listener)
    eventually(lambda: waiter._connection)
    first = waiter._connection

    def look() -> PgConnection | None:
        """Clear the waiter as a worker does between its ticks, and return its connection."""
        if select.select([waiter], [], [], 0)[0]:
            waiter.clear()
        return waiter._connection

    eventually(lambda: look() and waiter._asked_at, what="it asks for an answer")
    eventually(lambda: look() and waiter._asked_at is None, what="and hears it")
    distant.silence("silent")
    monkeypatch.setattr(listener, "ANSWER_S", 0.1)
    eventually(lambda: look() is None)
    monkeypatch.setattr(listener, "ANSWER_S", 10)
    distant.heal()
    eventually(lambda: look() not in (first, None), what="it listens again")
    waiter.close()


def test_a_server_behind_a_pooler_is_given_up_as_well(postgres: PostgresStore, distant: Distant) -> None:
    distant.server.pooled = True
    worker = register(postgres, lease=MINUTE)
    insert_one(postgres)
    assert claim_one(distant, worker).attempt == 1
    assert distant.renew_lease(worker, MINUTE)
    distant.silence("silent")
    with pytest.raises(StoreUnreachable, match="no answer"):
        distant.renew_lease(worker, MINUTE)
    distant.heal()
    assert distant.renew_lease(worker, MINUTE)
