"""`tickwork version`: print the versions of Tickwork and Python."""

from __future__ import annotations

import platform
import sys

import click

from tickwork.cli.command import Command, json_option
from tickwork.cli.output import print_result
from tickwork.version import VERSION


@click.command(cls=Command, example="tickwork version --json")
@json_option
def version(as_json: bool) -> None:
    """Print the versions of Tickwork and Python."""
    found = {"tickwork": VERSION, "python": platform.python_version(), "executable": sys.executable}
    print_result(as_json, found, f"tickwork {VERSION} (Python {platform.python_version()})")
