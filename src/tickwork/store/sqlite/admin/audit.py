"""The audit log and its hash chain on a SQLite file (see `store.admin.audit`). The SQL is in sql/audit_chain.sql."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

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
from tickwork.store.rows.instants import duration_us, from_us, to_us
from tickwork.store.sqlite.transactions import SQL, SqliteTransactions

_END = (1 << 63) - 1
_FILTERS = {"who": "AND who = :who", "action": "AND action = :action", "target": "AND target = :target"}


class SqliteAudit:
    """The audit log and its hash chain."""

    def __init__(self, transactions: SqliteTransactions) -> None:
        self._transactions = transactions

    def record_changes(self, changes: Sequence[AuditRow]) -> None:
        with self._transactions.write() as transaction:
            for change in changes:
                transaction.run("record_change", {**change_row(change), "now": transaction.now})

    def list_changes(self, which: AuditFilter, limit: int, before: int | None = None) -> list[AuditView]:
        given = {name: getattr(which, name) for name in _FILTERS if getattr(which, name) is not None}
        filters = " ".join(_FILTERS[name] for name in given)
        values = {**given, "below": _END if before is None else before, "limit": limit}
        if which.since is not None:
            filters += " AND at >= :since"
            values["since"] = to_us(which.since)
        with self._transactions.read() as transaction:
            rows = transaction.connection.run(SQL["changes"].replace("{filters}", filters), values)
        return [audit_view(row, from_us) for row in rows]

    def newest_change(self) -> int:
        with self._transactions.read() as transaction:
            return int(transaction.value("newest_change"))

    def link_changes(self, limit: int) -> int:
        wanted = {"behind": BEHIND, "limit": limit}
        with self._transactions.read() as transaction:
            if not transaction.run("to_link", {**wanted, "limit": 1}):
                return 0  # Nothing to link: no write lock was taken.
        with self._transactions.write() as transaction:
            last = ChainHead(*(transaction.first("last_link") or (0, BEGIN)))
            rows = [audit_view(row, from_us) for row in transaction.run("to_link", wanted)]
            links = next_links(last, [(to_us(row.at), row) for row in rows])
            transaction.run_many("insert_link", links)
        return len(links)

    def linked_changes(self, after: int, limit: int) -> list[LinkedRow]:
        with self._transactions.read() as transaction:
            rows = transaction.run("linked_changes", {"after": after, "limit": limit})
        return [
            LinkedRow(
                ChainLink(number, audit_id, at_us, digest, hash),
                None if found_id is None else audit_view((found_id, *found), from_us),
            )
            for number, audit_id, at_us, digest, hash, found_id, *found in rows
        ]

    def unlinked_changes(self, limit: int) -> list[AuditView]:
        with self._transactions.read() as transaction:
            return [audit_view(row, from_us) for row in transaction.run("unlinked_changes", {"limit": limit})]

    def take_audit_sink(self, sink: str, holder: str, turn: timedelta) -> int | None:
        with self._transactions.write() as transaction:
            values = {"sink": sink, "holder": holder, "turn": duration_us(turn), "now": transaction.now}
            number = transaction.value("take_audit_sink", values)
        return None if number is None else int(number)

    def move_audit_sink(self, sink: str, holder: str, number: int) -> bool:
        with self._transactions.write() as transaction:
            return bool(transaction.run("move_audit_sink", {"sink": sink, "holder": holder, "number": number}))
