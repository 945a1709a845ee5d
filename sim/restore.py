"""A store that loses its last commits: a backup that is restored, or a failover to a replica that was behind.

Some worlds are *lossy* (see World). There a snapshot is taken, and some time later everything is put back to it: the
tables, and what the judge believes of them. Processes and handlers go on; they do not know. What was acknowledged in
between is gone (a weaker S1), and attempts that began in between may run beside their successors (no S4 for those).
All else holds: above all, what is recorded of an attempt is what the handler of the claim that holds it came to (OWN).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import apsw

if TYPE_CHECKING:
    from sim.world import World

SHARE = 0.1  # of all worlds are lossy


class Snapshot:
    """The store at one instant, with the judge's account of it."""

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
        """Put everything back. Every process was disturbed: its lease may have run out meanwhile."""
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
