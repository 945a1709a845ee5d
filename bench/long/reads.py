"""Measure p50 and p95 of every GET route of the server, with 25,000 leases over REST, 1,000 workers and 10,000 dags.

Routes are taken from the server's own table, so that none is missed. Paths use the names of existing objects; lists are
also read with the filters of the UI.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from typing import Any

from bench.long.base import Result, Sizes, Tell
from bench.long.crowd import DAG, crowd
from bench.places import Place
from bench.rows.http import TOKEN, server_of
from bench.stats import percentile
from bench.worker import BenchFailed
from tickwork.http.routes import ROUTES

READ_MS = 300.0
LIMIT_S = 30.0
_ROOT = "/api/v1"
_STREAMS = {f"{_ROOT}/stream", f"{_ROOT}/jobs/{{id}}/events", f"{_ROOT}/dead/export"}  # endless responses
_FILTERED = {
    "/jobs": ("state=running", "state=queued", "state=failed", "error=broke", "task=noop", "limit=1000"),
    "/jobs/counts": ("task=noop",),
    "/dags": ("limit=200",),
    "/runs": ("state=succeeded", "dag=dag-77"),
    "/search": ("q=dag-99", "q=remote-1", "q=noop"),
}
_NEEDED = {"/search": "q=noop", "/density": "day=2026-01-01", "/dags/{name}/diff": "old=1&new=1"}


def reads(place: Place, sizes: Sizes, tell: Tell) -> Result:
    """Call each route a few times on one connection, like a single user."""
    with place.fresh() as database:
        crowd(database, sizes.crowd, tell)
        with server_of(database) as (port, _):
            caller = Caller(port)
            took = {path: caller.timed(path, sizes.repeats, tell) for path in _paths(caller)}
    p95 = {path: percentile(one, 95) for path, one in took.items()}
    figures = {f"{path} p50_ms": percentile(one, 50) for path, one in took.items()}
    figures |= {f"{path} p95_ms": ms for path, ms in p95.items()}
    return Result(
        dict(sorted(figures.items())), promises={f"{path} < {READ_MS:g} ms": ms < READ_MS for path, ms in p95.items()}
    )


class Caller:
    """A persistent connection to the server."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)

    def get(self, path: str) -> tuple[int, bytes]:
        """Return the status and body of a response."""
        self._connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def first(self, path: str) -> str:
        """Return the id of the first item of a list."""
        status, body = self.get(f"{_ROOT}{path}")
        if status != 200:
            raise BenchFailed(f"{path} answered {status}: {body[:200]!r}")
        found: dict[str, Any] = json.loads(body)
        return str(found["items"][0]["id"])

    def timed(self, path: str, repeats: int, tell: Tell) -> list[float]:
        """Return the milliseconds of each call; an error response counts as the whole limit."""
        took: list[float] = []
        for number in range(repeats + 1):
            began = time.perf_counter()
            status, body = self.get(path)
            ms = (time.perf_counter() - began) * 1e3
            if number or ms > READ_MS:  # the first call plans its statements
                took.append(ms)
            if status >= 400:
                tell(f"{path} answered {status}: {body[:200]!r}")
                return [LIMIT_S * 1e3]
            if sum(took) > LIMIT_S * 1e3:
                break
        tell(f"{percentile(took, 50):7.1f} {percentile(took, 95):7.1f} ms {len(body):9,} bytes  {path}")
        return took


def _paths(caller: Caller) -> Iterator[str]:
    """Yield the paths to read: each GET route for existing objects, and lists with filters."""
    run = caller.first("/runs?limit=1")
    job = caller.first("/jobs?state=running&limit=1")
    known = {
        "/jobs/{id}": {"{id}": job},
        "/workers/{id}": {"{id}": "idle-1"},
        "/runs/{id}": {"{id}": run, "{step}": "forward"},
        "/dags/{name}": {"{name}": DAG, "{version}": "1"},
        "/queues/{name}": {"{name}": "default"},
        "/tasks/{name}": {"{name}": DAG},
    }
    for route in ROUTES:
        if route.method != "GET" or route.path in _STREAMS:
            continue
        short = route.path.removeprefix(_ROOT)
        names = next((names for start, names in known.items() if short.startswith(start)), {})
        path = route.path
        for name, value in names.items():
            path = path.replace(name, value)
        if "{" in path:
            continue  # the store has no such objects
        yield f"{path}?{_NEEDED[short]}" if short in _NEEDED else path
        yield from (f"{path}?{query}" for query in _FILTERED.get(short, ()))
