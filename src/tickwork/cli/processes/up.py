"""`tickwork up`: run a server and a worker on one machine, for production; when one of them ends, so does the other.

Nothing is restarted here: the service manager (systemd, a container's restart policy) restarts both.
"""

from __future__ import annotations

import os

import click

from tickwork.cli.command import FAILURE, Command, Invocation, pass_session, url_option
from tickwork.cli.processes.child_process import ChildProcess, stop_event
from tickwork.cli.processes.worker import BUILTIN

LOOK_S = 0.5
INSIST_S = 5.0
STOP_S = 10.0  # for the server, after the worker has ended


@click.command(
    cls=Command, example="tickwork up shop.py\ntickwork up shop.tasks:app --host 0.0.0.0 -c 20 --processes 4"
)
@click.argument("target", metavar="[MODULE_OR_FILE]", required=False)
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Where the server listens.")
@click.option("--port", metavar="N", type=click.IntRange(0, 65535), default=8700, show_default=True)
@click.option("--tls-cert", metavar="FILE", help="Serve https with this certificate (PEM, with its chain).")
@click.option("--tls-key", metavar="FILE", help="Key of the certificate (PEM, without a password).")
@click.option("-c", "--concurrency", metavar="N", type=click.IntRange(min=1), help="Slots of the worker. Default 10.")
@click.option("--processes", metavar="N|LOW..HIGH", help="Child processes. Default: one for each core.")
@click.option("--grace", metavar="SECONDS", type=click.IntRange(min=0), default=20, show_default=True)
@click.option("--allow-shell", is_flag=True, help="Run the task shell, too: commands as this user.")
@click.option("--run-as", metavar="USER", help="Run commands as this user. Requires root.")
@url_option
@pass_session
def up(
    session: Invocation,
    target: str | None,
    host: str,
    port: int,
    tls_cert: str | None,
    tls_key: str | None,
    concurrency: int | None,
    processes: str | None,
    grace: int,
    allow_shell: bool,
    run_as: str | None,
) -> None:
    """Serve the API and run the tasks of a module or file, until told to stop.

    SIGTERM or Ctrl-C: running jobs finish within the grace period, then everything ends.
    """
    from tickwork.worker.process.hide_environment import clear_start_environment

    clear_start_environment()
    if session.url is not None:
        os.environ["TICKWORK_URL"] = session.url
    worker = ["worker", target or BUILTIN, "--grace", f"{grace}s"]
    worker += [] if concurrency is None else ["-c", str(concurrency)]
    worker += [] if processes is None else ["--processes", processes]
    worker += ["--allow-shell"] if allow_shell else []
    worker += [] if run_as is None else ["--run-as", run_as]
    server = ["server", "--host", host, "--port", str(port)]
    server += [] if tls_cert is None else ["--tls-cert", tls_cert]
    server += [] if tls_key is None else ["--tls-key", tls_key]
    stopped = stop_event()
    parts = [ChildProcess(server), ChildProcess(worker)]
    code: int | None = None
    while code is None and not stopped.wait(LOOK_S):
        code = next((ended for part in parts if (ended := part.ended()) is not None), None)
    serving, working = parts
    working.stop(drain_s=grace + INSIST_S, insist_s=INSIST_S)
    serving.stop(drain_s=STOP_S, insist_s=INSIST_S)
    if code is not None:
        raise click.exceptions.Exit(code if code > 0 else FAILURE)
