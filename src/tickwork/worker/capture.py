"""Catches what a handler prints and logs, and keeps it apart by attempt.

sys.stdout, sys.stderr and the root logger are shared by everything in a process, so each write looks up whose it is
in a context variable. What is caught still goes where it went before: a print is still a print.
"""

from __future__ import annotations

import io
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, TextIO

from tickwork.core.payload import storable
from tickwork.worker.mask import Mask

LOG_LIMIT = 10 * 1024 * 1024  # of an attempt, in characters
CHUNK = 4096  # more than this is passed on at once, less within a moment


class Sink:
    """Collects one attempt's text and passes it on in chunks, in order."""

    def __init__(self, passed_on: Callable[[int, str], None], stirred: Callable[[Sink], None]) -> None:
        self._passed_on = passed_on
        self._stirred = stirred
        self._lock = threading.Lock()
        self._parts: list[str] = []
        self._size = 0
        self._seq = 0
        self._total = 0
        self._held = ""  # the end of what was written: perhaps the beginning of a secret
        self._mask: Mask | None = None

    def hide(self, value: str) -> None:
        """Write *** for a value from now on."""
        with self._lock:
            self._mask = self._mask or Mask()
            self._mask.hide(value)

    def masked(self, text: str) -> str:
        """A text as it may be shown."""
        return text if self._mask is None else self._mask.text(text)

    def masked_json(self, data: bytes) -> bytes:
        """A result as it may be stored."""
        return data if self._mask is None else self._mask.json(data)

    def write(self, text: str) -> None:
        with self._lock:
            text = self._within_limit(text)
            if not text:
                return
            self._parts.append(text)
            self._size += len(text)
            full, first = self._size >= CHUNK, len(self._parts) == 1
        if full:
            self.flush()
        elif first:
            self._stirred(self)

    def _within_limit(self, text: str) -> str:
        room = LOG_LIMIT - self._total
        self._total += len(text)
        if len(text) <= room:
            return text
        notice = f"\n... more than {LOG_LIMIT:,} characters: the rest is not kept\n"
        return text[:room] + notice if room >= 0 else ""  # below zero it was said already

    def flush(self, *, final: bool = False) -> None:
        """Pass on what is there; unless it is `final`, without an end that may be the beginning of a secret."""
        with self._lock:
            text = "".join(self._parts) if self._mask is None else self._cut(final)
            self._parts, self._size = [], 0
            if text:
                self._passed_on(self._seq, storable(text))
                self._seq += 1

    def _cut(self, final: bool) -> str:
        text = self.masked(self._held + "".join(self._parts))
        begun = 0 if final or self._mask is None else self._mask.begun(text)
        self._held = text[len(text) - begun :]
        return text[: len(text) - begun]


_sink: ContextVar[Sink | None] = ContextVar("tickwork_sink", default=None)


def set_sink(sink: Sink | None) -> None:
    """Say where the output of this thread or coroutine goes, besides where it goes anyway."""
    _sink.set(sink)


class _Tee(io.TextIOBase):
    """Stands in for sys.stdout or sys.stderr."""

    def __init__(self, original: TextIO) -> None:
        self.original = original

    def write(self, text: str) -> int:
        sink = _sink.get()
        if sink is not None:
            sink.write(text)
        with suppress(OSError, ValueError):  # a full disk or a closed pipe behind the worker is not the handler's fault
            self.original.write(text if sink is None else sink.masked(text))
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self.original.flush()

    def fileno(self) -> int:
        return self.original.fileno()

    def isatty(self) -> bool:
        return self.original.isatty()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.original.encoding

    def __getattr__(self, name: str) -> Any:  # buffer, reconfigure and whatever else some code needs
        return getattr(self.original, name)


class _LogHandler(logging.Handler):
    """Writes records of a handler's code to its sink."""

    def emit(self, record: logging.LogRecord) -> None:
        sink = _sink.get()
        if sink is not None:
            sink.write(self.format(record) + "\n")
        if len(logging.root.handlers) == 1 and record.levelno >= logging.WARNING and sys.__stderr__ is not None:
            told = record.getMessage()  # being there must not silence what would have been shown
            print(told if sink is None else sink.masked(told), file=sys.__stderr__)


@contextmanager
def captured() -> Iterator[None]:
    """Catch output while the block runs."""
    handler = _LogHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    stdout, stderr = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _Tee(stdout), _Tee(stderr)
    logging.root.addHandler(handler)
    logging.getLogger("tickwork.task").setLevel(logging.INFO)  # what `current_job().logger` is a child of
    try:
        yield
    finally:
        logging.root.removeHandler(handler)
        sys.stdout, sys.stderr = stdout, stderr
