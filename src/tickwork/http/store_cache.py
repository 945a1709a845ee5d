"""Short-lived caches of store reads that every enqueue repeats, though they change only with users or workers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

from tickwork.api.client import Client, workers_of
from tickwork.clock import Clock
from tickwork.core import why
from tickwork.core.dag.graph import Graph
from tickwork.core.ids import WorkerId
from tickwork.core.job import JobState, JobView, TaskDefinition, WorkerView
from tickwork.core.limits.gates import Gate
from tickwork.store.admin.operations import Ask
from tickwork.store.base import Store

FRESH_S = 1.0
LONGEST_S = 5.0
READ_SHARE = 10  # workers are cached for this many times as long as the read took
TASKS_KEPT = 1000


class StoreCache:
    """Workers and gates, cached for a second: to say why a job that was just stored does not run yet."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._looked: float | None = None
        self._seen: tuple[datetime, Sequence[WorkerView], list[Gate]] | None = None
        self._unknown: dict[str, tuple[float, str | None]] = {}

    def why(self, view: JobView) -> str:
        """Return why a job is in its state, in one sentence. For a queued job, it is at most a second old."""
        if view.state is not JobState.QUEUED:
            return why.explain(view, workers_of(self._store, view), self._store.now())
        now, workers, gates = self._look()
        return why.explain(
            view, workers, now, None if view.job_limits is None else self._store.limits.hold(view.id), gates
        )

    def unknown_task(self, client: Client, name: str) -> str | None:
        """Return the warning about a task that no worker has registered, at most a second old; None if one has."""
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
                self._seen, self._looked = (self._store.now(), self._store.reads.workers(), gates), now
            at, workers, gates = self._seen
            return at + timedelta(seconds=now - self._looked), workers, gates


class _KnownWorkers:
    """All workers as last read: most pages show them, and there may be tens of thousands of leases.

    They are cached for a second, or for ten times as long as the read took, up to LONGEST_S. So one thread reads, at
    most a tenth of the time, while the others get the previous result.
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


class _Cached:
    """A store, or a group of its verbs, of which some are replaced."""

    def __init__(self, of: Any, **replaced: Any) -> None:
        self._of = of
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)


class _Caches:
    """Caches that read each task definition once a second, and all workers as `_KnownWorkers` does."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._tasks: dict[str, tuple[float, TaskDefinition | None]] = {}
        self._workers = _KnownWorkers(store.reads.workers, clock)

    def put_dag(self, graph: Graph) -> int:
        """Store a dag and drop its cached definition, so that the next run on this server uses the new version."""
        version = self._store.dags.put_dag(graph)
        self._tasks.pop(graph.name, None)
        return version

    def delete_dag(self, name: str) -> bool:
        """Delete a dag and drop its cached definition, so that this server starts it no more."""
        deleted = self._store.dags.delete_dag(name)
        self._tasks.pop(name, None)
        return deleted

    def workers(self) -> list[WorkerView]:
        return self._workers.get()

    def ask_worker(self, worker: WorkerId, what: Ask | None) -> bool:
        """Ask a worker to be quiet or stop, and drop the cached workers, so that this server shows it at once."""
        asked = self._store.operations.ask_worker(worker, what)
        self._workers.forget()
        return asked

    def task_definition(self, name: str) -> TaskDefinition | None:
        now = self._clock.monotonic()
        read, known = self._tasks.get(name, (None, None))
        if read is None or now - read >= FRESH_S:
            if len(self._tasks) >= TASKS_KEPT:
                self._tasks.clear()
            known = self._store.reads.task_definition(name)
            self._tasks[name] = (now, known)
        return known


def cached_store(store: Store, clock: Clock) -> Store:
    """Return the store with caches: task definitions are at most a second old, workers a few seconds."""
    by = _Caches(store, clock)
    reads = _Cached(store.reads, workers=by.workers, task_definition=by.task_definition)
    dags = _Cached(store.dags, put_dag=by.put_dag, delete_dag=by.delete_dag)
    operations = _Cached(store.operations, ask_worker=by.ask_worker)
    return cast("Store", _Cached(store, reads=reads, dags=dags, operations=operations))
