"""Where a server finds secrets by name."""

from __future__ import annotations

import os

from tickwork.app import Tickwork


def secret_of(app: Tickwork, name: str) -> bytes | None:
    """The value of a secret: of the store, else of this server's environment; None when it is not set, or empty."""
    value = app.vault.get(name) or os.environ.get(name)
    return value.encode() if value else None
