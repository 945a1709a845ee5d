"""`tickwork`: the overview that --help prints, the commands, and error handling.

The module of a command is imported when the command is called, so `tickwork --help` needs no more imports than click.
Every error of Tickwork is one line with the next step. A traceback is shown only for the user's own code, or with
TICKWORK_DEBUG=1.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import click

from tickwork.cli.command import (
    FAILURE,
    NOT_FOUND,
    UNREACHABLE,
    USAGE,
    Group,
    Invocation,
    NotFound,
    log_to_stderr,
    url_option,
)
from tickwork.core.text.terminal_escape import clean_lines
from tickwork.errors import (
    DagNotFound,
    HookNotFound,
    InvalidInput,
    JobNotFound,
    NotificationNotFound,
    ScheduleNotFound,
    StoreUnreachable,
    TickworkError,
)

TOUR = """\
Usage: tickwork COMMAND ...

  Background jobs on an embedded SQLite file, or on PostgreSQL.

Start here:
  demo      Watch real jobs run. Nothing to set up, nothing left behind.
  dev       Run the tasks of a file while you write it; reloads on change.
              tickwork dev shop.py

Run:
  worker    Run tasks in production: a supervisor and its child processes.
              tickwork worker shop.py -c 20 -q default -q mail:3
  server    Serve the REST API, and fire schedules; many may run side by side.
  up        A server and a worker on one machine, for production.
              tickwork up shop.py --host 0.0.0.0
  enqueue   Enqueue a job.
              tickwork enqueue send_email to=ada@example.org --in 30m

Inspect and act:
  jobs      list, show, why, logs, cancel, retry.
              tickwork jobs list --state failed
  dead      Failed jobs without attempts left: list, redrive, discard.
              tickwork dead redrive --task send_email --rate 50/s
  queues    Jobs in each queue, and how long they wait: list, pause, resume,
            limit.
  workers   Running workers: where they run, and what they run.

  notify    Alerts on failures, delays and silence: list, add, remove, test.
              tickwork notify add night --on failed --to ops

Control load:
  gates     pause, drop, slow, divert and resume work by task, queue, tenant...
              tickwork gates pause --task mail --until 2h --reason "is down"
  limits    Concurrency and rate limits, and what they hold: list, set.
              tickwork limits set stripe --rate 10/s
  tenants   Weights of tenants that share workers: list, set.

Dags:
  run       Start a run of a dag; optionally wait for it or watch it.
              tickwork run etl day=2026-11-15 --watch
  runs      list, show, watch, why, logs, cancel, rerun, clear, approve, reject.
              tickwork runs rerun ID --from load
  dags      Steps, and changes between versions: list, show, diff.
              tickwork dags show etl --mermaid

Schedules:
  schedules list, show, next, run, pause, resume, backfill, delete.
              tickwork schedules pause report --reason "until Monday"
  apply     Create and change dags, schedules, calendars and hooks from YAML.
              tickwork apply jobs/ --prune --dry-run
  hooks     URLs at which messages of other services start jobs: list, show,
            add, remove.
              tickwork hooks add pushed --style github --secret GH --task build
  check     Find problems in dags and schedules; opens no store.
              tickwork check pipeline.yaml tasks.py
  cron      Explain a cron expression, and list its next times.
              tickwork cron explain "30 2 * * MON-FRI" --tz Europe/Berlin
  import    Import crontabs, CronJobs of Kubernetes, traces of workflows.
              tickwork import crontab /etc/crontab --system --dry-run

Access:
  keys      API keys for programs: create, list, revoke.
              tickwork keys create deploy --scope enqueue --expires 90d
  users     Users who log in: add, list, passwd, remove.
              tickwork users add ada --role admin
  secrets   Encrypted values that jobs use by name: set, list, delete.
  audit     Changes with author, time and source.

Maintain the store:
  config    The settings in force, and the source of each.
  db        upgrade, status, sql.
              tickwork db upgrade --url postgresql://user@host/database
  doctor    Check the installation, and suggest remedies.
  version   The version of Tickwork.

Options:
  --url URL  URL of the store. Default: TICKWORK_URL, else tickwork.toml,
             else the file tickwork.db in this folder.
  --help     This tour. Every command has its own, with an example.

Commands that print data take --json. Exit codes: 0 success, 1 failure,
2 wrong usage, 3 not found, 4 store unreachable.
"""

_COMMANDS = {
    "apply": "declare.apply",
    "audit": "admin.audit",
    "check": "declare.check",
    "config": "admin.config",
    "cron": "schedules.cron",
    "dags": "dags.dags",
    "db": "admin.db",
    "dead": "jobs.dead",
    "demo": "demo.demo",
    "dev": "processes.dev",
    "doctor": "admin.doctor",
    "enqueue": "jobs.enqueue",
    "gates": "limits.gates",
    "hooks": "schedules.hooks",
    "import": "declare.imports",
    "jobs": "jobs.jobs",
    "keys": "admin.keys",
    "limits": "limits.limits",
    "notify": "admin.notify",
    "queues": "jobs.queues",
    "run": "dags.run",
    "runs": "dags.runs",
    "schedules": "schedules.schedules",
    "secrets": "admin.secrets",
    "server": "processes.server",
    "tenants": "limits.tenants",
    "up": "processes.up",
    "users": "admin.users",
    "version": "version",
    "worker": "processes.worker",
    "workers": "processes.workers",
}


class LazyCommands(Group):
    """The commands. Each module has a function of its own name, and is imported when its command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = _COMMANDS[cmd_name]
        found: click.Command = getattr(import_module(f"tickwork.cli.{module}"), module.rpartition(".")[2])
        return found

    def get_help(self, ctx: click.Context) -> str:
        return TOUR.rstrip()

    def invoke(self, ctx: click.Context) -> Any:
        result = super().invoke(ctx)
        sys.stdout.flush()  # here, where a closed pipe ends the process without an error
        return result

    def main(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> None:
        """Run a command and exit with its code."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show a character is no failure
        try:
            code = super().main(args, "tickwork", complete_var, standalone_mode=False, **extra)
        except Exception as error:
            code = report(error)
        sys.exit(code if isinstance(code, int) else 0)


@click.group(cls=LazyCommands, invoke_without_command=True)
@url_option
@click.pass_context
def main(ctx: click.Context) -> None:
    log_to_stderr("%(level)s: %(message)s", logging.WARNING)
    ctx.ensure_object(Invocation)
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def report(error: Exception, environ: Mapping[str, str] = os.environ) -> int:
    """Print an error on stderr, and return its exit code."""
    if isinstance(error, click.Abort):
        return 130  # Ctrl-C: the code that a shell uses
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
    elif isinstance(error, click.UsageError):
        _say(f"{_sentence(error.format_message())} See: {_help_of(error.ctx)}")
    elif isinstance(error, click.ClickException):
        _say(error.format_message())
        return FAILURE
    elif isinstance(error, TickworkError):
        _say(str(error))
    else:
        if environ.get("TICKWORK_DEBUG"):
            traceback.print_exception(error)
        what = "".join(traceback.format_exception_only(error)).strip()
        _say(f"{what} (a bug in Tickwork). Please report it, with the traceback that TICKWORK_DEBUG=1 shows.")
    return _code(error)


def _code(error: Exception) -> int:
    """Return the exit code for an error."""
    match error:
        case click.UsageError() | InvalidInput():
            return USAGE
        case NotFound() | JobNotFound() | ScheduleNotFound() | DagNotFound() | HookNotFound() | NotificationNotFound():
            return NOT_FOUND
        case StoreUnreachable():
            return UNREACHABLE
        case _:
            return FAILURE


def _say(message: str) -> None:
    if os.environ.get("TICKWORK_LOG_FORMAT") == "json":
        from tickwork.observe.json_log import error_line

        click.echo(error_line(message), err=True)
        return
    click.echo(f"{click.style('error:', fg='red', bold=True)} {clean_lines(message)}", err=True, color=_colours())


def _colours() -> bool | None:
    return False if os.environ.get("NO_COLOR") else None


def _sentence(text: str) -> str:
    """Return a message of click in the form of Tickwork's errors: lower case at the start, a period at the end."""
    text = text[:1].lower() + text[1:]
    return text if text.endswith((".", "?")) else f"{text}."


def _help_of(ctx: click.Context | None) -> str:
    return f"{ctx.command_path if ctx else 'tickwork'} --help"
