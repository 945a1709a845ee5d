"""A program that keeps very many connections to a server open, and none of them for anything good.

    python -m tests.process.flooder PORT IDLE SLOW HOSTILE

Whatever the server closes is opened again: by hostile clients after a second, by others after a few. It runs until it
is killed.
"""

import asyncio
import os
import random
import resource
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

Attack = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HOST = b"Host: x\r\n"
JSON = b"Content-Type: application/json\r\n"
SIGNED = b"X-Hub-Signature-256: sha256=" + b"0" * 64 + b"\r\n"
AGAIN_S = 5.0
HOSTILE_AGAIN_S = 1.0
LONG = 1024 * 1024


async def idle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send nothing."""
    await reader.read(1)


def dripping(head: bytes, drip: bytes) -> Attack:
    """Send something, then a little now and then."""

    async def attack(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while not reader.at_eof():
            writer.write(drip)
            await writer.drain()
            await asyncio.sleep(1.0 + random.random())

    return attack


async def greedy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Ask for much, and take none of it."""
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    for _ in range(100):
        writer.write((b"GET /api/v1/openapi.json HTTP/1.1\r\n" + HOST + b"\r\n") * 10)
        await asyncio.wait_for(writer.drain(), 5)
        await asyncio.sleep(1.0)


def sending(data: bytes) -> Attack:
    """Send all of this at once, and wait for the end of the connection for a while."""

    async def attack(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await asyncio.wait_for(writer.drain(), 10)
        await asyncio.wait_for(reader.read(), 10)

    return attack


def post(path: bytes, length: int, more: bytes = b"") -> bytes:
    return b"POST %s HTTP/1.1\r\n%s%s%sContent-Length: %d\r\n\r\n" % (path, HOST, JSON, more, length)


SLOW: tuple[Attack, ...] = (
    dripping(b"GET / HTTP/1.1\r\n", b"X-A: b\r\n"),
    dripping(b"", b"G"),
    dripping(post(b"/api/v1/jobs", 60_000), b" "),
    dripping(post(b"/api/v1/session", 60_000), b" " * 1000),
    dripping(post(b"/hooks/unknown", LONG, SIGNED), b" " * 1000),
    greedy,
)
HOSTILE: tuple[Attack, ...] = (
    sending(bytes(range(256)) * 16),
    sending(b"GET / HTTP/1.1\r\n" + b"a:b\r\n" * 12_000),
    sending(b"GET / HTTP/1.1\r\nX: " + b"x" * 200_000),
    sending(b"GET /x HTTP/1.1\r\n\r\n" * 12_000),
    sending(post(b"/hooks/unknown", LONG) + b"x" * LONG),
    sending(post(b"/hooks/unknown", LONG, SIGNED) + b"x" * (LONG - 1)),
    sending(post(b"/api/v1/jobs/batch", 16 * LONG) + b"x" * LONG),
    sending(post(b"/api/v1/session", 60_000) + b"[" * 60_000),
    sending(b"GET /api/v1/docs HTTP/1.1\r\nHost: x\r\n\r\n" * 8),
    sending(b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"),
    sending(b"GET /api/v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + b"x" * 5000 + b"\r\n\r\n"),
)


async def keep(port: int, attack: Attack, again_s: float) -> None:
    """Attack on one connection after another."""
    await asyncio.sleep(random.random() * 3)
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4096)
        except OSError:
            await asyncio.sleep(again_s)
            continue
        try:
            await attack(reader, writer)
        except (OSError, TimeoutError):
            pass
        finally:
            writer.transport.abort()
        await asyncio.sleep(again_s)


async def flood(port: int, idle_count: int, slow_count: int, hostile_count: int) -> None:
    def some(attacks: Sequence[Attack], count: int, again_s: float) -> list[Coroutine[Any, Any, None]]:
        return [keep(port, attacks[n % len(attacks)], again_s) for n in range(count)]

    print("flooding", flush=True)
    await asyncio.gather(
        *some([idle], idle_count, AGAIN_S),
        *some(SLOW, slow_count, AGAIN_S),
        *some(HOSTILE, hostile_count, HOSTILE_AGAIN_S),
    )


if __name__ == "__main__":
    os.nice(19)  # where there are few processors, the server is to get them: clients come from other machines
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    asyncio.run(flood(*map(int, sys.argv[1:])))
