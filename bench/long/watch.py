"""Sample a worker's memory and its store's size from a thread during a measurement.

Also sample the CPU time that the host has stolen, which distorts figures on a virtual machine without other signs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import fmean

from bench import proc
from bench.long.base import Series
from bench.places import Database
from bench.worker import WorkerProcess


class Watch:
    """The samples so far. The cost of a sample does not depend on the size of the store."""

    def __init__(self, worker: WorkerProcess, database: Database) -> None:
        self._worker = worker
        self._database = database
        self._began = time.monotonic()
        self.rss_mb: Series = []
        self.size_mb: Series = []
        self.stolen_percent: Series = []
        self._processors = proc.processors()

    def look(self) -> None:
        at = time.monotonic() - self._began
        self.rss_mb.append((at, proc.rss_mb(self._worker.pid)))
        self.size_mb.append((at, self._database.size_mb()))
        self.stolen_percent.append((at, self._stolen()))

    def _stolen(self) -> float:
        """Return the CPU time that was stolen since the last sample, in percent."""
        (time_before, stolen_before), self._processors = self._processors, proc.processors()
        time_now, stolen_now = self._processors
        return 100 * (stolen_now - stolen_before) / max(1, time_now - time_before)

    def mean_stolen_percent(self) -> float:
        return fmean(value for _, value in self.stolen_percent)

    def series(self) -> dict[str, Series]:
        return {"rss_mb": self.rss_mb, "size_mb": self.size_mb, "stolen_percent": self.stolen_percent}

    def figures(self) -> dict[str, float]:
        """Return memory and size at the beginning and at the end, and the largest memory."""
        return {
            "first_rss_mb": self.rss_mb[0][1],
            "last_rss_mb": self.rss_mb[-1][1],
            "most_rss_mb": max(value for _, value in self.rss_mb),
            "first_size_mb": self.size_mb[0][1],
            "last_size_mb": self.size_mb[-1][1],
            "stolen_percent": self.mean_stolen_percent(),
        }


@contextmanager
def watching(worker: WorkerProcess, database: Database, every_s: float) -> Iterator[Watch]:
    """Run a watch that samples at once, every few seconds, and at the end of the block."""
    watch, ended = Watch(worker, database), threading.Event()

    def look_now_and_then() -> None:
        while not ended.wait(every_s):
            watch.look()

    watch.look()
    thread = threading.Thread(target=look_now_and_then, name="watch", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        ended.set()
        thread.join()
        watch.look()
