"""The hash chain of the audit log on PostgreSQL (see `store.admin.audit`)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from tickwork.store.admin.audit import BEGIN, BEHIND, AuditView, ChainHead, ChainLink, LinkedRow, audit_view, next_links
from tickwork.store.postgres.connection.session import Session
from tickwork.store.postgres.connection.verb_pool import VerbPool
from tickwork.store.postgres.params import array, text_array
from tickwork.store.postgres.rows import utc
from tickwork.store.rows.instants import duration_us, to_us

T = TypeVar("T")
_LINK = 5  # Columns of a link, before the columns of its row.


class PostgresAuditChain:
    """A part of PostgresStore. It needs from the rest the transactions."""

    def _perform(self, work: Callable[[Session], T], *, pool: VerbPool | None = None, single: bool = True) -> T:
        raise NotImplementedError

    def newest_change(self) -> int:
        ((newest,),) = self._perform(lambda session: session.run("newest_change"))
        return int(newest)

    def link_changes(self, limit: int) -> int:
        """Link rows in a transaction that locks the chain."""

        def link(session: Session) -> int:
            session.run("lock_chain")
            last = ChainHead(*(session.run("last_link") or [(0, BEGIN)])[0])
            rows = [audit_view(row, utc) for row in session.run("to_link", behind=BEHIND, limit=limit)]
            links = next_links(last, [(to_us(row.at), row) for row in rows])
            if links:
                session.run(
                    "insert_links",
                    numbers=array([one.number for one in links]),
                    ids=array([one.audit_id for one in links]),
                    digests=text_array([one.digest for one in links]),
                    hashes=text_array([one.hash for one in links]),
                )
            return len(links)

        return self._perform(link, single=False)

    def linked_changes(self, after: int, limit: int) -> list[LinkedRow]:
        rows = self._perform(lambda session: session.run("linked_changes", after=after, limit=limit))
        return [_linked(row[:_LINK], row[_LINK:]) for row in rows]

    def unlinked_changes(self, limit: int) -> list[AuditView]:
        rows = self._perform(lambda session: session.run("unlinked_changes", limit=limit))
        return [audit_view(row, utc) for row in rows]

    def take_audit_sink(self, sink: str, holder: str, turn: timedelta) -> int | None:
        values = {"sink": sink, "holder": holder, "turn": duration_us(turn)}
        rows = self._perform(lambda session: session.run("take_audit_sink", **values))
        return int(rows[0][0]) if rows else None

    def move_audit_sink(self, sink: str, holder: str, number: int) -> bool:
        values = {"sink": sink, "holder": holder, "number": number}
        return bool(self._perform(lambda session: session.run("move_audit_sink", **values)))


def _linked(link: tuple[Any, ...], row: tuple[Any, ...]) -> LinkedRow:
    number, audit_id, at, digest, hash = link
    found = None if row[0] is None else audit_view(row, utc)
    return LinkedRow(ChainLink(number, audit_id, to_us(utc(at)), digest, hash), found)
