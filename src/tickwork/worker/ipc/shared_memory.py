"""Shared memory in which a child process records its running attempts; the supervisor can read it after a crash, too.

Each running attempt has an entry: its job, its claim, the number of its open chunk of output, and the text of that
chunk, which the child has not sent yet. The supervisor reads the entries when bytes arrive on the child's descriptors,
to attribute them to attempts and to order them between chunks, and after the child's death, to store text that was
never sent. An entry costs a few memory writes per attempt, and no message.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import select
import struct
import sys
import tempfile
import termios
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tickwork.clock import SystemClock

ENTRIES = 512  # further attempts, of async tasks, run without an entry
TEXT_LIMIT = 16 * 1024  # bytes of an open chunk: 4,096 characters of 4 bytes
DRAIN_S = 0.25  # the longest time that a child waits for its supervisor to read its pipes
_DRAIN_LOOK_S = 0.0002
_NONE = bytes(4)  # a buffer for a count
_HEAD = struct.Struct("=QII")  # reads by the supervisor, entries in use, attempts without an entry
_COUNTS = struct.Struct("=II")
_ENTRY = struct.Struct("=36sqII")  # job, claim (0: free), number of the open chunk, bytes of its text
_CHUNK = struct.Struct("=II")
_READS = struct.Struct("=Q")
_ENTRIES_AT = 64
_TEXTS_AT = 1 << 15
SIZE = _TEXTS_AT + ENTRIES * TEXT_LIMIT


@dataclass(frozen=True, slots=True)
class RunningAttempt:
    """An attempt that runs in a child. Output read from the descriptors now follows its chunk number `chunk`."""

    job_id: str
    claim: int
    chunk: int

    @property
    def key(self) -> tuple[str, int]:
        """Return the job id and claim of the attempt."""
        return self.job_id, self.claim


@dataclass(frozen=True, slots=True)
class UnsentText:
    """The text of an attempt's open chunk that its dead child did not send."""

    job_id: str
    claim: int
    chunk: int
    text: str


class BoardReader:
    """The supervisor's side of the shared memory of one child."""

    def __init__(self) -> None:
        self.descriptor = _shared_memory()
        self._memory = mmap.mmap(self.descriptor, SIZE)

    def close_descriptor(self) -> None:
        """Close the descriptor after the child has received it; the memory stays mapped."""
        os.close(self.descriptor)

    def close(self) -> None:
        self._memory.close()

    def count_read(self) -> None:
        """Count a read of the child's pipes, before it happens; it makes the child end its open chunks."""
        _READS.pack_into(self._memory, 0, _READS.unpack_from(self._memory, 0)[0] + 1)

    def running(self) -> list[RunningAttempt]:
        """Return the attempts that have an entry now."""
        return [
            RunningAttempt(job_id.decode("ascii", "replace"), claim, chunk if length else chunk - 1)
            for job_id, claim, chunk, length in self._entries()
            if claim
        ]

    def has_others(self) -> bool:
        """Return whether attempts run that have no entry."""
        return bool(_HEAD.unpack_from(self._memory, 0)[2])

    def unsent(self) -> list[UnsentText]:
        """Return the text of open chunks. Bytes that are not UTF-8, truncated by the child's death, are replaced."""
        found = []
        for index, (job_id, claim, chunk, length) in enumerate(self._entries()):
            if claim and 0 < length <= TEXT_LIMIT:
                at = _TEXTS_AT + index * TEXT_LIMIT
                text = self._memory[at : at + length].decode("utf-8", "replace")
                found.append(UnsentText(job_id.decode("ascii", "replace"), claim, chunk, text))
        return found

    def _entries(self) -> list[tuple[bytes, int, int, int]]:
        used = min(_HEAD.unpack_from(self._memory, 0)[1], ENTRIES)
        return list(_ENTRY.iter_unpack(self._memory[_ENTRIES_AT : _ENTRIES_AT + used * _ENTRY.size]))


class Board:
    """The child's side of the shared memory.

    `pipes` are the read ends of its descriptors 1 and 2, with which the child checks whether they are empty.
    """

    def __init__(self, descriptor: int, pipes: Sequence[int]) -> None:
        self._memory = mmap.mmap(descriptor, SIZE)
        os.close(descriptor)
        self._free = [AttemptEntry(self, self._memory, index) for index in range(ENTRIES - 1, -1, -1)]
        self._used = 0
        self._without = 0
        self._is_anything_in = _watch(pipes)
        self._clock = SystemClock()
        self._forked = False
        os.register_at_fork(after_in_child=self._be_forked)

    def _be_forked(self) -> None:
        """Stop using the entries, in a process that a handler forked: the entries belong to its parent."""
        self._forked = True

    def enter(self, job_id: str, claim: int) -> AttemptEntry | None:
        """Return a new entry for an attempt that begins; None if all entries are in use."""
        try:
            entry = self._free.pop()
        except IndexError:
            self._without += 1
            self._count()
            return None
        entry.begin(job_id, claim)
        if entry.index >= self._used:
            self._used = entry.index + 1
            self._count()
        return entry

    def leave(self, entry: AttemptEntry | None) -> None:
        """Free the entry of an attempt that has ended and whose output was sent; None means that it had no entry."""
        if self._forked:
            return
        if entry is None:
            self._without -= 1
            self._count()
            return
        entry.clear()
        self._free.append(entry)

    def _count(self) -> None:
        _COUNTS.pack_into(self._memory, 8, self._used, max(0, self._without))

    def reads(self) -> int:
        """Return how often the supervisor has read from the pipes."""
        return int(_READS.unpack_from(self._memory, 0)[0])

    def drain(self) -> bool:
        """Wait until the pipes are empty, for at most `DRAIN_S` seconds; return True if they had data."""
        try:
            if self._forked or not self._is_anything_in():
                return False
            until = self._clock.monotonic() + DRAIN_S
            while self._is_anything_in() and self._clock.monotonic() < until:
                threading.Event().wait(_DRAIN_LOOK_S)
        except OSError:  # a handler closed everything
            return False
        return True


class AttemptEntry:
    """The entry of one attempt in the shared memory."""

    __slots__ = ("_at", "_board", "_chunk", "_length", "_memory", "_reads", "index")

    def __init__(self, board: Board, memory: mmap.mmap, index: int) -> None:
        self._board = board
        self._memory = memory
        self.index = index
        self._at = _ENTRIES_AT + index * _ENTRY.size
        self._chunk = 1
        self._length = 0
        self._reads = 0

    def begin(self, job_id: str, claim: int) -> None:
        """Assign the entry to an attempt."""
        self._chunk, self._length = 1, 0
        _ENTRY.pack_into(self._memory, self._at, job_id.encode(), claim, 1, 0)

    def ends_chunk(self) -> bool:
        """Return whether the supervisor has read from the descriptors since the open chunk began.

        The chunk must then end, because later text follows the bytes that were read.
        """
        return self._board.drain() or (self._length > 0 and self._board.reads() != self._reads)

    def append(self, text: str) -> None:
        """Append to the open chunk. Text that does not fit is dropped here; the child is about to send it anyway."""
        data = text.encode("utf-8", "replace")
        if self._length + len(data) > TEXT_LIMIT:
            return
        if self._length == 0:
            self._reads = self._board.reads()
        at = _TEXTS_AT + self.index * TEXT_LIMIT + self._length
        self._memory[at : at + len(data)] = data
        self._length += len(data)
        self._write()

    def sent(self, chunk: int) -> None:
        """Record that the open chunk was sent; the next chunk, number `chunk`, is empty."""
        if self._length or chunk != self._chunk:
            self._chunk, self._length = chunk, 0
            self._write()

    def _write(self) -> None:
        _CHUNK.pack_into(self._memory, self._at + _ENTRY.size - _CHUNK.size, self._chunk, self._length)

    def clear(self) -> None:
        _ENTRY.pack_into(self._memory, self._at, b"", 0, 0, 0)


def _watch(pipes: Sequence[int]) -> Callable[[], object]:
    """Return a function that reports whether some pipes have data. Each attempt calls it at its end, on any thread."""
    if sys.platform != "linux":
        return lambda: any(map(waiting_bytes, pipes))
    watched = select.epoll()
    for pipe in pipes:
        watched.register(pipe, select.EPOLLIN)
    return partial(watched.poll, 0, 1)


def waiting_bytes(pipe: int) -> int:
    """Return the number of bytes in a pipe."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, _NONE), sys.byteorder)


def _shared_memory() -> int:
    """Return a descriptor of anonymous shared memory."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tickwork-board")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, SIZE)
    return descriptor
