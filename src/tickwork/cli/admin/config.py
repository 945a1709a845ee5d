"""`tickwork config`: print the settings in force, and the source of each."""

from __future__ import annotations

import click

from tickwork.cli.command import Command, Invocation, json_option, pass_session, url_option
from tickwork.cli.output import print_json, print_table


@click.command(cls=Command, example="tickwork config\nTICKWORK_LEASE=1m tickwork config --json")
@click.argument("target", metavar="[MODULE_OR_FILE]", required=False)
@json_option
@url_option
@pass_session
def config(session: Invocation, target: str | None, as_json: bool) -> None:
    """Show the settings in force, and where each was set; with a module or file, the settings of its app.

    Passwords are masked. No store is opened.
    """
    from tickwork.config import effective_settings, find_settings

    if target is None:
        settings, sources = find_settings({"url": session.url})
    else:
        app = session.declared(target)
        settings, sources = app.settings, app.settings_from
    found = effective_settings(settings, sources)
    if as_json:
        print_json(
            [
                {
                    "name": one.name,
                    "value": value,
                    "source": source,
                    "default": one.default,
                    "variable": one.variable,
                    "description": one.description,
                }
                for one, value, source in found
            ]
        )
        return
    print_table(["SETTING", "VALUE", "SOURCE"], [[one.name, value or "-", source] for one, value, source in found])
