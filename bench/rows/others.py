"""Benchmark of start latency behind many jobs of another service's task in the same queue.

The worker has no handler for these jobs. Start latency is measured without and with them.
"""

from __future__ import annotations

import time

from bench.feeder import paced
from bench.places import Database
from bench.rows.base import LOOK_S, START_LIMIT_S, Sample, Sizes, fill_with, serving
from bench.rows.promptness import promptness
from bench.stats import percentiles
from bench.worker import wait_until


def beside_others(database: Database, sizes: Sizes) -> Sample:
    """Measure the time from just before `enqueue` to the handler's first line, without and with others' jobs queued."""
    with serving(database) as (app, seen, worker):

        def waits_ms(first: int) -> list[float]:
            sent: dict[int, int] = {}
            for step in paced(sizes.latency_s, sizes.latency_per_s):
                sent[first + step] = time.time_ns()
                app.tasks["stamp"].enqueue(first + step)
            wait_until(lambda: sent.keys() <= seen().keys(), "all jobs started", START_LIMIT_S, worker, LOOK_S)
            started = seen()
            return [(started[number] - at) / 1e6 for number, at in sent.items()]

        alone = waits_ms(0)
        elsewhere = app.task(name="elsewhere")(_elsewhere)
        fill_with(elsewhere, [(number,) for number in range(max(sizes.held))], sizes.batch)
        database.settle()
        sample = promptness(waits_ms(len(alone)))
    quiet = {f"alone_{name}_ms": value for name, value in percentiles(alone).items()}
    moved = {"moved_ratio": sample.figures["p50"] / quiet["alone_p50_ms"]}
    return Sample({**sample.figures, **moved}, {**sample.extra, **quiet})


def _elsewhere(number: int) -> None:
    """A task that the measured worker does not have."""
