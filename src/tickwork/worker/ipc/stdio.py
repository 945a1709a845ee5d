"""Redirect the standard streams of a child process: pipes as descriptors 1 and 2, and the console for sys.stdout."""

from __future__ import annotations

import fcntl
import os
import sys
from dataclasses import dataclass
from io import TextIOWrapper
from typing import Any, TextIO


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
