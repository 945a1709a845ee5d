"""Where a server finds the secrets of hooks by name."""

from __future__ import annotations

import os

from tickwork.app import Tickwork
from tickwork.core.access.scopes import is_secret_name
from tickwork.core.access.secret_policy import secret_variables
from tickwork.errors import SecretError


def hook_secret(app: Tickwork, name: str) -> bytes:
    """Return a secret of the store, or a variable that `secret_env` allows. Raises SecretError where neither is set.

    A secret that the store has and that does not open here is not set, whatever the environment says. The work is the
    same whether the store has the secret or not: strangers can measure how long it takes.
    """
    value = app.vault.get_evenly(name) if is_secret_name(name) else None
    value = secret_variables(os.environ, app.settings.secret_env).get(name) if value is None else value
    if not value:
        raise SecretError(f"the secret {name} is not set on this server")
    return value.encode()
