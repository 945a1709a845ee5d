"""Secret policy: which jobs may use a secret of the store, and which environment variables count as secrets.

A secret set for tasks, dags or queues can be used by their jobs only. A secret set for none can be used by all jobs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tickwork.errors import InvalidInput

KINDS = ("task", "dag", "queue")
USES_MOST = 50
_NAME_MOST = 200  # characters
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?|\*")
_OURS = "TICKWORK_"  # settings may hold the password of the store, and the key that decrypts all secrets


class SecretUse(NamedTuple):
    """The job that asks for a secret. `run` is the run that it is a step of."""

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
    """Return the variables that count as secrets: those in the list, and never a setting of Tickwork."""
    variables = read_variables(allowed)
    return {
        name: value
        for name, value in environ.items()
        if not name.startswith(_OURS) and any(_matches(one, name) for one in variables)
    }


def _matches(variable: str, name: str) -> bool:
    return name.startswith(variable[:-1]) if variable.endswith("*") else name == variable
