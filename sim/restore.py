"""Simulate a store that loses its last commits: a restored backup, or a failover to a replica that lagged.

Some worlds are *lossy* (see World). In these, a snapshot is taken, and later the tables and the judge's state are
restored from it, while processes and handlers continue without noticing. Jobs that were acknowledged in between are
lost (a weaker S1), and attempts that began in between may run concurrently with their successors (no S4 for these).
All other invariants hold, above all OWN: the recorded end of an attempt is the end that the handler of its claim
reached.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import apsw

if TYPE_CHECKING:
    from sim.world import World

SHARE = 0.1  # the share of worlds that are lossy


class Snapshot:
    """A copy of the store and of the judge's state at one instant."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._copy = apsw.Connection(":memory:")
        _copy(world.raw, self._copy)
        account = world.plan_round.account
        self._tables = {name: dict(rows) for name, rows in account.mirror.tables.items()}
        self._stories = {job_id: replace(story) for job_id, story in account.stories.items()}
        self._claims, self._closed = dict(account.claims), dict(account.closed)
        self._holders = {key: list(holders) for key, holders in account.holders.items()}

    def restore(self) -> None:
        """Restore the copy. All processes count as disturbed, because their leases may have run out in between."""
        world = self._world
        _copy(self._copy, world.raw)
        account = world.plan_round.account
        for name, rows in account.mirror.tables.items():
            _put_back(rows, self._tables[name])
        _put_back(account.stories, {job_id: replace(story) for job_id, story in self._stories.items()})
        _put_back(account.claims, self._claims)
        _put_back(account.closed, self._closed)
        _put_back(account.holders, {key: list(holders) for key, holders in self._holders.items()})
        for handler in account.handlers.values():
            handler.unlogged = True
        for process in (*world.workers, *world.clients):
            process.disturb(world.now_us)
        world.trace.add(world.now_us, "world", "restore")
        world.trace.count("restored")


def _copy(source: apsw.Connection, target: apsw.Connection) -> None:
    with target.backup("main", source, "main") as backup:
        backup.step()


def _put_back(now: dict[Any, Any], before: dict[Any, Any]) -> None:
    now.clear()
    now.update(before)
