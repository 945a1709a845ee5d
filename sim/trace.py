"""The trace of a run: a hash over all its events, and the text of the last events."""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

KEPT = 40


class Broken(BaseException):
    """An invariant is violated. It is no Exception, so that the product's own loops do not catch it."""

    def __init__(self, invariant: str, message: str) -> None:
        super().__init__(f"{invariant}: {message}")
        self.invariant = invariant
        self.message = message


def hold(holds: object, invariant: str, message: str) -> None:
    """Raise Broken unless a condition of an invariant holds."""
    if not holds:
        raise Broken(invariant, message)


class Trace:
    """Records every event of a run; equal runs have equal hashes."""

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=16)
        self._last: deque[tuple[Any, ...]] = deque(maxlen=KEPT)
        self.events = 0
        self.counts: Counter[str] = Counter()

    def add(self, at_us: int, who: str, what: str, *more: object) -> None:
        event = (at_us, who, what, *more)
        self._digest.update(repr(event).encode())
        self._last.append(event)
        self.events += 1

    def count(self, what: str, times: int = 1) -> None:
        """Count an event by its name, for the report at the end."""
        self.counts[what] += times

    def hash(self) -> str:
        return self._digest.hexdigest()

    def last(self) -> Iterator[str]:
        """Yield the last events, one line each."""
        for at_us, who, what, *more in self._last:
            rest = " ".join(one.brief() if hasattr(one, "brief") else str(one) for one in more)
            yield f"{at_us / 1e6:12.6f}  {who:<14} {what:<18} {rest}"[:240]
