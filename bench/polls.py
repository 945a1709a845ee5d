"""Measure the CPU usage of a server with many REST workers that wait for jobs: `python -m bench.polls`.

python -m bench.polls --workers 1000 --seconds 60 --queues 1 --store sqlite
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from bench.places import Database, opened_places
from bench.proc import cpu_s
from tickwork import Tickwork

WAIT_S = 30


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.polls", description=__doc__)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--queues", type=int, default=1, help="how many different ones they wait for")
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite")
    asked = parser.parse_args(arguments)
    with opened_places([asked.store]) as (place,), place.fresh() as database:
        Tickwork(database.url, upgrade=True).store.now()
        with _server(database) as (pid, address, token):
            share = asyncio.run(_wait(pid, address, token, asked.workers, asked.queues, asked.seconds))
    print(f"{asked.workers} workers, {asked.queues} queue(s), {asked.store}: {share:.1%} of a core")
    return 0


@contextlib.contextmanager
def _server(database: Database) -> Iterator[tuple[int, str, str]]:
    token, log = secrets.token_hex(16), database.folder / "server.log"
    command = [sys.executable, "-m", "tickwork", "server", "--dev", "--port", "0", "--url", database.url]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stderr=out, env={**os.environ, "TICKWORK_TOKEN": token})
    try:
        until = time.monotonic() + 60
        while not (found := re.search(r"http://\S+", log.read_text())):
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(log.read_text())
            time.sleep(0.05)
        yield process.pid, found[0], token
    finally:
        process.terminate()
        process.wait(20)


async def _wait(pid: int, address: str, token: str, workers: int, queues: int, seconds: float) -> float:
    """Let `workers` workers poll for `seconds`; return the share of a core that the server used."""
    polls = [asyncio.create_task(_poll(address, token, f"w{n}", f"idle-{n % queues}")) for n in range(workers)]
    await asyncio.sleep(WAIT_S / 3)  # until all are connected, and their polls are spread over time
    began, used = time.monotonic(), cpu_s(pid)
    await asyncio.sleep(seconds)
    share = (cpu_s(pid) - used) / (time.monotonic() - began)
    broken = [poll.exception() for poll in polls if poll.done()]
    for poll in polls:
        poll.cancel()
    if broken:
        raise SystemExit(f"{len(broken)} connections broke: {broken[0]}")
    return share


async def _poll(address: str, token: str, name: str, queue: str) -> None:
    """Poll for jobs for ever on one connection; each poll waits for half a minute."""
    where = urlsplit(address)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    first = WAIT_S * (int(name[1:]) % 97 + 3) / 100
    while True:
        body = f'{{"queues": ["{queue}"], "worker": "{name}", "wait": {first:.3f}}}'
        head = f"POST /api/v1/leases HTTP/1.1\r\nHost: {where.netloc}\r\nAuthorization: Bearer {token}\r\n"
        writer.write(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        if not answer.startswith(b"HTTP/1.1 200"):
            raise ConnectionError(answer.decode())
        length = re.search(rb"content-length: (\d+)", answer.lower())
        await reader.readexactly(int(length[1]) if length else 0)
        first = WAIT_S


if __name__ == "__main__":
    sys.exit(main())
