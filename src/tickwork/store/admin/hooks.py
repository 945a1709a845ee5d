"""The store verbs of webhooks, and of objects that files declare. Part of `Store`; `tests/store/` is the definition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

from tickwork.core.hooks import Delivery, Hook

DELIVERIES_KEPT = 50  # For each hook: genuine deliveries, and as many that were not genuine.
Kind = Literal["dag", "schedule", "calendar", "hook"]


@dataclass(frozen=True, slots=True)
class HookView:
    """A stored hook, and when it was created and last changed."""

    hook: Hook
    created_at: datetime
    edited_at: datetime


class DeclaredThing(NamedTuple):
    """An object (dag, schedule, calendar or hook) that a declaration file declares."""

    kind: Kind
    name: str


class HookVerbs(Protocol):
    """The verbs of hooks, and of the objects that files declare. Each is one transaction and safe to run twice."""

    def put_hooks(self, hooks: Sequence[Hook]) -> None:
        """Store hooks, all or none; a hook with an existing name replaces it."""

    def replace_hook(self, hook: Hook, old: Hook | None) -> bool:
        """Store a hook if the stored one still equals `old` (None: if there is none of its name); return whether it was
        stored.
        """

    def get_hook(self, name: str) -> HookView | None:
        """Return a hook; None if there is none of this name."""

    def list_hooks(self, limit: int, after: str = "") -> list[HookView]:
        """Return up to `limit` hooks whose names come after `after`, sorted by name."""

    def delete_hooks(self, names: Sequence[str]) -> list[str]:
        """Delete hooks and their recorded deliveries; return the names that existed. Jobs that they started are not
        affected.
        """

    def record_delivery(self, delivery: Delivery) -> None:
        """Record a delivery to a hook, and delete the oldest deliveries beyond DELIVERIES_KEPT.

        Of deliveries without a valid signature at most one per second is recorded, so that a caller who only knows the
        address cannot fill the disk.
        """

    def deliveries(self, hook: str) -> list[Delivery]:
        """Return the recorded deliveries to a hook, the newest first."""

    def mark_declared(self, source: str, things: Iterable[DeclaredThing]) -> None:
        """Record that the file `source` declares these objects, also those that another file declared before."""

    def declared_by(self, source: str) -> list[DeclaredThing]:
        """Return the objects that the file `source` declares, sorted by kind and name."""

    def forget_declared(self, things: Iterable[DeclaredThing]) -> None:
        """Record that no file declares these objects any more."""
