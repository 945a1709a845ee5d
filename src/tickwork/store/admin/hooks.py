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
    """A hook as it is stored."""

    hook: Hook
    created_at: datetime
    edited_at: datetime


class DeclaredThing(NamedTuple):
    """An object that a file declares."""

    kind: Kind
    name: str


class HookVerbs(Protocol):
    """The verbs of hooks, and of the files that declare objects. Each is one transaction and safe to run twice."""

    def put_hooks(self, hooks: Sequence[Hook]) -> None:
        """Store hooks, all or none; a hook with an existing name replaces it."""

    def replace_hook(self, hook: Hook, old: Hook | None) -> bool:
        """Store a hook if the stored one still equals `old`; with None, only if there is none of its name."""

    def get_hook(self, name: str) -> HookView | None:
        """Return a hook."""

    def list_hooks(self, limit: int, after: str = "") -> list[HookView]:
        """Return hooks by name, from just after `after` on."""

    def delete_hooks(self, names: Sequence[str]) -> list[str]:
        """Delete hooks and their recorded deliveries; return those that existed. Their jobs are not affected."""

    def record_delivery(self, delivery: Delivery) -> None:
        """Record a delivery to a hook, and delete the oldest beyond DELIVERIES_KEPT.

        Of deliveries that are not genuine one a second is recorded, so that a caller who only knows the address cannot
        fill the disk.
        """

    def deliveries(self, hook: str) -> list[Delivery]:
        """Return the latest deliveries to a hook, the newest first."""

    def mark_declared(self, source: str, things: Iterable[DeclaredThing]) -> None:
        """Record that a source declares these objects. Objects that another source declared before are taken over."""

    def declared_by(self, source: str) -> list[DeclaredThing]:
        """Return the objects that a source has declared, by kind and name."""

    def forget_declared(self, things: Iterable[DeclaredThing]) -> None:
        """Record that no file declares these objects any more."""
