"""The parts of `tickwork dev` and `tickwork demo`, which run as processes of their own, and how all of it ends."""

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
_KILL_S = 5.0  # a process that was killed is gone by then


class ChildProcess:
    """A `tickwork` command in a session of its own: Ctrl-C reaches us alone, and we pass on what we mean by it.

    It is started with --with-parent: however we end, it does too, and its children with it.
    """

    def __init__(self, arguments: Sequence[str], *, output: IO[bytes] | None = None) -> None:
        self._process = subprocess.Popen(
            # -P: a file named like a module of Python's, in the user's folder, is not taken for it
            [sys.executable, "-P", "-m", "tickwork", *arguments, "--with-parent", str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=None if output is None else subprocess.STDOUT,
            start_new_session=True,
        )

    def ended(self) -> int | None:
        """Its exit code, or None while it runs."""
        return self._process.poll()

    def stop(self, *, drain_s: float, insist_s: float) -> int | None:
        """Let it finish what it does; after a while tell it to stop now; after another, kill it. Return its code."""
        for number, patience_s in ((signal.SIGTERM, drain_s), (signal.SIGTERM, insist_s), (signal.SIGKILL, _KILL_S)):
            with suppress(ProcessLookupError):
                self._process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                return self._process.wait(patience_s)
        return None


def stop_event() -> threading.Event:
    """An event that SIGTERM, Ctrl-C and a closed terminal set from now on."""
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    return stopped


def end_with_parent(parent: int) -> None:
    """Be told to stop when our parent dies, however it dies (Linux). One that has died already ends us here."""
    import ctypes

    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        raise SystemExit(0)
