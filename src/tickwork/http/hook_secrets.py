"""Find the secrets of hooks by name, in the store or the environment."""

from __future__ import annotations

import os

from tickwork.app import Tickwork
from tickwork.core.access.scopes import is_secret_name
from tickwork.core.access.secret_policy import secret_variables
from tickwork.errors import SecretError


def hook_secret(app: Tickwork, name: str) -> bytes:
    """Return a secret of the store, or a variable that `secret_env` allows. Raises SecretError if neither is set.

    A stored secret that this server cannot decrypt counts as not set, even if the environment has one. The work is the
    same whether the store has the secret or not, because unauthenticated callers can measure how long it takes.
    """
    value = app.vault.get_evenly(name) if is_secret_name(name) else None
    value = secret_variables(os.environ, app.settings.secret_env).get(name) if value is None else value
    if not value:
        raise SecretError(f"the secret {name} is not set on this server")
    return value.encode()
