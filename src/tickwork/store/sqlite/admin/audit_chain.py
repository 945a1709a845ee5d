"""The hash chain of the audit log on one SQLite file (see `store.admin.audit`)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

from tickwork.store.admin.audit import BEGIN, BEHIND, AuditView, ChainHead, ChainLink, LinkedRow, audit_view, next_links
from tickwork.store.rows.instants import duration_us, from_us, to_us
from tickwork.store.sqlite.transitions import Transaction

_LINK = 5  # Columns of a link, before the columns of its row.


class SqliteAuditChain:
    """A part of SqliteStore. It needs from the rest the transactions."""

    def _write(self, tx: Any = None) -> AbstractContextManager[Transaction]:
        raise NotImplementedError

    def _read(self) -> AbstractContextManager[Transaction]:
        raise NotImplementedError

    def newest_change(self) -> int:
        with self._read() as transaction:
            ((newest,),) = transaction.run("newest_change")
        return int(newest)

    def link_changes(self, limit: int) -> int:
        wanted = {"behind": BEHIND, "limit": limit}
        with self._read() as transaction:
            if not transaction.run("to_link", {**wanted, "limit": 1}):
                return 0  # Nothing to link: no write lock was taken.
        with self._write() as transaction:
            last = ChainHead(*(transaction.run("last_link") or [(0, BEGIN)])[0])
            rows = [audit_view(row, from_us) for row in transaction.run("to_link", wanted)]
            links = next_links(last, [(to_us(row.at), row) for row in rows])
            transaction.run_many("insert_link", links)
        return len(links)

    def linked_changes(self, after: int, limit: int) -> list[LinkedRow]:
        with self._read() as transaction:
            rows = transaction.run("linked_changes", {"after": after, "limit": limit})
        return [_linked(row[:_LINK], row[_LINK:]) for row in rows]

    def unlinked_changes(self, limit: int) -> list[AuditView]:
        with self._read() as transaction:
            return [audit_view(row, from_us) for row in transaction.run("unlinked_changes", {"limit": limit})]

    def take_audit_sink(self, sink: str, holder: str, turn: timedelta) -> int | None:
        with self._write() as transaction:
            values = {"sink": sink, "holder": holder, "turn": duration_us(turn), "now": transaction.now}
            rows = transaction.run("take_audit_sink", values)
        return int(rows[0][0]) if rows else None

    def move_audit_sink(self, sink: str, holder: str, number: int) -> bool:
        with self._write() as transaction:
            return bool(transaction.run("move_audit_sink", {"sink": sink, "holder": holder, "number": number}))


def _linked(link: tuple[Any, ...], row: tuple[Any, ...]) -> LinkedRow:
    return LinkedRow(ChainLink(*link), None if row[0] is None else audit_view(row, from_us))
