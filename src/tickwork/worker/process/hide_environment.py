"""Hide the environment that a process was started with from /proc/PID/environ.

That file shows the memory in which the kernel placed the initial environment. Commands of jobs run as the same user
and can read it, and forked processes inherit it. So a worker overwrites this memory before it forks.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator

from tickwork.core.access.secret_policy import is_passed

_ENV_START, _ENV_END = 47, 48  # indexes of fields in /proc/PID/stat after the name of the program


def clear_start_environment() -> None:
    """Overwrite the initial environment values of this process, except those that commands may see. Linux only.

    The variables keep their values in this process and in processes that it starts.
    """
    start, end = _place()
    if start == end:
        return
    library = _library()
    for name, value in os.environb.items():
        os.putenv(name, value)  # C code then finds a copy of the value, at another address
    for at, name, size in _values(start, end):
        if not is_passed(os.fsdecode(name)) and not start <= (library.getenv(name) or 0) < end:
            ctypes.memset(at, 0, size)


def forget_variables(names: Iterable[str]) -> None:
    """Unset variables and erase their values from the memory of this process, and so of processes that it forks."""
    library = _library()
    for name in names:
        if at := library.getenv(os.fsencode(name)):
            ctypes.memset(at, 0, len(ctypes.string_at(at)))  # unsetting a variable does not free its memory
        os.environ.pop(name, None)


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None)
    library.getenv.restype = ctypes.c_void_p  # an address, not a copy
    return library


def _place() -> tuple[int, int]:
    """Return the start and end address of the initial environment; equal addresses if it is not known."""
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return int(fields[_ENV_START]), int(fields[_ENV_END])
    except (OSError, IndexError, ValueError):
        return 0, 0


def _values(start: int, end: int) -> Iterator[tuple[int, bytes, int]]:
    """Yield the address, the name and the size of each value."""
    at = start
    for entry in ctypes.string_at(start, end - start).split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals and value:
            yield at + len(name) + 1, name, len(value)
        at += len(entry) + 1
