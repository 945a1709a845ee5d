"""Measure the p95 of every list of the server, on a store with more than a million jobs, a million of them queued.

Filters select rare or no jobs, so that a page scans as many rows as its limit allows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta

from bench.long.base import Crowd, Result, Sizes, Tell
from bench.long.crowd import QUIET, crowd
from bench.places import Place
from bench.rows.base import opened
from bench.stats import percentile
from tickwork import Tickwork
from tickwork.core.ids import JobId
from tickwork.core.job import JobFilter, JobState, QueuedReason
from tickwork.core.stats.rollups import minute_of
from tickwork.store.base import Store

LIST_MS, QUEUES_MS = 100.0, 50.0
_PAGE = 50
_DEEP = 20  # pages into a list
_COUNTED = 10_000

_FILTERS = {
    "all": JobFilter(),
    **{state.value: JobFilter(state=state) for state in JobState if state is not JobState.WAITING},
    "dead": JobFilter(dead=True),
    "runs": JobFilter(runs=True),
    "task": JobFilter(task="noop"),
    "rare_task": JobFilter(task="nobody's"),
    "task_and_cancelled": JobFilter(task="noop", state=JobState.CANCELLED),
    "rare_task_and_queued": JobFilter(task="nobody's", state=JobState.QUEUED),
    "rare_task_and_succeeded": JobFilter(task="nobody's", state=JobState.SUCCEEDED),
    "queue": JobFilter(queue="default"),
    "rare_queue": JobFilter(queue="nobody's"),
    "quiet_queue_and_queued": JobFilter(queue=QUIET, state=JobState.QUEUED),
    "rare_queue_and_queued": JobFilter(queue="nobody's", state=JobState.QUEUED),
    "rare_queue_and_succeeded": JobFilter(queue="nobody's", state=JobState.SUCCEEDED),
    "rare_queue_and_failed": JobFilter(queue="nobody's", state=JobState.FAILED),
    "key": JobFilter(key="key-1700000"),
    "collection": JobFilter(collection="nobody's"),
    "parent": JobFilter(parent="nobody's"),
    "run": JobFilter(run="019a8f3e-1c2d-7abc-8def-0123456789ab"),
    "label": JobFilter(label="nobody's"),
    "label_and_queued": JobFilter(label="nobody's", state=JobState.QUEUED),
    "label_and_succeeded": JobFilter(label="nobody's", state=JobState.SUCCEEDED),
    "label_and_failed": JobFilter(label="nobody's", state=JobState.FAILED),
    "label_and_task": JobFilter(label="nobody's", task="noop"),
    **{waits.value: JobFilter(waits=waits) for waits in QueuedReason},
    "beginning_of_task": JobFilter(tasks="nobody"),
    "tenant": JobFilter(tenant="nobody's"),
    "error": JobFilter(error="nobody"),
    "error_and_failed": JobFilter(error="nobody", state=JobState.FAILED),
    "worker_and_running": JobFilter(worker="nobody", state=JobState.RUNNING),
    "all_of_it": JobFilter(label="nobody's", task="noop", queue=QUIET, collection="nobody's", state=JobState.FAILED),
}


def lists(place: Place, sizes: Sizes, tell: Tell) -> Result:
    """Measure each list at its beginning, at a later page, and since yesterday."""
    size = Crowd(sizes.large.queued // 2, sizes.large.queued, sizes.large.delayed // 10, 100, sizes.large.keys // 10)
    with place.fresh() as database:
        crowd(database, size, tell)
        with opened(database) as app:
            figures = {name: _p95_ms(call, sizes.repeats, tell, name) for name, call in _calls(app)}
    bounds = {name: QUEUES_MS if name.startswith("queues") else LIST_MS for name in figures}
    return Result(figures, promises={f"{name} < {bounds[name]:g} ms": figures[name] < bounds[name] for name in figures})


def _p95_ms(call: Callable[[], object], repeats: int, tell: Tell, name: str) -> float:
    tell(name)
    call()
    took = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        took.append((time.perf_counter() - began) * 1000)
    return percentile(took, 95)


def _calls(app: Tickwork) -> Iterator[tuple[str, Callable[[], object]]]:
    store, now = app.store, app.store.now()
    yield "queues_p95_ms", store.reads.queues
    for name, which in _FILTERS.items():
        yield f"{name}_p95_ms", lambda which=which: store.reads.find_jobs(which, _PAGE)  # type: ignore[misc]
        place = _deep(store, which)
        yield f"{name}_further_p95_ms", lambda which=which, at=place: store.reads.find_jobs(which, _PAGE, at)  # type: ignore[misc]
    old = JobFilter(until=now - timedelta(days=1), label="nobody's")
    yield "until_yesterday_p95_ms", lambda: store.reads.find_jobs(old, _PAGE)
    for word in ("noop", "key-1", "broke", "nothing"):
        yield f"search_{word}_p95_ms", lambda word=word: store.reads.search_jobs(word, _PAGE)  # type: ignore[misc]
    for name in ("all", "task", "rare_task", "queue", "label"):
        yield f"count_{name}_p95_ms", lambda name=name: store.reads.count_jobs(_FILTERS[name], _COUNTED)  # type: ignore[misc]
    yield "what_changed_p95_ms", lambda: store.reads.happenings(store.now() - timedelta(seconds=10), 1_000)
    yield "topics_p95_ms", store.reads.topics
    yield "figures_of_an_hour_p95_ms", lambda: store.stats.rollups(1, "", "", minute_of(now) - 60)
    yield "failed_lately_p95_ms", lambda: store.reads.failed_lately(now - timedelta(days=1), 1_000)
    yield "causes_p95_ms", lambda: app.client.causes(JobFilter(dead=True), 1_000)
    yield "workers_p95_ms", store.reads.workers
    yield "durations_p95_ms", store.reads.durations


def _deep(store: Store, which: JobFilter) -> JobId | None:
    at: JobId | None = None
    for _ in range(_DEEP):
        page = store.reads.find_jobs(which, _PAGE, at)
        if page.next is None:
            return at
        at = page.next
    return at
