"""The database interface of the raw loops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from multiprocessing.connection import Connection as Pipe
from typing import Any

PAYLOAD = '{"number": 1}'
CLAIM = 100


class Raw(ABC):
    """A table of jobs, whose rows are kept: state 0 queued, 1 running, 2 done. Passed to processes by pickle."""

    def __init__(self, url: str) -> None:
        self.url = url

    @abstractmethod
    def connect(self) -> Any: ...

    @abstractmethod
    def create(self, connection: Any) -> None: ...

    @abstractmethod
    def insert_one(self, connection: Any, run_at: float) -> None:
        """Store one job, durably."""

    @abstractmethod
    def insert_many(self, connection: Any, run_ats: Sequence[float]) -> list[int]:
        """Store jobs in one transaction and return their ids."""

    @abstractmethod
    def claim(self, connection: Any, now: float, limit: int) -> list[tuple[int, float]]:
        """Set up to `limit` due jobs to running; return their ids and times."""

    @abstractmethod
    def finish(self, connection: Any, ids: Sequence[int]) -> None: ...

    @abstractmethod
    def next_due(self, connection: Any) -> float | None: ...

    @abstractmethod
    def listen(self, connection: Any) -> None:
        """Subscribe to new jobs for `wait`."""

    @abstractmethod
    def call(self, connection: Any, bells: Sequence[Pipe]) -> None:
        """Wake all waiting processes."""

    @abstractmethod
    def wait(self, connection: Any, bell: Pipe, seconds: float) -> None:
        """Wait until woken, for at most `seconds`."""
