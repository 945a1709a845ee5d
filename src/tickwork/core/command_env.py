"""Which variables of a worker's environment its commands see, and which are never handed on.

A worker's environment often holds the password of its store and the credentials of other services. So commands of the
task `shell` get a short list of variables, and others only where the operator of the worker names them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from tickwork.errors import InvalidInput

OF_VAULT = ("TICKWORK_SECRET_KEY", "TICKWORK_SECRET_KEY_FILE")  # open every secret: child processes do not get them
WITHHELD = (*OF_VAULT, "TICKWORK_TOKEN")  # no job can ask for them
_PASSED = frozenset({"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"})
_PASSED_BEGINNING = "LC_"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")


def is_passed(name: str) -> bool:
    """Whether commands see a variable of the worker unasked."""
    return name in _PASSED or name.startswith(_PASSED_BEGINNING)


def command_environment(environ: Mapping[str, str], more: Collection[str]) -> dict[str, str]:
    """Return the variables of a worker that its commands see: the usual ones, and those named in `more`."""
    return {name: value for name, value in environ.items() if is_passed(name) or name in more}


def read_passed(text: str | None) -> frozenset[str]:
    """Read a list of names that commas part. Raises InvalidInput for what cannot be passed on."""
    names = frozenset(name.strip() for name in (text or "").split(",")) - {""}
    for name in sorted(names):
        if not _NAME.fullmatch(name):
            raise InvalidInput(f"{name!r} in command_env cannot name a variable: letters, digits and _, and commas.")
        if name in WITHHELD:
            raise InvalidInput(f"commands cannot be given {name}: it opens more than one job may see.")
    return names
