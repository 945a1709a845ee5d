"""Per-thread state of a transaction that several verbs share. Both stores use it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Held = TypeVar("Held")


class SharedTransaction(Generic[Held]):
    """An open transaction that the verbs of a thread share, and the work to do after its commit."""

    def __init__(self, held: Held) -> None:
        self.held = held
        self.after_commit: list[Callable[[], object]] = []


class ThreadTransaction(threading.local, Generic[Held]):
    """The transaction that the verbs of this thread share; None: each verb has one of its own."""

    together: SharedTransaction[Held] | None = None

    def after_commit(self, work: Callable[[], object]) -> None:
        """Run `work` after the shared transaction has committed; at once if there is none."""
        if self.together is None:
            work()
        else:
            self.together.after_commit.append(work)
