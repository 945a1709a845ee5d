"""Users over REST."""

from __future__ import annotations

from datetime import datetime

import msgspec

from tickwork.core.access.scopes import is_name, read_role
from tickwork.http.framework.problems import Problem
from tickwork.http.framework.route import Routes, Scope, Struct
from tickwork.http.request import Call
from tickwork.security.credentials import add_user, hash_password
from tickwork.store.admin.access import UserView

routes = Routes("users")


class NewUserBody(Struct):
    """A user to create. The role is viewer, operator, developer or admin."""

    name: str
    role: str
    password: str


class UserChangeBody(Struct):
    """Changes of a user. A new password ends their sessions; a new role applies from their next request on."""

    role: str | None = None
    password: str | None = None


class UserBody(Struct):
    """A user."""

    name: str
    role: str
    created_at: datetime
    changed_at: datetime


class UserListBody(Struct):
    """Users, by name."""

    items: list[UserBody]
    next_cursor: str | None = None


@routes.post("/users", Scope.ADMIN, status=201, is_repeatable=False)
def create_user(call: Call, body: NewUserBody) -> UserBody:
    """Create a user."""
    add_user(call.app.store, body.name, body.role, body.password)
    made = _found(call, body.name)
    call.changed(f"user:{made.name}", after=made)
    return made


@routes.get("/users", Scope.ADMIN)
def list_users(call: Call) -> UserListBody:
    """List users."""
    return UserListBody([_body(user) for user in call.app.store.access.list_users()])


@routes.patch("/users/{name}", Scope.ADMIN)
def change_user(call: Call, name: str, body: UserChangeBody) -> UserBody:
    """Change the role or the password of a user."""
    before = _found(call, name)
    role = None if body.role is None else read_role(body.role)
    call.app.store.access.change_user(name, role, None if body.password is None else hash_password(body.password))
    after = _found(call, name)
    password = {} if body.password is None else {"password": "changed"}
    call.changed(f"user:{name}", before=before, after={**msgspec.structs.asdict(after), **password})
    return after


@routes.delete("/users/{name}", Scope.ADMIN)
def remove_user(call: Call, name: str) -> None:
    """Remove a user. Their sessions end at once."""
    before = _found(call, name)
    call.app.store.access.remove_user(name)
    call.changed(f"user:{name}", before=before)


def _found(call: Call, name: str) -> UserBody:
    user = call.app.store.access.get_user(name) if is_name(name) else None
    if user is None:
        raise Problem(404, "not-found", f"there is no user {name!r}.")
    return _body(user)


def _body(user: UserView) -> UserBody:
    return UserBody(user.name, user.role, user.created_at, user.changed_at)
