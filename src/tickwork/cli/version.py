"""`tickwork version`: print the versions of Tickwork and Python."""

from __future__ import annotations

import platform
import sys

import click

from tickwork.cli.command import Command, json_option
from tickwork.cli.output import print_json
from tickwork.version import VERSION


@click.command(cls=Command, example="tickwork version --json")
@json_option
def version(as_json: bool) -> None:
    """Print the versions of Tickwork and Python."""
    if as_json:
        print_json({"tickwork": VERSION, "python": platform.python_version(), "executable": sys.executable})
    else:
        click.echo(f"tickwork {VERSION} (Python {platform.python_version()})")
