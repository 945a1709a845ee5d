"""`tickwork audit`: list the audit log, and verify its hash chain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tickwork.cli.command import FAILURE, Group, Invocation, json_option, pass_session, url_option
from tickwork.cli.output import count_of, print_items, print_json, utc
from tickwork.cli.parse_time import instant
from tickwork.core.text.terminal_escape import clean
from tickwork.errors import InvalidInput

if TYPE_CHECKING:
    from tickwork.store.admin.audit import AuditView, ChainHead


@click.group(
    cls=Group,
    invoke_without_command=True,
    example="tickwork audit --since 2d\ntickwork audit --who user:ada --json\ntickwork audit verify",
)
@click.option("--who", metavar="NAME", help="Changes by user:NAME, key:NAME or cli:NAME@HOST.")
@click.option("--action", metavar="NAME", help="Changes of this kind: create_user, failed_login, ...")
@click.option("--target", metavar="NAME", help="Changes of this: user:ada, key:deploy, ...")
@click.option("--since", metavar="WHEN", help="Changes since then: a duration back from now, or an instant.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(1, 1000), default=100, show_default=True, help="Maximum number of rows."
)
@json_option
@url_option
@pass_session
@click.pass_context
def audit(
    ctx: click.Context,
    session: Invocation,
    /,
    who: str | None,
    action: str | None,
    target: str | None,
    since: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """List the changes made through the server and by commands, newest first."""
    if ctx.invoked_subcommand is not None:
        return
    from tickwork.store.admin.audit import AuditFilter

    app = session.app()
    begin = None if since is None else instant(since, app.store.now(), "--since")
    found = app.store.audit.list_changes(AuditFilter(who, action, target, begin), limit)
    titles = ["AT", "WHO", "ACTION", "TARGET", "FROM", "AFTER"]
    print_items(as_json, found, none="No changes.", titles=titles, row=_row, to_json=_json)


@audit.command("verify", example="tickwork audit verify\ntickwork audit verify --head 1234:9f86d0...")
@click.option("--head", metavar="N:HASH", help="A head that an earlier check printed; it must be in the chain.")
@json_option
@url_option
@pass_session
@click.pass_context
def verify(ctx: click.Context, session: Invocation, /, head: str | None, as_json: bool) -> None:
    """Check the hash chain of the audit log.

    Exits with 1 and names the first row that does not fit. Keep the printed head in a place that no user with write
    access to the database can change: with --head, a later check detects whether the chain was rewritten or truncated.
    """
    from tickwork.store.admin.audit import check_chain
    from tickwork.store.rows.instants import to_us

    store = session.app().store
    found = check_chain(store.audit, store.now(), to_us, None if head is None else _head(head))
    last = None if found.head is None else f"{found.head.number}:{found.head.hash}"
    if as_json:
        print_json({"fits": found.trouble is None, "rows": found.rows, "head": last, "trouble": found.trouble})
    elif found.trouble is None:
        click.echo(f"The audit log fits its chain: {count_of(found.rows, 'row')}. Head: {last or 'none yet'}")
    else:
        click.echo(f"error: the audit log does not fit its chain: {clean(found.trouble)}", err=True)
    if found.trouble is not None:
        ctx.exit(FAILURE)


def _head(text: str) -> ChainHead:
    from tickwork.store.admin.audit import ChainHead

    number, colon, hash = text.partition(":")
    if not (colon and number.isascii() and number.isdigit() and len(number) <= 18 and hash):
        raise InvalidInput(f"--head takes what an earlier check printed, like 1234:9f86d0..., not {text!r}.")
    return ChainHead(int(number), hash)


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
