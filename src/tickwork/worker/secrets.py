"""Secrets: what a definition asks for by name, `${secret.NAME}`, found in the store, or in the worker's environment.

They come in an argument of their own, which nothing that a run has computed is ever put into. So whoever writes
definitions can ask for a secret, and what a step gave back cannot. What an attempt was given is masked in its log, its
errors and its result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Protocol
from urllib.parse import unquote, urlsplit

from tickwork.errors import InvalidArguments

# What commands find in their environment shall not open every secret, nor every door.
WITHHELD = ("TICKWORK_SECRET_KEY", "TICKWORK_SECRET_KEY_FILE", "TICKWORK_TOKEN")
STORE = "TICKWORK_URL"
OURS = "TICKWORK_"  # settings, which may hold the password of the store, are not for jobs to ask for

_SECRET = re.compile(r"\$\$\{|\$\{\s*secret\.([A-Za-z_][A-Za-z0-9_]*)\s*\}")


class Keeper(Protocol):
    """The attempt that asks."""

    def secret(self, name: str) -> str | None:
        """A secret of the store; None when it has none of that name. Raises SecretError for one of other tasks."""

    def hide(self, value: str) -> None:
        """Keep a value out of everything that is stored of this attempt."""


_keeper: ContextVar[Keeper | None] = ContextVar("tickwork_keeper", default=None)


def set_keeper(keeper: Keeper | None) -> None:
    """Say for which attempt this thread or coroutine asks."""
    _keeper.set(keeper)


def revealed(text: str, environ: Mapping[str, str]) -> str:
    """A text with its secrets; `$${` is a plain `${`. Raises InvalidArguments for one that is not set.

    `environ`: the variables that pass for secrets, which stand in for those that the store does not have.
    """

    def reveal(found: re.Match[str]) -> str:
        return "${" if found[1] is None else _value(found[1], environ)

    return _SECRET.sub(reveal, text)


def hide_store(environ: Mapping[str, str]) -> None:
    """Keep the password of the store, which commands find in their environment, out of what is stored of them."""
    keeper, url = _keeper.get(), environ.get(STORE, "")
    password = urlsplit(url).password if "://" in url else None
    if keeper is not None and password:
        keeper.hide(password)
        keeper.hide(unquote(password))


def _value(name: str, environ: Mapping[str, str]) -> str:
    keeper = _keeper.get()
    value = None if keeper is None else keeper.secret(name)
    if value is None and not name.startswith(OURS):
        value = environ.get(name)
    if value is None or name in WITHHELD:
        raise InvalidArguments(
            f"the secret {name} is not set: neither in the store, nor as a variable here that secret_env allows."
        )
    if keeper is not None:
        keeper.hide(value)
    return value
