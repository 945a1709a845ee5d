"""Benchmarks of schedules: thousands due in the same second, lateness of single ones, and cost of many idle ones."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from bench.places import Database
from bench.rows.base import LOOK_S, SLOWEST, START_LIMIT_S, WARM_UP, Sample, Sizes, serving
from bench.rows.presence import resting
from bench.rows.promptness import promptness
from bench.stats import percentiles
from bench.worker import wait_until
from tickwork import Tickwork
from tickwork.core.recurrence.interval import at
from tickwork.core.schedule.spec import new_spec

_BATCH = 1000
_LEAD = timedelta(seconds=5)
_YEAR = timedelta(days=365)


def herd(database: Database, sizes: Sizes) -> Sample:
    """Measure the time from the common due time of all schedules to the starts and the end of their handlers."""
    with serving(database) as (app, seen, worker):
        lead = _LEAD + timedelta(milliseconds=sizes.schedules)  # each is read once before it is due
        due = (app.store.now() + lead).replace(microsecond=0)
        put(app, [due] * sizes.schedules)
        limit_s = lead.total_seconds() + START_LIMIT_S + sizes.schedules / SLOWEST
        total = WARM_UP + sizes.schedules
        wait_until(lambda: database.finished() >= total, "all schedules fired", limit_s, worker, LOOK_S)
        done = time.time()
        started = [one for number, one in seen().items() if number >= 0]
    lates = [one / 1e6 - due.timestamp() * 1e3 for one in started]
    return Sample({"last_done_s": done - due.timestamp(), **percentiles(lates)}, {"latest_ms": max(lates)})


def tick_lateness(database: Database, sizes: Sizes) -> Sample:
    """Measure the time from the due time of a schedule to its handler's first line, one schedule after another."""
    with serving(database) as (app, seen, worker):
        first = app.store.now() + _LEAD
        step = timedelta(seconds=sizes.timers_s) / sizes.ticks
        dues = [first + step * number for number in range(sizes.ticks)]
        put(app, dues)
        limit_s = _LEAD.total_seconds() + sizes.timers_s + START_LIMIT_S
        wait_until(lambda: set(range(sizes.ticks)) <= seen().keys(), "all ticks started", limit_s, worker, LOOK_S)
        started = seen()
    return promptness([started[number] / 1e6 - due.timestamp() * 1e3 for number, due in enumerate(dues)])


def idle_schedules(database: Database, sizes: Sizes) -> Sample:
    """Measure the cost of a worker with many schedules, none of which is due."""
    with serving(database) as (app, _, worker):
        put(app, [app.store.now() + _YEAR] * sizes.schedules)
        time.sleep(sizes.rest_s)
        return Sample(resting(worker, sizes.idle_s))


def put(app: Tickwork, dues: Iterable[datetime]) -> None:
    """Store a schedule for each of these times; its handler writes to the witness file."""
    specs = [
        new_spec(f"schedule-{number}", "stamp", at(due), msgspec.json.encode({"number": number}))
        for number, due in enumerate(dues)
    ]
    for first in range(0, len(specs), _BATCH):
        app.put_schedules(specs[first : first + _BATCH])
