"""Settings. Arguments override the environment, which overrides tickwork.toml (or [tool.tickwork] of pyproject.toml).

The fields of `Settings` are the only table of settings: name, kind, default and description. Values are texts, as in
the environment. docs/settings.md, `tickwork config`, `GET /config` and the settings page of the UI follow it.
"""

from __future__ import annotations

import os
import pwd
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, cast

from tickwork.core.access.scopes import BUILT_IN
from tickwork.core.access.secret_policy import read_passed, read_variables
from tickwork.core.retention import Retention, read_retention
from tickwork.core.text.duration import format_duration, parse_duration
from tickwork.core.text.mask_url import masked, passwords_in
from tickwork.core.web.addresses import read_proxies
from tickwork.errors import InvalidInput
from tickwork.file_modes import exposed

_NAMESPACE = re.compile(r"[a-z][a-z0-9_]{0,29}")
_MOST_CONNECTIONS = 1000
_MOST_CLIENTS = 1_000_000
DEFAULT_URL = "sqlite:///tickwork.db"


Kind = Literal["text", "URL", "duration", "number", "rules"]
LEAST_LEASE = timedelta(seconds=2)
LEAST_REAP = timedelta(milliseconds=100)


@dataclass(frozen=True, slots=True)
class Setting:
    """A row of the table of settings."""

    name: str
    kind: Kind
    default: str | None
    description: str

    @property
    def variable(self) -> str:
        """The environment variable of the setting."""
        return f"TICKWORK_{self.name.upper()}"


def setting(default: Any, kind: Kind, description: str) -> Any:
    """Return a dataclass field for a setting."""
    return field(default=default, metadata={"kind": kind, "description": description})


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings in force.

    A namespace is a separate store: a file `tickwork.NAME.db`, or a schema `tickwork_NAME`. A query therefore cannot
    read data of another namespace, even if it lacks a filter.
    """

    url: str = setting(DEFAULT_URL, "URL", "The address of the store: `sqlite:///FILE` or `postgresql://...`.")
    driver: str = setting("apsw", "text", "The library that opens a SQLite file: `apsw` or `sqlite3`.")
    schema: str = setting("tickwork", "text", "The schema of the tables in a PostgreSQL database.")
    listen_url: str | None = setting(
        None, "URL", "A direct connection to PostgreSQL for LISTEN, if `url` names a pooler that does not support it."
    )
    blobs: str | None = setting(
        None, "text", "A folder for results that are too large for the store, or `module:object`."
    )
    http_allow: str | None = setting(
        None, "text", "Hosts and networks that the tasks `http` and `smtp` may reach in addition to public ones."
    )
    http_ca: str | None = setting(None, "text", "A file with the certificates that these tasks trust.")
    command_env: str | None = setting(
        None, "text", "Variables of a worker that its commands (the task `shell`) get besides the usual ones."
    )
    public_url: str | None = setting(None, "URL", "The address of the server for people, used in links in messages.")
    audit_sink: str | None = setting(
        None, "URL", "The target of a copy of the audit log as JSON lines: `file:///PATH`, `syslog:` or `https://...`."
    )
    trusted_proxies: str = setting(
        "127.0.0.1, ::1",
        "text",
        "Addresses and networks of proxies whose `X-Forwarded-For` and `-Proto` a server accepts, or `none`.",
    )
    secret_env: str | None = setting(
        None, "text", "Environment variables that may be used as secrets: names, or prefixes as in `SMTP_*`."
    )
    builtin_off: str | None = setting(
        None, "text", "Built-in tasks that workers do not run: `http`, `smtp`, `shell`; of one namespace: `red:http`."
    )
    canary: str | None = setting(
        None, "duration", "How often a server enqueues a job that does nothing, to measure how soon it starts."
    )
    namespace: str | None = setting(None, "text", "The name of a separate store at the same URL.")
    lease: str = setting(
        "30s",
        "duration",
        "How long a worker holds its jobs without a heartbeat; at least 2 s. After that other workers take them. "
        "Also the default for leases over REST.",
    )
    heartbeat: str | None = setting(
        None, "duration", "How often a worker renews its lease; less than half of it. By default a third."
    )
    reap_interval: str = setting(
        "2s", "duration", "How often workers and servers look for expired leases; at least 100 ms."
    )
    retention: str = setting(
        "7d, failed=30d", "rules", "How long ended jobs are kept, by state, queue and task: see Retention below."
    )
    pool_size: str = setting(
        "8", "number", "How many PostgreSQL connections one process may have for Tickwork's own calls."
    )
    user_pool_size: str = setting(
        "20", "number", "How many PostgreSQL connections one process may have for `app.connection()`."
    )
    pool_idle: str = setting(
        "10s", "duration", "How long an unused PostgreSQL connection stays open; from 1 s to 1 day."
    )
    connections: str | None = setting(
        None,
        "number",
        "How many clients may be connected to a server at once: at most the limit of open files less 128. "
        "By default that, but not more than 2,000, or 1,000 if the server speaks TLS itself.",
    )
    connections_per_address: str | None = setting(
        None, "number", "How many of them may come from one address. By default half of `connections`."
    )

    @property
    def connection_caps(self) -> tuple[int | None, int | None]:
        """`connections` and `connections_per_address` as numbers. Raises InvalidInput."""
        caps = {"connections": self.connections, "connections_per_address": self.connections_per_address}
        total, per_address = (
            None if text is None else _count(name, text, _MOST_CLIENTS) for name, text in caps.items()
        )
        return total, per_address

    @property
    def pool_sizes(self) -> tuple[int, int, timedelta]:
        """`pool_size`, `user_pool_size` and `pool_idle` as values. Raises InvalidInput."""
        idle = parse_duration(self.pool_idle, what="pool_idle")
        if not timedelta(seconds=1) <= idle <= timedelta(days=1):
            raise InvalidInput(f"pool_idle must be from 1s to 1d, not {self.pool_idle!r}.")
        return _count("pool_size", self.pool_size), _count("user_pool_size", self.user_pool_size), idle

    @property
    def place(self) -> str:
        """The URL of the store, with the namespace applied."""
        path = sqlite_path(self.url)
        if path is None or self.namespace is None:
            return self.url
        file = Path(path)
        return f"sqlite:///{file.with_name(f'{file.stem}.{self.namespace}{file.suffix}')}"

    @property
    def home(self) -> str:
        """The PostgreSQL schema of the namespace."""
        return self.schema if self.namespace is None else f"{self.schema}_{self.namespace}"

    def lease_times(self, lease: str | timedelta | None = None, *, least: timedelta | None = None) -> LeaseTimes:
        """Return the lease and the heartbeat of a worker; `lease` overrides the setting.

        Raises InvalidInput for times that cannot work, and for a lease below `least`, by default 2 s.
        """
        duration = parse_duration(self.lease if lease is None else lease, what="lease")
        beat = duration / 3 if self.heartbeat is None else parse_duration(self.heartbeat, what="heartbeat")
        if duration < (LEAST_LEASE if least is None else least):
            raise InvalidInput(
                f"a lease of {format_duration(duration)} is too short: jobs would be taken from workers that are only "
                f"slow. Say at least 2s."
            )
        if not timedelta(0) < beat < duration / 2:
            raise InvalidInput(
                f"a heartbeat of {format_duration(beat)} cannot keep a lease of {format_duration(duration)}: one that "
                f"is late loses it. Say less than {format_duration(duration / 2)}, or leave it out for a third."
            )
        return LeaseTimes(duration, beat)

    @property
    def passwords(self) -> frozenset[str]:
        """The passwords of the store, which must not appear in anything that is stored about a job."""
        return frozenset(passwords_in(self.url) | passwords_in(self.listen_url or ""))

    def reap_every(self) -> timedelta:
        """Return how often to look for expired leases. Raises InvalidInput below 100 ms."""
        interval = parse_duration(self.reap_interval, what="reap_interval")
        if interval < LEAST_REAP:
            raise InvalidInput(f"a reap_interval of {format_duration(interval)} is too short. Say at least 100ms.")
        return interval

    def is_off(self, task: str) -> bool:
        """Return whether these settings switch off a built-in task, so that workers do not run it."""
        return task in _switched_off(self.builtin_off, self.namespace)

    def kept(self) -> Retention:
        """Return how long ended jobs are kept."""
        return read_retention(self.retention)


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """The duration of a lease, and how often it is renewed."""

    lease: timedelta
    heartbeat: timedelta


SETTINGS = tuple(
    Setting(one.name, one.metadata["kind"], cast("str | None", one.default), one.metadata["description"])
    for one in fields(Settings)
)


def effective_settings(settings: Settings, sources: Mapping[str, str]) -> list[tuple[Setting, str | None, str]]:
    """Return each setting with its value, passwords masked, and its source."""
    values = [(one, getattr(settings, one.name)) for one in sorted(SETTINGS, key=lambda one: one.name)]
    return [
        (one, None if value is None else masked(value), sources.get(one.name) or "default") for one, value in values
    ]


def _switched_off(text: str | None, namespace: str | None) -> set[str]:
    """Return the built-in tasks that are switched off, for all namespaces or for this one.

    Raises InvalidInput for an unknown task or a malformed namespace.
    """
    found: set[str] = set()
    for one in re.split(r"[,\s]+", text or ""):
        where, _, task = one.rpartition(":")
        if one and (task not in BUILT_IN or (where and not _NAMESPACE.fullmatch(where))):
            raise InvalidInput(
                f"builtin_off has {one!r}. Write names of built-in tasks ({', '.join(BUILT_IN)}), or NAMESPACE:TASK."
            )
        if one and where in ("", namespace):
            found.add(task)
    return found


def _count(name: str, text: str, most: int = _MOST_CONNECTIONS) -> int:
    if not (text.isdecimal() and len(text) <= len(str(most)) and 1 <= int(text) <= most):
        raise InvalidInput(f"{name} must be a whole number from 1 to {most}, not {text!r}.")
    return int(text)


def load_settings(given: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings. Raises InvalidInput for an unknown name in a file or a value that is not a text."""
    return find_settings(given, environ)[0]


def find_settings(
    given: Mapping[str, Any], environ: Mapping[str, str] | None = None
) -> tuple[Settings, dict[str, str]]:
    """Read the settings and the source of each value: "argument", the name of a variable, or a file."""
    environ = os.environ if environ is None else environ
    values, file = _from_file(Path.cwd())
    sources = dict.fromkeys(values, file)
    for one in SETTINGS:
        value = from_environment(one.variable, environ)
        if value is not None:
            values[one.name] = value
            sources[one.name] = one.variable if environ.get(one.variable) else f"{one.variable}_FILE"
    said = {name: value for name, value in given.items() if value is not None}
    values.update(said)
    sources.update(dict.fromkeys(said, "argument"))
    return _checked(Settings(**values)), sources


def _checked(settings: Settings) -> Settings:
    """Validate the settings and return them. Raises InvalidInput for a value that is malformed or out of range."""
    if settings.driver not in {"apsw", "sqlite3"}:
        raise InvalidInput(f"driver must be 'apsw' or 'sqlite3', not {settings.driver!r}.")
    if settings.namespace is not None and not _NAMESPACE.fullmatch(settings.namespace):
        raise InvalidInput(
            f"{settings.namespace!r} cannot name a namespace: up to 30 of a-z, 0-9 and _, a letter first."
        )
    _ = settings.pool_sizes, settings.connection_caps  # raises InvalidInput
    read_proxies(settings.trusted_proxies)
    read_variables(settings.secret_env)
    _switched_off(settings.builtin_off, settings.namespace)
    settings.lease_times(), settings.reap_every(), settings.kept(), read_passed(settings.command_env)
    return settings


def sqlite_path(url: str) -> str | None:
    """Return the file of a sqlite:/// URL (three slashes: relative, four: absolute); None for another URL."""
    prefix = "sqlite:///"
    if not url.startswith("sqlite:"):
        return None
    if not url.startswith(prefix) or len(url) == len(prefix):
        raise InvalidInput(
            f"{masked(url)!r} names no file. Write sqlite:///tickwork.db, or sqlite:////var/lib/tickwork.db."
        )
    path = url.removeprefix(prefix)
    if path == ":memory:":
        raise InvalidInput(
            "a store in memory would lose every job with its process. Name a file: sqlite:///tickwork.db"
        )
    return path


def from_environment(name: str, environ: Mapping[str, str]) -> str | None:
    """Return the value of a variable, or the content of the file that NAME_FILE names; None if neither is set."""
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
    """Return the settings of the nearest file, in this folder or a parent, and the path of that file."""
    for folder in (start, *start.parents):
        for name, table in (("tickwork.toml", ()), ("pyproject.toml", ("tool", "tickwork"))):
            found = _table(folder / name, table)
            if found is not None:
                _check_owner(folder / name)
                return found, str(folder / name)
    return {}, ""


def writable_by_all() -> list[Path]:
    """Return the settings file in force and its folder, if any user may change or replace them."""
    _, file = _from_file(Path.cwd())
    if not file:
        return []
    folder = Path(file).parent
    is_sticky = folder.stat().st_mode & stat.S_ISVTX  # as /tmp: only owners replace files in it
    return exposed([Path(file)] if is_sticky else [Path(file), folder], stat.S_IWOTH)


def _check_owner(path: Path) -> None:
    """Raise InvalidInput for a settings file that another user may have written: it chooses what this process runs.

    A symbolic link itself is checked too: in a folder such as /tmp, any user can create a link to a file of this user.
    """
    for place, status in ((path, path.lstat()), (path, path.stat()), (path.parent, path.parent.stat())):
        owner = status.st_uid
        if owner not in (0, os.geteuid()):
            raise InvalidInput(
                f"the settings in {path} are not read: {place} belongs to {_user(owner)}, and this process runs as "
                f"{_user(os.geteuid())}. Run it as the owner or in a folder of your own, or give that folder and file "
                f"to this user or to root."
            )


def _user(number: int) -> str:
    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"


def _table(path: Path, names: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the settings in a TOML file; None if it has none. Raises InvalidInput for an unknown setting."""
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
    known = {one.name for one in SETTINGS}
    for name, value in table.items():
        if name not in known or not isinstance(value, str):
            raise InvalidInput(
                f"{path}: {name!r} is not a setting with a text value. The settings are {', '.join(sorted(known))}."
            )
    return dict(table)
