"""Which environment variables of a worker its shell commands see, and which are never passed on.

A worker's environment often holds the password of its store and the credentials of other services. Commands of the task
`shell` therefore get a short list of variables, and others only if the operator of the worker names them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from tickwork.errors import InvalidInput

# they open every secret; child processes do not get them
OF_VAULT = ("TICKWORK_SECRET_KEY", "TICKWORK_SECRET_KEY_FILE")
WITHHELD = (*OF_VAULT, "TICKWORK_TOKEN")  # no job can ask for them
_PASSED = frozenset({"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"})
_PASSED_BEGINNING = "LC_"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")


def is_passed(name: str) -> bool:
    """Return whether commands see a variable of the worker by default."""
    return name in _PASSED or name.startswith(_PASSED_BEGINNING)


def command_environment(environ: Mapping[str, str], more: Collection[str]) -> dict[str, str]:
    """Return the variables of a worker that its commands see: the default ones, and those named in `more`."""
    return {name: value for name, value in environ.items() if is_passed(name) or name in more}


def read_passed(text: str | None) -> frozenset[str]:
    """Return the names in a comma-separated list. Raises InvalidInput for a name that cannot be passed on."""
    names = frozenset(name.strip() for name in (text or "").split(",")) - {""}
    for name in sorted(names):
        if not _NAME.fullmatch(name):
            raise InvalidInput(f"{name!r} in command_env cannot name a variable: letters, digits and _, and commas.")
        if name in WITHHELD:
            raise InvalidInput(f"commands cannot be given {name}: it opens more than one job may see.")
    return names
