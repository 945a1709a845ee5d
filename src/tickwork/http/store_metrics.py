"""Time the calls of a store, for the metrics of a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from tickwork.clock import Clock
from tickwork.observe.counters import Counters
from tickwork.observe.metrics_table import DB
from tickwork.store.base import Store


class _Timed:
    """A store that counts how long each of its calls takes."""

    def __init__(self, store: Any, tally: Counters, clock: Clock) -> None:
        self._store = store
        self._tally = tally
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        """Return a method of the store that times its calls."""
        found = getattr(self._store, name)
        if name in _GROUPS:
            self.__dict__[name] = group = _Timed(found, self._tally, self._clock)
            return group
        if not callable(found) or name in _UNTIMED:
            return found
        made = self._measured(name, found)
        self.__dict__[name] = made
        return made

    def _measured(self, name: str, verb: Callable[..., Any]) -> Callable[..., Any]:
        tally, clock, labels = self._tally, self._clock, (name,)

        def call(*args: Any, **kwargs: Any) -> Any:
            began = clock.monotonic()
            try:
                return verb(*args, **kwargs)
            finally:
                tally.spread(DB, labels, clock.monotonic() - began)

        return call


_GROUPS = frozenset(Store.__annotations__) - {"url", "blobs"}
_UNTIMED = frozenset({"close", "connection", "waiter"})


def timed(store: Store, tally: Counters, clock: Clock) -> Store:
    """Return the same store; the time that each call takes is counted."""
    return cast("Store", _Timed(store, tally, clock))
