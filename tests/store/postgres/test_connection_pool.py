"""The connections that a process opens, keeps and closes, also when the server has none left."""

import logging
import threading
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest

from tests.store.builders import MINUTE, insert_one, register
from tests.waiting import eventually
from tickwork.errors import StoreUnreachable
from tickwork.store.base import PoolSizes
from tickwork.store.postgres import PostgresStore
from tickwork.store.postgres.connection import connection_pool, connector
from tickwork.store.postgres.connection.error_mapping import TooManyConnections, cannot_connect
from tickwork.store.postgres.connection.libpq_connection import PgConnection

FULL = psycopg.OperationalError("connection failed: FATAL:  sorry, too many clients already")


@pytest.fixture
def small(postgres: PostgresStore) -> Iterator[PostgresStore]:
    """A store with few connections, which gives back what it does not use at once."""
    sizes = PoolSizes(pool=2, user_pool=1, idle=timedelta(seconds=0.05))
    store = PostgresStore(postgres.url, schema=postgres.schema.name, sizes=sizes)
    yield store
    store.close()


def test_connections_that_are_not_used_are_closed(small: PostgresStore) -> None:
    with small.transactions.pool.lend(), small.transactions.pool.lend():
        assert small.connections().open == 2
    with small.connection() as tx:
        tx.execute("SELECT 1")
    eventually(lambda: small.connections().open == 0)
    assert small.transactions.connections.idle == []
    small.now()


def test_calls_one_after_the_other_share_one_connection_also_with_the_reserved_ones(postgres: PostgresStore) -> None:
    store = PostgresStore(postgres.url, schema=postgres.schema.name)
    worker = register(store)
    for _ in range(5):
        store.now()
        store.renew_lease(worker, MINUTE)
        store.expired_attempts(10)
    assert store.connections().open == 1
    store.close()


def test_a_call_waits_a_moment_for_a_connection_that_is_in_use(
    small: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_pool, "PATIENCE_S", 30)
    small.now()
    with small.transactions.pool.lend() as connection:
        waiting = threading.Thread(target=small.now)
        waiting.start()
        # The number of waiting threads has no public count.
        eventually(lambda: small.transactions.connections._waiting)
        assert connection.is_idle()
    waiting.join(20)
    assert small.connections().open <= 1


def test_calls_that_would_wait_often_get_connections_of_their_own(
    small: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_pool, "PATIENT_CALLS", 0)
    with small.transactions.pool.lend():
        small.now()
        assert small.connections().open == 2


def test_what_must_not_wait_gets_a_connection_though_all_others_are_in_use(small: PostgresStore) -> None:
    worker = register(small)
    with small.transactions.pool.lend(), small.transactions.pool.lend():
        assert small.renew_lease(worker, MINUTE)
        assert small.expired_attempts(10) == []


def test_callers_that_begin_together_look_at_the_schema_once(
    postgres: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_pool, "PATIENT_CALLS", 0)
    store = PostgresStore(postgres.url, schema=postgres.schema.name)
    together = threading.Barrier(6)

    def begin() -> None:
        together.wait()
        with store.connection() as tx:
            tx.execute("SELECT 1")

    callers = [threading.Thread(target=begin) for _ in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(20)
    assert store.transactions.connections.open == 1
    store.close()


class Full:
    """A server that has no connection left; `grants` of them become free."""

    def __init__(self, store: PostgresStore) -> None:
        self._connect = store.server.connect
        self._store = store
        self.grants = 0
        self.asked = 0

    def connect(self, *, ours: bool = True) -> PgConnection:
        self.asked += 1
        if self.grants <= 0:
            error = cannot_connect("postgresql://host/db", FULL)
            assert isinstance(error, TooManyConnections)
            self._store.server.refusals.note(error)
            raise error
        self.grants -= 1
        return self._connect(ours=ours)


@pytest.fixture
def full(small: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> Full:
    monkeypatch.setattr(connection_pool, "_AGAIN_S", 0.02)
    full = Full(small)
    monkeypatch.setattr(small.server, "connect", full.connect)
    return full


def test_a_refused_connection_is_waited_for(small: PostgresStore, full: Full, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "tickwork.store")
    told: list[int] = []
    small.server.refusals.tell = lambda: told.append(1)
    call = threading.Thread(target=insert_one, args=(small,))
    call.start()
    eventually(lambda: full.asked > 3)
    full.grants = 10
    call.join(20)
    assert not call.is_alive()
    assert small.connections().refused == len(told) >= 3
    assert caplog.text.count("has no connection left: sorry, too many clients already") == 1, "once a minute"
    assert "TICKWORK_POOL_SIZE" in caplog.text


def test_one_that_comes_back_serves_who_was_refused(
    small: PostgresStore, full: Full, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_pool, "PATIENT_CALLS", 0)
    full.grants = 1
    answered: list[object] = []
    with small.transactions.pool.lend():
        call = threading.Thread(target=lambda: answered.append(small.now()))
        call.start()
        eventually(lambda: full.asked > 2)
    call.join(20)
    assert answered


def test_a_refusal_is_an_error_after_a_time_and_never_an_endless_wait(small: PostgresStore, full: Full) -> None:
    small.server.wait_s = 0.1
    with pytest.raises(StoreUnreachable, match=r"no connection left.*Nothing was done.*max_connections"):
        insert_one(small)
    with pytest.raises(StoreUnreachable, match="no connection left"), small.connection():
        pass
    assert small.connections().open == 0


def test_handlers_wait_longer_than_others_and_the_supervisor_of_a_short_lease_less() -> None:
    url = "postgresql://nowhere.invalid/db"
    assert PostgresStore(url).server.wait_s == connector.WAIT_S
    assert PostgresStore(url, on_refused=lambda: None).server.wait_s == connector.HANDLER_WAIT_S
    hasty = PostgresStore(url)
    hasty.answer_within(timedelta(seconds=3))
    assert hasty.server.wait_s == 3


@pytest.mark.parametrize(
    "text",
    [
        "FATAL:  sorry, too many clients already",
        'FATAL:  too many connections for role "shop"',
        "FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute",
        "FATAL:  no more connections allowed (max_client_conn)",
    ],
)
def test_what_servers_say_when_they_have_no_connection_left(text: str) -> None:
    assert isinstance(cannot_connect("here", psycopg.OperationalError(text)), TooManyConnections)
    assert not isinstance(cannot_connect("here", psycopg.OperationalError("no such host")), TooManyConnections)
