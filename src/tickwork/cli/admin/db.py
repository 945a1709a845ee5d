"""`tickwork db`: create and upgrade the tables of a store, show their version, or print their SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tickwork.cli.command import Group, Invocation, json_option, pass_session, shown_url, url_option
from tickwork.cli.output import count_of, print_json, print_result, print_table
from tickwork.errors import InvalidInput

if TYPE_CHECKING:
    from tickwork.store.migrate import Migration


@click.group(cls=Group, example="tickwork db upgrade --url postgresql://user@host/database\ntickwork db status")
def db() -> None:
    """Manage the tables of the store: upgrade them, show their migrations, or print their SQL."""


@db.command("upgrade", example="tickwork db upgrade --url postgresql://user@host/database")
@click.option("--adopt", is_flag=True, help="Allow a SQLite file that has tables of other programs.")
@json_option
@url_option
@pass_session
def upgrade(session: Invocation, adopt: bool, as_json: bool) -> None:
    """Apply the missing migrations in one transaction. Safe to repeat, and to run twice at the same time."""
    app = session.app(create=True, adopt=adopt)
    applied = app.store.upgrade()
    version = app.store.schema_status().applied[-1].number
    lines = [f"Applied {one.number} ({one.name})." for one in applied]
    said = "\n".join([*lines, f"{shown_url(app.url)} is up to date, at version {version}."])
    print_result(as_json, {"applied": [_plain(one, "applied") for one in applied], "version": version}, said)


@db.command("status", example="tickwork db status --json")
@json_option
@url_option
@pass_session
def status(session: Invocation, as_json: bool) -> None:
    """List the migrations of the store. Changes nothing; exits with 1 if an upgrade is needed."""
    app = session.app()
    found = app.store.schema_status()
    steps = [*(_plain(one, "applied") for one in found.applied), *(_plain(one, "pending") for one in found.pending)]
    if as_json:
        print_json({"url": shown_url(app.url), "up_to_date": not found.pending, "migrations": steps})
    else:
        print_table([">VERSION", "NAME", "STATE"], [list(map(str, one.values())) for one in steps])
    if found.pending:
        missing = count_of(len(found.pending), "migration")
        raise click.ClickException(f"{shown_url(app.url)} lacks {missing}. Apply: tickwork db upgrade")


@db.command("sql", example="tickwork db sql --url postgresql:// | psql database")
@url_option
@pass_session
def sql(session: Invocation) -> None:
    """Print the schema as SQL, to apply it yourself. Connects to no database."""
    from tickwork.config import load_settings

    settings = load_settings({"url": session.url})
    if settings.url.startswith("sqlite:"):
        from tickwork.store.sqlite.file.file import schema_script as sqlite_script

        click.echo(sqlite_script())
    elif settings.url.startswith(("postgresql:", "postgres:")):
        try:
            from tickwork.store.postgres.schema import schema_script
        except ImportError as error:
            raise InvalidInput('PostgreSQL needs its driver: pip install "tickwork[postgres]"') from error
        click.echo(schema_script(settings.home))
    else:
        raise InvalidInput("give the store: --url sqlite:///tickwork.db, or --url postgresql://host/database")


def _plain(one: Migration, state: str) -> dict[str, str | int]:
    return {"number": one.number, "name": one.name, "state": state}
