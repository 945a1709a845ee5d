"""Scopes, roles, names of keys and users, API tokens, and which facts of enqueued jobs the audit log records."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from tickwork.core.job import JobView, NewJob
from tickwork.errors import InvalidInput


class Scope(StrEnum):
    """A permission of a caller."""

    READ = "read"
    ENQUEUE = "enqueue"
    OPERATE = "operate"
    SHELL = "shell"
    USE_SECRETS = "use-secrets"
    WORK = "work"
    METRICS = "metrics"
    ADMIN = "admin"


_LOOK = frozenset({Scope.READ, Scope.METRICS})
_OPERATE = _LOOK | {Scope.ENQUEUE, Scope.OPERATE}
ROLES: dict[str, frozenset[Scope]] = {
    "viewer": _LOOK,
    "operator": _OPERATE,
    "developer": _OPERATE | {Scope.SHELL, Scope.USE_SECRETS},
    "admin": frozenset(Scope),
}
# tasks that run commands, or decrypt secrets by name; other tasks of Tickwork begin with @
BUILT_IN = ("http", "shell", "smtp")
RUNS_COMMANDS = "shell"
REQUESTS = ("http", "smtp")  # built-in tasks that wait for other hosts

TOKEN_PREFIX = "twk"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@+-]{0,99}")
_SECRET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


class Token(NamedTuple):
    """The token of an API key: an id that may be shown, and a secret."""

    id: str
    secret: str

    @property
    def text(self) -> str:
        return f"{TOKEN_PREFIX}_{self.id}_{self.secret}"

    @property
    def digest(self) -> str:
        return digest_of(self.secret.encode("latin-1", "replace"))


def read_token(text: str) -> Token | None:
    """Parse a token. Return None for a text that cannot be a token."""
    prefix, _, rest = text.partition("_")
    id, _, secret = rest.partition("_")
    return (
        Token(id, secret)
        if prefix == TOKEN_PREFIX and id.isalnum() and id.isascii() and len(id) <= 64 and secret
        else None
    )


def digest_of(data: bytes) -> str:
    """Return the SHA-256 digest to store for a long random value. It is too fast to compute to protect a password."""
    return hashlib.sha256(data).hexdigest()


def read_scopes(given: Sequence[str]) -> tuple[Scope, ...]:
    """Return scopes by name, in a fixed order. Raises InvalidInput for an empty list and for an unknown name."""
    known = {scope.value for scope in Scope}
    unknown = next((one for one in given if one not in known), None)
    if unknown is not None or not given:
        said = "a key needs a scope" if unknown is None else f"there is no scope {unknown!r}"
        raise InvalidInput(f"{said}. The scopes are {', '.join(Scope)}. Nothing was stored.")
    return tuple(scope for scope in Scope if scope.value in given)


def granted(stored: Collection[str]) -> frozenset[Scope]:
    """Return the scopes that stored names grant. `admin` grants all scopes; a name from a later version grants none."""
    return frozenset(Scope) if Scope.ADMIN in stored else frozenset(scope for scope in Scope if scope.value in stored)


def scopes_of_work(task: str, arguments: Iterable[str]) -> frozenset[Scope]:
    """Return the scopes needed to define a job of this task with arguments of these names.

    Only built-in tasks run commands and decrypt secrets by name: for these, the author of the job decides what
    happens.
    """
    shell = {Scope.SHELL} if task == RUNS_COMMANDS else set()
    secrets = {Scope.USE_SECRETS} if task in BUILT_IN and "secrets" in arguments else set()
    return frozenset(shell | secrets)


def read_role(given: str) -> str:
    """Return a role name. Raises InvalidInput for an unknown one."""
    if given not in ROLES:
        raise InvalidInput(f"there is no role {given!r}. The roles are {', '.join(ROLES)}. Nothing was stored.")
    return given


def is_name(given: str) -> bool:
    """Return whether a text is a valid name of a key or a user."""
    return _NAME.fullmatch(given) is not None


def is_secret_name(given: str) -> bool:
    """Return whether a text is a valid name of a secret."""
    return _SECRET_NAME.fullmatch(given) is not None


def read_name(what: str, given: str) -> str:
    """Return the name of a key or a user. Raises InvalidInput if it is ambiguous or needs escaping."""
    if not is_name(given):
        raise InvalidInput(
            f"{given[:100]!r} cannot be the name of {what}: a name is up to 100 letters, digits and _ . @ + -, and "
            f"begins with a letter or a digit. Nothing was stored."
        )
    return given


def read_secret_name(given: str) -> str:
    """Return the name of a secret, as used in `${secret.NAME}`. Raises InvalidInput for an invalid name."""
    if not is_secret_name(given):
        raise InvalidInput(
            f"{given[:100]!r} cannot be the name of a secret: a name is up to 100 letters, digits and underscores, and "
            f"begins with no digit. Nothing was stored."
        )
    return given


def is_sensitive(job: NewJob) -> bool:
    """Return whether a job runs a command, gets secrets by its arguments, replaces another job, or is a run.

    The audit log records such jobs. For all others, the creator is stored only with the job.
    """
    if job.task == RUNS_COMMANDS or job.if_exists == "replace" or job.version is not None:
        return True
    return job.task in BUILT_IN and b'"secrets"' in job.args


def told_name(job: NewJob, id: str) -> str:
    """Return the name under which the audit log records an enqueued job.

    `id` is the stored job's id; it may belong to a job that already existed.
    """
    return f"job:{id}" if job.version is None else f"run {id}"


def told_job(view: JobView | None) -> dict[str, Any] | None:
    """Return the facts that the audit log records of a job: what it runs, with which arguments, and who created it."""
    if view is None:
        return None
    said = {"task": view.task, "args": msgspec.json.decode(view.args), "queue": view.queue, "key": view.key}
    return {**said, "creator": view.creator}
