"""Compute the timeline of a run: when its jobs ran, and the critical path that determined when it ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from tickwork.core.dag.graph import Graph


class LastAttempt(NamedTuple):
    """The last attempt of an instance of a step. `ended_at` None: it is running."""

    step: str
    idx: int
    started_at: datetime
    ended_at: datetime | None = None


def timeline(graph: Graph, ran: Iterable[LastAttempt], *, began_at: datetime, now: datetime) -> dict[str, Any]:
    """Return a bar for each instance, ordered by start, and the critical path. Running instances extend to `now`."""
    rows = sorted(ran, key=lambda one: (one.started_at, one.step, one.idx))
    path = critical_path(graph, rows, now)
    critical = {(one.step, one.idx) for one in path}
    ended_at = max((_end(one, now) for one in rows), default=began_at)
    bars = [{**_bar(one, began_at, now), "is_critical": (one.step, one.idx) in critical} for one in rows]
    return {
        "began_at": began_at.isoformat(),
        "ended_at": ended_at.isoformat(),
        "duration_s": (ended_at - began_at).total_seconds(),
        "bars": bars,
        "critical_path": _links(path, began_at, now),
    }


def critical_path(graph: Graph, ran: Iterable[LastAttempt], now: datetime) -> list[LastAttempt]:
    """Return the chain of instances that ends last: before each instance, its parent instance that ended last."""
    latest: dict[str, LastAttempt] = {}
    for one in ran:
        known = latest.get(one.step)
        if known is None or _end(one, now) > _end(known, now):
            latest[one.step] = one
    path: list[LastAttempt] = []
    last = max(latest.values(), key=lambda one: _end(one, now), default=None)
    while last is not None:
        path.append(last)
        before = [latest[name] for name in _parents_that_ran(graph, last.step, latest)]
        last = max(before, key=lambda one: _end(one, now), default=None)
    return path[::-1]


def _parents_that_ran(graph: Graph, step: str, latest: Mapping[str, LastAttempt]) -> set[str]:
    """Return the nearest steps upstream that have run. The parents of a step that did not run are searched instead."""
    found: set[str] = set()
    seen: set[str] = set()
    above = list(graph.by_name[step].parents)
    while above:
        name = above.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in latest:
            found.add(name)
        else:
            above.extend(graph.by_name[name].parents)
    return found


def _links(path: Iterable[LastAttempt], began_at: datetime, now: datetime) -> list[dict[str, Any]]:
    """Return each instance of the path with how long it waited after the one before it had ended."""
    links, free_at = [], began_at
    for one in path:
        waited_s = max(0.0, (one.started_at - free_at).total_seconds())
        links.append({**_bar(one, began_at, now), "waited_s": waited_s})
        free_at = _end(one, now)
    return links


def _bar(one: LastAttempt, began_at: datetime, now: datetime) -> dict[str, Any]:
    return {
        "step": one.step,
        "idx": one.idx,
        "started_at": one.started_at.isoformat(),
        "ended_at": None if one.ended_at is None else one.ended_at.isoformat(),
        "offset_s": (one.started_at - began_at).total_seconds(),
        "duration_s": (_end(one, now) - one.started_at).total_seconds(),
    }


def _end(one: LastAttempt, now: datetime) -> datetime:
    return now if one.ended_at is None else one.ended_at
