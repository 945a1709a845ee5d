"""Run verbs inside a caller's own transaction (`tx=`), on psycopg or SQLAlchemy, sync or async.

A verb that may run there is written as steps: a generator that yields a statement with its values, receives the rows,
and finally returns the result. So one implementation serves Tickwork's own connections, psycopg's, and SQLAlchemy's
over any driver.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from tickwork.errors import InvalidInput
from tickwork.store.postgres.caller_tx.same_database import SameDatabase
from tickwork.store.postgres.connection.libpq_connection import PLACE, Rows, Statement, Values
from tickwork.store.postgres.connection.session import Steps, drive

T = TypeVar("T")


def run_inside(tx: Any, steps: Steps[T], same: SameDatabase) -> T:
    """Run steps in the caller's transaction and return their result. The caller commits the transaction."""
    with inside(tx, same) as run_all:
        return drive(steps, lambda sql, values: run_all([(sql, values)])[0])


@contextmanager
def inside(tx: Any, same: SameDatabase) -> Iterator[Callable[[Sequence[Statement]], list[Rows]]]:
    """Yield a function that runs statements in the caller's transaction and returns the rows of each.

    Raise InvalidInput if the transaction has ended, or is not on the store's database.
    """
    if isinstance(tx, psycopg.Connection):
        _check_open(tx)
        alone = tx.autocommit and tx.info.transaction_status == TransactionStatus.IDLE
        # Autocommit outside of a transaction: the steps need one of their own.
        with tx.transaction() if alone else nullcontext():
            same.check(tx, lambda sql, values: _on_psycopg(tx, sql, values))
            yield lambda statements: [_on_psycopg(tx, sql, values) for sql, values in statements]
        return
    kind = _sqlalchemy_kind(tx)
    if kind in {"Session", "Connection"}:
        connection = tx.connection() if kind == "Session" else tx
        _check_open(connection)
        _check_dialect(connection)
        same.check(connection, lambda sql, values: _on_sqlalchemy(connection, sql, values))
        yield lambda statements: [_on_sqlalchemy(connection, sql, values) for sql, values in statements]
        return
    if kind is not None or isinstance(tx, psycopg.AsyncConnection):
        raise InvalidInput(
            f"tx= is a {_name(tx)}, which only asynchronous code can use. Nothing was stored. Use enqueue_async or "
            f"enqueue_many_async."
        )
    raise _unknown(tx)


async def run_inside_async(tx: Any, steps: Steps[T], same: SameDatabase) -> T:
    """Run steps in the caller's asynchronous transaction and return their result."""
    if isinstance(tx, psycopg.AsyncConnection):
        _check_open(tx)
        alone = tx.autocommit and tx.info.transaction_status == TransactionStatus.IDLE
        async with tx.transaction() if alone else nullcontext():
            await same.check_async(tx, lambda sql, values: _on_async_psycopg(tx, sql, values))
            return await _drive_async(steps, lambda sql, values: _on_async_psycopg(tx, sql, values))
    kind = _sqlalchemy_kind(tx)
    if kind in {"AsyncSession", "AsyncConnection"}:
        connection = await tx.connection() if kind == "AsyncSession" else tx
        _check_open(connection)
        _check_dialect(connection)
        await same.check_async(connection, lambda sql, values: _on_async_sqlalchemy(connection, sql, values))
        return await _drive_async(steps, lambda sql, values: _on_async_sqlalchemy(connection, sql, values))
    if kind is not None or isinstance(tx, psycopg.Connection):
        raise InvalidInput(
            f"tx= is a {_name(tx)}, which belongs to synchronous code. Nothing was stored. Use enqueue or enqueue_many."
        )
    raise _unknown(tx)


async def _drive_async(steps: Steps[T], run: Callable[[str, Values], Awaitable[Rows]]) -> T:
    """Run steps to their end with `run`; return their result."""
    try:
        sql, values = next(steps)
        while True:
            sql, values = steps.send(await run(sql, values))
    except StopIteration as done:
        result: T = done.value
        return result


async def _on_async_psycopg(tx: psycopg.AsyncConnection[Any], sql: str, values: Values) -> Rows:
    cursor = psycopg.AsyncCursor(tx, row_factory=tuple_row)
    await cursor.execute(sql.encode(), values)
    return await cursor.fetchall() if cursor.description else []


def _on_sqlalchemy(connection: Any, sql: str, values: Values) -> Rows:
    return _rows(connection.execute(*_for_sqlalchemy(sql, values)))


async def _on_async_sqlalchemy(connection: Any, sql: str, values: Values) -> Rows:
    return _rows(await connection.execute(*_for_sqlalchemy(sql, values)))


def _on_psycopg(tx: psycopg.Connection[Any], sql: str, values: Values) -> Rows:
    # A cursor of our own, because the caller's row factory may return other rows.
    cursor = psycopg.Cursor(tx, row_factory=tuple_row)
    cursor.execute(sql.encode(), values)
    return cursor.fetchall() if cursor.description else []


def _sqlalchemy_kind(tx: Any) -> str | None:
    """Return the SQLAlchemy class of this object, found without importing SQLAlchemy.

    None if it is of another library.
    """
    for kind in type(tx).__mro__:
        if kind.__module__.partition(".")[0] == "sqlalchemy" and kind.__name__ in _SQLALCHEMY:
            return _SQLALCHEMY[kind.__name__]
    return None


_SQLALCHEMY = {
    "Session": "Session",
    "scoped_session": "Session",
    "Connection": "Connection",
    "AsyncSession": "AsyncSession",
    "async_scoped_session": "AsyncSession",
    "AsyncConnection": "AsyncConnection",
}


def _for_sqlalchemy(sql: str, values: Values) -> tuple[Any, Values]:
    """Return a statement in SQLAlchemy's form, and the values that it uses."""
    text, names = _sqlalchemy_text(sql)
    return text, {name: values[name] for name in names}


@lru_cache(maxsize=64)
def _sqlalchemy_text(sql: str) -> tuple[Any, frozenset[str]]:
    """Return the statement with SQLAlchemy's placeholders, and the names of its values."""
    from sqlalchemy import text

    return text(PLACE.sub(r"(:\1)", sql)), frozenset(PLACE.findall(sql))


def _rows(result: Any) -> Rows:
    return list(result.all()) if result.returns_rows else []


def _check_open(connection: Any) -> None:
    """Raise InvalidInput for a connection whose block has ended.

    psycopg sets `_pool` to None when the connection is given back to a pool.
    """
    if connection.closed or getattr(connection, "_pool", connection) is None:
        raise InvalidInput(
            f"tx= is a {_name(connection)} that is closed: the block that it was opened for has ended. Nothing was "
            f"stored. Enqueue inside of the block."
        )


def _check_dialect(connection: Any) -> None:
    """Raise InvalidInput for a SQLAlchemy connection to another kind of database."""
    if connection.dialect.name != "postgresql":
        raise InvalidInput(
            f"tx= is a SQLAlchemy connection to {connection.dialect.name}, and this store is PostgreSQL. "
            f"Nothing was stored."
        )


def _unknown(tx: Any) -> InvalidInput:
    """Return the error for a `tx=` of an unknown type."""
    return InvalidInput(
        f"tx= is a {_name(tx)}, which cannot write to PostgreSQL here. Nothing was stored. Pass what app.connection() "
        f"gives, or a psycopg or SQLAlchemy connection or session of the same database."
    )


def _name(tx: Any) -> str:
    return f"{type(tx).__module__}.{type(tx).__qualname__}"
