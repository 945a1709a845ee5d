"""Check that a caller's transaction (`tx=`) is on the store's own database.

A database is identified by the start time of its server and its oid there: every role may read both, and both are the
same by every route, poolers included. A system identifier would need a privilege that a caller's role may lack, and an
error would end the caller's transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from tickwork.errors import InvalidInput

if TYPE_CHECKING:
    from tickwork.store.postgres.connection.connector import Connector

WHICH = """SELECT extract(epoch FROM pg_postmaster_start_time())::text, oid::text, datname::text
FROM pg_database WHERE datname = current_database()"""
_FACT = "tickwork_database"
_known: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


class DatabaseIdentity(NamedTuple):
    """The identity of a database: the start time of its server, its oid and its name. A restart changes it."""

    started: str
    oid: str
    name: str

    @classmethod
    def of(cls, rows: list[Any]) -> DatabaseIdentity:
        """Return the identity of the database, from the one row that the query `WHICH` returned."""
        (row,) = rows
        return cls(*row)


class SameDatabase:
    """Refuses connections to other databases. The identity of a connection's database is read once and cached."""

    def __init__(self, server: Connector, read_own: Callable[[], DatabaseIdentity]) -> None:
        self._server = server
        self._read_own = read_own
        self._own: DatabaseIdentity | None = None

    def check(self, connection: Any, run: Callable[[str, dict[str, Any]], list[Any]]) -> None:
        """Raise InvalidInput for a connection to another database. `run` runs a statement on it."""
        facts = _facts_of(connection)
        if self._is_unknown(connection, facts):
            facts[_FACT] = found = DatabaseIdentity.of(run(WHICH, {}))
            self._refuse_other(found)

    async def check_async(self, connection: Any, run: Callable[[str, dict[str, Any]], Awaitable[list[Any]]]) -> None:
        """Raise InvalidInput for an asynchronous connection to another database."""
        facts = _facts_of(connection)
        if self._is_unknown(connection, facts):
            facts[_FACT] = found = DatabaseIdentity.of(await run(WHICH, {}))
            await asyncio.to_thread(self._refuse_other, found)

    def _is_unknown(self, connection: Any, facts: Mapping[str, Any]) -> bool:
        """Return whether the database of a connection still has to be compared with the store's."""
        if getattr(connection, "lent_by", None) is self._server:
            return False
        return self._own is None or facts.get(_FACT) != self._own

    def _refuse_other(self, found: DatabaseIdentity) -> None:
        """Raise InvalidInput unless a database is the store's own, which is read again if they differ."""
        if found == self._own:
            return
        self._own = self._read_own()  # This is the first time, or the server was restarted.
        if found != self._own:
            other = " of another server" if found.name == self._own.name else ""
            raise InvalidInput(
                f"tx= is a connection to the database {found.name!r}{other}, and the jobs of this app are in "
                f"{self._server.where}. Nothing was stored. Pass a connection to that database, or leave tx= out."
            )


def _facts_of(connection: Any) -> MutableMapping[str, Any]:
    """Return the cache of a connection, which lives as long as the connection. SQLAlchemy provides one (`info`)."""
    if type(connection).__module__.partition(".")[0] == "sqlalchemy":
        facts: MutableMapping[str, Any] = connection.info
        return facts
    return _known.setdefault(connection, {})
