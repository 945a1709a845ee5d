"""`tickwork dev`: a server and a worker for development, restarted when a file changes.

This process runs no user code: it watches files and owns two child processes, a server, which keeps running, and a
worker, which is restarted. SIGTERM or Ctrl-C ends the whole tree within ten seconds.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

import click

from tickwork.cli.command import FAILURE, Command, Invocation, pass_session, url_option
from tickwork.cli.processes.child_process import ChildProcess, stop_event
from tickwork.cli.processes.server import TOKEN
from tickwork.cli.processes.worker import BUILTIN
from tickwork.core.text.terminal_escape import clean

LOOK_S = 0.5
DRAIN_S, INSIST_S = 3.0, 3.0  # with the time to kill, this is below the promised ten seconds
RELOAD_DRAIN_S = 2.0
_FILES_LIMIT = 10_000
_SKIPPED = {"__pycache__", "node_modules", "site-packages"}


@click.command(cls=Command, example="tickwork dev shop.py\ntickwork dev shop.tasks:app -c 4")
@click.argument("target", metavar="[MODULE_OR_FILE]", required=False)
@click.option("-c", "--concurrency", metavar="N", type=click.IntRange(min=1), help="Slots in all. Default 10.")
@click.option(
    "--processes", metavar="N", type=click.IntRange(min=1), default=1, show_default=True, help="Child processes."
)
@click.option(
    "--port", metavar="N", type=click.IntRange(0, 65535), default=8700, show_default=True, help="Port of the server."
)
@url_option
@pass_session
def dev(session: Invocation, target: str | None, concurrency: int | None, processes: int, port: int) -> None:
    """Serve the API on this machine and run the tasks of a file; restart the worker when Python files change.

    Python files in the folder of the file (for a module, in the current folder) and below are watched.

    Without a file, only the built-in tasks run. Commands (the task shell) are allowed here, unless builtin_off lists
    shell. A token for the API is generated at each start, unless TICKWORK_TOKEN sets one.
    """
    from tickwork.config import load_settings
    from tickwork.core.access.scopes import RUNS_COMMANDS
    from tickwork.worker.process.hide_environment import clear_start_environment

    clear_start_environment()
    if session.url is not None:
        os.environ["TICKWORK_URL"] = session.url
    # Compiled files identify their source by its time in seconds: a second change within one second would not be seen.
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    arguments = ["worker", target or BUILTIN, "--processes", str(processes), "--grace", f"{DRAIN_S}s"]
    arguments += [] if concurrency is None else ["-c", str(concurrency)]
    arguments += [] if load_settings({}).is_off(RUNS_COMMANDS) else ["--allow-shell"]
    os.environ[TOKEN] = os.environ.get(TOKEN) or secrets.token_urlsafe(32)
    stopped = stop_event()
    parts = _DevProcesses(["server", "--dev", "--port", str(port)], arguments)
    try:
        watch(parts, None if target is None else folder_of(target), stopped)
    finally:
        parts.stop(DRAIN_S)
        parts.server.stop(drain_s=DRAIN_S, insist_s=INSIST_S)


def watch(parts: _DevProcesses, folder: Path | None, stopped: threading.Event) -> None:
    """Keep the processes running until told to stop; restart the worker when a file in the folder changes."""
    seen = {} if folder is None else fingerprint(folder)
    parts.start()
    while not stopped.wait(LOOK_S):
        now = {} if folder is None else fingerprint(folder)
        if now != seen:
            _say(f"{_changed(seen, now)} changed: restarting")
            parts.stop(RELOAD_DRAIN_S)
            seen = now
            parts.start()
        elif (code := parts.server.ended()) is not None:
            raise click.exceptions.Exit(code if code > 0 else FAILURE)
        elif (code := parts.failed()) is not None:
            if folder is None or code > FAILURE:
                raise click.exceptions.Exit(code if code > 0 else FAILURE)  # no change of a file could help
            _say("waiting for a file to change")


class _DevProcesses:
    """The processes of `tickwork dev`: the worker, and the server, which imports no user code and is not restarted."""

    def __init__(self, server: list[str], worker: list[str]) -> None:
        self.server = ChildProcess(server)
        self._command = worker
        self._worker: ChildProcess | None = None

    def start(self) -> None:
        self._worker = ChildProcess(self._command)

    def failed(self) -> int | None:
        """Return the exit code of a worker that ended by itself, once; else None."""
        code = None if self._worker is None else self._worker.ended()
        if code is not None:
            self._worker = None
        return code

    def stop(self, drain_s: float) -> None:
        if self._worker is not None:
            self._worker.stop(drain_s=drain_s, insist_s=INSIST_S)
        self._worker = None


def folder_of(target: str) -> Path:
    """Return the folder to watch: the folder of the target file, else the current one."""
    where = target.partition(":")[0]
    return Path(where).resolve().parent if where.endswith(".py") else Path.cwd()


def fingerprint(folder: Path) -> dict[str, int]:
    """Return the modification time of each Python file below a folder. Hidden folders and environments are left out."""
    found: dict[str, int] = {}
    for path in _python_files(str(folder)):
        try:
            found[path] = os.stat(path).st_mtime_ns
        except OSError:  # it was removed just now
            continue
        if len(found) >= _FILES_LIMIT:
            break
    return found


def _python_files(folder: str) -> Iterator[str]:
    for where, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if _matters(where, name)]
        yield from (os.path.join(where, name) for name in files if name.endswith(".py"))


def _matters(where: str, name: str) -> bool:
    if name.startswith(".") or name in _SKIPPED:
        return False
    return not os.path.exists(os.path.join(where, name, "pyvenv.cfg"))


def _changed(before: dict[str, int], now: dict[str, int]) -> str:
    paths = sorted({path for path, _ in before.items() ^ now.items()})
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{os.path.relpath(paths[0])}{more}"


def _say(text: str) -> None:
    click.secho(f"dev: {clean(text)}", err=True, dim=True)
