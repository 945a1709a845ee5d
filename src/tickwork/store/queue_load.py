"""Compute the load of each queue and how many workers it needs, from the data of a store."""

from __future__ import annotations

from collections.abc import Sequence

from tickwork.core.job import QueueView, WorkerView
from tickwork.core.workers.autoscale import QueueLoad, queue_load
from tickwork.store.base import Store

LOOKED_AT = (
    1_000  # Due jobs of a queue, without and with a job_limits, whose tasks and needs are compared with workers.
)


def queue_loads(
    store: Store, queues: Sequence[QueueView] | None = None, workers: Sequence[WorkerView] | None = None
) -> list[QueueLoad]:
    """Return for each queue the waiting jobs, how many workers serve it, and how many it needs.

    `queues` and `workers` are those of the store, for a caller that has read them already.
    """
    queues = store.reads.queues() if queues is None else queues
    workers = store.reads.workers() if workers is None else workers
    durations = store.reads.durations()
    return [
        queue_load(
            queue,
            workers,
            durations.get(queue.name),
            waiting=store.reads.waiting_kinds(queue.name, LOOKED_AT) if queue.due else (),
        )
        for queue in queues
    ]
