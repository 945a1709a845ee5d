"""`tickwork doctor`: check a store and its workers for problems, and suggest remedies.

The command exits with 0 if all checks could run, whatever they found. A store that does not answer, or that is not a
Tickwork store, is an error as in all commands.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tickwork.cli.command import Command, Invocation, json_option, pass_session, url_option
from tickwork.cli.output import about, console, count_of, print_json
from tickwork.core.text.terminal_escape import clean
from tickwork.file_modes import exposed_key
from tickwork.version import VERSION

if TYPE_CHECKING:
    from rich.console import Console

    from tickwork.app import Tickwork
    from tickwork.core.job import QueueView, WorkerView
    from tickwork.store.base import StoreHealth

LATE = timedelta(minutes=1)  # a due job that waits longer causes a warning
EXPIRING = timedelta(days=14)  # a key that expires sooner causes a warning
_STUCK_LIMIT = 1000
_NAME_WIDTH = 20


@click.command(cls=Command, example="tickwork doctor\ntickwork doctor --json --url postgresql://user@host/database")
@click.option("--tls-key", metavar="FILE", help="The key that a server on this machine is given, to check it, too.")
@json_option
@url_option
@pass_session
def doctor(session: Invocation, tls_key: str | None, as_json: bool) -> None:
    """Check the store: its guarantees, versions, workers and stuck jobs, with a remedy for each problem."""
    app = session.app()
    facts, warnings = examine(app)
    if tls_key is not None and (warning := exposed_key(Path(tls_key))) is not None:
        warnings.append(warning)
    if as_json:
        print_json({"facts": {name.replace(" ", "_"): text for name, text in facts.items()}, "warnings": warnings})
        return
    out = console()
    for name, text in facts.items():
        _print_beside(out, name, text, "dim")
    click.echo()
    for warning in warnings:
        _print_beside(out, "warning", warning, "bold yellow")
    click.echo(f"{count_of(len(warnings), 'warning')}." if warnings else "No problems found.")


def examine(app: Tickwork) -> tuple[dict[str, str], list[str]]:
    """Return facts by name, and warnings with their remedies."""
    store = app.store
    health, schema = store.health(), store.schema_status()
    workers, queues, now = store.reads.workers(), store.reads.queues(), store.now()
    live = [worker for worker in workers if worker.state != "lost"]
    stuck = len(store.expired_attempts(_STUCK_LIMIT))
    facts = {
        **health.facts,
        "large results": _large_results(app),
        "schema": f"version {schema.applied[-1].number}, up to date",
        "versions": f"Tickwork {VERSION}, Python {platform.python_version()}, {platform.system()} {platform.release()}",
        "workers": _workers(live, len(workers) - len(live)),
        "stuck leases": health.facts.get("stuck leases", str(stuck)),
        "oldest due job": _oldest(queues, now),
    }
    warnings = [*health.warnings, *_warnings(health, live, queues, now, stuck)]
    warnings += [_undeclared(name) for name in app.schedules.undeclared()]
    warnings += _settings_trouble()
    return facts, [*warnings, *_key_trouble(app), *_blob_trouble(app), *_troubled(app), *_expiring(app, now)]


def _large_results(app: Tickwork) -> str:
    from tickwork.blobs import LocalBlobs
    from tickwork.core.arguments.payload import RESULT_LIMIT

    match app.blobs:
        case None:
            return f"refused over {RESULT_LIMIT:,} bytes; TICKWORK_BLOBS would name a folder that all machines share"
        case LocalBlobs(folder=folder):
            return f"over {RESULT_LIMIT:,} bytes in {folder}"
        case other:
            return f"over {RESULT_LIMIT:,} bytes in {other!r}"


def _key_trouble(app: Tickwork) -> Iterator[str]:
    if (path := app.vault.exposed_file()) is not None:
        yield (
            f"Other users of this machine may read {path}, a key to the secrets, so it is not used. "
            f"Restrict it: chmod 600 {path}"
        )


def _settings_trouble() -> Iterator[str]:
    from tickwork.config import writable_by_all

    for path in writable_by_all():
        yield (
            f"Any user of this machine may change {path}, which has the settings of this process or their file: they "
            f"choose what it runs. Take that away: chmod go-w {path}"
        )


def _blob_trouble(app: Tickwork) -> Iterator[str]:
    """Yield warnings about the folder for large results."""
    from tickwork.blobs import LocalBlobs

    trouble = app.blobs.trouble() if isinstance(app.blobs, LocalBlobs) else None
    if trouble is not None:
        yield f"Large results cannot be kept: {trouble}. Change that, or name another folder: TICKWORK_BLOBS"
    if isinstance(app.blobs, LocalBlobs) and app.blobs.exposed():
        folder = app.blobs.folder
        said = f"Other users of this machine may read or replace large results in {folder}."
        yield f"{said} Restrict it: chmod -R go= {folder}"


def _workers(live: list[WorkerView], lost: int) -> str:
    slots, busy = sum(worker.slots for worker in live), sum(worker.running for worker in live)
    text = f"{len(live)} live, {busy} of {slots} slots busy" if live else "none"
    return f"{text}; {lost} lost recently" if lost else text


def _oldest(queues: list[QueueView], now: datetime) -> str:
    due = [(one.oldest_due_at, one.name) for one in queues if one.oldest_due_at is not None]
    if not due:
        return "none is due"
    at, name = min(due)
    return f"due for {about(now - at)}, in queue {name}"


def _warnings(
    health: StoreHealth, live: list[WorkerView], queues: list[QueueView], now: datetime, stuck: int
) -> Iterator[str]:
    """Yield warnings about stuck leases, late queues and mixed versions."""
    if stuck and "stuck leases" not in health.facts and not live:
        yield (
            f"{count_of(stuck, 'attempt')} belong to workers that are gone. Their jobs start again once a worker runs: "
            f"tickwork worker MODULE_OR_FILE"
        )
    for queue in queues:
        if queue.oldest_due_at is None or now - queue.oldest_due_at < LATE:
            continue
        late = about(now - queue.oldest_due_at)
        waited = f"Queue {queue.name} has {count_of(queue.due, 'due job')}, the oldest for {late}"
        serving = [worker for worker in live if queue.name in worker.queues]
        if not serving:
            yield f"{waited}, and no worker serves it. Start one: tickwork worker MODULE_OR_FILE -q {queue.name}"
        elif sum(worker.running for worker in serving) >= sum(worker.slots for worker in serving):
            yield f"{waited}: all slots are taken. Start another worker, or give it more slots with -c."
        else:
            yield f"{waited}, though slots are free. See what one of them waits for: tickwork jobs why ID"
    others = sorted({worker.version for worker in live} - {VERSION})
    if others:
        yield f"Workers run Tickwork {', '.join(others)}, and this is {VERSION}. Use one version."


def _undeclared(name: str) -> str:
    return (
        f"Schedule {name} was declared by code, and no live worker's code declares it any more. It still fires. "
        f"Delete it: tickwork schedules delete {name}"
    )


def _troubled(app: Tickwork) -> Iterator[str]:
    """Yield warnings about schedules whose calendars are missing."""
    from tickwork.core.schedule.upcoming import missing_calendars

    calendars = app.calendars()
    for view in app.schedules.views():
        for name in missing_calendars(view.spec, calendars):
            yield f"Schedule {view.name} starts nothing: its calendar {name} is not in this store. See: tickwork apply"


def _expiring(app: Tickwork, now: datetime) -> Iterator[str]:
    """Yield warnings about API keys that expire soon."""
    for key in app.store.access.list_api_keys():
        if key.is_live and key.expires_at is not None and key.expires_at - now < EXPIRING:
            yield (
                f"The API key {key.name} expires in {about(key.expires_at - now)}. Create a replacement: "
                f"tickwork keys create NAME {' '.join(f'--scope {scope}' for scope in key.scopes)}"
            )


def _print_beside(out: Console, name: str, text: str, style: str) -> None:
    """Print a name and a text in two columns, the text wrapped on a terminal."""
    from rich.text import Text

    body = Text(clean(text))
    width = max(20, out.width - _NAME_WIDTH)
    for at, line in enumerate(body.wrap(out, width) if out.is_terminal else [body]):
        out.print(Text.assemble((f"{name if at == 0 else '':<{_NAME_WIDTH}}", style), line), soft_wrap=True)
