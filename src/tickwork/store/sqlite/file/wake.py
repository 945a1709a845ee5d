"""Wake other processes that use the same SQLite file through datagram sockets, without polling a table.

Each waiter binds a datagram socket in a folder beside the file; a process that stores new work sends an empty datagram
to all of them. A wake-up is only a hint: a lost datagram costs one poll interval. The first sender that gets no
connection to a socket removes it, because its owner has died.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path

from tickwork.file_modes import FOLDER_MODE, narrow

_numbers = count()
_PATH_LIMIT = 100  # A socket's path must fit into 108 bytes.


class SocketWaiter:
    """A socket of this process in the folder; it becomes readable when another process calls `wake_all`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
        narrow(folder)
        self._path = folder / f"{os.getpid()}-{next(_numbers)}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        with _short(folder) as short:
            self._socket.bind(f"{short}/{self._path.name}")

    def fileno(self) -> int:
        return self._socket.fileno()

    def clear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                self._socket.recv(1)

    def close(self) -> None:
        self._socket.close()
        with contextlib.suppress(OSError):
            self._path.unlink()
            self._path.parent.rmdir()  # Succeeds only for the last waiter.


def wake_all(folder: Path) -> None:
    """Send a datagram to every waiter of the folder. Never fails and never blocks."""
    with contextlib.suppress(OSError):  # The last waiter removes the folder at any moment.
        if names := os.listdir(folder):
            with _short(folder) as short:
                for name in names:
                    _call(_sender(), f"{short}/{name}")


@cache
def _sender() -> socket.socket:
    """Return the socket with which all threads send. A datagram is sent whole or not at all, so a fork may share it."""
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sender.setblocking(False)
    return sender


def _call(sender: socket.socket, path: str) -> None:
    """Send a datagram to a waiter; remove its socket if the owner has died."""
    try:
        sender.sendto(b"", path)
    except OSError as error:
        if error.errno == errno.ECONNREFUSED:
            with contextlib.suppress(OSError):
                os.unlink(path)


@contextlib.contextmanager
def _short(folder: Path) -> Iterator[str]:
    """Yield a path of the folder that is short enough for a socket's address."""
    if len(os.fsencode(folder)) + 20 <= _PATH_LIMIT:
        yield str(folder)
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
