"""The modes of files and folders that Tickwork makes: for the user who runs it alone.

They hold arguments, results and logs, which other users of the same machine have no business with.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

FILE_MODE = 0o600
FOLDER_MODE = 0o700
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def create_private(path: Path) -> None:
    """Create an empty file with FILE_MODE, unless there is one. Opening it tells why it could not be made.

    One that is there is not opened: to close it again would release the locks that SQLite holds on it in this process.
    """
    with suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))


def narrow(path: Path) -> None:
    """Take the rights of group and others from a file or folder that this user owns; leave those of others alone."""
    with suppress(OSError):
        status = path.stat()
        if status.st_uid == os.geteuid() and status.st_mode & _OTHERS:
            path.chmod(stat.S_IMODE(status.st_mode) & ~_OTHERS)


def exposed(paths: Iterable[Path], rights: int = _OTHERS) -> list[Path]:
    """Return those of the paths that are there and that group or others have rights to, or one of these `rights`."""
    found = []
    for path in paths:
        with suppress(OSError):
            if path.stat().st_mode & rights:
                found.append(path)
    return found
