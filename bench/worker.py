"""A real worker: `tickwork worker bench/tasks.py --processes 2`, as a user starts it and with nothing else set.

It is stopped by SIGTERM to its own pid. Should we be killed, the guard of its folder ends it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

PROCESSES = 2
TASKS = Path(__file__).with_name("tasks.py")
ROOT = TASKS.parent.parent
STOP_LIMIT_S = 30.0


class BenchFailed(Exception):
    """A measurement did not come to its end; the message says why."""


class WorkerProcess:
    """One running `tickwork worker`, or `tickwork server`."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def pid(self) -> int:
        return self._process.pid

    def check(self) -> None:
        """Raise BenchFailed when it is gone, with the last lines that it wrote."""
        if self._process.poll() is not None:
            raise BenchFailed(f"{self._log.stem} exited with code {self._process.returncode}.\n{self.log_tail()}")

    def log_tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-15:])

    def stop(self) -> None:
        """Let it drain; kill it when it takes too long. Its children die with it."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_LIMIT_S)
            raise BenchFailed(f"{self._log.stem} did not end within {STOP_LIMIT_S:.0f} s of SIGTERM.") from None


def running_worker(
    url: str, folder: Path, env: Mapping[str, str] | None = None, options: Sequence[str] = ()
) -> AbstractContextManager[WorkerProcess]:
    """A worker on a store, from here to the end of the block."""
    return _running([*command(), *options], folder / "worker.log", {"TICKWORK_URL": url, **(env or {})})


def running_server(url: str, folder: Path, port: int, token: str) -> AbstractContextManager[WorkerProcess]:
    """A server on a store, for callers with this token, from here to the end of the block."""
    started = [sys.executable, "-m", "tickwork", "server", "--dev", "--port", str(port)]
    return _running(started, folder / "server.log", {"TICKWORK_URL": url, "TICKWORK_TOKEN": token})


@contextmanager
def _running(started: Sequence[str], path: Path, env: Mapping[str, str]) -> Iterator[WorkerProcess]:
    with path.open("wb") as log:
        process = subprocess.Popen(
            started,
            cwd=path.parent,  # by which the guard of the folder finds it when we are killed
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # our Ctrl-C is ours to handle
        )
    worker = WorkerProcess(process, path)
    try:
        yield worker
    finally:
        worker.stop()


def command() -> list[str]:
    """How a worker is started."""
    return [sys.executable, "-m", "tickwork", "worker", str(TASKS), "--processes", str(PROCESSES)]


def wait_until(done: Callable[[], bool], what: str, limit_s: float, worker: WorkerProcess, pause_s: float) -> None:
    """Ask now and then until the answer is yes. Raises BenchFailed after the limit, or when the worker is gone."""
    deadline = time.monotonic() + limit_s
    while not done():
        worker.check()
        if time.monotonic() > deadline:
            raise BenchFailed(f"Not within {limit_s:.0f} s: {what}.\n{worker.log_tail()}")
        time.sleep(pause_s)
