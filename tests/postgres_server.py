"""A PostgreSQL of our own: a new cluster in a temporary folder, for tests, benchmarks and chaos.

    with PostgresServer(fsync=True, settings={"work_mem": "8MB"}) as server:
        url = server.create_database("orders")

A server that happens to run on the machine is never touched. Everything is bounded in time, only processes of this
cluster are signalled, and neither they nor the folder outlive the process that made them, even if that is killed.
"""

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from tests.postgres_binaries import Binaries, find_binaries, unprivileged_user

StopMode = Literal["fast", "immediate"]

START_LIMIT_S = 60.0  # recovery after a crash under load is included
STOP_LIMIT_S = 30.0
ORPHANS_LIMIT_S = 10.0

_SIGNALS: Mapping[StopMode, signal.Signals] = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}

# Waits in a process of its own until close() sends it a line, or our death closes its pipe, and then clears up: the
# processes standing in the data folder, the shared memory that a killed postmaster left, and the folder.
_GUARD = """
read -r _
for cwd in /proc/[0-9]*/cwd; do
  [ "$(readlink "$cwd")" = "$1/data" ] && pid=${cwd#/proc/} && kill -KILL "${pid%/cwd}"
done
shared_memory=$(sed -n '7s/.* //p' "$1/data/postmaster.pid")
[ -n "$shared_memory" ] && ipcrm -m "$shared_memory"
rm -rf "$1" || { sleep 1; rm -rf "$1"; }
"""


class PostgresFailed(Exception):
    """The cluster did not do what was asked; the message ends with the last lines of its log."""


class Postgres(ABC):
    """A PostgreSQL at some address: names its databases, makes and drops them."""

    @abstractmethod
    def url(self, dbname: str = "postgres") -> str:
        """Return the address of a database, over TCP."""

    def create_database(self, name: str, template: str | None = None) -> str:
        """Make a database, as a copy of `template` if given (it must have no connections), and return its URL."""
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        self._execute(statement.format(sql.Identifier(name), sql.Identifier(template or "template1")))
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database if it exists, also while clients are connected to it."""
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url(), autocommit=True, connect_timeout=10) as connection:
            connection.execute(statement)


class GivenPostgres(Postgres):
    """A server that someone else runs and named on purpose, by the URL of one of its databases."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)

    def url(self, dbname: str = "postgres") -> str:
        return self._url._replace(path=f"/{dbname}").geturl()


class PostgresServer(Postgres):
    """A cluster of our own on 127.0.0.1 and on a unix socket, with superuser postgres and no password.

    With `fsync` off, the default, it is fast and forgets everything in a power cut; killed processes lose nothing
    either way. It keeps its port and its data over stop() and start(); close(), or the end of `with`, removes it.
    """

    def __init__(
        self, *, fsync: bool = False, settings: Mapping[str, str | int] | None = None, source: str | None = None
    ) -> None:
        self.binaries: Binaries = find_binaries(source)
        self.port = _free_port()
        self._settings = {**_default_settings(fsync), **(settings or {})}
        self._user = unprivileged_user()
        self._folder: Path | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._postmaster: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def folder(self) -> Path:
        """The folder of the cluster: data/, the socket, and server.log."""
        if self._folder is None:
            raise PostgresFailed("This cluster does not exist: it was never started, or it was closed.")
        return self._folder

    @property
    def pid(self) -> int | None:
        """The postmaster's process id; None while it is stopped."""
        return self._postmaster.pid if self._postmaster else None

    def pids(self) -> list[int]:
        """All processes of the cluster."""
        return _pids_standing_in(self._data)

    def url(self, dbname: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{dbname}"

    def socket_url(self, dbname: str = "postgres") -> str:
        """Return the address of a database, over the unix socket."""
        return f"postgresql://postgres@/{dbname}?host={self.folder}&port={self.port}"

    def start(self) -> None:
        """Start the cluster, making it if need be; return when it takes connections. Raises PostgresFailed."""
        if self._postmaster is not None:
            return
        if self._folder is None:
            self._make_cluster()
        self._postmaster = self._spawn("postgres", "-D", str(self._data))
        if not wait_for(self._is_ready, START_LIMIT_S):
            raise PostgresFailed(f"PostgreSQL was not ready after {START_LIMIT_S} s.\n{self._log_tail()}")

    def stop(self, mode: StopMode = "immediate") -> None:
        """Stop the postmaster: "fast" in good order, "immediate" as a crash that the next start recovers from."""
        if self._postmaster is None:
            return
        self._postmaster.send_signal(_SIGNALS[mode])
        try:
            self._postmaster.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill9_postmaster()
        self._postmaster = None

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop and start at the same address; every connection is cut."""
        self.stop(mode)
        self.start()

    def kill9_postmaster(self) -> None:
        """Kill the postmaster with SIGKILL and return when its last backend is gone; start() brings it back."""
        if self._postmaster is None:
            return
        self._postmaster.kill()
        self._postmaster.wait(STOP_LIMIT_S)
        self._postmaster = None
        # Backends notice by themselves. A busy backend is killed: no postmaster can start beside it.
        if not wait_for(lambda: not _pids_standing_in(self._data), ORPHANS_LIMIT_S):
            for pid in _pids_standing_in(self._data):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """Stop the server and remove its folder. Does nothing the second time."""
        self.stop()
        if self._guard is not None:
            self._guard.communicate(b"\n", timeout=STOP_LIMIT_S)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)  # for the day that the guard was killed
        self._guard = self._folder = None

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _make_cluster(self) -> None:
        """Make the folder and run initdb in it.

        The folder lies in /tmp whatever TMPDIR says: the path of a socket has to be short, and the unprivileged user
        has to get there, who may not enter the folders of root.
        """
        self._folder = Path(tempfile.mkdtemp(prefix="tickwork-pg-", dir="/tmp")).resolve()
        self._guard = _start_guard(self._folder)
        self._data.mkdir(mode=0o700)
        if self._user and self.binaries.from_wheel:
            self.binaries = self.binaries.copy_to(self._folder)
        self._hand_over_folder()
        self._run_initdb()
        with (self._data / "postgresql.conf").open("a") as conf:
            conf.writelines(_setting(name, value) for name, value in self._all_settings().items())

    def _hand_over_folder(self) -> None:
        self.folder.chmod(0o711)  # others find the socket without seeing what else is there
        if self._user:
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, self._user.pw_uid, self._user.pw_gid, follow_symlinks=False)

    def _run_initdb(self) -> None:
        options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        initdb = self._spawn("initdb", f"--pgdata={self._data}", *options)
        try:
            failed = initdb.wait(START_LIMIT_S) != 0
        except subprocess.TimeoutExpired:
            initdb.kill()
            failed = initdb.wait(STOP_LIMIT_S) != 0
        if failed:
            raise PostgresFailed(f"initdb failed.\n{self._log_tail()}")

    def _all_settings(self) -> dict[str, str | int]:
        return {"port": self.port, "unix_socket_directories": str(self.folder), **self._settings}

    def _spawn(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a program of PostgreSQL as the unprivileged user, in a session that our Ctrl-C does not reach."""
        as_user: dict[str, Any] = {}
        if self._user:
            as_user = {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}
        with (self.folder / "server.log").open("ab") as log:
            return subprocess.Popen(
                [self.binaries.bin / program, *arguments],
                cwd=self._data,
                env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},  # none of the caller's PG* variables
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **as_user,
            )

    def _is_ready(self) -> bool:
        """Tell whether the postmaster says so in its pid file, where its first line shows that it is not an old one."""
        assert self._postmaster is not None
        if self._postmaster.poll() is not None:
            self._postmaster = None
            raise PostgresFailed(f"PostgreSQL ended while starting.\n{self._log_tail()}")
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return lines[:1] == [str(self.pid)] and lines[7:8] == ["ready   "]

    def _log_tail(self) -> str:
        return "\n".join((self.folder / "server.log").read_text(errors="replace").splitlines()[-15:])


def _default_settings(fsync: bool) -> dict[str, str | int]:
    durability = "on" if fsync else "off"
    return {
        "listen_addresses": "127.0.0.1",
        "max_connections": 200,
        "timezone": "UTC",
        "fsync": durability,
        "synchronous_commit": durability,
        "full_page_writes": durability,
        # Files in the data folder vanish with it; those in /dev/shm would outlive a killed postmaster.
        "dynamic_shared_memory_type": "mmap",
    }


def _setting(name: str, value: str | int) -> str:
    quoted = str(value).replace("'", "''")
    return f"{name} = '{quoted}'\n"


def _start_guard(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["/bin/sh", "-c", _GUARD, "guard", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _free_port() -> int:
    """Return a port that no process listens on.

    It is below the ports of outgoing connections, so that none of these takes it during a restart.
    """
    for port in random.SystemRandom().sample(range(15_000, 32_000), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise PostgresFailed("No free port between 15000 and 32000 in 100 tries.")


def _pids_standing_in(folder: Path) -> list[int]:
    """Return the processes with this working folder: all processes of a cluster, and no others."""
    return [int(link.parent.name) for link in Path("/proc").glob("[0-9]*/cwd") if _target(link) == str(folder)]


def _target(link: Path) -> str | None:
    try:
        return os.readlink(link)
    except OSError:  # the process ended meanwhile, or is not ours to look at
        return None


def wait_for(condition: Callable[[], bool], limit_s: float) -> bool:
    """Ask until the answer is yes, or for `limit_s` seconds; return the last answer."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def delete_rows(url: str) -> None:
    """Delete all rows of a PostgreSQL store, except the record of its migrations."""
    with psycopg.connect(url) as connection:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = 'tickwork' AND tablename <> 'migrations'"
        for (table,) in connection.execute(query).fetchall():
            connection.execute(f'DELETE FROM tickwork."{table}"')  # type: ignore[arg-type]
