"""Benchmarks of the HTTP server: single enqueues at a steady rate, and many workers that wait for jobs."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.places import Database
from bench.rows.base import LOOK_S, START_LIMIT_S, WARM_UP, Sample, Sizes, opened, serving
from bench.rows.presence import resting
from bench.stats import percentiles
from bench.worker import BenchFailed, WorkerProcess, running_server, wait_until

TOKEN = "bench"
CONNECTIONS = 16
POLL_S = 55


def enqueues(database: Database, sizes: Sizes) -> Sample:
    """Measure the time from the planned start of a request to its response, including any wait for a connection."""
    with serving(database) as (_, _, worker), server_of(database) as (port, server):
        count = int(sizes.http_per_s * sizes.http_s)
        took = asyncio.run(_at_a_rate(port, count, sizes.http_per_s))
        wait_until(lambda: database.finished() >= WARM_UP + count, "all done", START_LIMIT_S, worker, LOOK_S)
        server.check()
    return Sample(percentiles([one * 1e3 for one in took]))


def idle_polls(database: Database, sizes: Sizes) -> Sample:
    """Measure what the server uses while all workers wait and nothing happens."""
    with opened(database) as app:
        app.store.now()  # creates the tables
    with server_of(database) as (port, server):
        return asyncio.run(_polled(port, server, sizes))


async def _at_a_rate(port: int, count: int, per_s: float) -> list[float]:
    """Send `count` requests at a fixed rate, each on the first free connection; return their latencies."""
    free: asyncio.Queue[_Connection] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        free.put_nowait(await _Connection.open(port))
    began = time.monotonic() + 0.5

    async def send(number: int) -> float:
        due = began + number / per_s
        await asyncio.sleep(due - time.monotonic())
        connection = await free.get()
        await connection.post("/api/v1/jobs", {"task": "noop", "args": {"number": number}}, 201)
        free.put_nowait(connection)
        return time.monotonic() - due

    return list(await asyncio.gather(*(send(number) for number in range(count))))


async def _polled(port: int, server: WorkerProcess, sizes: Sizes) -> Sample:
    connections = [await _Connection.open(port) for _ in range(sizes.http_polls)]
    body = {"queues": ["nothing"], "wait": f"{POLL_S}s", "lease": "30s", "max": 1}
    for number, connection in enumerate(connections):
        await connection.send("/api/v1/leases", {**body, "worker": f"idle-{number}"})
    await asyncio.sleep(min(sizes.rest_s, 5.0))
    sample = Sample(await asyncio.to_thread(resting, server, min(sizes.idle_s, POLL_S - 15.0)))
    for connection in connections:
        connection.close()
    return sample


class _Connection:
    """A persistent HTTP connection for sequential requests."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> _Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def send(self, path: str, body: dict[str, object]) -> None:
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        self._writer.write(head.encode() + data)
        await self._writer.drain()

    async def post(self, path: str, body: dict[str, object], wanted: int) -> None:
        await self.send(path, body)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        status = int(head.split(" ", 2)[1])
        length = next(line for line in head.lower().split("\r\n") if line.startswith("content-length:"))
        data = await self._reader.readexactly(int(length.partition(":")[2]))
        if status != wanted:
            raise BenchFailed(f"{path} answered {status}: {data[:200]!r}")

    def close(self) -> None:
        self._writer.close()


@contextmanager
def server_of(database: Database) -> Iterator[tuple[int, WorkerProcess]]:
    """Run a server on a store; yield its port and process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with running_server(database.url, database.folder, port, TOKEN) as server:
        wait_until(lambda: _listens(port), "the server listens", START_LIMIT_S, server, 0.02)
        yield port, server


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
