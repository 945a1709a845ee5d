"""Load the named SQL statements of a store: one file per subject, in the folder `sql` of the store.

A file holds one statement, named after the file, or several, each under a line `-- :name`.
"""

from __future__ import annotations

import re
from importlib.resources import files

from tickwork.errors import check

_SECTION = re.compile(r"^-- :(\w+)\s*$", re.MULTILINE)


def load_statements(package: str) -> dict[str, str]:
    """Return every statement under `package`/sql, by name."""
    statements: dict[str, str] = {}
    for file in files(package).joinpath("sql").iterdir():
        if file.name.endswith(".sql"):
            found = _split(file.name.removesuffix(".sql"), file.read_text())
            twice = statements.keys() & found.keys()
            check(not twice, f"Two files of {package} have a statement of the same name: {', '.join(twice)}.")
            statements.update(found)
    return statements


def _split(verb: str, text: str) -> dict[str, str]:
    """Return the statements of one file by name."""
    _, *rest = _SECTION.split(text)
    if not rest:
        return {verb: text}
    return dict(zip(rest[::2], rest[1::2], strict=True))
