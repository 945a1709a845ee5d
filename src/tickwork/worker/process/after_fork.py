"""Makes a forked process look like one that was started anew, and end like one.

What a fork brings along from its parent (signal handlers, log handlers, descriptors, `__main__`, the script's folder on
sys.path) is not the business of the user's code that is loaded after it.
"""

from __future__ import annotations

import atexit
import builtins
import ctypes
import io
import logging
import os
import signal
import sys
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any, NoReturn

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15

# What a signal did before we took it over, as signal.getsignal tells it.
Handlers = Mapping[signal.Signals, Any]


def forget_parent(keep: Iterable[int]) -> None:
    """Let go of what was the parent's, except these descriptors and the standard streams, of which stdin is empty."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    _close_all_but({0, 1, 2, *keep})
    _renew_streams()
    _forget_exits()
    logging.basicConfig(handlers=[], level=logging.WARNING, force=True)
    logging.captureWarnings(False)
    sys.excepthook, threading.excepthook = sys.__excepthook__, threading.__excepthook__
    if not sys.flags.safe_path:
        del sys.path[0]  # the folder of the script, or the current one


def _renew_streams() -> None:
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115  # it lives as long as the process
    if isinstance(sys.stdout, io.TextIOWrapper) and isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=sys.stdin.errors)  # the two begin alike, and our commands change only the first


def _forget_exits() -> None:
    """Have nothing registered for the exit but what the standard library has from the first."""
    atexit._clear()
    atexit.register(logging.shutdown)
    finalizers: Any = weakref.finalize
    finalizers._registry.clear()
    finalizers._registered_with_atexit = False  # the next one is, again


def _close_all_but(keep: set[int]) -> None:
    for descriptor in map(int, os.listdir("/dev/fd")):  # their limit may be a billion, and open are rarely ten
        if descriptor not in keep:
            with suppress(OSError):  # that of the listing itself is closed by now
                os.close(descriptor)


def put_back(handlers: Handlers) -> None:
    """Have signals do what they do in a new process: those that were ignored before are, the others do the usual."""
    signal.set_wakeup_fd(-1)
    for number, handler in handlers.items():
        if handler == signal.SIG_IGN:
            signal.signal(number, signal.SIG_IGN)
        else:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def take_no_signals(numbers: Sequence[signal.Signals]) -> None:
    """Let these signals do nothing here, and the usual in whatever this process starts or forks.

    A `multiprocessing.Pool` ends its forks with SIGTERM and waits for them. One that comes while a fork is on its way
    waits until the fork can be ended by it.
    """

    def nothing(*_: object) -> None:
        """Not SIG_IGN, which a program that is started would inherit."""

    usual = {number: signal.signal(number, nothing) for number in numbers}
    before = threading.local()  # the mask of a thread that forks

    def hold() -> None:
        before.mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())  # first, should we be interrupted in between
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers)

    def release() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before.mask)

    def release_fork() -> None:
        for number, handler in usual.items():
            if signal.getsignal(number) is nothing:  # and not what the user's code has set since
                signal.signal(number, handler)
        release()

    os.register_at_fork(before=hold, after_in_parent=release, after_in_child=release_fork)


def be_called(name: str, arguments: list[str]) -> None:
    """Go by a name of our own: in sys.argv, and where the system can (Linux) in the lists that `ps` and `top` show.

    There is no script, so `__main__` is empty.
    """
    sys.argv = [name, *arguments]
    sys.orig_argv = [sys.executable, *sys.argv]
    sys.modules["__main__"] = main = ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    _prctl(_PR_SET_NAME, name.encode())


def signal_when_parent_dies(number: signal.Signals) -> None:
    """Ask the kernel for a signal when the process that forked us dies, where it can (Linux)."""
    _prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(number))


def _prctl(option: int, value: Any) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def leave(code: int) -> NoReturn:
    """End as the interpreter does, but without a step up the stack, which was begun by the process that forked us.

    Threads are waited for, what was registered for the exit is called, and what was written is flushed.
    """
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # as multiprocessing ends its forks
        atexit._run_exitfuncs()
    finally:
        for stream in filter(None, (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)):
            with suppress(Exception):
                stream.flush()
        os._exit(code)
