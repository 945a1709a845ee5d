"""Where a server finds secrets by name."""

from __future__ import annotations

import logging
import os

from tickwork.app import Tickwork
from tickwork.core.access import is_secret_name
from tickwork.errors import SecretError

_log = logging.getLogger("tickwork.http")


def secret_of(app: Tickwork, name: str) -> bytes | None:
    """The value of a secret, of the store or else of this server's environment; None when it is not set, or empty.

    One that the store has and that does not open here is not set, whatever the environment says: strangers ask.
    """
    try:
        value = app.vault.get(name) if is_secret_name(name) else None
    except SecretError as error:
        _log.error("%s", error)
        return None
    value = os.environ.get(name) if value is None else value
    return value.encode() if value else None
