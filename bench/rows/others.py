"""Many jobs stand ahead of which this worker has no handler: what that costs its own.

They are of a task of another service in the same queue. Start latency is measured without them, and with as many.
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
    """From just before `enqueue` is called to the handler's first line, while others' jobs wait in the queue."""
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
    """Nothing that the measured worker knows of."""
