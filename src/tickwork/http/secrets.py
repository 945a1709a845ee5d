"""Where a server finds secrets by name."""

from __future__ import annotations

import os


def secret_of(name: str) -> bytes | None:
    """The value of a secret, of this server's environment; None when it is not set, or empty."""
    value = os.environ.get(name)
    return value.encode() if value else None
