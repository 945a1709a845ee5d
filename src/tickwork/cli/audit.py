"""`tickwork audit`: who changed what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tickwork.cli.base import Command, Session, json_option, pass_session, url_option
from tickwork.cli.instants import instant
from tickwork.cli.output import print_json, print_table, utc

if TYPE_CHECKING:
    from tickwork.store.access import AuditView


@click.command(cls=Command, example="tickwork audit --since 2d\ntickwork audit --who user:ada --json")
@click.option("--who", metavar="NAME", help="Changes by user:NAME, key:NAME or cli:NAME@HOST.")
@click.option("--action", metavar="NAME", help="Changes of this kind: create_user, failed_login, ...")
@click.option("--target", metavar="NAME", help="Changes of this: user:ada, key:deploy, ...")
@click.option("--since", metavar="WHEN", help="Changes since then: a duration back from now, or an instant.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(1, 1000), default=100, show_default=True, help="At most so many."
)
@json_option
@url_option
@pass_session
def audit(
    session: Session,
    /,
    who: str | None,
    action: str | None,
    target: str | None,
    since: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """List what was changed over the server, and by commands that change who may call it; the newest first."""
    from tickwork.store.access import AuditFilter

    app = session.app()
    begin = None if since is None else instant(since, app.store.now(), "--since")
    found = app.store.changes(AuditFilter(who, action, target, begin), limit)
    if as_json:
        print_json({"items": [_json(one) for one in found]})
    elif not found:
        click.echo("Nothing was changed.")
    else:
        titles = ["AT", "WHO", "ACTION", "TARGET", "FROM", "AFTER"]
        print_table(titles, [_row(one) for one in found])


def _json(one: AuditView) -> dict[str, Any]:
    change = one.change
    return {
        "id": str(one.id),
        "at": one.at,
        "who": change.who,
        "action": change.action,
        "target": change.target,
        "before": change.before,
        "after": change.after,
        "request_id": change.request_id,
        "address": change.address,
    }


def _row(one: AuditView) -> list[str]:
    change = one.change
    after = "" if change.after is None else change.after.decode()
    return [utc(one.at), change.who, change.action, change.target, change.address, after]
