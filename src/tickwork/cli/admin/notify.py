"""`tickwork notify`: manage notifications (alerts) and the channels they are sent through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tickwork.cli.command import Group, Invocation, json_option, pass_session, url_option
from tickwork.cli.output import count_of, print_json, print_result, print_table
from tickwork.cli.write_audit_rows import AuditedChange, recorded
from tickwork.errors import InvalidInput, NotificationNotFound

if TYPE_CHECKING:
    from tickwork.cli.output import Row
    from tickwork.core.notify.channels import Channel
    from tickwork.store.admin.notifications import NotificationView


@click.group(
    cls=Group,
    example="tickwork notify channel ops --slack '${secret.SLACK_URL}'\n"
    "tickwork notify add night --on failed --dag nightly --to ops",
)
def notify() -> None:
    """Send alerts about failures, lateness and silence by webhook, Slack or mail."""


@notify.command("list", example="tickwork notify list --json")
@json_option
@url_option
@pass_session
def list_notifications(session: Invocation, /, as_json: bool) -> None:
    """List notifications and channels."""
    calls = session.app().notifications
    found, channels = calls.all(), list(calls.channels().values())
    if as_json:
        print_json({"items": [_json(view) for view in found], "channels": [_channel_json(one) for one in channels]})
        return
    if found:
        print_table(["NAME", "ON", "OF", "AFTER", "TO", "LAST SENT"], [_row(view) for view in found])
    else:
        click.echo("No notifications yet: tickwork notify add NAME --on failed --to CHANNEL")
    if channels:
        click.echo()
        print_table(["CHANNEL", "KIND", "WHERE"], [_channel_row(channel) for channel in channels])


@notify.command("add", example="tickwork notify add night --on failed --dag nightly --to ops")
@click.argument("name")
@click.option("--on", metavar="WHAT", required=True, help="failed, dead, late, never_started, sla_missed, ...")
@click.option(
    "--to", metavar="CHANNEL", multiple=True, required=True, help="Channel for its messages. May be repeated."
)
@click.option("--task", metavar="NAME", help="Only jobs of this task.")
@click.option("--dag", metavar="NAME", help="Only runs of this dag.")
@click.option("--queue", metavar="NAME", help="Only this queue.")
@click.option("--schedule", metavar="NAME", help="Only this schedule.")
@click.option("--after", metavar="DURATION", help="Threshold, such as 1h.")
@click.option("--window", metavar="DURATION", help="Period whose events form one message. Default: 5m.")
@json_option
@url_option
@pass_session
def add(session: Invocation, /, name: str, on: str, to: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Add a notification. An existing one of the same name is replaced.

    WHAT is one of failed, dead (neither redriven nor discarded), late, never_started, sla_missed, schedule_missed,
    worker_lost, queue_older_than and silent (a success is missing).
    """
    app = session.app(create=True)
    calls = app.notifications
    before = {view.notification.name: _json(view) for view in calls.all()}.get(name)
    made = recorded(
        app,
        "put_notification",
        lambda: calls.put(name, on, list(to), **given),
        lambda made: [AuditedChange(f"notification:{name}", before, _json(calls[made.name]))],
    )
    said = f"Added {made.name}, sent to {', '.join(made.to)}. Test it: tickwork notify test {made.name}"
    print_result(as_json, _json(calls[made.name]), said)


@notify.command("remove", example="tickwork notify remove night")
@click.argument("name")
@json_option
@url_option
@pass_session
def remove(session: Invocation, /, name: str, as_json: bool) -> None:
    """Remove a notification."""
    app = session.app()
    before = {view.notification.name: _json(view) for view in app.notifications.all()}.get(name)
    told = AuditedChange(f"notification:{name}", before)
    if not recorded(app, "delete_notification", lambda: app.notifications.delete(name), told):
        raise NotificationNotFound(f"there is no notification {name!r}. List them: tickwork notify list")
    print_result(as_json, {"removed": name}, f"Removed {name}.")


@notify.command("test", example="tickwork notify test night")
@click.argument("name")
@json_option
@url_option
@pass_session
def test(session: Invocation, /, name: str, as_json: bool) -> None:
    """Send a test message through all channels of a notification."""
    app = session.app()
    jobs = recorded(
        app,
        "test_notification",
        lambda: app.notifications.test(name),
        lambda jobs: [AuditedChange(f"notification:{name}", after={"test": [job.id for job in jobs]})],
    )
    lines = [f"Enqueued {count_of(len(jobs), 'message')}:", *(f"  tickwork jobs show {job.id}" for job in jobs)]
    print_result(as_json, {"jobs": [job.id for job in jobs]}, "\n".join(lines))


@notify.command(
    "channel",
    example="tickwork notify channel ops --slack '${secret.SLACK_URL}'\n"
    "tickwork notify channel mail --smtp mx.example.org --sender tick@example.org --to ada@example.org",
)
@click.argument("name")
@click.option("--webhook", metavar="URL", help="POST each message there as JSON.")
@click.option("--secret", metavar="REF", help="With --webhook: signing secret, such as '${secret.NAME}'.")
@click.option("--slack", metavar="URL", help="POST each message there in the format of Slack.")
@click.option("--smtp", "host", metavar="HOST", help="Send each message as mail, through this server.")
@click.option("--port", metavar="N", type=int, help="With --smtp. Default: 587, or 465 with --tls tls.")
@click.option("--tls", type=click.Choice(["starttls", "tls", "none"]), help="With --smtp. Default: starttls.")
@click.option("--sender", metavar="ADDRESS", help="With --smtp: sender.")
@click.option("--to", metavar="ADDRESS", multiple=True, help="With --smtp: recipient. May be repeated.")
@click.option("--user", metavar="NAME", help="With --smtp: user name.")
@click.option("--password", metavar="REF", help="With --smtp: a reference such as '${secret.NAME}'.")
@click.option("--queue", metavar="NAME", help="Queue of its jobs. Default: default.")
@json_option
@url_option
@pass_session
def channel(session: Invocation, /, name: str, as_json: bool, **given: Any) -> None:
    """Store a channel, to which messages are sent. A channel of the same name is replaced.

    A URL may be a reference to a secret, which workers fill in: '${secret.SLACK_URL}'.
    """
    kinds = {"webhook": given.pop("webhook"), "slack": given.pop("slack"), "smtp": given["host"]}
    said = [kind for kind, value in kinds.items() if value is not None]
    if len(said) != 1:
        raise InvalidInput("give one of: --webhook URL, --slack URL, --smtp HOST.")
    (kind,) = said
    url = None if kind == "smtp" else kinds[kind]
    to = list(given.pop("to")) or None
    app = session.app(create=True)
    old = app.notifications.channels().get(name)
    made = recorded(
        app,
        "put_channel",
        lambda: app.notifications.put_channel(name, kind, url=url, to=to, **given),
        lambda made: [
            AuditedChange(f"channel:{name}", None if old is None else _channel_json(old), _channel_json(made))
        ],
    )
    print_result(as_json, _channel_json(made), f"Stored channel {made.name}.")


@notify.command("remove-channel", example="tickwork notify remove-channel ops")
@click.argument("name")
@json_option
@url_option
@pass_session
def remove_channel(session: Invocation, /, name: str, as_json: bool) -> None:
    """Delete a channel that no notification uses."""
    app = session.app()
    old = app.notifications.channels().get(name)
    told = AuditedChange(f"channel:{name}", before=None if old is None else _channel_json(old))
    if not recorded(app, "delete_channel", lambda: app.notifications.delete_channel(name), told):
        raise NotificationNotFound(f"there is no channel {name!r}. List them: tickwork notify list")
    print_result(as_json, {"removed": name}, f"Removed {name}.")


def _row(view: NotificationView) -> Row:
    from tickwork.core.notify.rule import FILTERS
    from tickwork.core.text.duration import format_duration

    one = view.notification
    of = ", ".join(f"{name} {getattr(one, name)}" for name in FILTERS if getattr(one, name) is not None)
    told = "" if view.watch.told_at is None else f"{view.watch.told_at:%Y-%m-%d %H:%M:%S}"
    return [one.name, one.on, of, format_duration(one.after) if one.after else "", ", ".join(one.to), told]


def _json(view: NotificationView) -> dict[str, Any]:
    from tickwork.cli.output import plain

    one = plain(view.notification)
    spans = {f"{name}_s": one.pop(name) for name in ("after", "window")}
    told_at = None if view.watch.told_at is None else view.watch.told_at.isoformat()
    return {**one, **spans, "told_at": told_at, "waiting_count": view.watch.count}


def _channel_row(channel: Channel) -> Row:
    from tickwork.core.notify.channels import Mail

    where = f"{channel.host}, to {', '.join(channel.to)}" if isinstance(channel, Mail) else channel.url
    return [channel.name, _channel_json(channel)["kind"], where]


def _channel_json(channel: Channel) -> dict[str, Any]:
    import msgspec

    given: dict[str, Any] = msgspec.to_builtins(channel)
    return {"name": given.pop("name"), "kind": given.pop("type"), **given}
