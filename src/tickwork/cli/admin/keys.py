"""`tickwork keys`: manage API keys for programs that call the server."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from tickwork.cli.command import Group, Invocation, NotFound, json_option, pass_session, url_option
from tickwork.cli.output import ago, print_items, print_json, print_result, utc
from tickwork.cli.write_audit_rows import AuditedChange, by, recorded

if TYPE_CHECKING:
    from tickwork.store.admin.access import ApiKeyView

SCOPES = ("read", "enqueue", "operate", "shell", "use-secrets", "work", "metrics", "admin")


@click.group(cls=Group, example="tickwork keys create deploy --scope enqueue --expires 90d\ntickwork keys list")
def keys() -> None:
    """Create, list and revoke API keys, which programs send to the server: Authorization: Bearer twk_..."""


@keys.command("create", example="tickwork keys create deploy --scope read --scope enqueue --expires 90d")
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    type=click.Choice(SCOPES),
    help="Scope; may be given several times.",
)
@click.option("--expires", metavar="DURATION", help="Lifetime: 30d, 12h. Default: 90d.")
@click.option("--never", is_flag=True, help="No expiry: the key lasts until it is revoked.")
@json_option
@url_option
@pass_session
def create(
    session: Invocation, /, name: str, scopes: tuple[str, ...], expires: str | None, never: bool, as_json: bool
) -> None:
    """Create a key, and print its token. The token is shown only once: the store keeps a digest of it."""
    from tickwork.security.credentials import LASTS, NEVER, create_key, read_lasts

    if never and expires is not None:
        raise click.UsageError("--expires and --never exclude each other: give one of them.")
    app = session.app(create=True)
    lasts = read_lasts(NEVER if never else expires or LASTS)
    token, made = recorded(
        app,
        "create_api_key",
        lambda: create_key(app.store, name, list(scopes), lasts, by()),
        lambda made: [AuditedChange(f"key:{name}", after=key_json(made[1]))],
    )
    if as_json:
        print_json({**key_json(made), "token": token})
        return
    click.echo(token)
    until = "It does not expire" if made.expires_at is None else f"It expires {utc(made.expires_at)}"
    click.echo(f"This is shown once. {until}. Revoke it: tickwork keys revoke {name}", err=True)


@keys.command("list", example="tickwork keys list --json")
@json_option
@url_option
@pass_session
def list_keys(session: Invocation, /, as_json: bool) -> None:
    """List keys, including those that have expired or were revoked."""
    app = session.app()
    found, now = app.store.access.list_api_keys(), app.store.now()
    print_items(
        as_json,
        found,
        none="No keys yet. Create one: tickwork keys create NAME --scope read",
        titles=["NAME", "PREFIX", "STATE", "SCOPES", "CREATED", "USED", "EXPIRES"],
        row=lambda key: _row(key, now),
        to_json=key_json,
    )


@keys.command("revoke", example="tickwork keys revoke deploy")
@click.argument("which", metavar="NAME_OR_ID")
@json_option
@url_option
@pass_session
def revoke(session: Invocation, /, which: str, as_json: bool) -> None:
    """Revoke a key: the server refuses it from now on."""
    from tickwork.security.credentials import find_key

    app = session.app()
    key = find_key(app.store, which)
    if key is None:
        raise NotFound(f"there is no key {which!r}. List the keys: tickwork keys list")
    before = key_json(key)

    def told(_: bool) -> list[AuditedChange]:
        revoked = app.store.access.get_api_key(key.id)
        return [AuditedChange(f"key:{key.name}", before, None if revoked is None else key_json(revoked))]

    revoked = recorded(app, "revoke_api_key", lambda: app.store.access.revoke_api_key(key.id), told)
    said = f"{key.name} ({key.prefix}) {'is revoked' if revoked else 'was revoked before'}."
    print_result(as_json, {"id": key.id, "name": key.name, "revoked": revoked}, said)


def key_json(key: ApiKeyView) -> dict[str, Any]:
    """Return a key as JSON."""
    return {
        "id": key.id,
        "name": key.name,
        "prefix": key.prefix,
        "scopes": list(key.scopes),
        "state": _state(key),
        "created_at": key.created_at,
        "created_by": key.created_by,
        "expires_at": key.expires_at,
        "used_at": key.used_at,
        "revoked_at": key.revoked_at,
    }


def _state(key: ApiKeyView) -> str:
    return "live" if key.is_live else "expired" if key.revoked_at is None else "revoked"


def _row(key: ApiKeyView, now: datetime) -> list[str]:
    return [
        key.name,
        key.prefix,
        _state(key),
        ", ".join(key.scopes),
        ago(key.created_at, now),
        ago(key.used_at, now) or "never",
        "" if key.expires_at is None else utc(key.expires_at),
    ]
