"""Time the calls of a store, for the metrics of a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_type_hints

from tickwork.clock import Clock
from tickwork.observe.counters import Counters
from tickwork.observe.metrics_table import DB
from tickwork.store.base import Store

_UNTIMED = frozenset({"close", "connection", "waiter"})
_NO_VERBS = frozenset({"url", "blobs"})  # attributes of a store that are no group of verbs


def time_verbs(store: Store, tally: Counters, clock: Clock) -> None:
    """From now on, measure how long each call of this store takes, by the name of the verb."""
    groups = {name: verbs for name, verbs in get_type_hints(Store).items() if name not in _NO_VERBS}
    for subject, verbs in [(store, Store), *((getattr(store, name), verbs) for name, verbs in groups.items())]:
        for name in vars(verbs):
            if not name.startswith("_") and name not in _UNTIMED:
                setattr(subject, name, _timed(name, getattr(subject, name), tally, clock))


def _timed(name: str, verb: Callable[..., Any], tally: Counters, clock: Clock) -> Callable[..., Any]:
    """Return a verb that measures how long each of its calls takes."""
    labels = (name,)

    def call(*args: Any, **kwargs: Any) -> Any:
        began = clock.monotonic()
        try:
            return verb(*args, **kwargs)
        finally:
            tally.spread(DB, labels, clock.monotonic() - began)

    return call
