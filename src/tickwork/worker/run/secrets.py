"""Resolve references to secrets, `${secret.NAME}`, from the store or the worker's environment.

References are resolved only in a separate argument that never contains computed values of a run. So the author of a
definition can use a secret, but the result of a step cannot inject a reference. Secrets that an attempt received are
masked in its log, its errors and its result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tickwork.config import Settings
from tickwork.core.access.scopes import is_secret_name
from tickwork.core.access.secret_policy import WITHHELD
from tickwork.errors import InvalidArguments
from tickwork.worker.run.capture import attempt_sink
from tickwork.worker.run.mask import SecretReader

OURS = "TICKWORK_"  # the prefix of settings, which jobs may not read: they may contain the store's password

_SECRET = re.compile(r"\$\$\{|\$\{\s*secret\.([A-Za-z_][A-Za-z0-9_]*)\s*\}")


def _reader() -> SecretReader | None:
    """Return the attempt for which this thread or coroutine resolves secrets."""
    sink = attempt_sink.get()
    return None if sink is None else sink.secrets


def revealed(text: str, environ: Mapping[str, str]) -> str:
    """Return a text with its references replaced by secrets; `$${` becomes `${`.

    `environ` has the environment variables to use for secrets that the store does not have. Raises InvalidArguments
    if a secret is not set.
    """

    def reveal(found: re.Match[str]) -> str:
        return "${" if found[1] is None else value_of(found[1], _reader(), environ)

    return _SECRET.sub(reveal, text)


def value_of(name: str, reader: SecretReader | None, environ: Mapping[str, str]) -> str:
    """Return the value of a secret, and mask it in the attempt's stored data from now on.

    `environ`: as for `revealed`. Raises InvalidArguments if the secret is not set.
    """
    value = reader.stored_secret(name) if reader is not None and is_secret_name(name) else None
    if value is None and not name.startswith(OURS):
        value = environ.get(name)
    if value is None or name in WITHHELD:
        raise InvalidArguments(
            f"the secret {name} is not set: neither in the store, nor as a variable here that secret_env allows."
        )
    if reader is not None:
        reader.hide(value)
    return value


def masked(text: str, *, is_cut: bool = False) -> str:
    """Return a text with the current attempt's secrets masked. Mask before cutting: a cut secret would not be found.

    `is_cut`: the end of the text was already cut off, so a partial secret there is removed, too.
    """
    reader = _reader()
    return text if reader is None else reader.masked(text, is_cut=is_cut)


def passwords(settings: Settings, environ: Mapping[str, str]) -> frozenset[str]:
    """Return the passwords of the store: those in its URLs, and the one that libpq reads from the environment."""
    return (settings.passwords | {environ.get("PGPASSWORD", "")}) - {""}
