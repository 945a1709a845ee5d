"""Catches what a handler prints and logs, and keeps it apart by attempt.

sys.stdout, sys.stderr and the root logger are shared by everything in a process, so each write looks up whose it is
in a context variable. What is caught still goes where it went before: a print is still a print.

In a child process the descriptors 1 and 2 are pipes to the supervisor. There, text of an attempt goes to its sink and
to the worker's console; text of threads without an attempt, and of processes that a handler forked, goes to the
descriptor, where the supervisor finds out whose it is (see worker/process/output_pipes.py).
"""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, TextIO

from tickwork.core.arguments.payload import storable
from tickwork.worker.ipc.shared_memory import AttemptEntry, Board
from tickwork.worker.ipc.stdio import StandardStreams
from tickwork.worker.run.mask import SecretMask

LOG_LIMIT = 10 * 1024 * 1024  # of an attempt, in characters
CHUNK = 4096  # more than this is passed on at once, less within a moment
STRIDE = 1 << 20  # between the numbers of two chunks: room for what came through the descriptors after the first


def within_limit(text: str, size: int) -> str:
    """So much of a text as a log keeps that has `size` characters; the first one that is cut ends with a notice."""
    room = LOG_LIMIT - size
    if len(text) <= room:
        return text
    notice = f"\n... more than {LOG_LIMIT:,} characters: the rest is not kept\n"
    return text[:room] + notice if room >= 0 else ""  # below zero there is a notice already


class OutputSink:
    """Collects one attempt's text and passes it on in chunks, in order."""

    def __init__(
        self,
        passed_on: Callable[[int, str], None],
        stirred: Callable[[OutputSink], None],
        *,
        mask: SecretMask | None = None,
        about: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        self._passed_on = passed_on
        self.about = about
        self._stirred = stirred
        self._lock = threading.Lock()
        self._parts: list[str] = []
        self._size = 0
        self._chunk = 1
        self._total = 0
        self.entry: AttemptEntry | None = None
        self._is_at_start = True  # of a line
        self._held = ""  # the end of what was written: perhaps the beginning of a secret
        self._mask = mask  # shared with other sinks until this one hides more

    def hide(self, value: str) -> None:
        """Write *** for a value from now on."""
        with self._lock:
            self._mask = SecretMask() if self._mask is None else self._mask.copy()
            self._mask.hide(value)

    def masked(self, text: str) -> str:
        """A text as it may be shown."""
        return text if self._mask is None else self._mask.text(text)

    def begun(self, text: str) -> int:
        """How many characters at the end of a text may be the beginning of a secret."""
        return 0 if self._mask is None else self._mask.begun(text)

    def masked_beginning(self, text: str) -> str:
        """A text whose end was cut off, as it may be shown."""
        text = self.masked(text)
        return text[: len(text) - self.begun(text)]

    def masked_json(self, data: bytes) -> bytes:
        """A result as it may be stored."""
        return data if self._mask is None else self._mask.json(data)

    def keep_on(self, entry: AttemptEntry | None) -> None:
        """Keep what is not passed on yet on the board, where it survives this process."""
        self.entry = entry

    def write(self, text: str) -> None:
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
        """Pass on what is there; unless it is `final`, without an end that may be the beginning of a secret."""
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
        text = self.masked(self._held + "".join(self._parts))
        begun = 0 if final else self.begun(text)
        self._held = text[len(text) - begun :]
        return text[: len(text) - begun]


class Recorder:
    """Keeps the output of attempts on a child's board, and tells it apart from what comes through the descriptors.

    `ended` is told of each sink to which nothing is written any more.
    """

    def __init__(self, board: Board, streams: StandardStreams, ended: Callable[[OutputSink], None]) -> None:
        self._board = board
        self._streams = streams
        self._ended = ended

    def begin(self, sink: OutputSink, job_id: str, claim: int) -> None:
        sink.keep_on(self._board.enter(job_id, claim))

    def end(self, sink: OutputSink) -> None:
        """Wait until the supervisor has what came through the descriptors, and pass on the rest of the sink."""
        self._streams.flush()
        self._board.drain()
        sink.flush(final=True)
        self._ended(sink)
        entry = sink.entry
        sink.keep_on(None)
        self._board.leave(entry)


_sink: ContextVar[OutputSink | None] = ContextVar("tickwork_sink", default=None)


def set_sink(sink: OutputSink | None) -> None:
    """Say where the output of this thread or coroutine goes, besides where it goes anyway."""
    _sink.set(sink)


class _Fork:
    """Whether this process was forked by a handler: then no sink of it is passed on."""

    here = False
    is_watched = False

    @classmethod
    def watch(cls) -> None:
        cls.here = False  # a child is forked itself
        if not cls.is_watched:
            os.register_at_fork(after_in_child=cls._happened)
            cls.is_watched = True

    @classmethod
    def _happened(cls) -> None:
        cls.here = True


def is_forked() -> bool:
    """Whether this process was forked by a handler."""
    return _Fork.here


def current_sink() -> OutputSink | None:
    """Return the sink of the attempt that this thread or coroutine runs for."""
    return None if _Fork.here else _sink.get()


class _Tee(io.TextIOBase):
    """Stands in for sys.stdout or sys.stderr. `descriptor` is the stream of the descriptor, if that is another one."""

    def __init__(self, original: TextIO, descriptor: TextIO | None = None) -> None:
        self.original = original
        self.descriptor = original if descriptor is None else descriptor

    def write(self, text: str) -> int:
        sink = current_sink()
        if sink is not None:
            sink.write(text)
        with suppress(OSError, ValueError):  # a full disk or a closed pipe behind the worker is not the handler's fault
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

    def __getattr__(self, name: str) -> Any:  # buffer, reconfigure and whatever else some code needs
        return getattr(self.descriptor, name)


class _LogHandler(logging.Handler):
    """Writes records of a handler's code to its sink, and in a process that a handler forked to `descriptor`."""

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
            told = record.getMessage()  # being there must not silence what would have been shown
            print(told if sink is None else sink.masked(told), file=self._console)


@contextmanager
def captured(streams: StandardStreams | None = None) -> Iterator[None]:
    """Catch output while the block runs. `streams`: those of the descriptors, in a process where they are pipes."""
    _Fork.watch()
    stdout, stderr = sys.stdout, sys.stderr
    out, err = (None, None) if streams is None else (streams.out, streams.err)
    handler = _LogHandler(sys.__stderr__ if streams is None else stderr, err)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    sys.stdout, sys.stderr = _Tee(stdout, out), _Tee(stderr, err)
    logging.root.addHandler(handler)
    logging.getLogger("tickwork.task").setLevel(logging.INFO)  # what `current_job().logger` is a child of
    try:
        yield
    finally:
        logging.root.removeHandler(handler)
        sys.stdout, sys.stderr = stdout, stderr
