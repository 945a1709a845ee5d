"""Read files with declarations for `apply` and `check`, and warn of parts that will not work yet."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tickwork.core.text.terminal_escape import clean
from tickwork.errors import InvalidInput

if TYPE_CHECKING:
    from tickwork.declare.document_nodes import Known
    from tickwork.declare.read_declarations import DeclaredWork

_SUFFIXES = (".yaml", ".yml", ".json")
_FILE_LIMIT = 16 * 1024 * 1024  # bytes; a dag of 100,000 steps takes less


def shown_file(file: str) -> str:
    return "<stdin>" if file == "-" else file


def read_file(file: str, known: Known) -> DeclaredWork:
    """Return what a file declares. Raises InvalidInput if it cannot be read, BadFile for problems in it."""
    from tickwork.declare.read_declarations import read_declared

    return read_declared(_text(file), known, file=shown_file(file))


def read_files(path: str, known: Known) -> DeclaredWork:
    """Return what a file declares, or all files of a folder together. Raises InvalidInput, and BadFile."""
    from tickwork.declare.read_declarations import read_all_declared

    if not Path(path).is_dir():
        return read_file(path, known)
    files = sorted(one for one in Path(path).iterdir() if one.suffix in _SUFFIXES and one.is_file())
    if not files:
        raise InvalidInput(f"{path} has no files that end with {', '.join(_SUFFIXES)}.")
    return read_all_declared({str(file): _text(str(file)) for file in files}, known)


def remarks_on(found: DeclaredWork, stored: Collection[str] = ()) -> list[str]:
    """Return warnings: secrets that are neither in the store nor set here, and a `dst` without effect."""
    from tickwork.config import load_settings
    from tickwork.core.access.secret_policy import secret_variables

    here = {*secret_variables(os.environ, load_settings({}).secret_env), *stored}
    unset = {name: where for name, where in found.secrets.items() if name not in here}
    idle = {spec.name: spec.rule.idle_dst for spec in found.all_specs}
    return [
        *(
            f"{where}: the secret {name} is not set here: neither in a store, nor as a variable that secret_env allows."
            for name, where in unset.items()
        ),
        *(f"schedule {name}: {said}." for name, said in idle.items() if said is not None),
    ]


def print_remarks(remarks: list[str]) -> None:
    """Print warnings on stderr, apart from machine-readable output."""
    for remark in remarks:
        click.secho(f"warning: {clean(remark)}", err=True, fg="yellow")


def _text(file: str) -> str:
    """Return the text of a file or of stdin. Raises InvalidInput."""
    from tickwork.importers.result import check_size

    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        check_size(data, file, limit=_FILE_LIMIT)
        return data.decode()
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{file} is not a text in UTF-8.") from None
