"""Short-lived caches of store reads that every enqueue repeats, although their data seldom changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from tickwork.api.client import Client, Registrations, workers_of
from tickwork.clock import Clock
from tickwork.core import why
from tickwork.core.job import JobState, JobView, TaskDefinition, WorkerView
from tickwork.core.limits.gates import Gate
from tickwork.store.base import Store

FRESH_S = 1.0
LONGEST_S = 5.0
READ_SHARE = 10  # workers are cached for this many times as long as the read took
TASKS_KEPT = 1000


class StoreCache:
    """Workers and gates, cached for a second, to explain why a job that was just stored does not run yet."""

    def __init__(self, store: Store, registrations: Registrations, clock: Clock) -> None:
        self._store = store
        self._registrations = registrations
        self._clock = clock
        self._lock = threading.Lock()
        self._looked: float | None = None
        self._seen: tuple[datetime, Sequence[WorkerView], list[Gate]] | None = None
        self._unknown: dict[str, tuple[float, str | None]] = {}

    def why(self, view: JobView) -> str:
        """Return why a job is in its state, in one sentence.

        For a queued job, it uses data that is at most a second old.
        """
        if view.state is not JobState.QUEUED:
            return why.explain(view, workers_of(self._store, view), self._store.now())
        now, workers, gates = self._look()
        return why.explain(
            view, workers, now, None if view.job_limits is None else self._store.limits.hold(view.id), gates
        )

    def unknown_task(self, client: Client, name: str) -> str | None:
        """Return a warning about a task that no worker has registered, at most a second old; None if one has."""
        now = self._clock.monotonic()
        read, warning = self._unknown.get(name, (None, None))
        if read is None or now - read >= FRESH_S:
            if len(self._unknown) >= TASKS_KEPT:
                self._unknown.clear()
            warning = client.unknown_task(name)
            self._unknown[name] = (now, warning)
        return warning

    def _look(self) -> tuple[datetime, Sequence[WorkerView], list[Gate]]:
        """Return the store's time, workers and gates, read at most a second ago."""
        with self._lock:
            now = self._clock.monotonic()
            if self._seen is None or self._looked is None or now - self._looked >= FRESH_S:
                gates = [one.gate for one in self._store.limits.list_gates()]
                self._seen, self._looked = (self._store.now(), self._registrations.workers(), gates), now
            at, workers, gates = self._seen
            return at + timedelta(seconds=now - self._looked), workers, gates


class _KnownWorkers:
    """All workers as last read: most pages show them, and there may be tens of thousands of leases.

    They are cached for a second, or for ten times as long as the read took, up to LONGEST_S. So one thread reads, at
    most a tenth of the time, while the other threads get the previous result.
    """

    def __init__(self, read: Callable[[], list[WorkerView]], clock: Clock) -> None:
        self._read = read
        self._clock = clock
        self._reading = threading.Lock()
        self._known: list[WorkerView] | None = None
        self._until = 0.0

    def get(self) -> list[WorkerView]:
        """Return the workers; read them if the cache has expired and no other thread reads."""
        known = self._known
        if known is not None and (self._clock.monotonic() < self._until or not self._reading.acquire(blocking=False)):
            return known
        if known is None:
            self._reading.acquire()
        try:
            began = self._clock.monotonic()
            self._known = found = self._read()
            ended = self._clock.monotonic()
            self._until = ended + min(max(FRESH_S, READ_SHARE * (ended - began)), LONGEST_S)
            return found
        finally:
            self._reading.release()

    def forget(self) -> None:
        """Drop the cache, so that the next call reads."""
        self._known = None


class CachedRegistrations:
    """What workers have registered, as last read: task definitions at most a second old, workers a few seconds.

    A caller that changes a worker or a task through this server removes it from the cache.
    """

    def __init__(self, reads: Registrations, clock: Clock) -> None:
        self._reads = reads
        self._clock = clock
        self._tasks: dict[str, tuple[float, TaskDefinition | None]] = {}
        self._workers = _KnownWorkers(reads.workers, clock)

    def workers(self) -> list[WorkerView]:
        return self._workers.get()

    def forget_workers(self) -> None:
        """Drop the cached workers, so that this server shows a request to a worker at once."""
        self._workers.forget()

    def task_definition(self, name: str) -> TaskDefinition | None:
        now = self._clock.monotonic()
        read, known = self._tasks.get(name, (None, None))
        if read is None or now - read >= FRESH_S:
            if len(self._tasks) >= TASKS_KEPT:
                self._tasks.clear()
            known = self._reads.task_definition(name)
            self._tasks[name] = (now, known)
        return known

    def forget_task(self, name: str) -> None:
        """Drop a cached definition, so that this server does not start a replaced or deleted version of a dag."""
        self._tasks.pop(name, None)
