"""Capture what handlers print and log, separately for each attempt.

All code of a process shares sys.stdout, sys.stderr and the root logger, so each write looks up its attempt in a context
variable. Captured output is also written to its original destination.

In a child process, the descriptors 1 and 2 are pipes to the supervisor. There, text of an attempt goes to its sink and
to the worker's console. Text of threads without an attempt, and of processes that a handler forked, goes to the
descriptor, and the supervisor attributes it to an attempt (see worker/process/child_output.py).
"""

from __future__ import annotations

import fcntl
import io
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from io import TextIOWrapper
from typing import Any, TextIO

from tickwork.core.arguments.payload import storable
from tickwork.worker.ipc.shared_memory import AttemptEntry, Board
from tickwork.worker.run.mask import SecretMask, SecretReader

LOG_LIMIT = 10 * 1024 * 1024  # of an attempt, in characters
CHUNK = 4096  # more than this is passed on at once, less within a moment
STRIDE = 1 << 20  # between the numbers of two chunks; the numbers between are for output from the descriptors


def within_limit(text: str, size: int) -> str:
    """Return the part of a text that a log of `size` characters still keeps; the first cut text ends with a notice."""
    room = LOG_LIMIT - size
    if len(text) <= room:
        return text
    notice = f"\n... more than {LOG_LIMIT:,} characters: the rest is not kept\n"
    return text[:room] + notice if room >= 0 else ""  # below zero, the log already has the notice


class OutputSink:
    """Buffers the output of one attempt and passes it on in numbered chunks."""

    def __init__(
        self,
        passed_on: Callable[[int, str], None],
        stirred: Callable[[OutputSink], None],
        *,
        mask: SecretMask | None = None,
        about: Callable[[], dict[str, Any]] = dict,
        secrets: SecretReader | None = None,
    ) -> None:
        self._passed_on = passed_on
        self.about = about
        self.secrets = secrets
        self.is_shown = False  # the console of its process has text of it
        self._stirred = stirred
        self._lock = threading.Lock()
        self._parts: list[str] = []
        self._size = 0
        self._chunk = 1
        self._total = 0
        self.entry: AttemptEntry | None = None
        self._is_at_start = True  # the next character begins a line
        self._held = ""  # the end of the written text, held back because it may begin a secret
        self._mask = mask  # shared with other sinks until `hide` copies it

    def hide(self, value: str) -> None:
        """Mask a value in this sink from now on."""
        with self._lock:
            self._mask = SecretMask() if self._mask is None else self._mask.copy()
            self._mask.hide(value)

    def masked(self, text: str) -> str:
        """Return a text with the secrets masked."""
        return text if self._mask is None else self._mask.text(text)

    def begun(self, text: str) -> int:
        """Return how many characters at the end of a text may be the beginning of a secret."""
        return 0 if self._mask is None else self._mask.begun(text)

    def masked_beginning(self, text: str) -> str:
        """Return a truncated text with secrets masked, and without a partial secret at its end."""
        text = self.masked(text)
        return text[: len(text) - self.begun(text)]

    def masked_json(self, data: bytes) -> bytes:
        """Return a JSON result with the secrets masked."""
        return data if self._mask is None else self._mask.json(data)

    def keep_on(self, entry: AttemptEntry | None) -> None:
        """Copy unsent text to an entry in shared memory, where it survives this process; with None, stop copying."""
        self.entry = entry

    def write(self, text: str) -> None:
        """Buffer text, and pass it on if the chunk is full or output from the descriptors must follow it."""
        if self.entry is not None and self._is_at_start and self.entry.ends_chunk():
            self.flush()
        self._is_at_start = text.endswith("\n")
        with self._lock:
            text, self._total = within_limit(text, self._total), self._total + len(text)
            if not text:
                return
            self._parts.append(text)
            self._size += len(text)
            if self.entry is not None:
                self.entry.append(text)
            full, first = self._size >= CHUNK, len(self._parts) == 1
        if full:
            self.flush()
        elif first:
            self._stirred(self)

    def flush(self, *, final: bool = False) -> None:
        """Pass on the buffered text as a chunk; unless `final`, hold back an end that may begin a secret."""
        with self._lock:
            text = "".join(self._parts) if self._mask is None else self._cut(final)
            self._parts, self._size = [], 0
            if text:
                self._passed_on(self._chunk * STRIDE, storable(text))
                self._chunk += 1
            if self.entry is not None:
                self.entry.sent(self._chunk)
                if self._held:
                    self.entry.append(self._held)

    def _cut(self, final: bool) -> str:
        """Return the masked buffered text without the end that is held back."""
        text = self.masked(self._held + "".join(self._parts))
        begun = 0 if final else self.begun(text)
        self._held = text[len(text) - begun :]
        return text[: len(text) - begun]


class Recorder:
    """Copies unsent output of attempts to a child's shared memory, and orders it with output from the descriptors.

    `ended` is called with the sink of each ended attempt whose output the console has shown.
    """

    def __init__(self, board: Board, streams: StandardStreams, ended: Callable[[OutputSink], None]) -> None:
        self._board = board
        self._streams = streams
        self._ended = ended

    def begin(self, sink: OutputSink, job_id: str, claim: int) -> None:
        sink.keep_on(self._board.enter(job_id, claim))

    def end(self, sink: OutputSink) -> None:
        """Flush the sink of an ended attempt, after the supervisor has read the output from the descriptors."""
        self._streams.flush()
        self._board.drain()
        sink.flush(final=True)
        if sink.is_shown:
            self._ended(sink)
        entry = sink.entry
        sink.keep_on(None)
        self._board.leave(entry)


# The sink that receives a copy of the output of this thread or coroutine; None if it runs for no attempt.
attempt_sink: ContextVar[OutputSink | None] = ContextVar("tickwork_sink", default=None)


class _Fork:
    """Detects that this process was forked by a handler; then its sinks are not used."""

    here = False
    is_watched = False

    @classmethod
    def watch(cls) -> None:
        cls.here = False  # a child process was itself forked, by the fork server
        if not cls.is_watched:
            os.register_at_fork(after_in_child=cls._happened)
            cls.is_watched = True

    @classmethod
    def _happened(cls) -> None:
        cls.here = True


def is_forked() -> bool:
    """Return whether this process was forked by a handler."""
    return _Fork.here


def current_sink() -> OutputSink | None:
    """Return the sink of the attempt that this thread or coroutine runs for; None if there is none."""
    return None if _Fork.here else attempt_sink.get()


class _Tee(io.TextIOBase):
    """A replacement of sys.stdout or sys.stderr that copies writes to the current sink.

    `descriptor` is the stream of descriptor 1 or 2 if it differs from `original`.
    """

    def __init__(self, original: TextIO, descriptor: TextIO | None = None) -> None:
        self.original = original
        self.descriptor = original if descriptor is None else descriptor

    def write(self, text: str) -> int:
        sink = current_sink()
        if sink is not None:
            sink.write(text)
        with suppress(OSError, ValueError):  # a full disk or closed pipe of the worker must not fail the handler
            if sink is None:
                self.descriptor.write(text)
            else:
                self.original.write(sink.masked(text))
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self.original.flush()
            self.descriptor.flush()

    def fileno(self) -> int:
        return self.descriptor.fileno()

    def isatty(self) -> bool:
        return self.original.isatty()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.original.encoding

    def __getattr__(self, name: str) -> Any:  # buffer, reconfigure and other attributes of streams
        return getattr(self.descriptor, name)


class _LogHandler(logging.Handler):
    """A log handler that writes records to the current sink, or in a process that a handler forked, to `descriptor`."""

    def __init__(self, console: TextIO | None, descriptor: TextIO | None) -> None:
        super().__init__()
        self._console = console
        self._descriptor = descriptor

    def emit(self, record: logging.LogRecord) -> None:
        sink = current_sink()
        if sink is not None:
            sink.write(self.format(record) + "\n")
        elif _Fork.here and self._descriptor is not None:
            self._descriptor.write(self.format(record) + "\n")
            return
        if len(logging.root.handlers) == 1 and record.levelno >= logging.WARNING and self._console is not None:
            told = record.getMessage()  # without this handler, logging would show it by its handler of last resort
            print(told if sink is None else sink.masked(told), file=self._console)


@contextmanager
def captured(streams: StandardStreams | None = None) -> Iterator[None]:
    """Capture output while the block runs. `streams`: the streams of the descriptors 1 and 2 if these are pipes."""
    _Fork.watch()
    stdout, stderr = sys.stdout, sys.stderr
    out, err = (None, None) if streams is None else (streams.out, streams.err)
    handler = _LogHandler(sys.__stderr__ if streams is None else stderr, err)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    sys.stdout, sys.stderr = _Tee(stdout, out), _Tee(stderr, err)
    logging.root.addHandler(handler)
    logging.getLogger("tickwork.task").setLevel(logging.INFO)  # the parent of `current_job().logger`
    try:
        yield
    finally:
        logging.root.removeHandler(handler)
        sys.stdout, sys.stderr = stdout, stderr


@dataclass(frozen=True, slots=True)
class StandardStreams:
    """The streams of the descriptors 1 and 2, which are pipes to the supervisor."""

    out: TextIO
    err: TextIO

    def flush(self) -> None:
        """Flush the buffers of both streams."""
        try:
            self.out.flush()
            self.err.flush()
        except (OSError, ValueError):  # a handler closed them
            pass


def take_pipes(out: int, err: int) -> StandardStreams:
    """Replace the descriptors 1 and 2 by pipes; sys.stdout and sys.stderr keep writing to the console.

    A log handler that took sys.stderr at import therefore writes to the console only, and its records are not in the
    job's log twice. C code and started processes write to the pipes.
    """
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    streams = StandardStreams(_behind(1, out, sys.stdout), _behind(2, err, sys.stderr))
    sys.__stdout__, sys.__stderr__ = streams.out, streams.err  # type: ignore[misc,assignment]
    return streams


def _behind(descriptor: int, pipe: int, stream: Any) -> TextIO:
    """Replace a descriptor by a pipe and return its new stream; sys.stdout or sys.stderr keep the old descriptor."""
    try:
        saved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    except OSError:  # it is closed
        saved = os.open(os.devnull, os.O_WRONLY)
    os.dup2(pipe, descriptor)
    os.close(pipe)
    known = stream if isinstance(stream, TextIOWrapper) else None
    how: dict[str, Any] = {} if known is None else {"encoding": known.encoding, "errors": known.errors}
    at_once = descriptor == 2 or known is None or known.line_buffering or known.write_through
    console = open(saved, "w", buffering=1 if at_once else -1, **how)  # noqa: SIM115  # it lives as long as the process
    setattr(sys, "stdout" if descriptor == 1 else "stderr", console)
    opened: TextIO = open(descriptor, "w", buffering=1, closefd=False, **how)  # noqa: SIM115
    return opened
