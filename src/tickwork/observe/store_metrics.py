"""Metrics of the store, reported by a server: read at most once in 5 seconds, however often it is scraped."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from tickwork.clock import Clock
from tickwork.core.job import ENDED, RUN, JobFilter, QueueView
from tickwork.core.stats import canary
from tickwork.observe import metrics_table
from tickwork.observe.counters import Counters, Labels
from tickwork.store.base import Store
from tickwork.store.reads.queue_counts import queue_loads

FRESH_S = 5.0
_STATES = ("due", "later", "held", "running")


class StoreCounts:
    """Reads counts from a store into a `Counters` object."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._looked: float | None = None
        self._until: datetime | None = None
        self.tally = Counters()

    def tick(self, now: float) -> float:
        """Read the store even while nothing scrapes, so that no read has much to count."""
        self.look()
        return FRESH_S * 6

    def look(self) -> None:
        """Read the store, unless the last read is less than FRESH_S old."""
        with self._lock:
            now = self._clock.monotonic()
            if self._looked is None or now - self._looked >= FRESH_S:
                self._total()
                self._count()
                self._measure()
                self._looked = now

    def _total(self) -> None:
        """Set the totals since the store was created, from the rollups: equal on every server, and never reset."""
        made: dict[Labels, float] = {}
        jobs: dict[Labels, float] = {}
        runs: dict[Labels, float] = {}
        for (queue, task), counts in self._store.stats.rollup_totals().items():
            ends = {str(state): float(getattr(counts, state)) for state in ENDED if getattr(counts, state)}
            if queue == RUN:
                runs |= {(task, outcome): count for outcome, count in ends.items()}
            else:
                made[queue, task] = float(counts.enqueued)
                jobs |= {(queue, task, outcome): count for outcome, count in ends.items()}
        self.tally.set(metrics_table.JOBS_ENQUEUED, made)
        self.tally.set(metrics_table.JOBS_FINISHED, jobs)
        self.tally.set(metrics_table.RUNS_FINISHED, runs)

    def _count(self) -> None:
        """Add the fires since the last read; set schedule lag, dead letters and canary delay."""
        counts = self._store.stats.counts(self._until)
        self._until = counts.until
        for action, count in counts.fired.items():
            self.tally.add(metrics_table.SCHEDULE_FIRES, (action,), count)
        self.tally.set(metrics_table.SCHEDULE_LAG, {(): counts.lag.total_seconds()})
        self.tally.set(metrics_table.DEAD_JOBS, {(): counts.dead})
        for newest in self._store.reads.list_jobs(JobFilter(task=canary.NAME), 1):
            self.tally.set(metrics_table.CANARY_DELAY, {(): canary.delay(newest, self._store.now()).total_seconds()})

    def _measure(self) -> None:
        """Set the gauges of queues and workers."""
        now, queues = self._store.now(), self._store.reads.queues()
        states = ("due", "later", "held", "running")
        jobs: dict[Labels, float] = {
            (queue.name, state): float(getattr(queue, state)) for queue in queues for state in states
        }
        self.tally.set(metrics_table.QUEUE_JOBS, jobs)
        waits: dict[Labels, float] = {(queue.name,): _since(queue.oldest_due_at, now) for queue in queues}
        self.tally.set(metrics_table.QUEUE_OLDEST, waits)
        gates = [one.gate for one in self._store.limits.list_gates() if one.gate.kind == "pause"]
        paused = {gate.queue: 1.0 for gate in gates if gate.queue is not None and len(gate.selects) == 1}
        self.tally.set(
            metrics_table.QUEUE_PAUSED, {(name,): paused.get(name, 0.0) for name in {*paused, *_names(queues)}}
        )
        workers = self._store.reads.workers()
        loads = queue_loads(self._store.reads, queues, workers)
        self.tally.set(metrics_table.QUEUE_WANTED, {(one.queue.name,): float(one.wanted) for one in loads})
        self.tally.set(metrics_table.QUEUE_UNPLACED, {(one.queue.name,): float(one.unplaced) for one in loads})
        live = [worker for worker in workers if worker.state != "lost"]
        self.tally.set(
            metrics_table.WORKERS, {(state,): n for state, n in Counter(one.state for one in workers).items()}
        )
        self.tally.set(metrics_table.WORKER_SLOTS, {(): sum(worker.slots for worker in live)})
        self.tally.set(metrics_table.WORKER_BUSY, {(): sum(worker.running for worker in live)})


def _since(instant: datetime | None, now: datetime) -> float:
    return 0.0 if instant is None else max(0.0, (now - instant).total_seconds())


def _names(queues: Sequence[QueueView]) -> list[str]:
    return [queue.name for queue in queues]
