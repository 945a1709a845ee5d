"""Start Redis servers for the benchmarks, without persistence, one for each measurement, on the loopback address."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.worker import BenchFailed

START_LIMIT_S = 10.0
INSTALL_LIMIT_S = 300.0
SETTINGS = {"bind": "127.0.0.1", "save": "", "appendonly": "no", "daemonize": "no"}


def find_redis() -> str:
    """Return the path of `redis-server`; install it from Debian if necessary. Raises BenchFailed."""
    found = shutil.which("redis-server")
    if found is None:
        _install()
        found = shutil.which("redis-server")
    if found is None:
        raise BenchFailed("There is no redis-server, and apt-get did not bring one.")
    return found


def _install() -> None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise BenchFailed("There is no redis-server on PATH, and only root on Debian can have it installed.")
    # The run level of rescue mode prevents the package from starting a server.
    env = {**os.environ, "RUNLEVEL": "1", "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "install", "--yes", "--no-install-recommends", "redis-server"]
    try:
        subprocess.run(command, env=env, check=True, capture_output=True, text=True, timeout=INSTALL_LIMIT_S)
    except subprocess.SubprocessError as error:
        raise BenchFailed(f"redis-server could not be installed: {error}") from None


class RedisDatabase:
    """A running Redis server and a connection to it."""

    def __init__(self, port: int, folder: Path) -> None:
        self.url = f"redis://127.0.0.1:{port}/0"
        self.folder = folder
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=START_LIMIT_S)
        self._answers = self._socket.makefile("rb")

    def one(self, command: str) -> int | str:
        """Return the reply to a command whose reply is a number or a short text."""
        self._socket.sendall(command.encode() + b"\r\n")
        answer = self._answers.readline().decode().rstrip()
        if not answer or answer[0] not in ":+":
            raise BenchFailed(f"Redis answered {command} by {answer or 'nothing'}.")
        return int(answer[1:]) if answer[0] == ":" else answer[1:]

    def settle(self) -> None:
        """Do nothing: there is no persistence."""

    def close(self) -> None:
        self._answers.close()
        self._socket.close()


class RedisPlace:
    """Starts a new Redis server for each measurement."""

    name = "redis"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server = find_redis()

    def facts(self) -> dict[str, str]:
        shown = subprocess.run([self._server, "--version"], capture_output=True, text=True, timeout=10, check=True)
        version = next(word for word in shown.stdout.split() if word.startswith("v="))
        return {"version": f"Redis {version[2:]}", "settings": "save='', appendonly=no (nothing is kept on disk)"}

    @contextmanager
    def fresh(self) -> Iterator[RedisDatabase]:
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        port = _free_port()
        with (folder / "redis.log").open("wb") as log:
            process = subprocess.Popen(
                [self._server, *_arguments({**SETTINGS, "port": str(port), "dir": str(folder)})],
                cwd=folder,  # the cleanup process of the folder finds it by this if we are killed
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            database = _connected(port, folder, process)
            yield database
            database.close()
        finally:
            process.kill()  # it has nothing to save
            process.wait(START_LIMIT_S)
            shutil.rmtree(folder)


def _arguments(settings: dict[str, str]) -> list[str]:
    return [word for name, value in settings.items() for word in (f"--{name}", value)]


def _connected(port: int, folder: Path, process: subprocess.Popen[bytes]) -> RedisDatabase:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            return RedisDatabase(port, folder)
        except ConnectionRefusedError:
            time.sleep(0.02)
    raise BenchFailed(f"Redis did not start.\n{(folder / 'redis.log').read_text()[-500:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
