"""Hooks and declared files on PostgreSQL (see `store.admin.hooks`). The SQL is in sql/hooks.sql."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from tickwork.core.hooks import Delivery, Hook, decode_hook, encode_hook
from tickwork.store.admin.hooks import DELIVERIES_KEPT, DeclaredThing, HookView
from tickwork.store.postgres import params
from tickwork.store.postgres.connection.session import Session, utc
from tickwork.store.postgres.transactions import PostgresTransactions
from tickwork.store.rows.admin import delivery_values, read_delivery


@dataclass(eq=False)
class PostgresHooks:
    """Hooks, their deliveries, and the objects that files declare."""

    transactions: PostgresTransactions

    def put_hooks(self, hooks: Sequence[Hook]) -> None:
        given = _document(hooks)
        self.transactions.run("put_hooks", hooks=given)

    def replace_hook(self, hook: Hook, old: Hook | None) -> bool:
        given = _document([hook])

        def replace(session: Session) -> bool:
            stored = session.find("hook_to_replace", name=hook.name)
            if stored is None:
                return old is None and bool(session.run("new_hooks", hooks=given))
            (text,) = stored
            if decode_hook(text) != old:
                return False
            session.run("put_hooks", hooks=given)
            return True

        return self.transactions.perform(replace, single=False)

    def get_hook(self, name: str) -> HookView | None:
        row = self.transactions.find("hook", name=name)
        return None if row is None else _view(*row)

    def list_hooks(self, limit: int, after: str = "") -> list[HookView]:
        rows = self.transactions.run("hooks", after=after, limit=limit)
        return [_view(*row) for row in rows]

    def delete_hooks(self, names: Sequence[str]) -> list[str]:
        given = params.document(names)
        deleted = {name for (name,) in self.transactions.run("delete_hooks", names=given)}
        return [name for name in dict.fromkeys(names) if name in deleted]

    def record_delivery(self, delivery: Delivery) -> None:
        of_hook = {"hook": delivery.hook, "genuine": delivery.is_genuine}

        def record(session: Session) -> None:
            session.run("record_delivery", **delivery_values(delivery), **of_hook)
            session.run("forget_deliveries", **of_hook, kept=DELIVERIES_KEPT)

        self.transactions.perform(record, single=False)

    def deliveries(self, hook: str) -> list[Delivery]:
        rows = self.transactions.run("deliveries", hook=hook)
        return [read_delivery(row, utc) for row in rows]

    def mark_declared(self, source: str, things: Iterable[DeclaredThing]) -> None:
        given = _things(things)
        self.transactions.run("mark_declared", source=source, things=given)

    def declared_by(self, source: str) -> list[DeclaredThing]:
        rows = self.transactions.run("declared_by", source=source)
        return [DeclaredThing(kind, name) for kind, name in rows]

    def forget_declared(self, things: Iterable[DeclaredThing]) -> None:
        given = _things(things)
        self.transactions.run("forget_declared", things=given)


def _document(hooks: Sequence[Hook]) -> str:
    """Return hooks as JSON, of each name the last one, because one statement changes a row only once."""
    once = {hook.name: encode_hook(hook) for hook in hooks}
    return params.document({"name": name, "value": value} for name, value in once.items())


def _things(things: Iterable[DeclaredThing]) -> str:
    """Return declared objects as JSON, each once."""
    return params.document(one._asdict() for one in dict.fromkeys(things))


def _view(value: str, created_at: datetime, edited_at: datetime) -> HookView:
    """Build a HookView from its row."""
    return HookView(decode_hook(value), utc(created_at), utc(edited_at))
