"""`tickwork server`: serve the REST API, and run the background services; several servers may run at the same time."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import click

from tickwork.cli.command import Command, Invocation, announce, log_to_stderr, pass_session, shown_url, url_option
from tickwork.cli.processes.child_process import end_with_parent
from tickwork.errors import InvalidInput
from tickwork.file_modes import exposed_key

TOKEN = "TICKWORK_TOKEN"
_NOBODY = (
    "no users and no API keys exist yet. Create one: tickwork users add NAME --role admin, or "
    "tickwork keys create NAME --scope admin."
)

_NO_TLS = (
    "%s can be reached from other machines, and passwords, keys and cookies go over the network as they are. Serve "
    "https: --tls-cert and --tls-key. Or where a proxy does that, say so: TICKWORK_PUBLIC_URL=https://..."
)
_log = logging.getLogger("tickwork.http")


@click.command(cls=Command, example="tickwork server\ntickwork server --host 0.0.0.0 --port 8700")
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", metavar="N", type=click.IntRange(0, 65535), default=8700, show_default=True)
@click.option("--root-path", metavar="PREFIX", default="", help="Path prefix of this server behind a proxy.")
@click.option("--tls-cert", metavar="FILE", help="Serve https with this certificate (PEM, with its chain).")
@click.option("--tls-key", metavar="FILE", help="Key of the certificate (PEM, without a password).")
@click.option("--dev", is_flag=True, hidden=True, help=f"Let {TOKEN} in, from this machine alone.")
@click.option("--with-parent", type=int, hidden=True, help="The process that started this one, to end with it.")
@url_option
@pass_session
def server(
    session: Invocation,
    host: str,
    port: int,
    root_path: str,
    tls_cert: str | None,
    tls_key: str | None,
    dev: bool,
    with_parent: int | None,
) -> None:
    """Serve the REST API, and run the services that fire schedules and reclaim lost jobs."""
    from tickwork.http.auth.access import StoreAccess, TokenAccess, is_loopback
    from tickwork.http.server import ServerOptions, Tls, serve
    from tickwork.worker.process.hide_environment import clear_start_environment

    if (tls_cert is None) != (tls_key is None):
        raise click.UsageError("--tls-cert and --tls-key go together: a certificate and its key.")
    tls = None if tls_cert is None or tls_key is None else Tls(tls_cert, tls_key)

    clear_start_environment()
    log_to_stderr("%(asctime)s %(level)-7s %(message)s", logging.INFO)
    if with_parent is not None:
        end_with_parent(with_parent)
    if dev and not is_loopback(host):
        raise InvalidInput(f"--dev lets a token do everything, and {host} can be reached from other machines.")
    app = session.app(create=True)
    nobody = not dev and not app.store.access.has_access()
    if nobody and not is_loopback(host):
        raise InvalidInput(f"{host} can be reached from other machines, and {_NOBODY}")
    if tls is not None and (warning := exposed_key(Path(tls.key))) is not None:
        _log.warning(warning)
    if tls is None and not is_loopback(host) and not (app.settings.public_url or "").startswith("https:"):
        _log.warning(_NO_TLS, host)

    def started(address: str) -> None:
        announce(
            {
                "server": f"{address}{f'/#token={os.environ[TOKEN]}' if dev else ''}",
                "store": app.store.health().facts.get("store", shown_url(app.url)),
                **({"access": _NOBODY} if nobody else {}),
            }
        )

    access = StoreAccess(app, TokenAccess(os.environ[TOKEN]) if dev else None)
    serve(app, access, ServerOptions(host, port, root_path, tls), started)
