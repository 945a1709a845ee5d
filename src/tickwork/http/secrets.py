"""Where a server finds secrets by name."""

from __future__ import annotations

import logging
import os

from tickwork.app import Tickwork
from tickwork.core.access import is_secret_name
from tickwork.core.secret_use import secret_variables
from tickwork.errors import SecretError

_log = logging.getLogger("tickwork.http")


def secret_of(app: Tickwork, name: str) -> bytes | None:
    """Return a secret of the store, or a variable that `secret_env` allows; None when it is not set, or empty.

    One that the store has and that does not open here is not set, whatever the environment says: strangers ask.
    """
    try:
        value = app.vault.get(name) if is_secret_name(name) else None
    except SecretError as error:
        _log.error("%s", error)
        return None
    value = secret_variables(os.environ, app.settings.secret_env).get(name) if value is None else value
    return value.encode() if value else None
