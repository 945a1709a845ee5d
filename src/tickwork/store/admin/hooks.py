"""What a store promises of hooks, and of what files declared. Part of `Store`; `tests/store/` is the definition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

from tickwork.core.hooks.hook import Delivery, Hook

DELIVERIES_KEPT = 50  # of each hook those that were genuine, and as many of those that were not
Kind = Literal["dag", "schedule", "calendar", "hook"]


@dataclass(frozen=True, slots=True)
class HookView:
    """A hook as it is stored."""

    hook: Hook
    created_at: datetime
    edited_at: datetime


class DeclaredThing(NamedTuple):
    """Something that a file declares."""

    kind: Kind
    name: str


class HookVerbs(Protocol):
    """The verbs of hooks. Each is one transaction and safe to run twice."""

    def put_hooks(self, hooks: Sequence[Hook]) -> None:
        """Store hooks, all or none; one of a name that is taken is edited."""

    def replace_hook(self, hook: Hook, old: Hook | None) -> bool:
        """Store a hook where it is still as `old`, or, without one, where none of its name is there."""

    def get_hook(self, name: str) -> HookView | None:
        """Return a hook."""

    def list_hooks(self, limit: int, after: str = "") -> list[HookView]:
        """Return hooks by name, from just after `after` on."""

    def delete_hooks(self, names: Sequence[str]) -> list[str]:
        """Delete hooks and what is recorded of their deliveries; return those that were there. Their jobs go on."""

    def record_delivery(self, delivery: Delivery) -> None:
        """Record what came in at a hook, and forget the oldest beyond those that are kept.

        Of what was not genuine one a second is recorded, so that whoever knows an address alone does not fill a disk.
        """

    def deliveries(self, hook: str) -> list[Delivery]:
        """Return what came in lately at a hook, the newest first."""


class DeclaredVerbs(Protocol):
    """The verbs that know which files things were declared in."""

    def mark_declared(self, source: str, things: Iterable[DeclaredThing]) -> None:
        """Note that things are declared by a source. What another one declared before is taken over."""

    def declared_by(self, source: str) -> list[DeclaredThing]:
        """Return what a source has declared, by kind and name."""

    def forget_declared(self, things: Iterable[DeclaredThing]) -> None:
        """Note that nothing declares these things any more."""
