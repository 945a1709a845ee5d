"""Users, API keys and open sessions over REST."""

from __future__ import annotations

from datetime import datetime

import msgspec

from tickwork.core.access.scopes import is_name, read_role
from tickwork.http.auth.access import IDLE
from tickwork.http.framework.problems import Problem, required
from tickwork.http.framework.route import ANY_CREDENTIALS, ListBody, Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.security.credentials import LASTS, add_user, create_key, find_key, hash_password, read_lasts
from tickwork.store.admin.access import ApiKeyView, OpenSession, UserView

user_routes = Routes("users")


class NewUserBody(Struct):
    """A user to create. The role is viewer, operator, developer or admin."""

    name: str
    role: str
    password: str


class UserChangeBody(Struct):
    """Changes of a user. A new password ends the user's sessions; a new role applies from the next request on."""

    role: str | None = None
    password: str | None = None


class UserBody(Struct):
    """A user."""

    name: str
    role: str
    created_at: datetime
    changed_at: datetime


class UserListBody(ListBody[UserBody]):
    """Users, by name."""


@user_routes.post("/users", Scope.ADMIN, status=201, is_repeatable=False)
def create_user(call: Call, body: NewUserBody) -> UserBody:
    """Create a user."""
    add_user(call.app.store, body.name, body.role, body.password)
    made = _found_user(call, body.name)
    call.changed(f"user:{made.name}", after=made)
    return made


@user_routes.get("/users", Scope.ADMIN)
def list_users(call: Call) -> UserListBody:
    """List users."""
    return UserListBody([_user_body(user) for user in call.app.store.access.list_users()], None)


@user_routes.patch("/users/{name}", Scope.ADMIN)
def change_user(call: Call, name: str, body: UserChangeBody) -> UserBody:
    """Change the role or the password of a user."""
    before = _found_user(call, name)
    role = None if body.role is None else read_role(body.role)
    call.app.store.access.change_user(name, role, None if body.password is None else hash_password(body.password))
    after = _found_user(call, name)
    password = {} if body.password is None else {"password": "changed"}
    call.changed(f"user:{name}", before=before, after={**msgspec.structs.asdict(after), **password})
    return after


@user_routes.delete("/users/{name}", Scope.ADMIN)
def remove_user(call: Call, name: str) -> None:
    """Remove a user. The user's sessions end at once."""
    before = _found_user(call, name)
    call.app.store.access.remove_user(name)
    call.changed(f"user:{name}", before=before)


def _found_user(call: Call, name: str) -> UserBody:
    user = required(
        call.app.store.access.get_user(name) if is_name(name) else None,
        Problem(404, "not-found", f"there is no user {name!r}."),
    )
    return _user_body(user)


def _user_body(user: UserView) -> UserBody:
    return UserBody(user.name, user.role, user.created_at, user.changed_at)


key_routes = Routes("keys")


class NewKeyBody(Struct):
    """A key to create, with scopes of read, enqueue, operate, shell, use-secrets, work, metrics and admin.

    `expires` is a duration, or "never" for a key that is valid until it is revoked.
    """

    name: str
    scopes: list[str]
    expires: str = LASTS


class KeyBody(Struct):
    """A key, without its secret. Its token begins with `prefix`."""

    id: str
    name: str
    prefix: str
    scopes: list[str]
    state: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    used_at: datetime | None
    revoked_at: datetime | None


class CreatedKeyBody(KeyBody, kw_only=True):
    """A new key, with its token, which is shown only once."""

    token: str


class KeyListBody(ListBody[KeyBody]):
    """API keys, newest first."""


@key_routes.post("/keys", Scope.ADMIN, status=201, is_repeatable=False)
def create_api_key(call: Call, body: NewKeyBody) -> CreatedKeyBody:
    """Create an API key. Its token is returned only in this answer."""
    token, made = create_key(call.app.store, body.name, body.scopes, read_lasts(body.expires), call.who.name)
    shown = key_body(made)
    call.changed(f"key:{made.name}", after=shown)
    return CreatedKeyBody(**msgspec.structs.asdict(shown), token=token)


@key_routes.get("/keys", Scope.ADMIN)
def list_api_keys(call: Call) -> KeyListBody:
    """List API keys, including expired and revoked ones."""
    return KeyListBody([key_body(key) for key in call.app.store.access.list_api_keys()], None)


@key_routes.post("/keys/{id}/revoke", Scope.ADMIN)
def revoke_api_key(call: Call, id: str) -> KeyBody:
    """Revoke a key, by its id or its name. The sessions that were opened with it end, too."""
    key = required(find_key(call.app.store, id), Problem(404, "not-found", f"there is no API key {id!r}."))
    call.app.store.access.revoke_api_key(key.id)
    after = key_body(call.app.store.access.get_api_key(key.id) or key)
    call.changed(f"key:{key.name}", before=key_body(key), after=after)
    return after


def key_body(key: ApiKeyView) -> KeyBody:
    state = "live" if key.is_live else "expired" if key.revoked_at is None else "revoked"
    return KeyBody(
        id=key.id,
        name=key.name,
        prefix=key.prefix,
        scopes=list(key.scopes),
        state=state,
        created_at=key.created_at,
        created_by=key.created_by,
        expires_at=key.expires_at,
        used_at=key.used_at,
        revoked_at=key.revoked_at,
    )


session_routes = Routes("session")


class SessionItem(Struct):
    """A session: its owner, where it was opened, and when it was last used.

    `is_this`: it is the session of this request.
    """

    id: str
    who: str
    address: str
    agent: str
    created_at: datetime
    used_at: datetime
    expires_at: datetime
    is_this: bool


class SessionList(ListBody[SessionItem]):
    """Sessions, most recently used first."""


class SessionsQuery(Struct):
    """With `all`, the sessions of all users; by default, only your own."""

    all: bool = False


@session_routes.get("/sessions", ANY_CREDENTIALS)
def list_sessions(call: Call, query: SessionsQuery) -> SessionList:
    """List your sessions, or with `all` the sessions of all users, which requires the scope admin."""
    if query.all and Scope.ADMIN not in call.who.scopes:
        raise Problem(403, "not-allowed", f"{call.who.name} may not see sessions of others: that takes 'admin'.")
    return SessionList([_item(call, one) for one in _sessions(call, of_all=query.all)], None)


@session_routes.delete("/sessions/{id}", ANY_CREDENTIALS, is_audited=True)
def end_session(call: Call, id: str) -> None:
    """End a session: its browser is logged out at the next request.

    Ending sessions of others requires the scope admin.
    """
    of_all = Scope.ADMIN in call.who.scopes
    found = next((one for one in _sessions(call, of_all=of_all) if _session_id(one) == id), None)
    if found is None or not call.app.store.access.end_session(found.digest):
        raise Problem(404, "not-found", f"there is no session {id!r}.")
    before = {"address": found.origin.address, "created_at": found.created_at}
    call.changed(f"session of {_session_owner(found)}", before=before)


def _sessions(call: Call, *, of_all: bool) -> list[OpenSession]:
    """Return the sessions of all users, or those of the caller."""
    who = call.who
    return call.app.store.access.open_sessions(IDLE, None if of_all else who.kind, "" if of_all else who.subject)


def _item(call: Call, one: OpenSession) -> SessionItem:
    return SessionItem(
        id=_session_id(one),
        who=_session_owner(one),
        address=one.origin.address,
        agent=one.origin.agent,
        created_at=one.created_at,
        used_at=one.used_at,
        expires_at=one.expires_at,
        is_this=one.digest == call.who.session,
    )


def _session_owner(one: OpenSession) -> str:
    return "dev" if one.kind == "token" else f"{one.kind}:{one.key_name or one.subject}"


def _session_id(one: OpenSession) -> str:
    """Return the public id of a session: the beginning of its token's digest, which does not reveal the token."""
    return one.digest[:16]
