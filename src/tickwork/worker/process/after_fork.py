"""After-fork cleanup: make a forked process look like a newly started one, and exit like one.

A fork inherits signal handlers, log handlers, descriptors, `__main__` and the script's folder on sys.path from its
parent. The user's code that the child loads must not see them.
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

# The handlers that signals had before the fork server replaced them, as returned by signal.getsignal.
Handlers = Mapping[signal.Signals, Any]


def forget_parent(keep: Iterable[int]) -> None:
    """Drop what was inherited from the parent, except the `keep` descriptors and the standard streams; empty stdin."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    _close_all_but({0, 1, 2, *keep})
    _renew_streams()
    _forget_exits()
    logging.basicConfig(handlers=[], level=logging.WARNING, force=True)
    logging.captureWarnings(False)
    sys.excepthook, threading.excepthook = sys.__excepthook__, threading.__excepthook__
    if not sys.flags.safe_path:
        del sys.path[0]  # the folder of the script, or the current folder


def _renew_streams() -> None:
    """Set sys.stdin and sys.stdout to the state that they have in a new process."""
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115  # it lives as long as the process
    if isinstance(sys.stdout, io.TextIOWrapper) and isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=sys.stdin.errors)  # initially equal; our commands change only stdout


def _forget_exits() -> None:
    """Remove all exit functions except those that the standard library registers by itself."""
    atexit._clear()
    atexit.register(logging.shutdown)
    finalizers: Any = weakref.finalize
    finalizers._registry.clear()
    finalizers._registered_with_atexit = False  # so that the next finalizer registers the exit function again


def _close_all_but(keep: set[int]) -> None:
    for descriptor in map(int, os.listdir("/dev/fd")):  # not up to the limit, which may be a billion
        if descriptor not in keep:
            with suppress(OSError):  # the descriptor of the listing itself is already closed
                os.close(descriptor)


def put_back(handlers: Handlers) -> None:
    """Reset signal handlers as in a new process: ignored if they were ignored before, otherwise the default."""
    signal.set_wakeup_fd(-1)
    for number, handler in handlers.items():
        if handler == signal.SIG_IGN:
            signal.signal(number, signal.SIG_IGN)
        else:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def take_no_signals(numbers: Sequence[signal.Signals]) -> None:
    """Make signals have no effect in this process, but the usual effect in processes that it starts or forks.

    `multiprocessing.Pool` ends its forks with SIGTERM and waits for them. A signal that arrives during a fork is
    blocked until the forked process has its usual handlers.
    """

    def nothing(*_: object) -> None:
        """Do nothing. SIG_IGN is no alternative, because a started program would inherit it."""

    usual = {number: signal.signal(number, nothing) for number in numbers}
    before = threading.local()  # the mask of a thread that forks

    def hold() -> None:
        before.mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())  # in a step of its own, in case of an interruption
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers)

    def release() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before.mask)

    def release_fork() -> None:
        for number, handler in usual.items():
            if signal.getsignal(number) is nothing:  # leave a handler that the user's code has set since
                signal.signal(number, handler)
        release()

    os.register_at_fork(before=hold, after_in_parent=release, after_in_child=release_fork)


def be_called(name: str, arguments: list[str]) -> None:
    """Set the name of this process: in sys.argv, and on Linux in the output of `ps` and `top`.

    There is no script, so `__main__` becomes an empty module.
    """
    sys.argv = [name, *arguments]
    sys.orig_argv = [sys.executable, *sys.argv]
    sys.modules["__main__"] = main = ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    _prctl(_PR_SET_NAME, name.encode())


def signal_when_parent_dies(number: signal.Signals) -> None:
    """Ask the kernel to send a signal to this process when its parent dies. Linux only, elsewhere without effect."""
    _prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(number))


def _prctl(option: int, value: Any) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def leave(code: int) -> NoReturn:
    """Exit as the interpreter does, but without returning up the stack, whose frames belong to the parent.

    Waits for threads, calls the exit functions and flushes the standard streams.
    """
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # multiprocessing does the same in its forks
        atexit._run_exitfuncs()
    finally:
        for stream in filter(None, (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)):
            with suppress(Exception):
                stream.flush()
        os._exit(code)
