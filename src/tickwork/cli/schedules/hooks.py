"""`tickwork hooks`: manage the webhooks through which other services start jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tickwork.cli.command import Group, Invocation, json_option, pass_session, url_option
from tickwork.cli.output import ago, print_items, print_json, print_result, print_table
from tickwork.cli.write_audit_rows import AuditedChange, recorded
from tickwork.errors import HookNotFound

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from tickwork.app import Tickwork
    from tickwork.cli.output import Row
    from tickwork.core.hooks import Delivery
    from tickwork.store.admin.hooks import HookView

_PAGE = 1000


@click.group(
    cls=Group,
    example="tickwork hooks list\n"
    "tickwork hooks add pushed --style github --secret GITHUB --task build --arg 'commit=${body.after}' --event push\n"
    "tickwork hooks show pushed",
)
def hooks() -> None:
    """Show and change incoming webhooks, and the tasks and dags that they start."""


@hooks.command("list", example="tickwork hooks list --json")
@json_option
@url_option
@pass_session
def list_hooks(session: Invocation, /, as_json: bool) -> None:
    """List all hooks. Their address is /hooks/NAME of a server."""
    app = session.app()
    print_items(
        as_json,
        list(_views(app)),
        none="No hooks yet. Add one: tickwork hooks add NAME --style github --secret NAME --task NAME",
        titles=["NAME", "STYLE", "SECRET", "STARTS", "EVENTS"],
        row=_row,
        to_json=_plain,
    )


def _views(app: Tickwork) -> Iterator[HookView]:
    after = ""
    while page := app.store.hooks.list_hooks(_PAGE, after):
        yield from page
        after = page[-1].hook.name


def _plain(view: HookView) -> dict[str, Any]:
    from tickwork.declare.export import declared_hook

    said = declared_hook(view.hook)
    return {"name": view.hook.name, **said, "created_at": view.created_at, "edited_at": view.edited_at}


def _row(view: HookView) -> Row:
    hook = view.hook
    return [hook.name, hook.style, hook.secret, f"{hook.kind} {hook.target}", ", ".join(hook.events) or "all"]


@hooks.command("show", example="tickwork hooks show pushed")
@click.argument("name")
@json_option
@url_option
@pass_session
def show(session: Invocation, /, name: str, as_json: bool) -> None:
    """Show a hook, and the outcome of the last messages that it received."""
    from tickwork.core.text.yaml_loader import write_yaml
    from tickwork.declare.export import declared_hook

    app = session.app()
    view = app.store.hooks.get_hook(name)
    if view is None:
        raise _missing(name)
    came = app.store.hooks.deliveries(name)
    if as_json:
        print_json({**_plain(view), "deliveries": came})
        return
    click.echo(write_yaml({"hooks": {name: declared_hook(view.hook)}}), nl=False)
    if came:
        now = app.store.now()
        click.echo()
        print_table(["CAME", "OUTCOME", "EVENT", "JOB", "REASON"], [_delivery_row(one, now) for one in came])


def _delivery_row(one: Delivery, now: datetime) -> Row:
    came = "" if one.received_at is None else ago(one.received_at, now)
    return [came, one.outcome, one.event or "", one.job_id or "", one.reason or ""]


@hooks.command(
    "add",
    example="tickwork hooks add pushed --style github --secret GITHUB --task build \\\n"
    "    --arg 'commit=${body.after}' --event push",
)
@click.argument("name")
@click.option("--style", type=click.Choice(["github", "stripe", "generic"]), required=True, help="Signature scheme.")
@click.option("--secret", metavar="NAME", required=True, help="Name of the secret that signs the messages.")
@click.option("--task", metavar="NAME", help="The task that a message starts.")
@click.option("--dag", metavar="NAME", help="The dag that a message starts.")
@click.option(
    "--arg", "arguments", metavar="KEY=VALUE", multiple=True, help="An argument; ${body.id} is a field of the message."
)
@click.option("--key", metavar="TEXT", help="Idempotency key of a message: ${body.id}.")
@click.option("--event", "events", metavar="TYPE", multiple=True, help="Accept only these event types; repeatable.")
@click.option("--window", metavar="DURATION", help="Period in which repeated messages are ignored. Default: 1 day.")
@json_option
@url_option
@pass_session
def add(session: Invocation, /, name: str, arguments: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Add a hook, or change the existing one of that name."""
    from tickwork.cli.declare.read_files import print_remarks
    from tickwork.cli.jobs.enqueue import read_arguments
    from tickwork.declare.hooks import hook_of

    fields = {field: list(value) if field == "events" else value for field, value in given.items() if value}
    fields["args"] = read_arguments(arguments, None)[1]
    app = session.app(create=True)
    old = app.store.hooks.get_hook(name)
    hook = hook_of(name, fields, app.store.reads.task_definition)
    unknown = app.client.unknown_task if hook.kind == "task" else app.client.unknown_dag
    print_remarks([warning for warning in (unknown(hook.target),) if warning is not None])
    told = AuditedChange(f"hook {name}", before=None if old is None else _plain(old), after=fields)
    recorded(app, "put_hook", lambda: app.store.hooks.put_hooks([hook]), told)
    view = app.store.hooks.get_hook(name)
    said = f"Added {name}. Servers accept messages at /hooks/{name} that are signed with {given['secret']}."
    print_result(as_json, None if view is None else _plain(view), said)


@hooks.command("remove", example="tickwork hooks remove pushed")
@click.argument("name")
@json_option
@url_option
@pass_session
def remove(session: Invocation, /, name: str, as_json: bool) -> None:
    """Remove a hook. Jobs that it has started continue."""
    app = session.app()
    old = app.store.hooks.get_hook(name)
    told = AuditedChange(f"hook {name}", before=None if old is None else _plain(old))
    if not recorded(app, "delete_hook", lambda: app.store.hooks.delete_hooks([name]), told):
        raise _missing(name)
    print_result(as_json, {"removed": name}, f"Removed {name}.")


def _missing(name: str) -> HookNotFound:
    return HookNotFound(f"there is no hook {name!r}. List the hooks: tickwork hooks list")
