"""`tickwork demo`: run a small shop on its own store, with a real worker and server. No setup is needed.

Worker and server are ordinary process trees. The screen shows data read from the store. When the demo ends, no process
and no file is left.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import click

from tickwork.cli.command import Command
from tickwork.cli.processes.child_process import ChildProcess, stop_event
from tickwork.clock import SystemClock
from tickwork.errors import WorkerError

if TYPE_CHECKING:
    from tickwork.cli.demo.customers import Shop
    from tickwork.cli.demo.demo_snapshot import DemoCounts, DemoSnapshot
    from tickwork.cli.demo.server import DemoServer

_TASKS = "tickwork.cli.demo.shop_tasks"
_LOOK_S = {True: 0.5, False: 1.0}  # on a terminal, and in a pipe
_DRAIN_S, _INSIST_S = 2.0, 3.0

Show = Callable[["DemoSnapshot", float], None]


@click.command(cls=Command, example="tickwork demo\ntickwork demo --no-open")
@click.option("--no-open", is_flag=True, help="Print the URL of the web UI, and open no browser.")
@click.option("--seconds", type=float, hidden=True, help="End by itself after so long.")
def demo(no_open: bool, seconds: float | None) -> None:
    """Watch real jobs run, in a browser and here: retries, progress, dags, schedules, limits, dead letters.

    The demo uses a SQLite file of its own, needs no setup and leaves nothing behind. Ctrl-C ends it.
    """
    stopped = stop_event()
    folder = Path(tempfile.mkdtemp(prefix="tickwork-demo-"))
    try:
        _run(folder, stopped, seconds, opens=sys.stdout.isatty() and not no_open)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    click.echo(f"Ended. {folder} is removed.")


def _run(folder: Path, stopped: threading.Event, seconds: float | None, *, opens: bool) -> None:
    """Start the worker and the server, run the shop, and show it until stopped."""
    path = folder / "demo.db"
    url = f"sqlite:///{path}"
    os.environ.update(TICKWORK_URL=url, TICKWORK_DRIVER="apsw")  # before the import of the tasks, whose app reads them
    click.echo(f"The store is {path} while the demo runs.")
    with ExitStack() as stack:
        from tickwork.cli.demo.customers import Shop
        from tickwork.cli.demo.demo_snapshot import DemoCounts
        from tickwork.cli.demo.server import DemoServer
        from tickwork.cli.demo.shop_tasks import app

        stack.callback(app.close)
        _ = app.store  # create the store now, so that it can be read
        log = stack.enter_context(open(folder / "worker.log", "w+b"))
        grace = f"{_DRAIN_S}s"
        worker = ChildProcess(["worker", _TASKS, "--processes", "2", "--grace", grace], output=log)
        stack.callback(lambda: worker.stop(drain_s=_DRAIN_S, insist_s=_INSIST_S))
        server = DemoServer(folder / "server.log", opens=opens)
        stack.callback(server.stop)
        watch = DemoCounts(app.client, str(path))
        stack.callback(watch.close)
        show = stack.enter_context(_screen(url, server) if sys.stdout.isatty() else _lines(server))
        for picture, passed in _pictures(Shop(Random()), watch, stopped, seconds):
            _check(worker.ended(), folder / "worker.log")
            _check(server.ended(), folder / "server.log")
            show(picture, passed)


def _check(code: int | None, log: Path) -> None:
    """Raise WorkerError if a process of the demo has ended."""
    if code is not None:
        raise WorkerError(f"the demo's {log.stem} ended with code {code}. It said:\n{_tail(log)}")


def _pictures(
    shop: Shop, watch: DemoCounts, stopped: threading.Event, seconds: float | None
) -> Iterator[tuple[DemoSnapshot, float]]:
    """Run the shop and yield snapshots of it, with the seconds since the start, until stopped or out of time."""
    clock, interval = SystemClock(), _LOOK_S[sys.stdout.isatty()]
    began = looked = next_tick = clock.monotonic()
    while seconds is None or clock.monotonic() - began < seconds:
        if clock.monotonic() >= next_tick:
            shop.tick()
            next_tick += 1.0
        now = clock.monotonic()
        yield watch.look(now - looked), now - began
        looked = now
        if stopped.wait(interval):
            return


@contextmanager
def _screen(url: str, server: DemoServer) -> Iterator[Show]:
    """Show snapshots on a live screen."""
    from rich.live import Live

    from tickwork.cli.demo.screen import screen
    from tickwork.cli.output import console

    out, commands = console(), _commands(url)
    with Live(console=out, auto_refresh=False) as live:
        yield lambda picture, seconds: live.update(screen(picture, out, seconds, server.look(), commands), refresh=True)


@contextmanager
def _lines(server: DemoServer) -> Iterator[Show]:
    """Print a line for each snapshot, and the address of the web UI once it is known."""
    from tickwork.cli.demo.screen import line

    told = False

    def show(picture: DemoSnapshot, seconds: float) -> None:
        nonlocal told
        address = server.look()
        if address is not None and not told:
            click.echo(f"The web UI is {address}")
            told = True
        click.echo(line(picture, seconds))
        sys.stdout.flush()

    yield show


def _commands(url: str) -> list[str]:
    """Return commands to type in another terminal; with a path if the shell would not find this command."""
    found = shutil.which("tickwork")
    mine = Path(sys.argv[0]).absolute()
    name = "tickwork" if found and Path(found).absolute() == mine else os.path.relpath(mine)
    if not name.endswith("tickwork"):
        name = f"{sys.executable} -m tickwork"
    return [f"export TICKWORK_URL={url}", f"{name} jobs list      {name} dead list      {name} doctor"]


def _tail(path: Path) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-20:])
