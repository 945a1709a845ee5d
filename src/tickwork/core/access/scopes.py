"""Who may do what, as values: scopes, roles, the names of keys and users, and the text of a token."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from tickwork.errors import InvalidInput


class Scope(StrEnum):
    """What a caller may be allowed to do."""

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
BUILT_IN = ("http", "shell", "smtp")  # tasks that run commands, or open secrets by name; others of ours begin with an @
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
    """The parts of a token; None for what cannot be one."""
    prefix, _, rest = text.partition("_")
    id, _, secret = rest.partition("_")
    return (
        Token(id, secret)
        if prefix == TOKEN_PREFIX and id.isalnum() and id.isascii() and len(id) <= 64 and secret
        else None
    )


def digest_of(data: bytes) -> str:
    """What is stored of something random and long; of a password it would be far too quick."""
    return hashlib.sha256(data).hexdigest()


def read_scopes(given: Sequence[str]) -> tuple[Scope, ...]:
    """Scopes by their names, in a fixed order. Raises InvalidInput for none at all, and for one that there is not."""
    known = {scope.value for scope in Scope}
    unknown = next((one for one in given if one not in known), None)
    if unknown is not None or not given:
        said = "a key needs a scope" if unknown is None else f"there is no scope {unknown!r}"
        raise InvalidInput(f"{said}. The scopes are {', '.join(Scope)}. Nothing was stored.")
    return tuple(scope for scope in Scope if scope.value in given)


def granted(stored: Collection[str]) -> frozenset[Scope]:
    """Return the scopes that stored names grant. `admin` grants all; a name of a later version grants none."""
    return frozenset(Scope) if Scope.ADMIN in stored else frozenset(scope for scope in Scope if scope.value in stored)


def scopes_of_work(task: str, arguments: Iterable[str]) -> frozenset[Scope]:
    """Return the scopes that it takes to define work of this task, with arguments of these names.

    Only built-in tasks run commands and open secrets by name: what they do is said by who defines the work.
    """
    shell = {Scope.SHELL} if task == RUNS_COMMANDS else set()
    secrets = {Scope.USE_SECRETS} if task in BUILT_IN and "secrets" in arguments else set()
    return frozenset(shell | secrets)


def read_role(given: str) -> str:
    """A role by its name. Raises InvalidInput for one that there is not."""
    if given not in ROLES:
        raise InvalidInput(f"there is no role {given!r}. The roles are {', '.join(ROLES)}. Nothing was stored.")
    return given


def is_name(given: str) -> bool:
    """Whether a key or a user could have this name."""
    return _NAME.fullmatch(given) is not None


def is_secret_name(given: str) -> bool:
    """Whether a secret could have this name."""
    return _SECRET_NAME.fullmatch(given) is not None


def read_name(what: str, given: str) -> str:
    """The name of a key or a user. Raises InvalidInput where it could be mistaken, or would have to be escaped."""
    if not is_name(given):
        raise InvalidInput(
            f"{given[:100]!r} cannot be the name of {what}: a name is up to 100 letters, digits and _ . @ + -, and "
            f"begins with a letter or a digit. Nothing was stored."
        )
    return given


def read_secret_name(given: str) -> str:
    """The name of a secret, as `${secret.NAME}` asks for it. Raises InvalidInput for what cannot be one."""
    if not is_secret_name(given):
        raise InvalidInput(
            f"{given[:100]!r} cannot be the name of a secret: a name is up to 100 letters, digits and underscores, and "
            f"begins with no digit. Nothing was stored."
        )
    return given
