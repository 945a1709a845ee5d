"""Open limit keys, after a commit, so that claims check their held jobs again; remember which holds have ended.

A hold is a running job's use of a limit key, a row in `holds`. Counting the live rows would read all ended ones that
are not yet deleted. Holds are numbered as they are taken, under the lock of the limit. Hence all holds before the first
live hold have ended for good, and a count begins there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Any

from tickwork.core.limits.job_limits import LimitKey, limit_key_of, limit_key_text
from tickwork.store.postgres.params import array, text_array
from tickwork.store.postgres.transactions import PostgresTransactions
from tickwork.store.rows.jobs import limit_keys_of

COUNTED_S = 30.0  # How often all holds of a limit key are counted again.
SETTLED_S = 10.0  # Once a limit is this old, all processes number its holds under its lock.
KEPT = 20_000  # Limit keys for which the ended holds are remembered.


@dataclass(eq=False)
class LimitOpenings:
    """Opens limit keys in transactions of its own; inside a shared transaction, after its commit."""

    transactions: PostgresTransactions
    released_holds: ReleasedHolds

    def open_freed(self, names: Sequence[str]) -> bool:
        """Open the limit keys that ended jobs have freed; return whether one of them holds jobs."""
        return self.open_after_round({}, names)

    def open_after_round(self, full: Mapping[LimitKey, int], freed: Sequence[str]) -> bool:
        """Open limit keys after a round; return whether a key that the round's own finishes `freed` holds jobs.

        `full` are keys that refused a job, with their live weight as the round saw it. They are opened if the weight
        has decreased since: a finish may have missed the job that was refused at the same time.
        """
        wanted: list[tuple[str, dict[str, Any]]] = []
        if full:
            names = [limit_key_text(limit_key) for limit_key in full]
            live, afters = array(full.values()), array(self.released_holds.after(names))
            wanted.append(("open_emptier", {"names": text_array(names), "live": live, "afters": afters}))
        if freed:
            wanted.append(("open_freed", {"names": text_array(freed)}))
        if not wanted:
            return False
        if self.transactions.is_shared:
            self.transactions.after_commit(partial(self.open_after_round, full, freed))
            return False
        *_, opened = self.transactions.run_together(*wanted)
        if freed and opened:
            self.transactions.notifier.call()
        return bool(freed and opened)

    def leave_sequences(self, texts: Iterable[str | None]) -> None:
        """Open the sequences of jobs that have left the queue, so that the next jobs may start.

        `texts` are the job limits of these jobs, as stored.
        """
        if names := [name for text in texts for name in limit_keys_of(text)]:
            self.open_freed(names)


class ReleasedHolds:
    """The number up to which all holds of a limit key have ended, as this process has seen it.

    All holds are counted again every 30 s, in case the database was replaced by an older copy. A limit that is new to
    this process may be new to all: before it existed, jobs took holds without its lock, so the class learns nothing
    about it for SETTLED_S.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._since: dict[str, float] = {}  # When each limit was first locked.
        # By limit key: the number, and when all holds were last counted.
        self._known: dict[str, tuple[int, float]] = {}

    def after(self, names: Iterable[str]) -> list[int]:
        """Return for each limit key the number of the hold after which live holds are to be counted; 0: count all."""
        oldest = self._monotonic() - COUNTED_S
        found = [self._known.get(name, (0, oldest)) for name in names]
        return [number if at > oldest else 0 for number, at in found]

    def locked(self, limits: Iterable[str], missing: Iterable[str]) -> set[str]:
        """Record that these limits were locked and that the missing ones do not exist; return which are settled.

        A limit is settled SETTLED_S after this process has first locked it: all processes then number its holds under
        its lock.
        """
        now = self._monotonic()
        forgotten = [self._since.pop(name) for name in missing if name in self._since]
        if forgotten:
            self._known = {}
        return {name for name in limits if now - self._since.setdefault(name, now) >= SETTLED_S}

    def learn(self, found: Mapping[str, int], counted: Set[str]) -> None:
        """Remember, for each limit key, the number up to which all of its holds have ended.

        Holds are numbered in the order in which they are taken. Call it only after the round has committed, because
        its finishes could be rolled back until then. `counted`: the keys of which `found` covers all holds.
        """
        now = self._monotonic()
        if len(self._known.keys() | found.keys()) > KEPT:
            self._known = {}
        if any(number < self._known.get(name, (0, now))[0] for name, number in found.items()):
            # The database was replaced by an older copy: other numbers, and counts that began too late, are wrong, too.
            self._known = {}
            found = {name: number for name, number in found.items() if name in counted}
        for name, number in found.items():
            _, at = self._known.get(name, (0, now))
            self._known[name] = (number, now if name in counted else at)


class RoundHolds:
    """What a round learns about ended holds. It is valid only once the round has committed."""

    def __init__(self, known: ReleasedHolds) -> None:
        self._known = known
        self._ended: dict[str, int] = {}  # By limit key: all holds up to this number have ended.
        self._counted: set[str] = set()  # The limit keys of which all holds were counted.
        self._idle: list[str] = []  # The limit keys without live holds.

    def afters(self, names: Iterable[str]) -> dict[str, int]:
        """Return for each limit key the number of the hold after which the round counts live holds."""
        names = list(names)
        afters = dict(zip(names, self._known.after(names), strict=True))
        self._counted = {name for name, number in afters.items() if number == 0}
        return afters

    def note_live(self, firsts: Mapping[str, int | None], locked: set[str], wanted: set[str]) -> None:
        """Note the first live hold of each key (None: no hold is live); all holds before it have ended.

        Keys of limits that are not settled are left out. `wanted` are the limits to lock, `locked` those that exist.
        """
        settled = self._known.locked(locked, wanted - locked)
        ours = {name: first for name, first in firsts.items() if limit_key_of(name).limit in settled}
        self._ended = {name: first - 1 for name, first in ours.items() if first is not None}
        self._idle = [name for name, first in ours.items() if first is None]

    def note_returned(self, name: str, number: int) -> None:
        """Note a hold that remains after its attempt has ended, because its job keeps its position in a sequence."""
        if name in self._idle or name in self._ended:
            self._ended[name] = min(number - 1, self._ended.get(name, number))
        self._idle = [idle for idle in self._idle if idle not in self._ended]

    def note_taken(self, number: int) -> None:
        """Note the number of the first hold that the round takes.

        For keys without live holds, all holds before it have ended.
        """
        self._ended |= dict.fromkeys(self._idle, number - 1)

    def commit(self) -> None:
        """Make what the round has learned known to later rounds, once it has committed."""
        self._known.learn(self._ended, self._counted)
