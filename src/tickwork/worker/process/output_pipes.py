"""Read the pipes of the descriptors 1 and 2 of child processes, on a thread of the supervisor.

Output is read as soon as it is written, so it survives the child. The thread also writes to the supervisor's console,
so a console that blocks stops only this thread, and the processes that write to the console. After a child's death its
pipes may still hold output. `drain` reads it and does not wait for end-of-file, because a process that a handler left
running may keep the pipes open.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass

from tickwork.clock import Clock
from tickwork.worker.ipc.shared_memory import BoardReader, RunningAttempt, waiting_bytes
from tickwork.worker.run.capture import LOG_LIMIT

STREAMS = (1, 2)
TELL_S = 0.05  # the least interval at which output wakes the worker
_READ = 1 << 16
_DRAIN_READS = 32  # more reads than the pipes of a dead child can need; bounds them if a process still writes
_CONSOLE_LIMIT = 1 << 20  # bytes buffered for a console that blocks; further output is dropped
_STOP_S = 2.0


@dataclass(frozen=True, slots=True)
class OutputPiece:
    """Bytes from a descriptor, and the attempts that ran when they were read; `others`: some more, without an entry."""

    stream: int
    data: bytes
    owners: tuple[RunningAttempt, ...]
    others: bool


class ChildOutput:
    """The supervisor's end of the output of one child: its pipes and its shared memory."""

    def __init__(self) -> None:
        pipes = [os.pipe() for _ in STREAMS]
        self._readable = {stream: pipe[0] for stream, pipe in zip(STREAMS, pipes, strict=True)}
        self._writable = [pipe[1] for pipe in pipes]
        for pipe in self._readable.values():
            os.set_blocking(pipe, False)
        self.board = BoardReader()
        self._lock = threading.Lock()
        self._pieces: list[OutputPiece] = []
        self._size = 0
        self._open = set(STREAMS)

    def descriptors(self) -> list[int]:
        """Return the descriptors for the child: write ends, read ends (to check for data), and shared memory."""
        return [*self._writable, *self._readable.values(), self.board.descriptor]

    def hand_over(self) -> None:
        """Close the descriptors that only the child needs, after they were sent to it."""
        for pipe in self._writable:
            os.close(pipe)
        self.board.close_descriptor()

    def filenos(self) -> dict[int, int]:
        """Return the pipes that are not at end-of-file, with their streams."""
        return {self._readable[stream]: stream for stream in sorted(self._open)}

    def read(self, stream: int) -> bool:
        """Read once from a pipe; return False if it had no data."""
        with self._lock:
            return stream in self._open and self._read(stream)

    def _read(self, stream: int) -> bool:
        # An attempt keeps its entry until its output was read. So the entries, read after the number of waiting bytes,
        # include every attempt that wrote these bytes. Bytes that arrive meanwhile are left for the next read.
        pipe = self._readable[stream]
        size = waiting_bytes(pipe)
        owners = tuple(self.board.running())
        self.board.count_read()
        try:
            data = os.read(pipe, min(size, _READ) or 1)
        except BlockingIOError:
            return False
        if not data:
            self._open.discard(stream)
            return False
        if self._size <= LOG_LIMIT:  # logs do not keep more
            self._pieces.append(OutputPiece(stream, data, owners, self.board.has_others()))
            self._size += len(data)
        return True

    def take(self) -> list[OutputPiece]:
        """Return the pieces that were read since the last call."""
        with self._lock:
            pieces, self._pieces, self._size = self._pieces, [], 0
            return pieces

    def drain(self) -> None:
        """Read the remaining data of the pipes, without waiting for end-of-file."""
        for stream in STREAMS:
            for _ in range(_DRAIN_READS):
                if not self.read(stream):
                    break

    def close(self) -> None:
        with self._lock:
            self._open.clear()
            for pipe in self._readable.values():
                os.close(pipe)
            self.board.close()


class OutputReader:
    """The reader thread. `fileno` is readable when children have written output since the last call of `heard`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._outputs: list[ChildOutput] = []
        self._console: deque[tuple[int, bytes]] = deque()
        self._waiting = 0  # bytes buffered for the console
        self._lock = threading.Lock()
        self._stopping = False
        self._woken = self._wake = self._news = self._tell = -1
        self._fresh = False
        self._tell_at = 0.0
        self._thread: threading.Thread | None = None

    def add(self, output: ChildOutput) -> None:
        """Start reading the pipes of a child; starts the thread for the first child."""
        with self._lock:
            self._outputs.append(output)
        if self._thread is None:
            self._woken, self._wake = _pair()
            self._news, self._tell = _pair()
            self._thread = threading.Thread(target=self._run, name="tickwork-output", daemon=True)
            self._thread.start()
        self._call()

    def remove(self, output: ChildOutput) -> None:
        """Remove a child that has ended, and close its pipes."""
        with self._lock:
            self._outputs.remove(output)
        output.close()

    def show(self, stream: int, data: bytes) -> None:
        """Queue bytes for a descriptor of this process; the thread writes them."""
        with self._lock:
            if self._waiting > _CONSOLE_LIMIT:
                return
            self._console.append((stream, data))
            self._waiting += len(data)
        self._call()

    def fileno(self) -> int:
        return self._news

    def heard(self) -> None:
        if self._news >= 0:
            _clear(self._news)

    def stop(self) -> None:
        """Write the queued bytes, unless the console blocks, and stop the thread."""
        if self._thread is None:
            return
        self._stopping = True
        self._call()
        self._thread.join(_STOP_S)
        if self._thread.is_alive():
            return  # the console blocks the thread, which ends with the process
        self._thread, self._stopping = None, False
        for pipe in (self._woken, self._wake, self._news, self._tell):
            os.close(pipe)
        self._woken = self._wake = self._news = self._tell = -1

    def _call(self) -> None:
        if self._wake >= 0:
            with suppress(BlockingIOError):
                os.write(self._wake, b"!")

    # -- on its own thread

    def _run(self) -> None:
        """Read from the pipes, write to the console and wake the worker, until stopped."""
        while True:
            self._write_console()
            if self._stopping:
                return
            with self._lock:
                places = {pipe: (one, stream) for one in self._outputs for pipe, stream in one.filenos().items()}
            for pipe in self._await([self._woken, *places]):
                if pipe == self._woken:
                    _clear(pipe)
                elif pipe in places:
                    output, stream = places[pipe]
                    self._fresh |= output.read(stream)
            self._tell_worker()

    def _await(self, pipes: list[int]) -> list[int]:
        """Wait for data in some pipes, or until the worker may be woken again; return the pipes that have data."""
        poll = select.poll()
        for pipe in pipes:
            poll.register(pipe, select.POLLIN)
        left = max(0.0, self._tell_at - self._clock.monotonic()) if self._fresh else None
        return [pipe for pipe, _ in poll.poll(None if left is None else left * 1000)]

    def _tell_worker(self) -> None:
        now = self._clock.monotonic()
        if self._fresh and now >= self._tell_at:
            self._fresh, self._tell_at = False, now + TELL_S
            with suppress(BlockingIOError):
                os.write(self._tell, b"!")

    def _write_console(self) -> None:
        """Write the queued bytes to the console; blocks while the console does."""
        while True:
            with self._lock:
                if not self._console:
                    return
                stream, data = self._console.popleft()
                self._waiting -= len(data)
            with suppress(OSError):  # the worker's output is on a full disk or a closed pipe
                while data:
                    data = data[os.write(stream, data) :]


def _pair() -> tuple[int, int]:
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    return readable, writable


def _clear(pipe: int) -> None:
    with suppress(BlockingIOError):
        while os.read(pipe, 4096):
            pass
