"""Settings: arguments over environment over tickwork.toml (or [tool.tickwork] of pyproject.toml) over defaults."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import Any

from tickwork.core.duration import parse_duration
from tickwork.errors import InvalidInput

_NAMESPACE = re.compile(r"[a-z][a-z0-9_]{0,29}")
_PASSWORD = re.compile(r"([?&][^=&]*(?:password|passphrase|secret|token)[^=&]*=)[^&#]*", re.IGNORECASE)
_MOST_CONNECTIONS = 1000
DEFAULT_URL = "sqlite:///tickwork.db"


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the store is and how to reach it. `blobs`: a folder for results too large for it, or `module:object`.

    A namespace is a store of its own beside the others: a file `tickwork.NAME.db`, a schema `tickwork_NAME`. So nothing
    in one can be seen from another, whatever a query forgets.

    `http_allow`: hosts and networks that workers reach for the tasks `http` and `smtp`, besides public ones. `http_ca`:
    a file with the certificates that they trust. `public_url`: where people find the server, for links.
    `canary`: how often a server has a job made that does nothing, to measure how soon it starts.
    `pool_size` and `user_pool_size`: how many PostgreSQL connections one process may have, for Tickwork's own calls and
    for `app.connection()`. `pool_idle`: after how long without use a connection is closed.
    """

    url: str = DEFAULT_URL
    driver: str = "apsw"
    schema: str = "tickwork"
    listen_url: str | None = None
    blobs: str | None = None
    http_allow: str | None = None
    http_ca: str | None = None
    public_url: str | None = None
    canary: str | None = None
    namespace: str | None = None
    pool_size: str = "8"
    user_pool_size: str = "20"
    pool_idle: str = "10s"

    @property
    def pool_sizes(self) -> tuple[int, int, timedelta]:
        """`pool_size`, `user_pool_size` and `pool_idle` as values. Raises InvalidInput."""
        idle = parse_duration(self.pool_idle, what="pool_idle")
        if not timedelta(seconds=1) <= idle <= timedelta(days=1):
            raise InvalidInput(f"pool_idle must be from 1s to 1d, not {self.pool_idle!r}.")
        return _count("pool_size", self.pool_size), _count("user_pool_size", self.user_pool_size), idle

    @property
    def place(self) -> str:
        """The URL of the store of this namespace."""
        path = sqlite_path(self.url)
        if path is None or self.namespace is None:
            return self.url
        file = Path(path)
        return f"sqlite:///{file.with_name(f'{file.stem}.{self.namespace}{file.suffix}')}"

    @property
    def home(self) -> str:
        """The schema of this namespace, in a PostgreSQL database."""
        return self.schema if self.namespace is None else f"{self.schema}_{self.namespace}"


def _count(name: str, text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_CONNECTIONS:
        raise InvalidInput(f"{name} must be a whole number from 1 to {_MOST_CONNECTIONS}, not {text!r}.")
    return int(text)


def load_settings(given: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings; a name that is unknown in a file, or a value that is not a text, is refused."""
    return find_settings(given, environ)[0]


def find_settings(
    given: Mapping[str, Any], environ: Mapping[str, str] | None = None
) -> tuple[Settings, dict[str, str]]:
    """As load_settings, and where each is said that is: "argument", the name of a variable, or a file."""
    environ = os.environ if environ is None else environ
    values, file = _from_file(Path.cwd())
    sources = dict.fromkeys(values, file)
    for field in fields(Settings):
        variable = f"TICKWORK_{field.name.upper()}"
        value = from_environment(variable, environ)
        if value is not None:
            values[field.name] = value
            sources[field.name] = variable if environ.get(variable) else f"{variable}_FILE"
    said = {name: value for name, value in given.items() if value is not None}
    values.update(said)
    sources.update(dict.fromkeys(said, "argument"))
    return _checked(Settings(**values)), sources


def _checked(settings: Settings) -> Settings:
    if settings.driver not in {"apsw", "sqlite3"}:
        raise InvalidInput(f"driver must be 'apsw' or 'sqlite3', not {settings.driver!r}.")
    if settings.namespace is not None and not _NAMESPACE.fullmatch(settings.namespace):
        raise InvalidInput(
            f"{settings.namespace!r} cannot name a namespace: up to 30 of a-z, 0-9 and _, a letter first."
        )
    _ = settings.pool_sizes  # refuses what is none
    return settings


def masked(url: str) -> str:
    """A URL without the passwords that are in it, before its host or among its parameters."""
    scheme, separator, rest = url.partition("://")
    place, at, host = rest.rpartition("@")
    user, colon, _ = place.partition(":")
    return _PASSWORD.sub(r"\1***", f"{scheme}{separator}{user}{':***' if colon else ''}{at}{host}")


def sqlite_path(url: str) -> str | None:
    """The file of a sqlite:/// URL (three slashes: relative, four: absolute); None when it is not one."""
    prefix = "sqlite:///"
    if not url.startswith("sqlite:"):
        return None
    if not url.startswith(prefix) or len(url) == len(prefix):
        raise InvalidInput(f"{url!r} names no file. Write sqlite:///tickwork.db, or sqlite:////var/lib/tickwork.db.")
    path = url.removeprefix(prefix)
    if path == ":memory:":
        raise InvalidInput(
            "a store in memory would lose every job with its process. Name a file: sqlite:///tickwork.db"
        )
    return path


def from_environment(name: str, environ: Mapping[str, str]) -> str | None:
    """What a variable says, or the file that it names with _FILE at its end; None when neither is there."""
    if environ.get(name):
        return environ[name]
    file = environ.get(f"{name}_FILE")  # secrets are often mounted as files
    if not file:
        return None
    try:
        return Path(file).read_text().strip()
    except OSError as error:
        raise InvalidInput(f"{name}_FILE names {file}, which cannot be read: {error.strerror}.") from error


def _from_file(start: Path) -> tuple[dict[str, Any], str]:
    """The settings of the nearest file, here or in a folder above, and which that is."""
    for folder in (start, *start.parents):
        for name, table in (("tickwork.toml", ()), ("pyproject.toml", ("tool", "tickwork"))):
            found = _table(folder / name, table)
            if found is not None:
                return found, str(folder / name)
    return {}, ""


def _table(path: Path, names: tuple[str, ...]) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    try:
        table: Any = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}.") from error
    for name in names:
        table = table.get(name)
        if table is None:
            return None
    known = {field.name for field in fields(Settings)}
    for name, value in table.items():
        if name not in known or not isinstance(value, str):
            raise InvalidInput(
                f"{path}: {name!r} is not a setting with a text value. The settings are {', '.join(sorted(known))}."
            )
    return dict(table)
