"""What commands say to the audit log: who they are run by, and what they changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tickwork.app import Tickwork


def by() -> str:
    """Who runs this command, as far as the system knows: cli:ada@host."""
    import getpass
    import socket

    from tickwork.core.payload import storable

    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a number without a name, as in many containers
        import os

        user = str(os.getuid())
    return storable(f"cli:{user}@{socket.gethostname()}")


def record(app: Tickwork, action: str, target: str, before: Any = None, after: Any = None) -> None:
    """Add a change to the audit log."""
    import json

    from tickwork.cli.output import plain
    from tickwork.store.access import Change

    was, became = (None if value is None else json.dumps(plain(value)).encode() for value in (before, after))
    app.store.record_change(Change(by(), action, target, was, became))
