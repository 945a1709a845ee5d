"""Hooks and declared files on PostgreSQL (see `store.admin.hooks`). The SQL is in sql/hooks.sql."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from tickwork.core.hooks import Delivery, Hook, decode_hook, encode_hook
from tickwork.store.admin.hooks import DELIVERIES_KEPT, DeclaredThing, HookView
from tickwork.store.postgres import params
from tickwork.store.postgres.connection.session import Session
from tickwork.store.postgres.connection.verb_pool import VerbPool
from tickwork.store.postgres.rows import utc
from tickwork.store.rows.admin import delivery_values, read_delivery

T = TypeVar("T")


class PostgresHooks:
    """A part of PostgresStore. It needs from the rest the transactions."""

    def _perform(self, work: Callable[[Session], T], *, pool: VerbPool | None = None, single: bool = True) -> T:
        raise NotImplementedError

    def put_hooks(self, hooks: Sequence[Hook]) -> None:
        given = _document(hooks)
        self._perform(lambda session: session.run("put_hooks", hooks=given))

    def replace_hook(self, hook: Hook, old: Hook | None) -> bool:
        given = _document([hook])

        def replace(session: Session) -> bool:
            stored = session.run("hook_to_replace", name=hook.name)
            if not stored:
                return old is None and bool(session.run("new_hooks", hooks=given))
            if decode_hook(stored[0][0]) != old:
                return False
            session.run("put_hooks", hooks=given)
            return True

        return self._perform(replace, single=False)

    def get_hook(self, name: str) -> HookView | None:
        rows = self._perform(lambda session: session.run("hook", name=name))
        return _view(rows[0]) if rows else None

    def list_hooks(self, limit: int, after: str = "") -> list[HookView]:
        rows = self._perform(lambda session: session.run("hooks", after=after, limit=limit))
        return [_view(row) for row in rows]

    def delete_hooks(self, names: Sequence[str]) -> list[str]:
        given = params.document(names)
        deleted = {name for (name,) in self._perform(lambda session: session.run("delete_hooks", names=given))}
        return [name for name in dict.fromkeys(names) if name in deleted]

    def record_delivery(self, delivery: Delivery) -> None:
        of_hook = {"hook": delivery.hook, "genuine": delivery.is_genuine}

        def record(session: Session) -> None:
            session.run("record_delivery", **delivery_values(delivery), **of_hook)
            session.run("forget_deliveries", **of_hook, kept=DELIVERIES_KEPT)

        self._perform(record, single=False)

    def deliveries(self, hook: str) -> list[Delivery]:
        rows = self._perform(lambda session: session.run("deliveries", hook=hook))
        return [read_delivery(row, utc) for row in rows]

    def mark_declared(self, source: str, things: Iterable[DeclaredThing]) -> None:
        given = _things(things)
        self._perform(lambda session: session.run("mark_declared", source=source, things=given))

    def declared_by(self, source: str) -> list[DeclaredThing]:
        rows = self._perform(lambda session: session.run("declared_by", source=source))
        return [DeclaredThing(kind, name) for kind, name in rows]

    def forget_declared(self, things: Iterable[DeclaredThing]) -> None:
        given = _things(things)
        self._perform(lambda session: session.run("forget_declared", things=given))


def _document(hooks: Sequence[Hook]) -> str:
    """Return the last hook of each name as JSON, because one statement changes a row only once."""
    once = {hook.name: encode_hook(hook) for hook in hooks}
    return params.document({"name": name, "value": value} for name, value in once.items())


def _things(things: Iterable[DeclaredThing]) -> str:
    return params.document(one._asdict() for one in dict.fromkeys(things))


def _view(row: Any) -> HookView:
    value, created_at, edited_at = row
    return HookView(decode_hook(value), utc(created_at), utc(edited_at))
