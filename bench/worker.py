"""Start and stop a real worker: `tickwork worker bench/tasks.py --processes 2`, otherwise with default options.

It is stopped by SIGTERM to its own pid. If this process is killed, the cleanup process of the folder ends the worker.
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
    """A measurement failed; the message is the reason."""


class WorkerProcess:
    """A running `tickwork worker` or `tickwork server`."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def pid(self) -> int:
        return self._process.pid

    def check(self) -> None:
        """Raise BenchFailed with its last lines of output if the process has ended."""
        if self._process.poll() is not None:
            raise BenchFailed(f"{self._log.stem} exited with code {self._process.returncode}.\n{self.log_tail()}")

    def log_tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-15:])

    def stop(self) -> None:
        """Drain the process; kill it if that takes too long. Its children end with it."""
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
    """Run a worker on a store for the duration of a block."""
    return _running([*command(), *options], folder / "worker.log", {"TICKWORK_URL": url, **(env or {})})


def running_server(url: str, folder: Path, port: int, token: str) -> AbstractContextManager[WorkerProcess]:
    """Run a server on a store, for callers with this token, for the duration of a block."""
    started = [sys.executable, "-m", "tickwork", "server", "--dev", "--port", str(port)]
    return _running(started, folder / "server.log", {"TICKWORK_URL": url, "TICKWORK_TOKEN": token})


@contextmanager
def _running(started: Sequence[str], path: Path, env: Mapping[str, str]) -> Iterator[WorkerProcess]:
    with path.open("wb") as log:
        process = subprocess.Popen(
            started,
            cwd=path.parent,  # the cleanup process of the folder finds it by this if we are killed
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # so that Ctrl-C reaches only the benchmark
        )
    worker = WorkerProcess(process, path)
    try:
        yield worker
    finally:
        worker.stop()


def command() -> list[str]:
    """Return the command that starts a worker."""
    return [sys.executable, "-m", "tickwork", "worker", str(TASKS), "--processes", str(PROCESSES)]


def wait_until(done: Callable[[], bool], what: str, limit_s: float, worker: WorkerProcess, pause_s: float) -> None:
    """Poll until `done` returns true. Raises BenchFailed after the limit, or if the worker has ended."""
    deadline = time.monotonic() + limit_s
    while not done():
        worker.check()
        if time.monotonic() > deadline:
            raise BenchFailed(f"Not within {limit_s:.0f} s: {what}.\n{worker.log_tail()}")
        time.sleep(pause_s)
