"""Child processes of `tickwork dev`, `up` and `demo`: start them, pass on signals, and end them with their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import IO

_PR_SET_PDEATHSIG = 1
_KILL_S = 5.0  # a process that was killed has ended after this time


class ChildProcess:
    """A child process that runs a `tickwork` command in its own session, so Ctrl-C reaches only the parent.

    The parent stops the child with `stop`. The child is started with --with-parent: however its parent ends, it ends,
    too, and its own children with it.
    """

    def __init__(self, arguments: Sequence[str], *, output: IO[bytes] | None = None) -> None:
        self._process = subprocess.Popen(
            # -P: do not import a file in the user's folder in place of a standard module of the same name
            [sys.executable, "-P", "-m", "tickwork", *arguments, "--with-parent", str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=None if output is None else subprocess.STDOUT,
            start_new_session=True,
        )

    def ended(self) -> int | None:
        """Return the exit code of the process; None while it runs."""
        return self._process.poll()

    def stop(self, *, drain_s: float, insist_s: float) -> int | None:
        """Stop the process, and return its exit code; None if it did not end.

        SIGTERM asks it to finish its work within `drain_s`, a second SIGTERM to stop within `insist_s`; then it is
        killed.
        """
        for number, patience_s in ((signal.SIGTERM, drain_s), (signal.SIGTERM, insist_s), (signal.SIGKILL, _KILL_S)):
            with suppress(ProcessLookupError):
                self._process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                return self._process.wait(patience_s)
        return None


def stop_event() -> threading.Event:
    """Return an event that is set by SIGTERM, SIGINT (Ctrl-C) and SIGHUP (a closed terminal)."""
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    return stopped


def end_with_parent(parent: int) -> None:
    """Make this process get SIGTERM when its parent dies in any way (Linux).

    Exit at once if the parent is dead already.
    """
    import ctypes

    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        raise SystemExit(0)
