"""Our own statements on a connection: prepared once, several in one round trip, of any size and with any end."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from tests.waiting import eventually
from tickwork.store.postgres import PostgresStore
from tickwork.store.postgres.connection.libpq_connection import PgConnection, Statement
from tickwork.store.postgres.params import text_array

ECHO = "SELECT %(text)s::text, %(number)s::text::bigint, %(nothing)s::text"
DIVIDE = "SELECT 1 / %(number)s::text::integer"


@pytest.fixture
def connection(postgres: PostgresStore) -> Iterator[PgConnection]:
    with postgres.server.connect() as connection:
        yield connection


def test_values_come_back_as_they_went(connection: PgConnection) -> None:
    values = {"text": "ä'\\\"\n{}%s$1", "number": -(2**63), "nothing": None}
    assert connection.run([(ECHO, values)]) == [[(values["text"], values["number"], None)]]


TEXTS = ["", "a", "ä'\\\"\n{},%s$1", "NULL", '"', "\\", '{"a": "b\\\\c"}', " ", ","]


@pytest.mark.parametrize("texts", [[], [""], TEXTS, [None], [None, None], [None, *TEXTS, None], ["a", None]])
def test_arrays_of_texts_come_back_as_they_went(connection: PgConnection, texts: list[str | None]) -> None:
    (rows,) = connection.run([("SELECT unnest(%(texts)s::text::text[])", {"texts": text_array(texts)})])
    assert [text for (text,) in rows] == texts


@pytest.mark.parametrize("texts", [["\0"], ["a\0b"], ["a", "\0", None]])
def test_an_array_with_a_zero_byte_in_it_is_refused(texts: list[str | None]) -> None:
    with pytest.raises(psycopg.DataError):
        text_array(texts)


@pytest.mark.parametrize("together", [1, 3])
def test_values_larger_than_the_sockets_take_arrive_whole(connection: PgConnection, together: int) -> None:
    text = "x" * 20_000_000
    answers = connection.run([(ECHO, {"text": text, "number": 1, "nothing": None})] * together)
    assert answers == [[(text, 1, None)]] * together


def test_each_statement_is_prepared_once(connection: PgConnection) -> None:
    for number in range(1, 4):
        assert connection.run([(DIVIDE, {"number": number}), (DIVIDE, {"number": 1})])[1] == [(1,)]
    count = connection.execute("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'SELECT 1 / %'")
    assert count.fetchone() == (1,)


def test_what_is_prepared_stays_prepared_whatever_psycopg_does(connection: PgConnection) -> None:
    for _ in range(10):  # it would prepare, too, and lose all of it at the rollback
        with connection.transaction(force_rollback=True):
            connection.execute("SELECT %s::integer", (1,))
            assert connection.run([(DIVIDE, {"number": 1})]) == [[(1,)]]


def test_behind_a_pooler_nothing_is_prepared(connection: PgConnection) -> None:
    connection.prepares = False
    assert connection.run([(DIVIDE, {"number": 1}), (DIVIDE, {"number": 1})]) == [[(1,)], [(1,)]]
    assert connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)


def test_of_statements_that_run_together_all_count_or_none(connection: PgConnection) -> None:
    connection.execute("CREATE TEMP TABLE told (number integer)")
    tell = "INSERT INTO told VALUES (%(number)s::text::integer)"
    with pytest.raises(psycopg.errors.DivisionByZero):
        connection.run([(tell, {"number": 1}), (DIVIDE, {"number": 0}), (tell, {"number": 2})])
    assert connection.info.transaction_status == TransactionStatus.IDLE, "it can be used again"
    assert connection.run([("SELECT number FROM told", {})]) == [[]]
    connection.run([(tell, {"number": 1}), (tell, {"number": 2})])
    assert connection.run([("SELECT number FROM told", {})]) == [[(1,), (2,)]]


def test_a_statement_that_cannot_be_prepared_is_refused_and_costs_nothing_else(connection: PgConnection) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable):
        connection.run([(DIVIDE, {"number": 1}), ("SELECT * FROM nowhere WHERE x = %(x)s", {"x": 1})])
    assert connection.run([(DIVIDE, {"number": 1})]) == [[(1,)]]


@pytest.mark.parametrize("company", [[], [(DIVIDE, {"number": 1})]])
def test_a_text_with_a_zero_byte_is_refused_rather_than_cut_off(
    connection: PgConnection, company: list[Statement]
) -> None:
    with pytest.raises(psycopg.DataError, match="zero byte"):
        connection.run([(ECHO, {"text": "a\0b", "number": 1, "nothing": None}), *company])
    assert connection.run([(DIVIDE, {"number": 1})]) == [[(1,)]]


@pytest.mark.parametrize("together", [1, 2])
def test_a_connection_that_is_cut_says_so_and_is_not_quiet(connection: PgConnection, together: int) -> None:
    cut = "SELECT pg_terminate_backend(pg_backend_pid()), %(number)s::text"
    with pytest.raises(psycopg.OperationalError):
        connection.run([(cut, {"number": 1})] * together)
    assert connection.closed
    assert not connection.is_quiet()


def test_what_the_server_says_unasked_is_noticed(connection: PgConnection, postgres: PostgresStore) -> None:
    assert connection.is_quiet()
    with postgres.connection() as other:
        other.execute("SELECT pg_terminate_backend(%s)", (connection.info.backend_pid,))
    eventually(lambda: not connection.is_quiet(), 5)
