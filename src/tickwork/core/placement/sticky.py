"""Sticky placement: jobs of one key run on the same worker, and in the same process of it, where that is possible.

A key has one of SPOTS spots. Each spot has a home among the processes of a worker, and each of the GROUPS into which
they fall among the workers that could run its jobs. Nobody keeps a list of homes: the home is the one who scores
highest, which everybody works out alike. When one comes or goes, only those spots move that become its own, or were.

Jobs are left to their home for GRACE_US after they are due. Then whoever is free takes them: a cache that is warm is
worth a moment, not a job that stands still. Among jobs that are as urgent as each other a worker takes what is
another's last for PATIENCE_US, so that homes also mean something while more is due than can run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from tickwork.core.placement.needs import Offer, needs_of, taken_of

SPOTS = 1024
GROUPS = 32  # as many lanes may stand in a queue, for each need and tenant; so many workers can have keys of their own
GRACE_US = 250_000
PATIENCE_US = 5_000_000


def spot_of(key: str) -> int:
    """Return the spot of a key."""
    return _hash(key) % SPOTS


def group_of(spot: int) -> int:
    """Return the group of a spot: where it stands in the queue."""
    return spot % GROUPS


@lru_cache(maxsize=1 << 13)
def score(place: int, name: str) -> int:
    """Return how much somebody is the right one for a spot or a group; the highest score wins."""
    return _hash(f"{place} {name}")


def home_of(place: int, names: Iterable[str]) -> str | None:
    """Return who of these is the home of a spot or a group; None: there is nobody."""
    return max(names, key=lambda name: (score(place, name), name), default=None)


class ClaimingWorker(NamedTuple):
    """A worker that claims jobs: of which queues, and what it has for them."""

    worker: str
    queues: tuple[str, ...]
    offer: Offer


class ClaimingWorkers:
    """Who claims jobs at the time, and so where the groups have their homes."""

    def __init__(self, neighbours: Sequence[ClaimingWorker]) -> None:
        self._neighbours = neighbours
        self._workers = {one.worker for one in neighbours}
        self._able: dict[tuple[str, str], list[str]] = {}
        self._homes: dict[tuple[int, str, str], str | None] = {}

    def is_anothers(self, worker: str, group: int, queue: str, needs: str) -> bool:
        """Whether a worker leaves these jobs to another for a while.

        One that is not of the neighbourhood, a server that claims for others, has no home and leaves nothing.
        """
        return worker in self._workers and self.home(group, queue, needs) not in (None, worker)

    def home(self, group: int, queue: str, needs: str) -> str | None:
        """Return the worker that is the home of a group, for jobs of a queue that need this; None: nobody could be."""
        place = (group, queue, needs)
        if place not in self._homes:
            self._homes[place] = home_of(group, self._able_to(queue, needs))
        return self._homes[place]

    def _able_to(self, queue: str, needs: str) -> list[str]:
        if (queue, needs) not in self._able:
            wanted, serving = needs_of(needs), [one for one in self._neighbours if queue in one.queues]
            self._able[queue, needs] = [one.worker for one in serving if taken_of(one.offer, wanted) is not None]
        return self._able[queue, needs]


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())
