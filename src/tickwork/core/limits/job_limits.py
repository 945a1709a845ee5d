"""The limits of a job: the values for limits and placement that are stored with it.

A limit key is written as the text under which claims lock it and queues name the lanes of held jobs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import msgspec

_KEY_SIGN = "\x1e"


class LimitKey(NamedTuple):
    """A limit and one key under it: the unit in which limits are locked and jobs are held."""

    limit: str
    key: str


class LimitUse(NamedTuple):
    """The weight that a job takes under a limit key while it runs; under a rate, when it starts."""

    limit: str
    key: str
    weight: int

    @property
    def limit_key(self) -> LimitKey:
        return _limit_key(self.limit, self.key)


@lru_cache(maxsize=16_384)
def _limit_key(limit: str, key: str) -> LimitKey:
    """Return a limit key; cached, because claims call it very often."""
    return LimitKey(limit, key)


class Broadcast(msgspec.Struct, frozen=True, array_like=True):
    """The number of a job within a broadcast: `index` is from 0 to `total` - 1."""

    index: int
    total: int


class JobLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """The flow-control data of a job: its limit uses, its tenant, and its needs (see placement).

    `sequence`: one of the limits runs its jobs in order. `diverted`: a gate has moved it to another queue, which
    happens once. `broadcast`: it is one job of a broadcast. `spot`: the spot of its sticky key, if it has one (see
    sticky).
    """

    uses: tuple[LimitUse, ...] = ()
    tenant: str | None = None
    needs: str = ""
    sequence: bool = False
    diverted: bool = False
    broadcast: Broadcast | None = None
    spot: int | None = None


def limit_key_text(limit_key: LimitKey) -> str:
    """Return the text under which a limit key is stored."""
    return f"{limit_key.limit}{_KEY_SIGN}{limit_key.key}"


def limit_key_of(name: str) -> LimitKey:
    """Return the limit key that is stored under this text."""
    limit, _, key = name.rpartition(_KEY_SIGN)
    return LimitKey(limit, key)
