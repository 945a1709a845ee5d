"""Read request bodies, with limits on their size, their time, and the total memory that they take.

`Capacity` is such a limit on resources that requests hold at the same time: streams, or bytes of bodies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.requests import ClientDisconnect, Request

from tickwork.http.framework.problems import Problem

BODY_WAIT_S = 15.0  # a body that takes longer to arrive is refused
SMALL = 64 * 1024  # bytes
LARGE_AT_ONCE = 4  # bodies over SMALL that are decoded at a time: as objects, they are up to thirty times as large
# Of bodies in memory: for callers whose credentials were checked, and for the others.
KNOWN_BYTES = 64 * 1024 * 1024
STRANGE_BYTES = 16 * 1024 * 1024
_FULL = "this server holds as much of the bodies of requests as it may."


class Capacity:
    """A limit on the units of a resource that are held at once.

    Check and count are one step, so a burst cannot exceed it.

    Not thread-safe: for the event loop only.
    """

    def __init__(self, most: int, full: str, code: str = "too-busy") -> None:
        self.most = most
        self.held = 0
        self._full = full
        self._code = code

    def has(self, count: int) -> bool:
        """Return whether `count` more units are available."""
        return self.held + count <= self.most

    def take(self, count: int = 1) -> bool:
        """Take `count` more units if they are available; return whether they were."""
        if not self.has(count):
            return False
        self.held += count
        return True

    def give_back(self, count: int = 1) -> None:
        self.held -= count

    def refusal(self) -> Problem:
        """Return the problem to answer with when no units are available: 503 with a Retry-After header."""
        return Problem(503, self._code, f"{self._full} Nothing was done.", headers={"Retry-After": "5"})


class CapacityShare:
    """The units of a capacity that one request holds."""

    def __init__(self, room: Capacity) -> None:
        self._room = room
        self._held = 0

    def take(self, count: int) -> None:
        """Take `count` more units. Raises Problem if they are not available."""
        if not self._room.take(count):
            raise self._room.refusal()
        self._held += count

    def give_back(self) -> None:
        """Release all units."""
        self._room.give_back(self._held)
        self._held = 0


@contextmanager
def capacity_share(room: Capacity) -> Iterator[CapacityShare]:
    """Yield an empty share of a capacity, and release the units that were taken through it at the end."""
    share = CapacityShare(room)
    try:
        yield share
    finally:
        share.give_back()


def authenticated_capacity() -> Capacity:
    """Return the memory bound for bodies of authenticated callers."""
    return Capacity(KNOWN_BYTES, _FULL)


def unauthenticated_capacity() -> Capacity:
    """Return the memory bound for bodies of callers whose credentials were not checked yet."""
    return Capacity(STRANGE_BYTES, _FULL)


def small_size(request: Request) -> int | None:
    """Return the declared size of a small body, or None for any other body."""
    length = request.headers.get("content-length", "0")
    is_number = length.isascii() and length.isdigit() and len(length) < 10
    if "transfer-encoding" in request.headers or not is_number or int(length) > SMALL:
        return None
    return int(length)


async def read_json(request: Request, limit: int, share: CapacityShare | None) -> bytes:
    """Return the body of a request, which must be JSON by its content type. Raises Problem."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(415, "unsupported-type", "the body must be application/json. Nothing was done.")
    check_head(request, limit)
    return await read_bytes(request, limit, share)


def check_head(request: Request, limit: int) -> None:
    """Refuse a body that is compressed, or too large by its Content-Length. Raises Problem."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Problem(415, "unsupported-encoding", "send the body as it is, not compressed. Nothing was done.")
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length[:20]) > limit:
        raise _too_large(limit)


async def read_bytes(request: Request, limit: int, share: CapacityShare | None) -> bytes:
    """Return the body of a request. Raises Problem if it is too large or too slow, or the memory limit is reached.

    The bytes are counted in `share`; without a share, the caller has counted them.
    """
    data = bytearray()

    def keep(chunk: bytes) -> None:
        if share is not None:
            share.take(len(chunk))
        data.extend(chunk)

    await _read(request, limit, keep)
    return bytes(data)


async def skip_bytes(request: Request, limit: int, room: Capacity) -> int:
    """Read and discard a body, and return its size. Raises Problem as `read_bytes` does."""

    size = 0

    def skip(chunk: bytes) -> None:
        nonlocal size
        size += len(chunk)
        if not room.has(size):
            raise room.refusal()

    return await _read(request, limit, skip)


async def _read(request: Request, limit: int, take: Callable[[bytes], None]) -> int:
    """Pass a body to `take`, chunk by chunk; return its size."""
    size = 0
    try:
        async with asyncio.timeout(BODY_WAIT_S):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise _too_large(limit)
                take(chunk)
    except TimeoutError:
        raise Problem(
            408, "too-slow", f"the body had not arrived after {BODY_WAIT_S:g} s.", headers={"Connection": "close"}
        ) from None
    except ClientDisconnect:
        raise Problem(400, "malformed", "the connection ended before the body did.") from None
    return size


def _too_large(limit: int) -> Problem:
    return Problem(413, "too-large", f"the body is over {limit:,} bytes. Nothing was done.")
