"""The store verbs of access control: API keys, users, sessions, logins, kept answers and secrets.

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
    """An API key, without its secret. `is_stale`: its last use was not recorded lately."""

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
        """The part of its token that may be shown."""
        return f"{TOKEN_PREFIX}_{self.id}"

    @property
    def is_live(self) -> bool:
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
    """A live session: its owner, with their role now, or with the name and the scopes of their key."""

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
    """A request to carry out. `first_at` is when it was first seen; `began_at` identifies this try."""

    first_at: datetime
    began_at: datetime


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """The stored answer to a request with the same key. No status: it is in flight."""

    digest: str
    status: int | None
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class SecretView:
    """A secret without its value: what may use it (empty: everything), when it was set, and by whom."""

    name: str
    uses: tuple[str, ...]
    set_at: datetime
    set_by: str


class SealedSecret(NamedTuple):
    """A secret as it is stored, and what may use it."""

    text: str
    uses: tuple[str, ...] = ()


class AccessVerbs(Protocol):
    """The verbs of access. Each is one transaction."""

    def put_api_key(
        self, id: str, name: str, digest: str, scopes: Sequence[str], lasts: timedelta | None, by: str
    ) -> ApiKeyView | None:
        """Store an API key; None when a key of this name exists that was not revoked."""

    def get_api_key(self, id: str) -> ApiKeyView | None:
        """Return a key, live or not."""

    def list_api_keys(self) -> list[ApiKeyView]:
        """Return all keys, the newest first."""

    def use_api_key(self, id: str) -> None:
        """Record that a key was used just now."""

    def revoke_api_key(self, id: str) -> bool:
        """Revoke a key; False when it was invalid already."""

    def put_user(self, name: str, role: str, password: str) -> bool:
        """Store a user; False when there is one of that name."""

    def get_user(self, name: str) -> UserView | None:
        """Return a user."""

    def list_users(self) -> list[UserView]:
        """Return all users by name."""

    def change_user(self, name: str, role: str | None = None, password: str | None = None) -> bool:
        """Change a user; False when there is none. A new password ends their sessions."""

    def remove_user(self, name: str) -> bool:
        """Delete a user, and their sessions; False when there is none."""

    def has_access(self) -> bool:
        """Return whether anyone can log in: there is a user, or a live key."""

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
        """Begin a session. A user's session is stored only while `password` is still theirs; False when it is not."""

    def get_session(self, digest: str, idle: timedelta) -> SessionView | None:
        """Return a session that has not expired, was used within `idle`, and whose user or key is still valid."""

    def open_sessions(self, idle: timedelta, kind: SessionKind | None = None, subject: str = "") -> list[OpenSession]:
        """Return the sessions that `get_session` would find, of all or of one subject, the last used first.

        At most SESSIONS_MOST.
        """

    def use_session(self, digest: str) -> None:
        """Record that a session was used just now."""

    def end_session(self, digest: str) -> bool:
        """End a session; False when there is none."""

    def admit_login(self, free: Mapping[str, int]) -> float:
        """Count a failed login for each of these names and addresses in advance; 0.0: the login may proceed.

        Otherwise return the seconds until one is admitted again; nothing was counted. `free` is the number of failures
        of each without a delay.
        """

    def forgive_login(self, cleared: Sequence[str], returned: Sequence[str]) -> None:
        """Reset the failures of some, and subtract the last one of others: the login succeeded."""

    def knows_login(self, subject: str) -> bool:
        """Return whether `remember_login` was called for this subject, and its time is not over."""

    def remember_login(self, subject: str, lasts: timedelta) -> None:
        """Remember a successful login of a user from an address."""

    def hold_keys(self, keys: Sequence[str]) -> None:
        """Lock these job keys until the transaction ends; other callers of this verb wait.

        The jobs that a caller then reads by these keys stay as read until the caller replaces them.
        """

    def begin_answer(self, who: str, key: str, digest: str, given_up: timedelta) -> BegunRequest | KeptAnswer:
        """Begin a request, unless this caller's request with the same key was answered or is in flight.

        A request that has been in flight for `given_up` is begun again, if its digest is the same.
        """

    def keep_answer(
        self, who: str, key: str, began_at: datetime, status: int, headers: Mapping[str, str], body: bytes
    ) -> None:
        """Store the answer to a request, if it was not begun again."""

    def drop_answer(self, who: str, key: str, began_at: datetime) -> None:
        """Delete a request that changed nothing, if it was not begun again."""

    def release_answer(self, who: str, key: str, began_at: datetime) -> None:
        """Let the next request with the same key and digest begin at once, because this one's outcome is unknown."""

    def store_id(self) -> str:
        """Return the unique id of this store, created on first use. It is not secret."""

    def put_secret(self, name: str, sealed: SealedSecret, by: str) -> None:
        """Store a secret, or a new value of it. It is already sealed: the store cannot read it."""

    def get_secret(self, name: str) -> SealedSecret | None:
        """Return a secret as it is stored."""

    def list_secrets(self) -> list[SecretView]:
        """Return all secrets by name, without their values."""

    def delete_secret(self, name: str) -> bool:
        """Delete a secret; False when there is none."""

    def prune_access(self, limit: int) -> int:
        """Delete sessions, logins, answers and rows of the audit log that are old enough.

        Returns the largest number deleted of one kind, at most `limit`.
        """


def key_view(row: Any, instant: Instant) -> ApiKeyView:
    id, name, digest, scopes, created_at, by, expires_at, used_at, revoked_at, is_expired, is_stale = row
    expires, used, revoked = (None if at is None else instant(at) for at in (expires_at, used_at, revoked_at))
    known = (id, name, digest, decode_names(scopes), instant(created_at), by)
    return ApiKeyView(*known, expires, used, revoked, bool(is_expired), bool(is_stale))


def user_view(row: Any, instant: Instant) -> UserView:
    name, role, password, created_at, changed_at = row
    return UserView(name, role, password, instant(created_at), instant(changed_at))


def session_view(row: Any, instant: Instant) -> SessionView:
    kind, subject, role, key_name, scopes, expires_at, is_stale = row
    own = () if scopes is None else decode_names(scopes)
    return SessionView(kind, subject, role, key_name, own, instant(expires_at), bool(is_stale))


def open_session(row: Any, instant: Instant) -> OpenSession:
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
    text, uses = row
    return SealedSecret(text, decode_names(uses))


def secret_view(row: Any, instant: Instant) -> SecretView:
    name, uses, set_at, set_by = row
    return SecretView(name, decode_names(uses), instant(set_at), set_by)


def kept_answer(row: Any) -> KeptAnswer:
    digest, status, headers, body = row
    return KeptAnswer(digest, status, msgspec.json.decode(headers or "{}", type=dict[str, str]), (body or "").encode())


def encode_names(names: Sequence[str]) -> str:
    return msgspec.json.encode(list(names)).decode()


def decode_names(text: str) -> tuple[str, ...]:
    return tuple(msgspec.json.decode(text, type=list[str]))


def encode_headers(headers: Mapping[str, str]) -> str:
    return msgspec.json.encode(dict(headers)).decode()
