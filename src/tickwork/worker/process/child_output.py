"""The output of child processes: read the pipes of their descriptors 1 and 2, and attribute it to attempts.

A thread of the supervisor reads output as soon as it is written, so it survives the child. The thread also writes to
the supervisor's console, so a console that blocks stops only this thread, and the processes that write to the console.
After a child's death its pipes may still hold output. `drain` reads it and does not wait for end-of-file, because a
process that a handler left running may keep the pipes open.

Output belongs to the attempt that ran when it was read. If several attempts ran, each of them gets it, marked as
shared. Numbers of chunks that a child sends are multiples of `STRIDE`; the numbers between them are for output that
was read from the descriptors before the next chunk.
"""

from __future__ import annotations

import os
import select
import threading
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from tickwork.clock import Clock
from tickwork.core.arguments.payload import storable
from tickwork.worker.ipc.protocol import Wrote
from tickwork.worker.ipc.shared_memory import BoardReader, RunningAttempt, UnsentText, waiting_bytes
from tickwork.worker.process.console import PassedOnOutput
from tickwork.worker.run.capture import LOG_LIMIT, STRIDE, within_limit
from tickwork.worker.run.mask import SecretMask

STREAMS = (1, 2)
TELL_S = 0.05  # the least interval at which output wakes the worker
_READ = 1 << 16
_DRAIN_READS = 32  # more reads than the pipes of a dead child can need; bounds them if a process still writes
_CONSOLE_LIMIT = 1 << 20  # bytes buffered for a console that blocks; further output is dropped
_STOP_S = 2.0
SECRETS = 256  # the number of most recent secrets of a child's attempts that are masked


@dataclass(frozen=True, slots=True)
class OutputPiece:
    """Bytes from a descriptor, and the attempts that ran when they were read.

    `others`: attempts without an entry ran, too.
    """

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


@dataclass(slots=True)
class _AttemptLog:
    """The state of one attempt's log."""

    sent: int = 0  # number of the last chunk that the child sent
    size: int = 0
    behind: dict[int, int] = field(default_factory=dict)  # chunk -> number of pieces that follow it


@dataclass(slots=True)
class _StreamState:
    decoder: object = field(default_factory=lambda: getincrementaldecoder("utf-8")("replace"))
    owners: tuple[RunningAttempt, ...] = ()
    shared: bool = False
    held: str = ""  # the end of the text that was read, held back because it may begin a secret

    @property
    def sole_owner(self) -> str | None:
        """Return the job if only one job can have written the last output; None if there are several or none."""
        return self.owners[0].job_id if len(self.owners) == 1 and not self.shared else None

    def decode(self, data: bytes, final: bool = False) -> str:
        return str(self.decoder.decode(data, final))  # type: ignore[attr-defined]


class OutputAttribution:
    """Attributes the output of one child; `console` shows it on the worker's console."""

    def __init__(self, console: PassedOnOutput) -> None:
        self._console = console
        self._streams = {stream: _StreamState() for stream in STREAMS}
        self._logs: dict[tuple[str, int], _AttemptLog] = {}
        self._secrets: dict[str, None] = {}
        self._always: tuple[str, ...] = ()
        self._mask: SecretMask | None = None
        self._is_shown = False  # the console may have an incomplete line

    def always_hide(self, values: Sequence[str]) -> None:
        """Mask some values permanently; they do not count towards the limit of `SECRETS`."""
        self._always = tuple(values)
        self._renew_mask()

    def _renew_mask(self) -> None:
        values = (*self._always, *self._secrets)
        self._mask = SecretMask(values) if values else None

    def hide(self, value: str) -> None:
        """Mask a value from now on; drop the oldest value if there are more than `SECRETS`."""
        is_known = value in self._secrets
        self._secrets.pop(value, None)
        self._secrets[value] = None
        if len(self._secrets) > SECRETS:
            del self._secrets[next(iter(self._secrets))]
            self._renew_mask()
        elif self._mask is None:
            self._mask = SecretMask([value])
        elif not is_known:
            self._mask.hide(value)

    def sent(self, chunk: Wrote) -> None:
        """Record a chunk that the child itself has sent."""
        log = self._log(chunk.job_id, chunk.claim)
        log.sent = max(log.sent, chunk.seq // STRIDE)
        log.size += len(chunk.text)

    def forget(self, job_id: str, claim: int) -> None:
        self._logs.pop((job_id, claim), None)

    def credit(self, pieces: Iterable[OutputPiece]) -> Iterator[Wrote]:
        """Yield the text of output pieces as chunks of the attempts that wrote them."""
        for piece in pieces:
            stream = self._streams[piece.stream]
            text = stream.decode(piece.data)
            if stream.held and stream.owners != piece.owners and not self._goes_on(stream, piece.owners, text):
                yield from self._flush(piece.stream)
            stream.owners, stream.shared = piece.owners, piece.others or len(piece.owners) > 1
            text = stream.held + text
            if self._mask is not None:
                text = self._mask.text(text)
                begun = self._mask.begun(text)
                text, stream.held = text[: len(text) - begun], text[len(text) - begun :]
            self._show(piece.stream, text, stream.sole_owner)
            yield from self._chunks(stream.owners, stream.shared, text)

    def _goes_on(self, stream: _StreamState, owners: tuple[RunningAttempt, ...], text: str) -> bool:
        """Return whether `text` may continue a secret that began in text held back for another set of attempts."""
        if self._mask is None or {one.key for one in stream.owners}.isdisjoint(one.key for one in owners):
            return False
        whole = stream.held + text
        return not self._mask.text(whole).startswith(stream.held) or self._mask.begun(whole) > len(text)

    def flush(self, ended: Iterable[tuple[str, int]] | None = None) -> Iterator[Wrote]:
        """Yield the text that was held back for attempts that have ended; `ended` None means all attempts.

        Text that also belongs to attempts that still run stays held back for these.
        """
        gone = None if ended is None else set(ended)
        for number, stream in self._streams.items():
            left = () if gone is None else tuple(one for one in stream.owners if one.key not in gone)
            if not left:
                yield from self._flush(number)
            elif len(left) < len(stream.owners):
                stream.owners, going = left, tuple(one for one in stream.owners if one not in left)
                yield from self._chunks(going, stream.shared, stream.held)
        if self._is_shown:
            self._is_shown = False
            self._console.end()

    def _flush(self, number: int) -> Iterator[Wrote]:
        stream = self._streams[number]
        if text := stream.held:
            stream.held = ""
            self._show(number, text, stream.sole_owner)
            yield from self._chunks(stream.owners, stream.shared, text)

    def _show(self, stream: int, text: str, job_id: str | None) -> None:
        self._is_shown = True
        self._console.write(stream, text, job_id)

    def recovered(self, unsent: Iterable[UnsentText]) -> Iterator[Wrote]:
        """Yield the text that a dead child had not sent."""
        for one in unsent:
            if one.chunk > self._log(one.job_id, one.claim).sent:
                text = one.text if self._mask is None else self._mask.text(one.text)
                yield Wrote(one.job_id, one.claim, one.chunk * STRIDE, storable(text))

    def _chunks(self, owners: tuple[RunningAttempt, ...], shared: bool, text: str) -> Iterator[Wrote]:
        """Yield a text as a chunk for each of its owners, numbered after the owner's current chunk."""
        for owner in owners if text else ():
            log = self._log(owner.job_id, owner.claim)
            kept = within_limit(text, log.size)
            log.size += len(text)
            place = log.behind.get(owner.chunk, 0) + 1
            if kept and place < STRIDE:
                log.behind = {owner.chunk: place}  # no more pieces can follow an earlier chunk
                seq = owner.chunk * STRIDE + place
                yield Wrote(owner.job_id, owner.claim, seq, storable(kept), shared)

    def _log(self, job_id: str, claim: int) -> _AttemptLog:
        return self._logs.setdefault((job_id, claim), _AttemptLog())
