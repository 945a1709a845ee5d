"""Shared parts of commands: command classes, common options, logging, and access to the store."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tickwork.core.text.terminal_escape import clean, clean_lines
from tickwork.errors import InvalidInput, JobNotFound, StoreUnreachable, TickworkError

if TYPE_CHECKING:
    from tickwork.api.client import Job
    from tickwork.api.runs import Run
    from tickwork.app import Tickwork
    from tickwork.core.ids import JobId
    from tickwork.core.job import JobFilter


class NotFound(TickworkError):
    """A key, user or secret that a command names does not exist. The exit code is 3."""


OK, FAILURE, USAGE, NOT_FOUND, UNREACHABLE = range(5)
STATES = ("waiting", "queued", "running", "succeeded", "failed", "cancelled", "dropped", "expired")
Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class _PlainFormatter(logging.Formatter):
    """Formats log records as plain lines without control characters. %(level)s is in lower case.

    Further lines of a record are indented, so that quoted text in a message cannot look like a new record.
    """

    def format(self, record: logging.LogRecord) -> str:
        record.level = record.levelname.lower()
        return clean_lines(super().format(record)).replace("\n", "\n  ")


def log_to_stderr(style: str, level: int) -> None:
    """Log to stderr: plain lines in this style, or JSON if the environment asks for it."""
    from tickwork.observe.json_log import log_json, wants_json

    if wants_json():
        logging.basicConfig(handlers=[], level=level, force=True)
        log_json(level)
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_PlainFormatter(style))
    logging.basicConfig(handlers=[handler], level=level, force=True)


def announce(what: Mapping[str, str]) -> None:
    """Print facts about a service on stderr, a line each; with JSON logging, log them as records."""
    from tickwork.observe.json_log import wants_json

    for name, text in what.items():
        if wants_json():
            logging.getLogger("tickwork").info("%s: %s", name, text)
        else:
            click.echo(f"{name:<11}{clean(text)}", err=True)


class Command(click.Command):
    """A command whose help ends with an example."""

    def __init__(self, *args: Any, example: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.example = example

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_example(self.example, formatter)


class Group(click.Group):
    """A group of commands with an example of its own. For an unknown command, the error suggests the nearest name."""

    command_class = Command

    def __init__(self, *args: Any, example: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.example = example

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_example(self.example, formatter)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-") and not ctx.resilient_parsing:
            from tickwork.core.text.suggestions import closest

            near = closest(args[0], known)
            ctx.fail(f"there is no command {args[0]!r}{f'; did you mean {near!r}?' if near else '.'}")
        return super().resolve_command(ctx, args)


def _write_example(example: str, formatter: click.HelpFormatter) -> None:
    if example:
        lines = example.splitlines()
        with formatter.section("Examples" if len(lines) > 1 else "Example"):
            for line in lines:
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")


@dataclass
class Invocation:
    """The options that apply to the whole command line."""

    url: str | None = None

    def app(self, *, create: bool = False, adopt: bool = False) -> Tickwork:
        """Return an app for the store. A SQLite file that does not exist is only created with `create`.

        Otherwise an empty list from a file just made in the wrong folder would look like an answer. `adopt` creates the
        tables in a file that has tables of another program.
        """
        from tickwork.app import Tickwork

        app = Tickwork(self.url, upgrade=adopt)
        if not create:
            _check_there(app.url)
        _create_jobs_as_caller()
        click.get_current_context().call_on_close(app.close)
        return app

    def declared(self, target: str) -> Tickwork:
        """Return the app in a user's module or file, on the store it names; --url sets its default store."""
        import os

        from tickwork.app import Tickwork
        from tickwork.worker.process.load_app import load_app

        if self.url is not None:
            os.environ["TICKWORK_URL"] = self.url
        app = load_app(target)
        if not isinstance(app, Tickwork):
            raise InvalidInput(f"{target} has no Tickwork app.")
        refuse_other_store(self.url, app.settings.url)
        _create_jobs_as_caller()
        click.get_current_context().call_on_close(app.close)
        return app


def _create_jobs_as_caller() -> None:
    """Record the user who runs this command as the creator of the jobs that it makes."""
    from tickwork.cli.write_audit_rows import by
    from tickwork.context import creating_as

    click.get_current_context().with_resource(creating_as(by()))


def refuse_other_store(url: str | None, named: str) -> None:
    """Raise InvalidInput if --url and the code name different stores."""
    if url is not None and named != url:
        raise InvalidInput(
            f"--url is {shown_url(url)}, but the code names another store: {shown_url(named)}. "
            f"Leave out --url, or write Tickwork() without a URL."
        )


def shown_url(url: str) -> str:
    """Return a URL without its password."""
    from tickwork.core.text.mask_url import masked

    return masked(url)


def _check_there(url: str) -> None:
    """Raise StoreUnreachable if the URL names a SQLite file that does not exist."""
    from pathlib import Path

    from tickwork.config import sqlite_path

    path = sqlite_path(url)
    if path is not None and path != ":memory:" and not Path(path).exists():
        raise StoreUnreachable(
            f"there is no store in {Path(path).absolute()}. A worker or `tickwork enqueue` creates it; if it is "
            f"elsewhere, give --url sqlite:///PATH or set TICKWORK_URL."
        )


def _remember_url(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.ensure_object(Invocation).url = value


pass_session = click.make_pass_decorator(Invocation, ensure=True)
url_option = click.option(
    "--url",
    metavar="URL",
    expose_value=False,
    callback=_remember_url,
    help="URL of the store. Default: TICKWORK_URL, else ./tickwork.db.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

_FILTERS = (
    click.option("--state", type=click.Choice(STATES), metavar="STATE", help=f"One of {', '.join(STATES)}."),
    click.option("--task", metavar="NAME", help="Jobs of this task."),
    click.option("--queue", metavar="NAME", help="Jobs of this queue."),
    click.option("--key", metavar="KEY", help="Jobs with this key."),
    click.option("--collection", metavar="NAME", help="Jobs of this collection."),
    click.option("--label", metavar="LABEL", help="Jobs with this label."),
    click.option("--creator", metavar="WHO", help="Jobs of this creator: user:ada, key:deploy, schedule:nightly."),
)


def filter_options(*, state: bool = True) -> Callable[[Decorated], Decorated]:
    """Return a decorator that adds the options to select jobs; the command gets each as a keyword."""

    def decorate(command: Decorated) -> Decorated:
        for option in reversed(_FILTERS if state else _FILTERS[1:]):
            command = option(command)
        return command

    return decorate


def job_filter(which: dict[str, str | None], ids: tuple[str, ...] = (), *, dead: bool = False) -> JobFilter:
    """Return the filter for the options of `filter_options`."""
    from tickwork.core.job import JobFilter, JobState

    given: dict[str, Any] = dict(which)
    if given.get("state") is not None:
        given["state"] = JobState(given["state"])
    return JobFilter(ids=tuple(map(job_id, ids)) or None, dead=dead, **given)


def job_id(text: str) -> JobId:
    """Return an id in its stored form. Raises JobNotFound for a text that is no id."""
    from tickwork.core.ids import JobId, is_id

    lowered = text.strip().lower()
    if not is_id(lowered):
        raise JobNotFound(
            f"there is no job {text!r}: ids look like 019a8f3e-1c2d-7abc-8def-0123456789ab. See: tickwork jobs list"
        )
    return JobId(lowered)


def found_jobs(app: Tickwork, ids: tuple[str, ...]) -> list[Job]:
    """Return the jobs with these ids, in this order. Raises JobNotFound if one is missing."""
    wanted = list(dict.fromkeys(job_id(text) for text in ids))
    views = app.store.reads.get_jobs(wanted)
    missing = [one for one in wanted if one not in views]
    if missing:
        raise JobNotFound(
            f"job {missing[0]} is not in {shown_url(app.url)}: it was never committed, or it was pruned. "
            f"See: tickwork jobs list"
        )
    from tickwork.api.client import Job
    from tickwork.api.runs import Run

    kinds = {one: Job if views[one].version is None else Run for one in wanted}
    return [kinds[one](app.client, one, views[one]) for one in wanted]


def found_run(app: Tickwork, id: str) -> Run:
    """Return the run with this id. Raises JobNotFound if there is none."""
    from tickwork.api.runs import Run

    job = found_jobs(app, (id,))[0]
    if isinstance(job, Run):
        return job
    what = "is no run of a dag" if job.seen.run is None else f"is step {job.seen.step!r} of run {job.seen.run}"
    raise JobNotFound(f"job {job.id} {what}. See: tickwork runs list")
