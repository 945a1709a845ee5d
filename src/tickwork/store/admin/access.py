"""The store verbs of access control: API keys, users, sessions, logins, stored HTTP answers and secrets.

Keys, sessions and users are read for each request, so a revoked or removed one is refused at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from tickwork.core.access.scopes import TOKEN_PREFIX

USED_EVERY = timedelta(minutes=1)  # How often at most the use of a key or a session is recorded.
ANSWERS_KEPT = timedelta(hours=24)
SessionKind = Literal["user", "key", "token"]
SESSIONS_MOST = 1000
Instant = Callable[[Any], datetime]


@dataclass(frozen=True, slots=True)
class ApiKeyView:
    """An API key without its secret. `is_stale`: its last use was recorded more than USED_EVERY ago, or never."""

    id: str
    name: str
    digest: str
    scopes: tuple[str, ...]
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    used_at: datetime | None
    revoked_at: datetime | None
    is_expired: bool
    is_stale: bool

    @property
    def prefix(self) -> str:
        """Return the beginning of the key's token, which is no secret and identifies the key."""
        return f"{TOKEN_PREFIX}_{self.id}"

    @property
    def is_live(self) -> bool:
        """Return whether the key is neither revoked nor expired."""
        return self.revoked_at is None and not self.is_expired


@dataclass(frozen=True, slots=True)
class UserView:
    """A user, with the digest of their password."""

    name: str
    role: str
    password: str
    created_at: datetime
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class SessionView:
    """A live session with the rights of its owner now: the role of a user, or the name and the scopes of an API key.

    `subject` is the name of the user or the id of the key. `is_stale`: its last use was not recorded lately.
    """

    kind: SessionKind
    subject: str
    role: str | None
    key_name: str | None
    scopes: tuple[str, ...]
    expires_at: datetime
    is_stale: bool


class SessionOrigin(NamedTuple):
    """Where a session began: the address of the browser, and its user agent."""

    address: str = ""
    agent: str = ""


NOWHERE = SessionOrigin()


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A live session, as shown to its owner or to an admin."""

    digest: str
    kind: SessionKind
    subject: str
    key_name: str | None
    origin: SessionOrigin
    created_at: datetime
    used_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class BegunRequest:
    """A request that the caller has to execute now.

    `first_at` is when the store first saw the request; `began_at` identifies this try of it.
    """

    first_at: datetime
    began_at: datetime


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """The stored HTTP answer to an earlier request with the same idempotency key.

    `status` is None while that request is in flight.
    """

    digest: str
    status: int | None
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class SecretView:
    """A secret without its value: which tasks or services may use it (empty: all), when it was set, and by whom."""

    name: str
    uses: tuple[str, ...]
    set_at: datetime
    set_by: str


class SealedSecret(NamedTuple):
    """A secret's encrypted text as the store keeps it, and what may use it (empty: everything)."""

    text: str
    uses: tuple[str, ...] = ()


class AccessVerbs(Protocol):
    """The verbs of access control. Each is one transaction."""

    def put_api_key(
        self, id: str, name: str, digest: str, scopes: Sequence[str], lasts: timedelta | None, by: str
    ) -> ApiKeyView | None:
        """Store a new API key that expires after `lasts`, and return it; None if an unrevoked key has this name."""

    def get_api_key(self, id: str) -> ApiKeyView | None:
        """Return an API key, revoked and expired ones included; None if the id is unknown."""

    def list_api_keys(self) -> list[ApiKeyView]:
        """Return all API keys, the newest first."""

    def use_api_key(self, id: str) -> None:
        """Record that an API key was used now. Do nothing if a use was recorded within USED_EVERY."""

    def revoke_api_key(self, id: str) -> bool:
        """Revoke an API key; return False if it is unknown or was revoked before."""

    def put_user(self, name: str, role: str, password: str) -> bool:
        """Store a new user with a role and the digest of a password; return False if the name is taken."""

    def get_user(self, name: str) -> UserView | None:
        """Return a user; None if there is no user of this name."""

    def list_users(self) -> list[UserView]:
        """Return all users, sorted by name."""

    def change_user(self, name: str, role: str | None = None, password: str | None = None) -> bool:
        """Change the role or the password of a user; return False if there is no such user. None keeps the old value.

        A new password ends all sessions of the user.
        """

    def remove_user(self, name: str) -> bool:
        """Delete a user and the user's sessions; return False if there is no such user."""

    def has_access(self) -> bool:
        """Return whether any login is possible: the store has a user or a live API key."""

    def put_session(
        self,
        digest: str,
        kind: SessionKind,
        subject: str,
        lasts: timedelta,
        password: str | None = None,
        *,
        origin: SessionOrigin = NOWHERE,
    ) -> bool:
        """Store a new session that ends after `lasts`; return whether it was stored.

        A session of a user is stored only if `password` is the digest of the user's present password, so a login that
        was checked before a change of the password gets no session.
        """

    def get_session(self, digest: str, idle: timedelta) -> SessionView | None:
        """Return a session if it has not expired, was used within `idle`, and its user or key is still valid; else
        None.
        """

    def open_sessions(self, idle: timedelta, kind: SessionKind | None = None, subject: str = "") -> list[OpenSession]:
        """Return up to SESSIONS_MOST sessions that `get_session` would return, the most recently used first.

        With `kind` and `subject` only those of one user or API key.
        """

    def use_session(self, digest: str) -> None:
        """Record that a session was used now. Do nothing if a use was recorded within USED_EVERY."""

    def end_session(self, digest: str) -> bool:
        """End a session; return False if there is no session with this digest."""

    def admit_login(self, free: Mapping[str, int]) -> float:
        """Decide whether a login may be tried now: return 0.0, or the seconds that the caller has to wait first.

        `free` maps each subject of the login (user name, address) to the number of failures that cause no delay. When
        the login may be tried, a failure of each subject is counted in advance, and `forgive_login` takes it back on
        success. When it has to wait, nothing is counted.
        """

    def forgive_login(self, cleared: Sequence[str], returned: Sequence[str]) -> None:
        """Update the failure counts after a successful login.

        The counts of the subjects in `cleared` are reset; those in `returned` are reduced by the failure that
        `admit_login` counted in advance.
        """

    def knows_login(self, subject: str) -> bool:
        """Return whether `remember_login` was called for this subject less than its `lasts` ago."""

    def remember_login(self, subject: str, lasts: timedelta) -> None:
        """Store for the time `lasts` that a user has logged in from an address; `subject` names both."""

    def hold_keys(self, keys: Sequence[str]) -> None:
        """Lock these job keys until the transaction ends; other callers of this verb wait for it.

        So no such caller can change the jobs that hold these keys before this transaction ends.
        """

    def begin_answer(self, who: str, key: str, digest: str, given_up: timedelta) -> BegunRequest | KeptAnswer:
        """Record that a request with an idempotency key begins; return its BegunRequest, for the caller to execute it.

        If this caller (`who`) already sent a request with the same key, return the KeptAnswer instead. A request that
        has been in flight for longer than `given_up` begins again if its `digest`, which covers the content, is the
        same.
        """

    def keep_answer(
        self, who: str, key: str, began_at: datetime, status: int, headers: Mapping[str, str], body: bytes
    ) -> None:
        """Store the answer to the request that began at `began_at`. Do nothing if the request has begun again since."""

    def drop_answer(self, who: str, key: str, began_at: datetime) -> None:
        """Delete the record of a request that changed nothing. Do nothing if the request has begun again since."""

    def release_answer(self, who: str, key: str, began_at: datetime) -> None:
        """Permit a repetition of a request, with the same key and digest, at once, because its outcome is unknown."""

    def store_id(self) -> str:
        """Return the unique id of this store, created on first use. It is not secret."""

    def put_secret(self, name: str, sealed: SealedSecret, by: str) -> None:
        """Store a secret, or replace its value. The value is already encrypted: the store cannot read it."""

    def get_secret(self, name: str) -> SealedSecret | None:
        """Return the encrypted secret; None if there is none of this name."""

    def list_secrets(self) -> list[SecretView]:
        """Return all secrets without their values, sorted by name."""

    def delete_secret(self, name: str) -> bool:
        """Delete a secret; return False if there is none of this name."""

    def prune_access(self, limit: int) -> int:
        """Delete expired sessions, old login failures, stored answers and old audit rows, up to `limit` of each kind.

        Return the largest number of rows deleted of one kind; if it is `limit`, there may be more. Audit rows are kept
        if the database role may not delete them.
        """


def key_view(row: Any, instant: Instant) -> ApiKeyView:
    """Build the view of an API key from its row; `instant` converts the store's instants."""
    id, name, digest, scopes, created_at, by, expires_at, used_at, revoked_at, is_expired, is_stale = row
    expires, used, revoked = (None if at is None else instant(at) for at in (expires_at, used_at, revoked_at))
    known = (id, name, digest, decode_names(scopes), instant(created_at), by)
    return ApiKeyView(*known, expires, used, revoked, bool(is_expired), bool(is_stale))


def user_view(row: Any, instant: Instant) -> UserView:
    """Build the view of a user from its row."""
    name, role, password, created_at, changed_at = row
    return UserView(name, role, password, instant(created_at), instant(changed_at))


def session_view(row: Any, instant: Instant) -> SessionView:
    """Build the view of a session from its row; `scopes` is NULL for the session of a user."""
    kind, subject, role, key_name, scopes, expires_at, is_stale = row
    own = () if scopes is None else decode_names(scopes)
    return SessionView(kind, subject, role, key_name, own, instant(expires_at), bool(is_stale))


def open_session(row: Any, instant: Instant) -> OpenSession:
    """Build an OpenSession from its row."""
    digest, kind, subject, key_name, address, agent, created_at, used_at, expires_at = row
    return OpenSession(
        digest=digest,
        kind=kind,
        subject=subject,
        key_name=key_name,
        origin=SessionOrigin(address, agent),
        created_at=instant(created_at),
        used_at=instant(used_at),
        expires_at=instant(expires_at),
    )


def sealed(row: Any) -> SealedSecret:
    """Build a SealedSecret from its row."""
    text, uses = row
    return SealedSecret(text, decode_names(uses))


def secret_view(row: Any, instant: Instant) -> SecretView:
    """Build the view of a secret from its row."""
    name, uses, set_at, set_by = row
    return SecretView(name, decode_names(uses), instant(set_at), set_by)


def kept_answer(row: Any) -> KeptAnswer:
    """Build a KeptAnswer from its row; a request in flight has neither headers nor a body."""
    digest, status, headers, body = row
    return KeptAnswer(digest, status, msgspec.json.decode(headers or "{}", type=dict[str, str]), (body or "").encode())


def encode_names(names: Sequence[str]) -> str:
    return msgspec.json.encode(list(names)).decode()


def decode_names(text: str) -> tuple[str, ...]:
    return tuple(msgspec.json.decode(text, type=list[str]))


def encode_headers(headers: Mapping[str, str]) -> str:
    return msgspec.json.encode(dict(headers)).decode()
