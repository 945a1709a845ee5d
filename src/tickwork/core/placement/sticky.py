"""Sticky placement: run jobs with the same key on the same worker, and in the same process of it, if possible.

A key maps to one of SPOTS spots. Each spot has a home among the processes of a worker; each of the GROUPS of spots has
a home among the workers that could run its jobs. No list of homes is stored: the home is the candidate with the highest
score (rendezvous hashing), which all workers compute alike. When a worker joins or leaves, only the spots that it gains
or had move.

Jobs are left to their home for GRACE_US after they are due. Then any free worker takes them: a warm cache is worth a
short delay, not an idle job. Among jobs of equal urgency, a worker takes jobs of other homes last for PATIENCE_US, so
that homes also matter while more jobs are due than can run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from tickwork.core.placement.needs import Offer, needs_of, taken_of

SPOTS = 1024
GROUPS = 32  # lanes of a queue for each need and tenant, and the most workers that can be homes
GRACE_US = 250_000
PATIENCE_US = 5_000_000


def spot_of(key: str) -> int:
    """Return the spot of a key."""
    return _hash(key) % SPOTS


def group_of(spot: int) -> int:
    """Return the group of a spot; jobs of a group share a lane."""
    return spot % GROUPS


@lru_cache(maxsize=1 << 13)
def score(place: int, name: str) -> int:
    """Return the score of a candidate for a spot or a group; the highest score wins."""
    return _hash(f"{place} {name}")


def home_of(place: int, names: Iterable[str]) -> str | None:
    """Return the home of a spot or a group among these names; None: there are none."""
    return max(names, key=lambda name: (score(place, name), name), default=None)


class ClaimingWorker(NamedTuple):
    """A worker that claims jobs: its queues, and its labels and resources."""

    worker: str
    queues: tuple[str, ...]
    offer: Offer


class ClaimingWorkers:
    """The workers that claim jobs at present, and the home of each group among them."""

    def __init__(self, neighbours: Sequence[ClaimingWorker]) -> None:
        self._neighbours = neighbours
        self._workers = {one.worker for one in neighbours}
        self._able: dict[tuple[str, str], list[str]] = {}
        self._homes: dict[tuple[int, str, str], str | None] = {}

    def is_anothers(self, worker: str, group: int, queue: str, needs: str) -> bool:
        """Return whether a worker leaves these jobs to their home for a while.

        A worker that is not in the list, such as a server that claims for others, is no home and leaves no jobs.
        """
        return worker in self._workers and self.home(group, queue, needs) not in (None, worker)

    def home(self, group: int, queue: str, needs: str) -> str | None:
        """Return the home of a group for jobs of a queue with these needs; None: no worker can run them."""
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
