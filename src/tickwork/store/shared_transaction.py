"""Several verbs of one thread in one transaction: what both stores keep while it is open."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Held = TypeVar("Held")


class SharedTransaction(Generic[Held]):
    """An open transaction that the verbs of a thread share, and what waits for its commit."""

    def __init__(self, held: Held) -> None:
        self.held = held
        self.after_commit: list[Callable[[], object]] = []


class ThreadTransaction(threading.local, Generic[Held]):
    """The transaction that the verbs of this thread share; None: each verb has one of its own."""

    together: SharedTransaction[Held] | None = None

    def after_commit(self, work: Callable[[], object]) -> None:
        """Do something when the shared transaction is committed; at once, where there is none."""
        if self.together is None:
            work()
        else:
            self.together.after_commit.append(work)
