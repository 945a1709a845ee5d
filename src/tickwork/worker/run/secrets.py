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

from tickwork.config import Settings
from tickwork.core.access.scopes import is_secret_name
from tickwork.core.command_env import WITHHELD
from tickwork.errors import InvalidArguments

OURS = "TICKWORK_"  # settings, which may hold the password of the store, are not for jobs to ask for

_SECRET = re.compile(r"\$\$\{|\$\{\s*secret\.([A-Za-z_][A-Za-z0-9_]*)\s*\}")


class SecretReader(Protocol):
    """The attempt that asks."""

    def stored_secret(self, name: str) -> str | None:
        """A secret of the store, which the worker opens; None when it has none of that name.

        Raises SecretError for one that does not open, or not for this job.
        """

    def hide(self, value: str) -> None:
        """Keep a value out of everything that is stored of this attempt."""

    def masked(self, text: str, *, is_cut: bool = False) -> str:
        """A text without the values that are hidden; `is_cut`: without the beginning of one at its end, too."""


_keeper: ContextVar[SecretReader | None] = ContextVar("tickwork_keeper", default=None)


def set_keeper(keeper: SecretReader | None) -> None:
    """Say for which attempt this thread or coroutine asks."""
    _keeper.set(keeper)


def revealed(text: str, environ: Mapping[str, str]) -> str:
    """A text with its secrets; `$${` is a plain `${`. Raises InvalidArguments for one that is not set.

    `environ`: the variables that pass for secrets, which stand in for those that the store does not have.
    """

    def reveal(found: re.Match[str]) -> str:
        return "${" if found[1] is None else value_of(found[1], _keeper.get(), environ)

    return _SECRET.sub(reveal, text)


def value_of(name: str, keeper: SecretReader | None, environ: Mapping[str, str]) -> str:
    """The value of a secret, which is then kept out of what is stored. Raises InvalidArguments when it is not set.

    `environ`: as for `revealed`.
    """
    value = keeper.stored_secret(name) if keeper is not None and is_secret_name(name) else None
    if value is None and not name.startswith(OURS):
        value = environ.get(name)
    if value is None or name in WITHHELD:
        raise InvalidArguments(
            f"the secret {name} is not set: neither in the store, nor as a variable here that secret_env allows."
        )
    if keeper is not None:
        keeper.hide(value)
    return value


def masked(text: str, *, is_cut: bool = False) -> str:
    """A text without the secrets of the attempt that asks, to be cut: a part of a secret would not be known as one.

    `is_cut`: its end was cut off already.
    """
    keeper = _keeper.get()
    return text if keeper is None else keeper.masked(text, is_cut=is_cut)


def passwords(settings: Settings, environ: Mapping[str, str]) -> frozenset[str]:
    """The passwords of the store: those in its addresses, and that which libpq finds in the environment."""
    return (settings.passwords | {environ.get("PGPASSWORD", "")}) - {""}
