"""`tickwork enqueue`: enqueue a job by the name of its task, and optionally wait for its result."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, get_args

import click

from tickwork.cli.command import Command, Invocation, pass_session, url_option
from tickwork.cli.output import print_json, stored_json
from tickwork.cli.write_audit_rows import AuditedChange, recorded
from tickwork.core.access.scopes import is_sensitive, told_job, told_name
from tickwork.core.job import IfExists
from tickwork.core.text.terminal_escape import clean
from tickwork.errors import InvalidArguments, InvalidOption, WaitTimeout

if TYPE_CHECKING:
    from tickwork.api.client import Job
    from tickwork.app import Tickwork

_PATIENCE_S = 2.0  # after this time, print what the job waits for


@click.command(
    cls=Command,
    example="tickwork enqueue send_email to=ada@example.org retries_left=3\n"
    "tickwork enqueue add a=2 b=3 --wait --timeout 30s\n"
    "tickwork enqueue report --json '{\"days\": [1, 2]}' --at 2027-01-01T06:00:00Z --key report",
)
@click.argument("name")
@click.argument("arguments", metavar="[KEY=VALUE]...", nargs=-1)
@click.option("--json", "json_text", metavar="ARGS", help="The arguments as a JSON object or array; - reads stdin.")
@click.option("--in", "delay", metavar="DURATION", help="Delay: 30m, 1h30m.")
@click.option("--at", metavar="TIME", help="Earliest start: 2027-01-01T06:00:00Z.")
@click.option("--queue", metavar="NAME", help="Queue, instead of the queue of the task.")
@click.option("--priority", metavar="P", help="high, normal, low, or 0 (most urgent) to 9.")
@click.option("--key", metavar="KEY", help="Key: at most one live job has it. An existing job is returned.")
@click.option(
    "--if-exists",
    type=click.Choice(get_args(IfExists)),
    help="With --key, when a job of the task holds it: return that job (the default), replace it, or fail.",
)
@click.option("--wait", is_flag=True, help="Print the result; exit with 0 only if the job succeeded.")
@click.option("--timeout", metavar="DURATION", help="With --wait: give up waiting after this time. The job continues.")
@url_option
@pass_session
def enqueue(
    session: Invocation,
    name: str,
    arguments: tuple[str, ...],
    json_text: str | None,
    delay: str | None,
    at: str | None,
    queue: str | None,
    priority: str | None,
    key: str | None,
    if_exists: str | None,
    wait: bool,
    timeout: str | None,
) -> None:
    """Enqueue a job of the task NAME, and print its id.

    A VALUE is JSON if it can be read as JSON (3, true, [1, 2], "3"), else text.
    """
    from tickwork.core.text.duration import parse_duration

    if timeout is not None and not wait:
        raise click.UsageError("--timeout requires --wait.")
    longest = None if timeout is None else parse_duration(timeout, what="--timeout")
    positional, named = read_arguments(arguments, json_text)
    options: dict[str, Any] = {"queue": queue, "priority": _priority(priority), "key": key, "if_exists": if_exists}
    if delay is not None:
        options["delay"] = parse_duration(delay, what="--in")
    if at is not None:
        options["at"] = _instant(at)
    if delay is not None and at is not None:
        raise InvalidOption("--in and --at exclude each other: give one of them.")
    app = session.app(create=True)
    given = {option: value for option, value in options.items() if value is not None}
    task = app.named(name).options(**given)
    new = task.new_job(tuple(positional), named)
    if is_sensitive(new):
        before: dict[str, Any] | None = None

        def change() -> Job:
            nonlocal before
            if key is not None:
                app.store.access.hold_keys([key])
                held = app.job(key=key)
                before = None if held is None else told_job(held.view)
            return task.enqueue(*positional, **named)

        def told(job: Job) -> list[AuditedChange]:
            if not job.is_new and if_exists != "replace":
                return []
            return [AuditedChange(told_name(new, job.id), None if job.is_new else before, told_job(job.view))]

        job = recorded(app, "create_job", change, told)
    else:
        job = task.enqueue(*positional, **named)
    if (warning := app.client.unknown_task(name)) is not None:
        click.secho(clean(warning), err=True, fg="yellow")
    if not job.is_new:
        what = "was replaced, if it still waits" if if_exists == "replace" else "is there already"
        click.echo(
            f"The key {clean(key or '')!r} is held by this job, which {what}. No other job was stored.", err=True
        )
    if wait:
        wait_for(app, job, longest)
        return
    click.echo(job.id)
    if sys.stderr.isatty():
        _hint(app, job)


def read_arguments(texts: tuple[str, ...], json_text: str | None) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments by position and by name. Raises InvalidArguments for text that cannot be parsed."""
    positional, named = _from_json(json_text)
    seen: set[str] = set()
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InvalidArguments(f"{text!r} is not KEY=VALUE. Say which argument it is, like to={text or 'x'}.")
        if key in seen:
            raise InvalidArguments(f"the argument {key!r} is given twice. Nothing was stored.")
        seen.add(key)
        named[key] = _value(key, value)
    return positional, named


def _from_json(text: str | None) -> tuple[list[Any], dict[str, Any]]:
    """Return positional and named arguments from JSON. Raises InvalidArguments."""
    import msgspec

    if text is None:
        return [], {}
    text = sys.stdin.read() if text == "-" else text
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidArguments(f"--json is not JSON: {error}. Nothing was stored.") from None
    _check_keys("--json", text)
    if isinstance(found, dict):
        return [], found
    if isinstance(found, list):
        return found, {}
    raise InvalidArguments("--json must be an object of named or an array of positional arguments. Nothing was stored.")


def _value(name: str, text: str) -> Any:
    """Return the value of KEY=VALUE: JSON if it can be read as JSON, else text."""
    import msgspec

    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
    if isinstance(found, dict | list):
        _check_keys(f"the argument {name!r}", text)
    return found


def _check_keys(what: str, text: str) -> None:
    """Raise InvalidArguments if an object has a key twice: parsers differ in which value they keep."""
    from tickwork.http.framework.duplicate_keys import repeated_key

    key = repeated_key(text.encode())
    if key is not None:
        raise InvalidArguments(f"{what} has the key {key!r} twice in one object. Nothing was stored.")


def _priority(text: str | None) -> str | int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else text


def _instant(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidOption(f"--at: {text!r} is not a time. Write it like 2027-01-01T06:00:00Z.") from None
    if found.tzinfo is None:
        raise InvalidOption(f"--at: {text} of which zone? Add Z for UTC, or an offset: {found.isoformat()}+02:00")
    return found


def wait_for(app: Tickwork, job: Job, longest: timedelta | None) -> None:
    """Wait until the job ends; print its result, or raise an error for any other end.

    If that takes longer than two seconds, print what the job waits for.
    """
    click.echo(f"job {job.id}", err=True)
    left = None if longest is None else longest.total_seconds()
    if left is None or left > _PATIENCE_S:
        try:
            job.wait(_PATIENCE_S)
        except WaitTimeout:
            click.echo(f"waiting: {clean(job.why())}", err=True)
            left = None if left is None else left - _PATIENCE_S
    job.wait(left)
    if job.view.result is None:
        job.result()  # raises
    print_json(stored_json(app.large_results.whole(job.view.result or b"null")))


def _hint(app: Tickwork, job: Job) -> None:
    """Print what the job waits for, as a hint on a terminal."""
    click.secho(f"{clean(job.why())}. Follow it: tickwork jobs show {job.id}", err=True, dim=True)
