"""File permissions: only the owner can access the files and folders that Tickwork creates.

They hold arguments, results and logs, which other users of the same machine must not read.
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
    """Create an empty file with mode FILE_MODE if it does not exist.

    Failures are ignored; opening the file reports them.

    An existing file is not opened: closing it again would release the locks that SQLite holds on it in this process.
    """
    with suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))


def narrow(path: Path) -> None:
    """Remove the permissions of group and others from a file or folder of this user; skip files of other users."""
    with suppress(OSError):
        status = path.stat()
        if status.st_uid == os.geteuid() and status.st_mode & _OTHERS:
            path.chmod(stat.S_IMODE(status.st_mode) & ~_OTHERS)


def exposed_key(path: Path) -> str | None:
    """Return a warning if users outside of its group can access the private key of a certificate, else None.

    Access by the group is allowed: on many systems, the servers that use a key are in a group.
    """
    if not exposed([path], stat.S_IRWXO | stat.S_IWGRP):
        return None
    return f"Other users of this machine may read or replace {path}, the key of the certificate: chmod 600 {path}"


def exposed(paths: Iterable[Path], rights: int = _OTHERS) -> list[Path]:
    """Return the existing paths for which group or others have any of the permissions `rights` (default: any)."""
    found = []
    for path in paths:
        with suppress(OSError):
            if path.stat().st_mode & rights:
                found.append(path)
    return found
