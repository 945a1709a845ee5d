"""Show the output of tasks on the worker's console, so that no line can be mistaken for a log record of the worker.

As text, each line begins with the job or the process that wrote it, and unprintable characters are escaped. With
TICKWORK_LOG_FORMAT=json, each line is a JSON object. Output is therefore written in whole lines. The attempt's log in
the store keeps the output unchanged.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TextIO
from weakref import WeakKeyDictionary

from tickwork.core.text.terminal_escape import clean_log
from tickwork.observe.json_log import output_line
from tickwork.worker.run.capture import LOG_LIMIT, OutputSink, current_sink, is_forked

LINE_LIMIT = 16 * 1024  # characters; longer lines are split
MOMENT_S = 0.05
MOMENT_LIMIT = 128 * 1024  # characters that are shown of a child in each interval of `MOMENT_S`
LINE_COST = 60  # the cost of formatting a line, in characters
STREAMS = {1: "stdout", 2: "stderr"}
_PLAIN = "\x1b[0m"


class LineMaker:
    """Formats lines that tasks wrote as lines of the console."""

    def __init__(self, stream: int, pid: Callable[[], int | None], *, as_json: bool, colours: bool) -> None:
        self._stream = STREAMS[stream]
        self._pid = pid
        self._as_json = as_json
        self._colours = colours

    def made(self, text: str, about: Mapping[str, Any]) -> str:
        """Return a formatted line with its line end. `about` describes the job: `job_id` and other fields."""
        if self._as_json:
            return output_line(text, self._stream, self._pid(), about) + "\n"
        who = about.get("job_id") or f"child {self._pid()}"
        shown = clean_log(text, colours=self._colours)
        return f"{who} | {shown}{_PLAIN if _PLAIN[:2] in shown else ''}\n"


class LineBuffer:
    """Splits written text into lines, without their line ends."""

    def __init__(self) -> None:
        self._rest = ""

    def add(self, text: str, begun: Callable[[str], int]) -> list[str]:
        """Add text and return the lines that are complete.

        `begun` returns how many characters at the end of a text may begin a secret; a long line is not split there.
        """
        *lines, self._rest = (self._rest + text).split("\n")
        lines = [piece for line in lines for piece in _pieces(line)]
        if len(self._rest) > LINE_LIMIT:
            cut = len(self._rest) - begun(self._rest)
            lines += _pieces(self._rest[:cut]) if cut else []
            self._rest = self._rest[cut:]
        return lines

    def end(self) -> list[str]:
        """Return the remaining incomplete line, if any, and clear the buffer."""
        rest, self._rest = self._rest, ""
        return list(_pieces(rest)) if rest else []


def _pieces(line: str) -> Iterator[str]:
    for start in range(0, len(line) or 1, LINE_LIMIT):
        yield line[start : start + LINE_LIMIT]


class _Writer:
    """The state of one writer to a console: an attempt, or code that runs for no attempt (then `sink` is None)."""

    __slots__ = ("about", "begun", "buffer", "size")

    def __init__(self, sink: OutputSink | None) -> None:
        self.buffer = LineBuffer()
        self.about: Mapping[str, Any] = {} if sink is None else sink.about()
        self.begun = _never if sink is None else sink.begun
        self.size = 0  # of the lines that were formatted, in characters


def _never(text: str) -> int:
    return 0


class Console(io.TextIOBase):
    """Replacement of sys.stdout or sys.stderr in a child, installed before the user's code is loaded.

    Shows as much of an attempt's output as its log keeps. Operations other than writing text go to `descriptor`, whose
    output the supervisor formats.
    """

    def __init__(self, raw: TextIO, descriptor: TextIO, stream: int, *, as_json: bool) -> None:
        self._raw = raw
        self._descriptor = descriptor
        self._maker = LineMaker(stream, os.getpid, as_json=as_json, colours=raw.isatty())
        self._lock = threading.RLock()
        self._own = _Writer(None)
        self._writers: WeakKeyDictionary[OutputSink, _Writer] = WeakKeyDictionary()

    def write(self, text: str) -> int:
        """Write text for the current attempt as whole lines; in a process that a handler forked, to the descriptor."""
        if is_forked():
            return self._descriptor.write(text)
        sink = current_sink()
        with self._lock:
            writer = self._own if sink is None else self._writer_of(sink)
            if sink is None or writer.size <= LOG_LIMIT:
                self._put(writer.buffer.add(text, writer.begun), sink, writer)
        return len(text)

    def _writer_of(self, sink: OutputSink) -> _Writer:
        known = self._writers.get(sink)
        if known is None:
            known = self._writers[sink] = _Writer(sink)
            sink.is_shown = True
        return known

    def put(self, line: str) -> None:
        """Write a line that is already formatted."""
        with self._lock:
            self._show(line)

    def end(self, sink: OutputSink) -> None:
        """Write the incomplete last line of an attempt, and flush what it wrote: a child may be killed at any time."""
        with self._lock:
            writer = self._writers.pop(sink, None)
            if writer is None:
                return
            if writer.size <= LOG_LIMIT:
                self._put(writer.buffer.end(), sink, writer)
            self.flush()

    def _put(self, lines: list[str], sink: OutputSink | None, writer: _Writer) -> None:
        for line in lines:
            made = self._maker.made(line if sink is None else sink.masked(line), writer.about)
            self._show(made)
            writer.size += len(made)
            if sink is not None and writer.size > LOG_LIMIT:
                notice = f"... more than {LOG_LIMIT:,} characters: the rest is in the log of the attempt"
                self._show(self._maker.made(notice, writer.about))
                return

    def _show(self, text: str) -> None:
        with suppress(OSError, ValueError):  # the worker's output is on a full disk or a closed pipe
            self._raw.write(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._raw.flush()

    def fileno(self) -> int:
        return self._descriptor.fileno()

    def isatty(self) -> bool:
        return self._raw.isatty()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._raw.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self._raw.errors

    def __getattr__(self, name: str) -> Any:
        return getattr(self._descriptor, name)


class JsonRecords(logging.Handler):
    """Log handler that writes records of a child as JSON, with the secrets of the attempt masked."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        line, sink = self.format(record), current_sink()
        self._console.put((line if sink is None else sink.masked_json(line.encode()).decode()) + "\n")


class Consoles:
    """The two `Console` objects of a child process, which replace sys.stdout and sys.stderr."""

    def __init__(self, out: TextIO, err: TextIO, *, as_json: bool) -> None:
        """Create the consoles; `out` and `err` are the streams of the descriptors."""
        self._out = Console(sys.stdout, out, 1, as_json=as_json)
        self._err = Console(sys.stderr, err, 2, as_json=as_json)
        self.records = JsonRecords(self._err)
        sys.stdout, sys.stderr = self._out, self._err

    def end(self, sink: OutputSink) -> None:
        """Write the incomplete last lines of an attempt, and flush what it wrote."""
        self._out.end(sink)
        self._err.end(sink)


class PassedOnOutput:
    """Shows output from a child's descriptors on the supervisor's console; `show` writes to a descriptor.

    `pid` is called only after the child has written, because calling it waits until the child is forked. At most
    `MOMENT_LIMIT` characters are shown per `MOMENT_S`, and the rest is only counted, so that a task that floods its
    output does not slow down the worker.
    """

    def __init__(
        self,
        show: Callable[[int, bytes], None],
        pid: Callable[[], int | None],
        monotonic: Callable[[], float],
        *,
        as_json: bool,
    ) -> None:
        self._show = show
        self._makers = {
            stream: LineMaker(stream, pid, as_json=as_json, colours=os.isatty(stream)) for stream in STREAMS
        }
        self._buffers = {stream: LineBuffer() for stream in STREAMS}
        self._owners: dict[int, str | None] = dict.fromkeys(STREAMS)
        self._monotonic = monotonic
        self._until = 0.0
        self._room = 0
        self._left_out = 0

    def _refill(self, now: float) -> None:
        """Begin a new interval with a full budget of characters."""
        self._until, self._room = now + MOMENT_S, MOMENT_LIMIT
        self._tell_left_out()

    def _tell_left_out(self) -> None:
        """Write how many characters were omitted."""
        left_out, self._left_out = self._left_out, 0
        if left_out:
            made = self._makers[2].made(f"... {left_out:,} characters are in the logs of attempts alone", {})
            self._show(2, made.encode())

    def write(self, stream: int, text: str, job_id: str | None) -> None:
        """Show text, which is already masked. `job_id` is None if several attempts may have written it."""
        if self._owners[stream] != job_id:
            self._end(stream)
            self._owners[stream] = job_id
        if (now := self._monotonic()) >= self._until:
            self._refill(now)
        # Each line costs as much as `LINE_COST` characters, however short it is.
        shown = text[: max(0, self._room)]
        while shown and len(shown) + LINE_COST * shown.count("\n") > self._room:
            shown = shown[: len(shown) // 2]
        self._left_out += len(text) - len(shown)
        self._room -= len(shown) + LINE_COST * shown.count("\n")
        self._put(stream, self._buffers[stream].add(shown, _never))

    def end(self) -> None:
        """Write incomplete lines, and how many characters were omitted."""
        for stream in STREAMS:
            self._end(stream)
        self._tell_left_out()

    def _end(self, stream: int) -> None:
        self._put(stream, self._buffers[stream].end())

    def _put(self, stream: int, lines: list[str]) -> None:
        job_id = self._owners[stream]
        about = {} if job_id is None else {"job_id": job_id}
        if lines:
            made = "".join(self._makers[stream].made(line, about) for line in lines)
            self._show(stream, made.encode("utf-8", "replace"))
