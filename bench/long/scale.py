"""Compare a small store with a very large one, for operations whose cost must not depend on the size."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from random import Random
from statistics import median
from typing import Any

from bench.long.base import Crowd, Result, Sizes, Tell
from bench.long.crowd import QUIET, WORKER, crowd
from bench.places import Database, Place
from bench.rows.base import LOOK_S, START_LIMIT_S, opened
from bench.rows.presence import resting
from bench.worker import running_worker, wait_until
from tickwork import Tickwork
from tickwork.core.job import Claimed, JobFilter, JobState
from tickwork.core.outcome import Succeeded, decide
from tickwork.core.retention import Retention
from tickwork.errors import StoreError, check
from tickwork.store.attempt_types import Finish
from tickwork.store.base import Store

MOST_GROWTH = 2.0
MOST_CPU_PERCENT = 0.5
_PAGE = 100
_CLAIM = 10
_PATIENCE_S = 5.0  # one call is not repeated for longer than this
_LEASE = timedelta(hours=1)
_PAGES = {
    "list": JobFilter(),
    "list_queued": JobFilter(state=JobState.QUEUED),
    "list_running": JobFilter(state=JobState.RUNNING),
    "list_succeeded": JobFilter(state=JobState.SUCCEEDED),
    "list_failed": JobFilter(state=JobState.FAILED),
    "list_dead": JobFilter(dead=True),
    "list_task": JobFilter(task="noop"),
    "list_queue": JobFilter(queue=QUIET),
    "list_dead_of_task": JobFilter(task="noop", dead=True),
}


def scale(place: Place, sizes: Sizes, tell: Tell) -> Result:
    """Measure both stores in the same way; return pairs of figures."""
    small, small_errors = _measured(place, sizes.small, sizes, lambda what: tell(f"small store: {what}"))
    large, large_errors = _measured(place, sizes.large, sizes, lambda what: tell(f"large store: {what}"))
    pairs = {name: (small[name], large[name]) for name in small}
    promises = {
        f"{name} grows by less than {MOST_GROWTH:g} times": later < MOST_GROWTH * earlier
        for name, (earlier, later) in pairs.items()
        if name not in {"cpu_percent", "fill_s", "size_mb"}
    }
    promises[f"an idle worker takes at most {MOST_CPU_PERCENT} % CPU"] = large["cpu_percent"] <= MOST_CPU_PERCENT
    promises |= {f"{name} is answered ({error})": False for name, error in {**small_errors, **large_errors}.items()}
    return Result({}, {}, promises, pairs)


def _measured(place: Place, size: Crowd, sizes: Sizes, tell: Tell) -> tuple[dict[str, float], dict[str, str]]:
    with place.fresh() as database:
        began = time.monotonic()
        crowd(database, size, tell)
        figures = {"fill_s": time.monotonic() - began, "size_mb": database.size_mb()}
        errors: dict[str, str] = {}
        with opened(database) as app:
            for name, call in _calls(app):
                tell(name)
                figures[name], error = timed_ms(call, sizes.repeats)
                if error is not None:
                    errors[name] = error
        tell("an idle worker")
        return {**figures, **_idle(database, sizes)}, errors


def timed_ms(call: Callable[[], object], repeats: int) -> tuple[float, str | None]:
    """Return the median time of a call without its first time, and the reason if it was aborted."""
    took: list[float] = []
    until = time.monotonic() + _PATIENCE_S
    for turn in range(repeats + 1):
        began = time.perf_counter()
        try:
            call()
        except StoreError as error:
            return (time.perf_counter() - began) * 1000, type(error).__name__
        if turn:
            took.append((time.perf_counter() - began) * 1000)
        if took and time.monotonic() > until:
            break
    return median(took), None


def _calls(app: Tickwork) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the calls to time, in milliseconds; calls that only read come first."""
    store, noop, keys = app.store, app.tasks["noop"], count(1)
    for name, which in _PAGES.items():
        yield f"{name}_ms", lambda which=which: store.reads.list_jobs(which, _PAGE)  # type: ignore[misc]
    waiting = noop.options(delay="1d", key="asked why").enqueue(0)
    yield "why_ms", waiting.why
    yield "find_key_ms", lambda: store.reads.find_key("asked why")
    yield "queues_ms", store.reads.queues
    yield "workers_ms", store.reads.workers
    yield "due_tasks_ms", lambda: store.reads.due_tasks(["default"])
    yield "heartbeat_ms", lambda: store.renew_lease(WORKER, _LEASE)
    yield "expired_attempts_ms", lambda: store.expired_attempts(500)
    yield "expire_jobs_ms", lambda: store.expire_jobs(500)
    yield "prune_ms", lambda: store.prune(Retention(), 1000)
    yield "enqueue_ms", lambda: noop.enqueue(1)
    yield "enqueue_new_key_ms", lambda: noop.options(key=f"new {next(keys)}").enqueue(1)
    yield "enqueue_taken_key_ms", lambda: noop.options(key="asked why").enqueue(1)
    held: list[Claimed] = []
    yield f"claim_{_CLAIM}_ms", lambda: held.extend(_claim(store, "default"))
    yield f"claim_{_CLAIM}_delayed_ms", lambda: _claim(store, QUIET)
    yield f"finish_{_CLAIM}_ms", lambda: _finish(store, [held.pop() for _ in held[:_CLAIM]])


def _claim(store: Store, queue: str) -> list[Claimed]:
    return store.claim_jobs(WORKER, [queue], ["noop"], _CLAIM).jobs


def _finish(store: Store, claimed: list[Claimed]) -> None:
    check(bool(claimed), "There is nothing left to finish.")
    endings = [(one, decide(one, Succeeded(b"null"), Random(0))) for one in claimed]
    store.finish_attempts([Finish(one.job_id, one.attempt, one.claim, transition) for one, transition in endings])


def _idle(database: Database, sizes: Sizes) -> dict[str, Any]:
    """Measure memory and CPU of a worker that serves a queue without due jobs."""
    known = database.workers()
    with running_worker(database.url, database.folder, options=["--queue", QUIET]) as worker:
        wait_until(lambda: database.workers() > known, "the worker registered", START_LIMIT_S, worker, LOOK_S)
        time.sleep(sizes.rest_s)
        return resting(worker, sizes.idle_s)
