"""A worker whose child processes are a mock, and a store that is slow to commit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

from tickwork.core.ids import JobId
from tickwork.core.job import NewJob, Policy, TaskDefinition
from tickwork.store.sqlite import SqliteStore
from tickwork.testing import VirtualClock
from tickwork.worker.ipc.protocol import Assignment

TASK = TaskDefinition("t", "default", 5, Policy(), b"{}")


class Pools(Mock):
    """Runs nothing by itself; `news` is what is said next."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[Assignment] = []
        self.news: list[tuple[object, object]] = []
        self.stalled.return_value = False

    def submit(self, assignments: Sequence[Assignment], alone: bool) -> None:
        self.given += assignments

    def poll(self) -> list[tuple[object, object]]:
        news, self.news = self.news, []
        return news

    def _get_child_mock(self, /, **given: object) -> Mock:
        return Mock(**given)


def insert(store: Any, number: int, **how: Any) -> None:
    store.insert_jobs([NewJob(JobId(f"019a8f3e-1c2d-7abc-8def-{number:012x}"), "t", b"{}", **how)])


class SlowStore:
    """A store whose claims take a while."""

    def __init__(self, store: SqliteStore, clock: VirtualClock) -> None:
        self._store = store
        self._clock = clock
        self.takes = timedelta(0)

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._store, verb)

    def exchange(self, *given: Any, **claim: Any) -> Any:
        self._clock.advance(self.takes)
        return self._store.exchange(*given, **claim)
