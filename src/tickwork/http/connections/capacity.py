"""A bound on something that many requests hold at the same time: streams, or bytes of bodies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tickwork.http.framework.problems import Problem


class Capacity:
    """So much of something may be held at once. It is checked and counted in one step, so a burst cannot pass it.

    For the event loop alone.
    """

    def __init__(self, most: int, full: str, code: str = "too-busy") -> None:
        self.most = most
        self.held = 0
        self._full = full
        self._code = code

    def has(self, count: int) -> bool:
        """Whether there is room for so much more."""
        return self.held + count <= self.most

    def take(self, count: int = 1) -> bool:
        """Hold so much more, if there is room for it."""
        if not self.has(count):
            return False
        self.held += count
        return True

    def give_back(self, count: int = 1) -> None:
        self.held -= count

    def refusal(self) -> Problem:
        """What to answer when there is no room: 503, with when to try again."""
        return Problem(503, self._code, f"{self._full} Nothing was done.", headers={"Retry-After": "5"})


class CapacityShare:
    """What one request holds of a room."""

    def __init__(self, room: Capacity) -> None:
        self._room = room
        self._held = 0

    def take(self, count: int) -> None:
        """Hold so much more. Raises Problem when there is no room."""
        if not self._room.take(count):
            raise self._room.refusal()
        self._held += count

    def give_back(self) -> None:
        """Hold nothing any more."""
        self._room.give_back(self._held)
        self._held = 0


@contextmanager
def sharing(room: Capacity) -> Iterator[CapacityShare]:
    """A share of a room, which is given back at the end."""
    share = CapacityShare(room)
    try:
        yield share
    finally:
        share.give_back()
