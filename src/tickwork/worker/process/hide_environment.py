"""Keeps the environment that a process was started with out of /proc/PID/environ.

That file shows the memory in which the kernel placed the environment at the start, also to the commands of jobs, which
run as the same user. Forked processes have it too. So a worker overwrites it before it forks anything.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator

from tickwork.core.command_env import is_passed

_ENV_START, _ENV_END = 47, 48  # in /proc/PID/stat, behind the name of the program


def clear_start_environment() -> None:
    """Overwrite the values that this process was started with, except those that commands may see (Linux).

    The variables keep their values, for this process and for what it starts.
    """
    start, end = _place()
    if start == end:
        return
    library = _library()
    for name, value in os.environb.items():
        os.putenv(name, value)  # C code from now on finds a copy of it, elsewhere
    for at, name, size in _values(start, end):
        if not is_passed(os.fsdecode(name)) and not start <= (library.getenv(name) or 0) < end:
            ctypes.memset(at, 0, size)


def forget_variables(names: Iterable[str]) -> None:
    """Take variables out of this process, so that its memory, and that of what it forks, does not have them either."""
    library = _library()
    for name in names:
        if at := library.getenv(os.fsencode(name)):
            ctypes.memset(at, 0, len(ctypes.string_at(at)))  # it is not freed when it is unset
        os.environ.pop(name, None)


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None)
    library.getenv.restype = ctypes.c_void_p  # an address, not a copy
    return library


def _place() -> tuple[int, int]:
    """The addresses between which the environment was placed; equal ones where that is not known."""
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return int(fields[_ENV_START]), int(fields[_ENV_END])
    except (OSError, IndexError, ValueError):
        return 0, 0


def _values(start: int, end: int) -> Iterator[tuple[int, bytes, int]]:
    """The address, the name and the size of each value."""
    at = start
    for entry in ctypes.string_at(start, end - start).split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals and value:
            yield at + len(name) + 1, name, len(value)
        at += len(entry) + 1
