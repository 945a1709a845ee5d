"""`tickwork users`: manage the users who log in to the server."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from tickwork.cli.command import Group, Invocation, NotFound, json_option, pass_session, url_option
from tickwork.cli.output import ago, print_items, print_result
from tickwork.cli.write_audit_rows import AuditedChange, recorded

if TYPE_CHECKING:
    from tickwork.store.admin.access import UserView

ROLES = ("viewer", "operator", "developer", "admin")
_password_option = click.option("--password-stdin", is_flag=True, help="Read the password from stdin: its first line.")


@click.group(cls=Group, example="tickwork users add ada --role admin\ntickwork users list")
def users() -> None:
    """Add, list and remove users: viewers read, operators act, developers also define commands, admins do all."""


@users.command("add", example="tickwork users add ada --role admin")
@click.argument("name")
@click.option(
    "--role",
    required=True,
    type=click.Choice(ROLES),
    help="viewer: read; operator: also act on jobs; developer: also define commands; admin: everything.",
)
@_password_option
@json_option
@url_option
@pass_session
def add(session: Invocation, /, name: str, role: str, password_stdin: bool, as_json: bool) -> None:
    """Add a user. Asks for the password twice."""
    from tickwork.core.access.scopes import read_name
    from tickwork.security.credentials import add_user

    app = session.app(create=True)
    said, password = read_name("a user", name), _password(password_stdin)
    told = AuditedChange(f"user:{name}", after={"name": name, "role": role})
    recorded(app, "create_user", lambda: add_user(app.store, said, role, password), told)
    print_result(as_json, {"name": name, "role": role}, f"Added {name} with role {role}.")


@users.command("list", example="tickwork users list --json")
@json_option
@url_option
@pass_session
def list_users(session: Invocation, /, as_json: bool) -> None:
    """List users."""
    app = session.app()
    found, now = app.store.access.list_users(), app.store.now()
    print_items(
        as_json,
        found,
        none="No users yet. Add one: tickwork users add NAME --role admin",
        titles=["NAME", "ROLE", "ADDED", "CHANGED"],
        row=lambda user: [user.name, user.role, ago(user.created_at, now), ago(user.changed_at, now)],
        to_json=_json,
    )


@users.command("passwd", example="tickwork users passwd ada")
@click.argument("name")
@_password_option
@json_option
@url_option
@pass_session
def passwd(session: Invocation, /, name: str, password_stdin: bool, as_json: bool) -> None:
    """Change the password of a user, and end all sessions of that user."""
    from tickwork.security.credentials import hash_password

    app = session.app()
    user = app.store.access.get_user(name)
    if user is None:
        raise _missing(name)
    password = hash_password(_password(password_stdin))
    told = AuditedChange(f"user:{name}", before=_json(user), after={"password": "changed"})
    if not recorded(app, "change_user", lambda: app.store.access.change_user(name, password=password), told):
        raise _missing(name)
    print_result(as_json, {"name": name, "changed": True}, f"Changed the password of {name}.")


@users.command("remove", example="tickwork users remove ada")
@click.argument("name")
@json_option
@url_option
@pass_session
def remove(session: Invocation, /, name: str, as_json: bool) -> None:
    """Remove a user, and end all sessions of that user at once."""
    app = session.app()
    user = app.store.access.get_user(name)
    told = AuditedChange(f"user:{name}", before=None if user is None else _json(user))
    if not recorded(app, "remove_user", lambda: app.store.access.remove_user(name), told):
        raise _missing(name)
    print_result(as_json, {"name": name, "removed": True}, f"Removed {name}.")


def _password(from_stdin: bool) -> str:
    """Return the new password: from stdin, or typed twice without showing it."""
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    typed: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    return typed


def _missing(name: str) -> NotFound:
    return NotFound(f"there is no user {name!r}. List the users: tickwork users list")


def _json(user: UserView) -> dict[str, Any]:
    return {"name": user.name, "role": user.role, "created_at": user.created_at, "changed_at": user.changed_at}
