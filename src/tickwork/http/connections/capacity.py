"""Bounds on resources that requests hold at the same time: streams, or bytes of bodies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tickwork.http.framework.problems import Problem


class Capacity:
    """A bound on the units of a resource held at once. Check and count are one step: a burst cannot exceed it.

    Not thread-safe: for the event loop only.
    """

    def __init__(self, most: int, full: str, code: str = "too-busy") -> None:
        self.most = most
        self.held = 0
        self._full = full
        self._code = code

    def has(self, count: int) -> bool:
        """Return whether `count` more units are available."""
        return self.held + count <= self.most

    def take(self, count: int = 1) -> bool:
        """Hold `count` more units, if they are available; return whether they were."""
        if not self.has(count):
            return False
        self.held += count
        return True

    def give_back(self, count: int = 1) -> None:
        self.held -= count

    def refusal(self) -> Problem:
        """Return the problem to answer with when nothing is available: 503, with a Retry-After."""
        return Problem(503, self._code, f"{self._full} Nothing was done.", headers={"Retry-After": "5"})


class CapacityShare:
    """The units of a capacity that one request holds."""

    def __init__(self, room: Capacity) -> None:
        self._room = room
        self._held = 0

    def take(self, count: int) -> None:
        """Hold `count` more units. Raises Problem if they are not available."""
        if not self._room.take(count):
            raise self._room.refusal()
        self._held += count

    def give_back(self) -> None:
        """Release all units."""
        self._room.give_back(self._held)
        self._held = 0


@contextmanager
def capacity_share(room: Capacity) -> Iterator[CapacityShare]:
    """Yield a share of a capacity; release it at the end."""
    share = CapacityShare(room)
    try:
        yield share
    finally:
        share.give_back()
