"""Hooks and declared files on SQLite (see `store.admin.hooks`). The SQL is in sql/hooks.sql."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tickwork.core.hooks import Delivery, Hook, decode_hook, encode_hook
from tickwork.store.admin.hooks import DELIVERIES_KEPT, DeclaredThing, HookView
from tickwork.store.rows.admin import delivery_values, read_delivery
from tickwork.store.rows.instants import from_us
from tickwork.store.sqlite.transactions import SqliteTransactions, Transaction


class SqliteHooks:
    """Hooks, their deliveries, and the files that declare objects."""

    def __init__(self, transactions: SqliteTransactions) -> None:
        self._transactions = transactions

    def put_hooks(self, hooks: Sequence[Hook]) -> None:
        with self._transactions.write() as transaction:
            for hook in hooks:
                _put(transaction, hook)

    def replace_hook(self, hook: Hook, old: Hook | None) -> bool:
        with self._transactions.write() as transaction:
            stored = transaction.first("hook", (hook.name,))
            if (None if stored is None else _view(stored).hook) != old:
                return False
            _put(transaction, hook)
        return True

    def get_hook(self, name: str) -> HookView | None:
        with self._transactions.read() as transaction:
            row = transaction.first("hook", (name,))
        return None if row is None else _view(row)

    def list_hooks(self, limit: int, after: str = "") -> list[HookView]:
        with self._transactions.read() as transaction:
            return [_view(row) for row in transaction.run("hooks", {"after": after, "limit": limit})]

    def delete_hooks(self, names: Sequence[str]) -> list[str]:
        with self._transactions.write() as transaction:
            deleted = [name for name in dict.fromkeys(names) if transaction.run("delete_hook", (name,))]
            for name in deleted:
                transaction.run("delete_deliveries", (name,))
        return deleted

    def record_delivery(self, delivery: Delivery) -> None:
        with self._transactions.write() as transaction:
            of_hook = {"hook": delivery.hook, "genuine": int(delivery.is_genuine)}
            transaction.run("record_delivery", {**delivery_values(delivery), **of_hook, "now": transaction.now})
            transaction.run("forget_deliveries", {**of_hook, "kept": DELIVERIES_KEPT})

    def deliveries(self, hook: str) -> list[Delivery]:
        with self._transactions.read() as transaction:
            return [read_delivery(row, from_us) for row in transaction.run("deliveries", (hook,))]

    def mark_declared(self, source: str, things: Iterable[DeclaredThing]) -> None:
        with self._transactions.write() as transaction:
            transaction.run_many("mark_declared", [(*thing, source) for thing in things])

    def declared_by(self, source: str) -> list[DeclaredThing]:
        with self._transactions.read() as transaction:
            return [DeclaredThing(*row) for row in transaction.run("declared_by", (source,))]

    def forget_declared(self, things: Iterable[DeclaredThing]) -> None:
        with self._transactions.write() as transaction:
            transaction.run_many("forget_declared", list(things))


def _put(transaction: Transaction, hook: Hook) -> None:
    """Store a hook, and replace one of the same name."""
    transaction.run("put_hook", {"name": hook.name, "value": encode_hook(hook), "now": transaction.now})


def _view(row: Any) -> HookView:
    """Build a HookView from its row."""
    value, created_at, edited_at = row
    return HookView(decode_hook(value), from_us(created_at), from_us(edited_at))
