"""The audit log on PostgreSQL (see `store.admin.audit`). The SQL is in sql/access.sql and sql/audit_chain.sql."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tickwork.store.admin.audit import (
    BEGIN,
    BEHIND,
    AuditFilter,
    AuditRow,
    AuditView,
    ChainHead,
    ChainLink,
    LinkedRow,
    audit_view,
    change_row,
    next_links,
)
from tickwork.store.postgres.connection.session import Session, utc
from tickwork.store.postgres.params import array, text_array
from tickwork.store.postgres.transactions import PostgresTransactions
from tickwork.store.rows.instants import duration_us, to_us

_END = (1 << 63) - 1
_FILTERS = {
    "who": "AND who = %(who)s",
    "action": "AND action = %(action)s",
    "target": "AND target = %(target)s",
    "since": "AND at >= %(since)s::timestamptz",
}


@dataclass(eq=False)
class PostgresAudit:
    """The audit log: its rows, the chain that links them, and the sinks to which they are sent."""

    transactions: PostgresTransactions

    def record_changes(self, changes: Sequence[AuditRow]) -> None:
        def record(session: Session) -> None:
            rows = (("record_change", change_row(one)) for one in changes)
            session.run_together(self.transactions.statements(session.now, *rows))

        self.transactions.perform(record)

    def list_changes(self, which: AuditFilter, limit: int, before: int | None = None) -> list[AuditView]:
        given = {name: getattr(which, name) for name in _FILTERS if getattr(which, name) is not None}
        sql = self.transactions.sql["changes"].replace("{filters}", " ".join(_FILTERS[name] for name in given))
        values = {**given, "below": _END if before is None else before, "limit": limit}
        return [audit_view(row, utc) for row in self.transactions.perform(lambda session: session.run_sql(sql, values))]

    def newest_change(self) -> int:
        ((newest,),) = self.transactions.run("newest_change")
        return int(newest)

    def link_changes(self, limit: int) -> int:
        """Append links to the hash chain in a transaction that locks the chain; return how many."""

        def link(session: Session) -> int:
            session.run("lock_chain")
            last = ChainHead(*(session.find("last_link") or (0, BEGIN)))
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

        return self.transactions.perform(link, single=False)

    def linked_changes(self, after: int, limit: int) -> list[LinkedRow]:
        rows = self.transactions.run("linked_changes", after=after, limit=limit)
        return [_linked(*row) for row in rows]

    def unlinked_changes(self, limit: int) -> list[AuditView]:
        rows = self.transactions.run("unlinked_changes", limit=limit)
        return [audit_view(row, utc) for row in rows]

    def take_audit_sink(self, sink: str, holder: str, turn: timedelta) -> int | None:
        values = {"sink": sink, "holder": holder, "turn": duration_us(turn)}
        (number,) = self.transactions.find("take_audit_sink", **values) or (None,)
        return None if number is None else int(number)

    def move_audit_sink(self, sink: str, holder: str, number: int) -> bool:
        values = {"sink": sink, "holder": holder, "number": number}
        return bool(self.transactions.run("move_audit_sink", **values))


def _linked(
    number: int, audit_id: int, at: datetime, digest: str, hash: str, found_id: int | None, *row: Any
) -> LinkedRow:
    """Build a link and its audit row from their columns; `found_id` is None if the row was deleted."""
    found = None if found_id is None else audit_view((found_id, *row), utc)
    return LinkedRow(ChainLink(number, audit_id, to_us(utc(at)), digest, hash), found)
