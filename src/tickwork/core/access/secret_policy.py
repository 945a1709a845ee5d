"""Secret policy: which jobs may use a secret, and which environment variables are secrets or are passed to commands.

A secret set for tasks, dags or queues can be used by their jobs only. A secret set for none can be used by all jobs.

A worker's environment often holds the password of its store and the credentials of other services. Commands of the task
`shell` therefore get a short list of variables, and others only if the operator of the worker names them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from tickwork.errors import InvalidInput

KINDS = ("task", "dag", "queue")
USES_MOST = 50
_NAME_MOST = 200  # characters
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?|\*")
_OURS = "TICKWORK_"  # settings may hold the password of the store, and the key that decrypts all secrets


class SecretUse(NamedTuple):
    """The job that asks for a secret. `run` is the run to which it belongs as a step."""

    task: str
    queue: str
    run: str | None = None


def read_uses(given: Iterable[str]) -> tuple[str, ...]:
    """Parse a list such as `task:charge`, `queue:payments`; return it sorted. Raises InvalidInput."""
    found = sorted(set(given))
    for one in found:
        kind, _, name = one.partition(":")
        if kind not in KINDS or not name or len(name) > _NAME_MOST or "\0" in name:
            raise InvalidInput(
                f"{one[:100]!r} does not say what may use a secret. Write task:NAME, dag:NAME or queue:NAME. "
                f"Nothing was stored."
            )
    if len(found) > USES_MOST:
        raise InvalidInput(f"a secret is for {USES_MOST} tasks, dags and queues at most. Nothing was stored.")
    return tuple(found)


def is_open_to(uses: Sequence[str], use: SecretUse, dag: str | None) -> bool:
    """Return whether a job may use a secret. `dag` is the dag of its run."""
    return not uses or not {f"task:{use.task}", f"queue:{use.queue}", f"dag:{dag}"}.isdisjoint(uses)


def read_variables(text: str | None) -> tuple[str, ...]:
    """Parse a list of variables such as `STRIPE_KEY, SMTP_*`. Raises InvalidInput."""
    found = tuple(one for one in re.split(r"[,\s]+", text or "") if one)
    for one in found:
        if not _VARIABLE.fullmatch(one):
            raise InvalidInput(
                f"secret_env has {one!r}, which is no variable. Write names, or how they begin: STRIPE_KEY, SMTP_*."
            )
    return found


def secret_variables(environ: Mapping[str, str], allowed: str | None) -> dict[str, str]:
    """Return the variables that count as secrets: the variables in the list, but never a setting of Tickwork."""
    variables = read_variables(allowed)
    return {
        name: value
        for name, value in environ.items()
        if not name.startswith(_OURS) and any(_matches(one, name) for one in variables)
    }


def _matches(variable: str, name: str) -> bool:
    return name.startswith(variable[:-1]) if variable.endswith("*") else name == variable


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
    """Return the variables of a worker that its commands see: the default ones, and the ones named in `more`."""
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
