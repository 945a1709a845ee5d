"""Benchmarks of a worker's fixed cost: its start time, and its memory and CPU time while idle."""

from __future__ import annotations

import time

from bench import proc
from bench.places import Database
from bench.rows.base import START_LIMIT_S, Sample, Sizes, opened, serving
from bench.worker import WorkerProcess, running_worker, wait_until

_NARROW_LOOK_S = 0.005


def cold_start(database: Database, sizes: Sizes) -> Sample:
    """Measure the time from the start of the process to the first stored completion, with one job queued."""
    with opened(database) as app:
        app.tasks["noop"].enqueue(0)
    began = time.monotonic()
    with running_worker(database.url, database.folder) as worker:
        wait_until(lambda: database.finished() > 0, "the first job done", START_LIMIT_S, worker, _NARROW_LOOK_S)
        took = time.monotonic() - began
    return Sample({"first_done_s": took})


def idle(database: Database, sizes: Sizes) -> Sample:
    """Measure memory and CPU time of a worker that has run jobs and is then idle."""
    with serving(database) as (_, _, worker):
        time.sleep(sizes.rest_s)
        return Sample(resting(worker, sizes.idle_s))


def resting(worker: WorkerProcess, seconds: float) -> dict[str, float]:
    """Measure a worker's memory and CPU time for some seconds, without the processes of the database."""
    worker.check()
    memory, used, began = proc.pss_mb(worker.pid), proc.cpu_s(worker.pid), time.monotonic()
    time.sleep(seconds)
    share = (proc.cpu_s(worker.pid) - used) / (time.monotonic() - began)
    worker.check()
    return {"pss_mb": memory, "cpu_percent": 100 * share}
