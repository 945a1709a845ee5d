"""Secrets: what a definition asks for by name, `${secret.NAME}`, and a worker finds in its own environment.

They come in an argument of their own, which nothing that a run has computed is ever put into. So whoever writes
definitions can ask for a secret, and what a step gave back cannot.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tickwork.errors import InvalidArguments

_SECRET = re.compile(r"\$\$\{|\$\{\s*secret\.([A-Za-z_][A-Za-z0-9_]*)\s*\}")


def revealed(text: str, environ: Mapping[str, str]) -> str:
    """A text with its secrets; `$${` is a plain `${`. Raises InvalidArguments for one that is not set."""

    def reveal(found: re.Match[str]) -> str:
        if found[1] is None:
            return "${"
        if found[1] not in environ:
            raise InvalidArguments(f"the secret {found[1]} is not set in this worker's environment.")
        return environ[found[1]]

    return _SECRET.sub(reveal, text)
