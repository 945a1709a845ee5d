"""`tickwork secrets`: manage values that jobs refer to by name, encrypted in the store."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from tickwork.cli.command import Group, Invocation, NotFound, json_option, pass_session, url_option
from tickwork.cli.output import ago, plain, print_items, print_result
from tickwork.cli.write_audit_rows import AuditedChange, by, recorded

if TYPE_CHECKING:
    from tickwork.app import Tickwork


@click.group(cls=Group, example="tickwork secrets set SMTP_PASSWORD < password.txt\ntickwork secrets list")
def secrets() -> None:
    """Set, list and delete the values of ${secret.NAME} in jobs. They are encrypted, and never shown again.

    The key is TICKWORK_SECRET_KEY; without it, a SQLite store makes a key file beside the database, readable only by
    its owner.
    """


@secrets.command(
    "set",
    example="tickwork secrets set SMTP_PASSWORD < password.txt\n"
    "tickwork secrets set STRIPE --for task:charge --for queue:payments < key.txt",
)
@click.argument("name")
@click.option(
    "--for",
    "uses",
    metavar="KIND:NAME",
    multiple=True,
    help="What may use it: task:NAME, dag:NAME or queue:NAME. May be repeated. Default: unchanged, or all jobs.",
)
@click.option("--for-all", is_flag=True, help="All jobs may use it.")
@json_option
@url_option
@pass_session
def set_secret(session: Invocation, /, name: str, uses: tuple[str, ...], for_all: bool, as_json: bool) -> None:
    """Set a secret to the text on stdin.

    A final line end is removed. On a terminal, the command asks for the value.
    """
    if uses and for_all:
        raise click.UsageError("--for and --for-all exclude each other: give one of them.")
    app = session.app(create=True)
    value, kept, before = _value(), uses if uses or for_all else None, _about(app, name)
    recorded(
        app,
        "set_secret",
        lambda: app.vault.put(name, value, by(), uses=kept),
        lambda _: [AuditedChange(f"secret:{name}", before, _about(app, name))],
    )
    print_result(as_json, {"name": name, "set": True}, f"Set {name}.")


@secrets.command("list", example="tickwork secrets list --json")
@json_option
@url_option
@pass_session
def list_secrets(session: Invocation, /, as_json: bool) -> None:
    """List secrets by name: when each was set, and by whom."""
    app = session.app()
    found, now = app.store.access.list_secrets(), app.store.now()
    print_items(
        as_json,
        found,
        none="No secrets yet. Set one: tickwork secrets set NAME < FILE",
        titles=["NAME", "FOR", "SET", "BY"],
        row=lambda one: [one.name, ", ".join(one.uses) or "all jobs", ago(one.set_at, now), one.set_by],
    )


@secrets.command("delete", example="tickwork secrets delete SMTP_PASSWORD")
@click.argument("name")
@json_option
@url_option
@pass_session
def delete(session: Invocation, /, name: str, as_json: bool) -> None:
    """Delete a secret."""
    app = session.app()
    told = AuditedChange(f"secret:{name}", before=_about(app, name))
    if not recorded(app, "delete_secret", lambda: app.store.access.delete_secret(name), told):
        raise NotFound(f"there is no secret {name!r}. List the secrets: tickwork secrets list")
    print_result(as_json, {"name": name, "deleted": True}, f"Deleted {name}.")


def _about(app: Tickwork, name: str) -> dict[str, Any] | None:
    """Return a secret without its value, for the audit log; None if there is none."""
    found = next((one for one in app.store.access.list_secrets() if one.name == name), None)
    about: dict[str, Any] | None = None if found is None else plain(found)
    return about


def _value() -> str:
    if sys.stdin.isatty():
        typed: str = click.prompt("Value", hide_input=True, err=True)
        return typed
    return sys.stdin.read().removesuffix("\n").removesuffix("\r")
