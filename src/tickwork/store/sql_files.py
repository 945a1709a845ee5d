"""Read the SQL files of a store: a file for each subject, in the folder `sql` beside the store.

A file holds one statement, known by the file's name, or several, each under a line `-- :name`.
"""

from __future__ import annotations

import re
from importlib.resources import files

from tickwork.errors import check

_SECTION = re.compile(r"^-- :(\w+)\s*$", re.MULTILINE)


def load_statements(package: str) -> dict[str, str]:
    """Read every statement under `package`/sql, by name."""
    statements: dict[str, str] = {}
    for file in files(package).joinpath("sql").iterdir():
        if file.name.endswith(".sql"):
            found = _split(file.name.removesuffix(".sql"), file.read_text())
            twice = statements.keys() & found.keys()
            check(not twice, f"Two files of {package} have a statement of the same name: {', '.join(twice)}.")
            statements.update(found)
    return statements


def _split(verb: str, text: str) -> dict[str, str]:
    _, *rest = _SECTION.split(text)
    if not rest:
        return {verb: text}
    return dict(zip(rest[::2], rest[1::2], strict=True))
